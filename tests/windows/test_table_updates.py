"""Updates and changes of joined tables: examples, and comparison with a slow model."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oriel import IllegalArgument
from oriel.pipeline.windows import (
    LEFT,
    RIGHT,
    TableChangesEngine,
    TableJoin,
    TableUpdatesEngine,
    Times,
)
from oriel.pipeline.windows.joins.inputs import How
from tests.campaigns import cases
from tests.models.joins import Arrived, Logs, Tree, arrivals, random_tree
from tests.models.table_updates import Model, Values
from tests.windows.join_batches import (
    batches,
    random_cuts,
    random_logs,
    saved_and_loaded,
    to_table,
    whole,
)
from tests.windows.lineages import values_of
from tests.windows.random_logs import marks_reached
from tests.windows.test_table_join_properties import CARRIED, LEFT_VALUES, RIGHT_VALUES

#: Updates do not wait for stream times.
STREAM_TIMES = (0, 0)

#: Side, value, time. The key is always "A", and the partition is 0.
Step = tuple[int, str | None, int]
#: One batch of the model: side and record.
Arrivals = Sequence[tuple[int, Arrived]]
#: Left value, right value, timestamp.
Update = tuple[str | None, str | None, int]

EXAMPLE: list[Step] = [(LEFT, "a", 10), (RIGHT, "b", 5), (LEFT, "c", 3), (RIGHT, "d", 20)]


def arrived(steps: Sequence[Step]) -> Arrivals:
    """Return the steps as records with the stream times of their sides."""
    logs: tuple[list[Any], list[Any]] = ([], [])
    for side, value, time in steps:
        logs[side].append(("A", time, value))
    coming = [iter(arrivals({0: log})) for log in logs]
    return [(side, next(coming[side])) for side, _, _ in steps]


def batch_of(engine: TableUpdatesEngine, given: Arrivals) -> pa.Table:
    """Return records of both sides as a batch, in order."""
    rows = [to_table(engine.record_schema, [one], "lr"[side], side=side) for side, one in given]
    return pa.concat_tables([engine.record_schema.empty_table(), *rows])


def engine_of(how: How) -> TableUpdatesEngine:
    """Return an engine with one value column per side. It carries the key group."""
    return TableUpdatesEngine(TableJoin(how, 0, 1), (LEFT_VALUES, RIGHT_VALUES), CARRIED)


def updates_of(how: How, given: Sequence[Sequence[Step]]) -> list[list[Update]]:
    """Return the joined rows after each batch. A deleted row has no values."""
    engine = engine_of(how)
    state = engine.empty_state()
    left = arrived([step for steps in given for step in steps])
    updates = []
    for steps in given:
        result = engine.apply(state, batch_of(engine, left[: len(steps)]), Times.at(STREAM_TIMES))
        left, state = left[len(steps) :], result.state
        rows = result.results.to_pylist()
        assert sum(result.filtered) == len(steps) - len(rows)
        nulls = [r["l"] is None and r["r"] is None for r in rows]
        assert [r["null_value"] for r in rows] == nulls, rows
        updates.append([(row["l"], row["r"], row["timestamp_ms"]) for row in rows])
    return updates


def test_each_record_emits_the_new_row_with_the_greater_time() -> None:
    """The example of semantics.md#5-4, in one batch and in several."""
    updates = updates_of("inner", [[step] for step in EXAMPLE])
    assert updates == [[], [("a", "b", 10)], [("c", "b", 5)], [("c", "d", 20)]]
    assert updates_of("inner", [EXAMPLE]) == [[("a", "b", 10), ("c", "b", 5), ("c", "d", 20)]]


def test_a_left_and_an_outer_join_emit_unmatched_rows() -> None:
    """A left join emits unmatched left rows, and an outer join also unmatched right rows."""
    steps: list[list[Step]] = [[(RIGHT, "b", 5)], [(LEFT, "a", 3)]]
    assert updates_of("left", steps) == [[], [("a", "b", 5)]]
    assert updates_of("outer", steps) == [[(None, "b", 5)], [("a", "b", 5)]]
    assert updates_of("left", steps[::-1]) == [[("a", None, 3)], [("a", "b", 5)]]


@pytest.mark.parametrize(
    ("how", "alone"),
    [("inner", (None, None, 10)), ("left", ("a", None, 10)), ("outer", ("a", None, 10))],
)
def test_a_deletion_emits_the_remaining_row(how: How, alone: Update) -> None:
    """Without the right value, the left row stays unmatched, or one tombstone is emitted."""
    both: list[Step] = [(LEFT, "a", 10), (RIGHT, "b", 5)]
    updates = updates_of(how, [both, [(RIGHT, None, 7)], [(LEFT, None, 8)], [(LEFT, None, 9)]])
    deleted = [] if how == "inner" else [(None, None, 8)]
    assert (updates[0][-1], updates[1:]) == (("a", "b", 10), [[alone], deleted, []])


def test_a_filter_with_old_rows_emits_no_tombstones_of_missing_rows() -> None:
    """A left join needs the old rows of its left table only. Each right record emits an update."""
    engine = TableUpdatesEngine(
        TableJoin("left", 0, 1), (LEFT_VALUES, RIGHT_VALUES), CARRIED, frozenset((LEFT, RIGHT))
    )
    steps: list[Step] = [(RIGHT, "b", 5), (LEFT, None, 6), (LEFT, "a", 7), (RIGHT, None, 8)]
    given = arrived([*steps, (RIGHT, None, 9), (LEFT, None, 10), (LEFT, None, 11)])
    results = engine.apply(
        engine.empty_state(), batch_of(engine, given), Times.at(STREAM_TIMES)
    ).results
    emitted = [(row["l"], row["r"], row["timestamp_ms"]) for row in results.to_pylist()]
    assert emitted == [("a", "b", 7), ("a", None, 8), ("a", None, 9), (None, None, 10)]


def test_a_deleted_row_does_not_set_the_time() -> None:
    """After a deletion at 50, the update has the left record's own time, 3."""
    steps: list[list[Step]] = [[(RIGHT, "b", 5)], [(RIGHT, None, 50)], [(LEFT, "a", 3)]]
    assert updates_of("outer", steps)[-1] == [("a", None, 3)]


def test_the_interleaving_of_both_topics_matters() -> None:
    """In one batch, stream times define the order: the deletion at 15, then right at 20."""
    deletion: Step = (LEFT, None, 15)
    deleted: list[Update] = [("a", "b", 10), ("c", "b", 5), (None, None, 15)]
    assert updates_of("inner", [[*EXAMPLE, deletion]]) == [deleted]
    assert updates_of("inner", [EXAMPLE, [deletion]])[1] == [(None, None, 20)]


def test_a_result_has_the_record_id_of_its_record() -> None:
    """Partition, offset and stream time are the record's. The lineage has the table."""
    engine = engine_of("inner")
    first: Arrivals = [
        (RIGHT, Arrived("A", 5, 0, 7, "b", 40)),
        (LEFT, Arrived("A", 10, 2, 7, "a", 30)),
        (LEFT, Arrived("A", 3, 2, 8, "c", 50)),
    ]
    results = engine.apply(
        engine.empty_state(), batch_of(engine, first), Times.at(STREAM_TIMES)
    ).results
    assert [values_of(row) for row in results.to_pylist()] == [
        ("A", 10, 0, 7, (RIGHT,), 40, False, "a", "b"),
        ("A", 5, 2, 8, (LEFT,), 50, False, "c", "b"),
    ]


def test_names_are_checked() -> None:
    """A column name that the engine uses is rejected."""
    with pytest.raises(IllegalArgument, match="column 'side' exists twice"):
        TableUpdatesEngine(
            TableJoin("inner", 0, 1), (LEFT_VALUES, pa.schema([("side", pa.string())]))
        )


@dataclass(frozen=True)
class Case:
    """One random case, named by its seed: joined tables, and whether to emit changes."""

    seed: int
    tree: Tree
    filtered: frozenset[int]
    sides: tuple[Logs, ...]
    changes: bool

    @property
    def engine(self) -> TableUpdatesEngine:
        """Return the engine of the case."""
        of_kind = TableChangesEngine if self.changes else TableUpdatesEngine
        values = [pa.schema([(f"v{number}", pa.string())]) for number in range(len(self.sides))]
        return of_kind(join_of(self.tree), values, CARRIED, self.filtered)


def join_of(tree: Tree) -> Any:
    """Return the join of a tree for the engine."""
    return tree if isinstance(tree, int) else TableJoin(tree[0], *map(join_of, tree[1:]))


def random_case(seed: int) -> Case:
    """Return the case of ``seed``."""
    random = Random(seed)
    numbers = range(random.choice((2, 2, 3, 4)))
    tree = random_tree(random, numbers)
    filtered = frozenset(number for number in numbers if random.random() < 0.4)
    sides = tuple(random_logs(random, f"t{number}.", 0.3) for number in numbers)
    return Case(seed, tree, filtered, sides, changes=random.random() < 0.4)


def table_of(engine: TableUpdatesEngine, given: Arrivals) -> pa.Table:
    """Return records of several tables as a batch, in order."""
    rows = [to_table(engine.record_schema, [one], f"v{side}", side=side) for side, one in given]
    return pa.concat_tables([engine.record_schema.empty_table(), *rows])


def arrivals_of(case: Case, random: Random, *, cut: bool) -> list[Arrivals]:
    """Return the batches of a case, with the tables in random order."""
    cuts = random_cuts(case.sides, random) if cut else whole(case.sides)
    numbers = range(len(case.sides))
    return [
        [(side, one) for side in random.sample(numbers, len(numbers)) for one in batch.new[side]]
        for batch in batches(case.sides, cuts)
    ]


def expected_of(case: Case, model: Model, given: Arrivals) -> list[tuple[Any, ...]]:
    """Return the results that the model expects for a batch."""

    def row(lineage: tuple[int, ...], values: Values | None, *others: Any) -> tuple[Any, ...]:
        of_tables = [(values or {}).get(number) for number in range(len(case.sides))]
        return lineage, *others, *of_tables

    results = []
    for side, record, update in model.process(given):
        if update is None:
            continue
        place = (record.key, update.time, record.partition, record.offset)
        if case.changes:
            changes = [
                row((side, is_new), values, record.stream_time)
                for is_new, values in enumerate((update.old, update.new))
                if values is not None
            ]
        else:
            changes = [row((side,), update.new, record.stream_time, update.new is None)]
            model.marks |= {"update of three tables or more"} if len(case.sides) > 2 else set()
            model.marks |= {"update that deletes a row"} if update.new is None else set()
        results += [(*place, *change) for change in changes]
    return results


def check_case(case: Case, *, cut: bool, restart: bool, wrong: str = "") -> set[str]:
    """Compare a case with the model after each batch. Return its rare branches."""
    engine = case.engine
    model = Model(case.tree, case.filtered, wants_old=case.changes, wrong=wrong)
    state = engine.empty_state()
    for given in arrivals_of(case, Random(case.seed + 1), cut=cut):
        result = engine.apply(state, table_of(engine, given), Times.at(STREAM_TIMES))
        state = saved_and_loaded(result.state) if restart else result.state
        results = [values_of(row) for row in result.results.to_pylist()]
        assert results == expected_of(case, model, given)
        # Both changes of a record have its record id and its table.
        telling = {(row[2], row[3], row[4][0]) for row in results}
        assert sum(result.filtered) == len(given) - len(telling)
        rows = state.to_pylist()
        assert [row for row in rows if row["key_group"] != len(row["key"])] == []
        assert [row for row in rows if row["null_value"]] == []
        held = {(r["side"], r["key"], r[f"v{r['side']}"], r["timestamp_ms"]) for r in rows}
        assert held == model.state()
        assert len(state) == len(held)
    return model.marks


def check_cuts(seed: int) -> set[str]:
    """Compare a case in one batch and cut, with and without restarts. Return its rare branches."""
    case, cuts = random_case(seed), ((False, False), (True, False), (True, True))
    return set().union(*(check_case(case, cut=cut, restart=restart) for cut, restart in cuts))


ALL_MARKS = {
    "a newer record with an earlier time", "a key of several partitions",
    "a filter emits no update",
    "left: no row existed", "outer: no row existed", "update of three tables or more",
    "update that deletes a row", "a nested join continues without a match",
}  # fmt: skip


@pytest.mark.slow
@cases(40, 120)
def test_the_engine_equals_the_model_on_random_logs(number: int) -> None:
    """After each batch and restart, results, order, drops and state equal the model."""
    assert marks_reached(range(number), check_cuts) == ALL_MARKS, (
        "the random logs no longer reach every rare branch"
    )


@pytest.mark.parametrize("wrong", ["order", "deletion", "time", "filter"])
def test_a_wrong_model_is_noticed(wrong: str) -> None:
    """The comparison fails for a model with another rule."""
    for seed in range(200):
        try:
            check_case(random_case(seed), cut=True, restart=False, wrong=wrong)
        except AssertionError:
            return
    pytest.fail(f"two hundred cases did not notice a wrong {wrong}")


def keyed(case: Case) -> list[Arrivals]:
    """Return the records of each table. All records of a key are in one partition, as usual."""
    records: list[Arrivals] = []
    for side, logs in enumerate(case.sides):
        log = [record for given in logs.values() for record in given]
        keys = sorted({key for key, _, _ in log})
        placed = {p: [entry for entry in log if entry[0] == key] for p, key in enumerate(keys)}
        records.append([(side, record) for record in arrivals(placed)])
    return records


def pieces(random: Random, records: Arrivals, most: int) -> list[Arrivals]:
    """Cut records into pieces of at most ``most`` records."""
    ends = [0]
    while ends[-1] < len(records):
        ends.append(ends[-1] + random.randint(1, most))
    return [records[start:end] for start, end in itertools.pairwise(ends)]


def results_of(case: Case, batches_given: Sequence[Arrivals]) -> list[tuple[Any, ...]]:
    """Return all results, sorted by record, because batches of several partitions have no order."""
    engine = case.engine
    state, results = engine.empty_state(), []
    for given in batches_given:
        result = engine.apply(state, table_of(engine, given), Times.at(STREAM_TIMES))
        state = saved_and_loaded(result.state)
        results += [tuple(row.values()) for row in result.results.to_pylist()]
    return sorted(results, key=lambda row: (row[4], *row[2:4]))


@pytest.mark.slow
def test_any_cut_of_one_tables_records_gives_the_same_results() -> None:
    """For the same interleaving with other tables, cuts and restarts do not matter."""
    compared = 0
    for seed in range(35):
        case, random = random_case(seed), Random(seed)
        turns = [piece for records in keyed(case) for piece in pieces(random, records, 6)]
        turns.sort(key=lambda _: random.random())
        recut = [piece for turn in turns for piece in pieces(random, turn, 3)]
        once = results_of(case, turns)
        assert results_of(case, recut) == once, f"seed {seed}"
        compared += len(once)
    assert compared > 500, "too few results to compare"
