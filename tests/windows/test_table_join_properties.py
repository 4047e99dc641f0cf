"""The joins with tables equal their slow models, whatever the cut, interleaving and restarts."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pytest

from oriel.pipeline.windows import (
    FOREVER_MS,
    LEFT,
    RIGHT,
    StreamTableJoinEngine,
    TableJoin,
    TableRowsEngine,
    Times,
)
from oriel.pipeline.windows.joins.inputs import How
from oriel.pipeline.windows.joins.stream_tables import StreamTableHow
from tests.campaigns import cases
from tests.models.joins import Logs, Row, arrivals, counting, joined_tables, newest
from tests.windows.join_batches import (
    Batch,
    Cut,
    Sides,
    batches,
    random_cuts,
    random_logs,
    saved_and_loaded,
    to_table,
    whole,
)
from tests.windows.random_logs import marks_reached

LEFT_VALUES = pa.schema([("l", pa.string())])
RIGHT_VALUES = pa.schema([("r", pa.string())])
CARRIED = pa.schema([("key_group", pa.int32())])
CHANGE_COLUMNS = (
    "key", "window_start_ms", "window_end_ms", "l", "r", "timestamp_ms", "final", "deleted",
)  # fmt: skip
#: The joined rows, and the state as a set of rows.
Outcome = tuple[dict[str, Row], set[tuple[Any, ...]]]


@dataclass(frozen=True)
class Case:
    """One random case, named by its seed."""

    seed: int
    how: How
    sides: Sides


def random_case(seed: int) -> Case:
    """Return the case of ``seed``."""
    random = Random(seed)
    sides = (random_logs(random, "l", 0.25), random_logs(random, "r", 0.25))
    return Case(seed, random.choice(get_args(How)), sides)


def run_tables(case: Case, cuts: Sequence[Cut], *, restart: bool = False) -> Outcome:
    """Process two tables in batches, and compare rows and changes with the model after each one."""
    engine = TableRowsEngine(TableJoin(case.how, 0, 1), (LEFT_VALUES, RIGHT_VALUES), CARRIED)
    state = engine.empty_state()
    rows: dict[str, Row] = {}
    counted: tuple[Any, Any] = ({}, {})
    for batch in batches(case.sides, cuts):
        sides = [
            to_table(engine.record_schema, batch.new[side], column, input=side)
            for side, column in ((LEFT, "l"), (RIGHT, "r"))
        ]
        result = engine.apply(state, pa.concat_tables(sides), Times.closing(0, 0))
        state = saved_and_loaded(result.state) if restart else result.state
        before, counted_before = dict(rows), counted
        counted = (counting(batch.so_far[LEFT]), counting(batch.so_far[RIGHT]))
        changed = _fold(rows, result.changes.to_pylist(), counted)
        left, right = batch.so_far
        assert rows == joined_tables(left, right, case.how)
        newly_counting = {
            key
            for now, then in zip(counted, counted_before, strict=True)
            for key in now
            if now[key] != then.get(key)
        }
        assert changed == newly_counting & {*before, *rows}, (
            "a row changes if the record that defines it is new"
        )
        assert _state_rows(state, LEFT) == _newest_rows(batch.so_far[LEFT])
        assert _state_rows(state, RIGHT) == _newest_rows(batch.so_far[RIGHT])
    return rows, {tuple(row.values()) for row in state.to_pylist()}


def _fold(rows: dict[str, Row], changes: Sequence[dict[str, Any]], counted: Any) -> set[str]:
    """Apply the changes of a batch, check the rules of batches, and return the changed keys."""
    keys = {change["key"] for change in changes}
    assert len(keys) == len(changes), "a batch emitted a row twice"
    for change in changes:
        assert tuple(change) == CHANGE_COLUMNS
        assert (change["window_start_ms"], change["window_end_ms"]) == (0, FOREVER_MS)
        assert not change["final"]
        key, row = change["key"], (change["l"], change["r"], change["timestamp_ms"])
        if change["deleted"]:
            times = [table[key].time for table in counted if key in table]
            assert row == (None, None, max(times))
            del rows[key]
        else:
            rows[key] = row
    return keys


def _state_rows(state: pa.Table, side: int) -> set[tuple[Any, ...]]:
    of_side = [row for row in state.to_pylist() if row["side"] == side]
    assert [row for row in of_side if row["key_group"] != len(row["key"])] == []
    value, other = ("l", "r") if side == LEFT else ("r", "l")
    assert [row for row in of_side if row[other] is not None] == []
    return {_record(row, value) for row in of_side}


def _record(row: dict[str, Any], value: str) -> tuple[Any, ...]:
    assert row["null_value"] == (row[value] is None)
    return row["key"], row["timestamp_ms"], row["partition"], row["offset"], row[value]


def _newest_rows(logs: Logs) -> set[tuple[Any, ...]]:
    records = newest(logs).values()
    return {(r.key, r.time, r.partition, r.offset, r.value) for r in records}


def run_lookups(case: Case, cuts: Sequence[Cut], *, restart: bool = False) -> int:
    """Join the left logs as a stream with the right logs as a table, in batches.

    Each batch must have the values of the model's table at the end of the batch. Return the number
    of filtered records.
    """
    how: StreamTableHow = "inner" if case.how == "inner" else "left"
    engine = StreamTableJoinEngine(how, LEFT_VALUES, RIGHT_VALUES, CARRIED)
    state = engine.empty_state()
    filtered = 0
    for batch in batches(case.sides, cuts):
        sides = [
            to_table(engine.record_schema, batch.new[side], column, side=side)
            for side, column in ((LEFT, "l"), (RIGHT, "r"))
        ]
        result = engine.apply(state, pa.concat_tables(sides), Times.at((0, 0)))
        state = saved_and_loaded(result.state) if restart else result.state
        expected, without_row = _lookups(batch, how)
        assert result.results.to_pylist() == expected
        assert sum(result.filtered) == without_row
        filtered += without_row
        records = {_record(row, "r") for row in state.to_pylist()}
        assert records == _newest_rows(batch.so_far[RIGHT])
        assert len(records) == len(state)
    return filtered


def _lookups(batch: Batch, how: StreamTableHow) -> tuple[list[dict[str, Any]], int]:
    table = {key: record.value for key, record in counting(batch.so_far[RIGHT]).items()}
    rows = [
        {
            "key": record.key,
            "timestamp_ms": record.time,
            "partition": record.partition,
            "offset": record.offset,
            "__lineage": None,
            "stream_time_ms": record.stream_time,
            "l": record.value,
            "r": table.get(record.key),
        }
        for record in batch.new[LEFT]
    ]
    results = [row for row in rows if how == "left" or row["r"] is not None]
    return results, len(rows) - len(results)


def check_case(case: Case) -> set[str]:
    """Compare a case with the models, in one batch and cut. Return its rare branches."""
    random = Random(case.seed + 1)
    once = run_tables(case, whole(case.sides))
    filtered = run_lookups(case, whole(case.sides))
    for restart in (False, True):
        cuts = random_cuts(case.sides, random)
        assert run_tables(case, cuts, restart=restart) == once, "another cut has another state"
        filtered += run_lookups(case, cuts, restart=restart)
    return _marks(case) | ({"no table row found"} if filtered else set())


def _marks(case: Case) -> set[str]:
    """Return the rare branches that a case reaches."""
    marks = set()
    for logs in case.sides:
        latest = newest(logs)
        for key, record in counting(logs).items():
            others = [r for (k, _), r in latest.items() if k == key and r != record]
            last = (key, record.partition)
            times = [r.time for r in arrivals(logs) if (r.key, r.partition) == last]
            reached = {
                "newest of several partitions": others,
                "the partition determines the newest": [r for r in others if r.time == record.time],
                "a deletion hides another partition's value": record.value is None
                and [r for r in others if r.value is not None],
                "a value outlives another partition's deletion": record.value is not None
                and [r for r in others if r.value is None],
                "a later offset with an earlier time": max(times) > record.time,
                "deleted": record.value is None,
            }
            marks |= {mark for mark, seen in reached.items() if seen}
    rows = joined_tables(*case.sides, case.how)
    marks |= {f"{case.how} row without a right value" for row in rows.values() if row[1] is None}
    return marks | {f"{case.how} row without a left value" for r in rows.values() if r[0] is None}


ALL_MARKS = {
    "newest of several partitions",
    "the partition determines the newest",
    "a deletion hides another partition's value",
    "a value outlives another partition's deletion",
    "a later offset with an earlier time",
    "deleted",
    "left row without a right value",
    "outer row without a right value",
    "outer row without a left value",
    "no table row found",
}


@pytest.mark.slow
@cases(30, 80)
def test_engines_equal_the_models_on_random_logs_under_any_cut_and_restart(number: int) -> None:
    """After each batch, tables, changes and join results equal the model, for each cut."""
    reached = marks_reached(range(number), lambda seed: check_case(random_case(seed)))
    assert reached == ALL_MARKS, "the random logs no longer reach every rare branch"


@pytest.mark.parametrize("rule", ["last record", "partition order", "deletions"])
def test_a_wrong_model_is_noticed(rule: str) -> None:
    """The comparison fails for a model with another rule."""
    for seed in range(100):
        case = random_case(seed)
        rows, _ = run_tables(case, whole(case.sides))
        left, right = (_wrong(logs, rule) for logs in case.sides)
        if rows != joined_tables(left, right, case.how):
            return
    pytest.fail(f"a hundred cases did not notice a wrong {rule}")


def _wrong(logs: Logs, rule: str) -> Logs:
    if rule == "last record":
        return {p: log[:-1] for p, log in logs.items()}
    if rule == "partition order":
        return {-p: log for p, log in logs.items()}
    return {p: [record for record in log if record[2] is not None] for p, log in logs.items()}
