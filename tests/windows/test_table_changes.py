"""Changes of a table that the engine emits, and partial aggregates with retractions."""

import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel import IllegalArgument
from oriel.pipeline.windows import LEFT, RIGHT, TableChangesEngine, TableJoin, Times
from oriel.pipeline.windows.arrays import Ranges
from oriel.pipeline.windows.exact import (
    merged_sums,
    net_square_codes,
    net_sum_codes,
    rounded,
    square_codes,
    sum_codes,
)
from tests.models.joins import Arrived
from tests.models.table_groups import updates
from tests.windows.join_batches import saved_and_loaded, to_table
from tests.windows.lineages import indexes_of, lineage, values_of
from tests.windows.test_table_join_properties import CARRIED, LEFT_VALUES, RIGHT_VALUES

STREAM_TIMES = (0, 0)


def of_one_table() -> TableChangesEngine:
    """Return an engine of a table with the column ``l``."""
    return TableChangesEngine(0, (LEFT_VALUES,), CARRIED)


def batch_of(engine: TableChangesEngine, *records: tuple[int, Arrived]) -> pa.Table:
    """Return a batch of records with their side."""
    rows = [to_table(engine.record_schema, [one], "lr"[side], side=side) for side, one in records]
    return pa.concat_tables([engine.record_schema.empty_table(), *rows])


def test_a_record_emits_the_old_row_and_then_the_new_one() -> None:
    """Both have the record id and the time. An insert has no old row, a deletion no new one."""
    engine = of_one_table()
    first = engine.apply(
        engine.empty_state(),
        batch_of(
            engine,
            (LEFT, Arrived("A", 10, 0, 7, "a", 10)),
            (LEFT, Arrived("A", 3, 0, 8, "b", 10)),
            (LEFT, Arrived("B", 4, 0, 9, None, 10)),
        ),
        Times.at(STREAM_TIMES),
    )
    assert [values_of(row) for row in first.results.to_pylist()] == [
        ("A", 10, 0, 7, (1,), 10, "a"),
        ("A", 3, 0, 8, (0,), 10, "a"), ("A", 3, 0, 8, (1,), 10, "b"),
    ]  # fmt: skip
    assert sum(first.filtered) == 1
    deleted = batch_of(engine, (LEFT, Arrived("A", 12, 0, 10, None, 12)))
    second = engine.apply(saved_and_loaded(first.state), deleted, Times.at(STREAM_TIMES))
    assert [values_of(row) for row in second.results.to_pylist()] == [
        ("A", 12, 0, 10, (0,), 12, "b")
    ]
    assert (len(first.state), len(second.state)) == (1, 0)


def test_each_partition_has_its_own_row() -> None:
    """A deletion in one partition keeps the row of another one. The state keeps carried columns."""
    engine = of_one_table()
    both = [(LEFT, Arrived("A", 10, p, 7, f"of {p}", 10)) for p in (0, 1)]
    result = engine.apply(engine.empty_state(), batch_of(engine, *both), Times.at(STREAM_TIMES))
    assert result.results["__lineage"].to_pylist() == [lineage(1), lineage(1)]
    deletion = batch_of(engine, (LEFT, Arrived("A", 11, 0, 8, None, 11)))
    result = engine.apply(result.state, deletion, Times.at(STREAM_TIMES))
    assert [row["l"] for row in result.results.to_pylist()] == ["of 0"]
    ((row,)) = result.state.to_pylist()
    assert (row["partition"], row["l"], row["key_group"]) == (1, "of 1", 1)


def test_a_join_of_tables_emits_the_old_and_the_new_row() -> None:
    """The lineage has the table, and whether the row is new. Times are those of updates."""
    engine = TableChangesEngine(TableJoin("inner", 0, 1), (LEFT_VALUES, RIGHT_VALUES), CARRIED)
    result = engine.apply(
        engine.empty_state(),
        batch_of(
            engine,
            (LEFT, Arrived("A", 10, 0, 7, "a", 10)),
            (RIGHT, Arrived("A", 5, 1, 7, "b", 11)),
            (LEFT, Arrived("A", 3, 0, 8, "c", 12)),
            (RIGHT, Arrived("A", 2, 1, 8, None, 13)),
        ),
        Times.at(STREAM_TIMES),
    )
    assert [values_of(row) for row in result.results.to_pylist()] == [
        ("A", 10, 1, 7, (1, 1), 11, "a", "b"),
        ("A", 5, 0, 8, (0, 0), 12, "a", "b"), ("A", 5, 0, 8, (0, 1), 12, "c", "b"),
        ("A", 3, 1, 8, (1, 0), 13, "c", "b"),
    ]  # fmt: skip
    assert sum(result.filtered) == 1


def test_names_are_checked() -> None:
    """A column name that the engine uses is rejected."""
    schema = pa.schema([("offset", pa.int64())])
    with pytest.raises(IllegalArgument, match="column 'offset' exists twice"):
        TableChangesEngine(0, (schema,))


def random_log(random: Random) -> list[Any]:
    """Return records of one partition for the model: few keys, deletions."""
    return [
        (
            random.choice("abc"),
            random.randint(0, 30),
            None if random.random() < 0.3 else (f"v{n}", 0.0),
        )
        for n in range(random.choice((0, 5, 20)))
    ]


def test_results_follow_from_each_partitions_log_alone() -> None:
    """Cuts, interleaving and a restart after each batch do not change the results."""
    compared, record = 0, ("timestamp_ms", "partition", "offset")
    for seed in range(60):
        random, engine = Random(seed), of_one_table()
        logs = {p: random_log(random) for p in range(random.choice((1, 2, 3)))}
        expected = [
            (update.time, partition, offset, is_new, row[0])
            for partition, log in logs.items()
            for offset, update in enumerate(updates(log))
            for is_new, row in enumerate((update.old, update.new))
            if row is not None
        ]
        state, position, found = engine.empty_state(), dict.fromkeys(logs, 0), []
        while left := [p for p, log in logs.items() if position[p] < len(log)]:
            arrived = []
            for p in random.sample(left, random.randint(1, len(left))):
                end = position[p] + random.randint(1, 6)
                for offset, (key, time, row) in list(enumerate(logs[p]))[position[p] : end]:
                    clock = max(entry[1] for entry in logs[p][: offset + 1])
                    value = None if row is None else row[0]
                    arrived.append((LEFT, Arrived(key, time, p, offset, value, clock)))
                position[p] = end
            result = engine.apply(state, batch_of(engine, *arrived), Times.at(STREAM_TIMES))
            state = saved_and_loaded(result.state)
            found += [
                (*(r[n] for n in record), *indexes_of(r["__lineage"]), r["l"])
                for r in result.results.to_pylist()
            ]
        assert sorted(found, key=lambda r: r[1:]) == sorted(expected, key=lambda r: r[1:]), seed
        compared += len(found)
    assert compared > 500


def test_net_sums_and_squares_retract_the_least_integer() -> None:
    """The negative of the least integer does not fit into 64 bits."""
    numbers, signs = np.array([-(2**63), 7, -(2**63)]), np.array([1, 1, -1])
    one = Ranges(np.array([0]), np.array([3]))
    seven, alone = np.array([7]), Ranges(np.array([0]), np.array([1]))
    assert net_sum_codes(numbers, signs, one) == sum_codes(seven, alone)
    assert net_square_codes(numbers, signs, one) == square_codes(seven, alone)


def test_net_sums_equal_the_sums_of_the_remaining_values() -> None:
    """The codes are equal after additions and retractions, also of NaN and infinities."""
    for seed in range(200):
        random = Random(seed)
        choices = [0.1, -0.1, 1e300, 5e-324, math.inf, -math.inf, math.nan, 0.0, -0.0, 2.0**40]
        kept, retracted = (
            [random.choice(choices) for _ in range(random.randint(0, 5))] for _ in "kg"
        )
        changes = [*((x, 1) for x in [*kept, *retracted]), *((x, -1) for x in retracted)]
        random.shuffle(changes)
        at = random.randint(0, len(changes))
        numbers = np.array([number for number, _ in changes], dtype=np.float64)
        signs = np.array([sign for _, sign in changes], dtype=np.int64)
        two = Ranges(np.array([0, at]), np.array([at, len(changes)]))
        codes = net_sum_codes(numbers, signs, two)
        merged = merged_sums(codes, Ranges(np.array([0]), np.array([2])))
        whole = sum_codes(np.array(kept), Ranges(np.array([0]), np.array([len(kept)])))
        assert merged.to_pylist() == whole.to_pylist(), f"seed {seed}"
        assert np.array_equal(rounded(merged), rounded(whole), equal_nan=True)
