"""Run any engine over logs cut into batches, and check the rules of all runs.

The slow models compute the expected windows. This module only cuts the logs, adds close times, runs
the engine, saves and loads the state, and applies the changes as the table of a store does.
"""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline import windows as w
from oriel.pipeline.windows import (
    NEVER_CLOSED_MS,
    EmitStrategy,
    EngineResult,
    StreamTimes,
    Times,
    UserFunctions,
    WindowEngine,
    Windows,
    close_time_ms,
    engine_for,
)
from tests.models.aggregates import check_window
from tests.models.tables import FunctionOutcome, Logs, Outcome, Place, Record, Value, Window
from tests.windows.lineages import lineage
from tests.windows.random_logs import Case, random_case

#: ``v`` are moderate doubles, ``x`` doubles with inexact sums, ``i`` integers whose sum overflows,
#: ``j`` small integers, ``s`` strings.
VALUES = pa.schema([
    ("v", pa.float64()),
    ("x", pa.float64()),
    ("i", pa.int64()),
    ("j", pa.int32()),
    ("s", pa.string()),
])  # fmt: skip

AGGREGATES: Mapping[str, w.Aggregate] = {
    "n": w.count(),
    "values": w.count("v"),
    "total": w.sum("v"),
    "least": w.min("v"),
    "most": w.max("v"),
    "mean": w.avg("v"),
    "spread": w.stddev("v"),
    "first": w.first("v"),
    "last": w.last("v"),
    "all": w.collect_list("v"),
    "middle": w.approx_quantile("v", 0.5),
    "awkward_total": w.sum("x"),
    "awkward_mean": w.avg("x"),
    "awkward_least": w.min("x"),
    "awkward_most": w.max("x"),
    "wrapped": w.sum("i"),
    "least_integer": w.min("i"),
    "most_integer": w.max("i"),
    "small_mean": w.avg("j"),
    "least_word": w.min("s"),
    "most_word": w.max("s"),
    "first_word": w.first("s"),
    "last_word": w.last("s"),
    "words": w.collect_list("s"),
    "different": w.approx_count_distinct("s"),
}

#: A carried column: the state keeps it per key for the caller. Here it contains the key.
CARRIED = pa.schema([("group", pa.string())])

#: One batch: the number of records of each partition.
Cut = dict[int, int]
Row = dict[str, Any]


def emit_strategy(*, final_only: bool) -> EmitStrategy:
    """Return the strategy that emits final rows only, or every update."""
    if final_only:
        return EmitStrategy.on_window_close()
    return EmitStrategy.on_window_update()


@dataclass(frozen=True)
class Setup:
    """The windows, aggregates and options of a run."""

    windows: Windows
    aggregates: Mapping[str, w.Aggregate] | UserFunctions = field(
        default_factory=lambda: AGGREGATES
    )
    values: pa.Schema = VALUES
    emit_final_only: bool = False
    #: The rows keep their partial aggregates.
    mergeable: bool = False
    #: Two records at a time share an offset, as join results do. Their lineage distinguishes them.
    shared_offsets: bool = False

    def engine(self) -> WindowEngine:
        """Return a new engine."""
        engine = engine_for(
            self.windows,
            self.aggregates,
            self.values,
            carried=CARRIED,
            emit=emit_strategy(final_only=self.emit_final_only),
        )
        if self.shared_offsets:
            engine.order_by_lineage()
        if self.mergeable:
            engine.keep_partials()
        return engine

    @property
    def inputs(self) -> int:
        """The number of streams of a cogroup, otherwise 1."""
        return len(self.aggregates.aggregators) if isinstance(self.aggregates, UserFunctions) else 1


@dataclass
class Run:
    """The result of a run: the rows that are not deleted, and the counters."""

    rows: dict[Place, Row] = field(default_factory=dict)
    applied: int = 0
    late: int = 0
    rejected: dict[tuple[int, int], str] = field(default_factory=dict)
    deleted: int = 0
    state_rows: int = 0
    batches: list[list[Row]] = field(default_factory=list)

    def result(self) -> tuple[Any, ...]:
        """Return the results that must not depend on cuts and restarts, to the last bit."""
        rows = {bounds: repr(row) for bounds, row in self.rows.items()}
        return rows, self.applied, self.late, self.rejected


def run_engine(
    setup: Setup, logs: Logs, cuts: Sequence[Cut], *, restart: bool = False, seed: int | None = None
) -> Run:
    """Process ``logs`` in batches.

    Args:
        setup: The engine.
        logs: The records of each partition.
        cuts: The batches.
        restart: After each batch, create a new engine from the saved state.
        seed: Shuffle the rows of each batch, because results must not depend on their order.
    """
    engine = setup.engine()
    delay = setup.windows.close_delay_ms
    clock = StreamTimes(dict.fromkeys(logs, -1))
    state, close = engine.empty_state(), NEVER_CLOSED_MS
    position = dict.fromkeys(logs, 0)
    random = None if seed is None else Random(seed)
    run = Run()
    for cut in cuts:
        rows = _taken(logs, position, cut)
        batch = _records_of_batch(rows, setup, clock)
        if random is not None:
            batch = batch.take(pa.array(random.sample(range(len(batch)), len(batch)), pa.int64()))
        late = engine.is_late(np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"]))
        batch = batch.filter(pa.array(~late)).select(engine.record_schema.names)
        before, close = close, close_time_ms(clock.stream_time_ms, delay)
        result = engine.apply(state, batch, Times.closing(before, close))
        _count(run, int(late.sum()), len(batch), result)
        changes = _changes(setup, engine, result)
        follow(run, setup, changes, close)
        state = result.state
        _check_state(state, engine)
        if restart:
            state = _saved_and_loaded(state)
            clock = StreamTimes(dict(clock.stream_time_ms))
            engine = setup.engine()
    assert position == {p: len(log) for p, log in logs.items()}, (
        "the batches must contain all records of the logs"
    )
    run.state_rows = len(state)
    return run


def follow(run: Run, setup: Setup, changes: Sequence[Row], close: int) -> None:
    """Apply the changes of a batch, and check the rules of every batch."""
    run.batches.append(list(changes))
    all_bounds = [_bounds(row) for row in changes]
    assert len(set(all_bounds)) == len(all_bounds), "a batch emitted a window twice"
    for bounds, row in zip(all_bounds, changes, strict=True):
        before = run.rows.get(bounds)
        assert before is None or not before["final"], f"a final window was emitted again: {row}"
        if row["deleted"]:
            assert not setup.emit_final_only, "a deleted row, although only final rows are emitted"
            assert not row["final"], f"a deleted row that is final: {row}"
            # The state of sliding windows has records, but not which windows were emitted.
            known = before is not None or setup.windows.kind == "sliding"
            assert known, f"a row was deleted that was never emitted: {row}"
            run.deleted += before is not None
            run.rows.pop(bounds, None)
            continue
        if isinstance(setup.aggregates, Mapping):
            assert repr(before) != repr(row), f"an unchanged window was emitted again: {row}"
        assert row["final"] == _is_final(setup.windows, bounds[2], close), f"{row} at {close}"
        assert row["final"] or not setup.emit_final_only, f"a row that is not final: {row}"
        run.rows[bounds] = row


def random_cuts(logs: Logs, random: Random) -> list[Cut]:
    """Return random batches: any interleaving of partitions, also batches without records."""
    left = {p: len(log) for p, log in logs.items()}
    cuts: list[Cut] = []
    while any(left.values()):
        most = random.choice((2, 6, 20))
        cut = {p: random.randint(0, min(most, n)) for p, n in left.items()}
        for p, n in cut.items():
            left[p] -= n
        cuts.append(cut)
    return cuts


def whole(logs: Logs) -> list[Cut]:
    """Return one batch with all records."""
    return [{p: len(log) for p, log in logs.items()}]


def one_by_one(logs: Logs) -> list[Cut]:
    """Return one batch per record, one partition after the other."""
    return [{p: 1} for p, log in logs.items() for _ in log]


#: Doubles for which each inexact way to add numbers has a wrong sum.
_AWKWARD = (1e16, -1e16, 0.1, 1e308, -1e308, 5e-324, 3.0, 2.0**53, math.nan, math.inf, -math.inf)
_WHOLE = (0, 1, -7, 2**62, -(2**63), 2**53 + 1)


def valued_logs(seed: int) -> dict[int, list[Record]]:
    """Return the random logs of ``seed`` with all columns of ``VALUES``.

    Many logs have three partitions. Some records have a null value.
    """
    logs = _valued(random_case(seed))
    if seed % 3:
        # These partitions have another drift and disorder than the first ones.
        more = _valued(random_case(seed + 1_000_000_000))
        logs |= {p + len(logs): log for p, log in more.items() if p + len(logs) < 3}
    return logs


def _valued(case: Case) -> dict[int, list[Record]]:
    random = Random(case.seed + 77)
    return {p: [_with_value(record, random) for record in log] for p, log in case.logs.items()}


def _with_value(record: tuple[str, int, float | None], random: Random) -> Record:
    key, time, v = record
    if random.random() < 0.1:
        return key, time, None
    # NaN and infinities are rare. Otherwise, most sums would be NaN or infinite.
    awkward = _AWKWARD if random.random() < 0.2 else _AWKWARD[:8]
    value = {
        "v": v,
        "x": random.choice((*awkward, None)),
        "i": random.choice((*_WHOLE, None)),
        "j": random.choice((1, 2, -3, None)),
        "s": random.choice(("", "b", "ä", "a", "zz", None)),
    }
    return key, time, value


def ties_against_offsets(window: Window) -> bool:
    """Return True if members of equal time in partition order have decreasing offsets."""
    pairs = pairwise(window.members)
    return any(a.time == b.time and a.offset > b.offset for a, b in pairs)


def check_against_model(run: Run, outcome: Outcome, setup: Setup) -> None:
    """Check that the run has exactly the windows of the model, value by value."""
    _check_counts(run, outcome)
    assert not run.rejected
    expected = {
        bounds: window
        for bounds, window in outcome.windows.items()
        if window.final or not setup.emit_final_only
    }
    actual = set(run.rows)
    assert actual == set(expected), (
        f"missing {set(expected) - actual}, unexpected {actual - set(expected)}"
    )
    for bounds, row in run.rows.items():
        check_window(row, expected[bounds])


def check_functions_against_model(
    run: Run, outcome: FunctionOutcome, setup: Setup, names: list[str]
) -> None:
    """Check that the rows equal the results of the user's functions, as the model calls them."""
    _check_counts(run, outcome)
    assert set(run.rejected) == outcome.rejected
    expected = {
        bounds: (folded.value, folded.timestamp, folded.final)
        for bounds, folded in outcome.rows.items()
        if folded.final or not setup.emit_final_only
    }
    actual = {
        bounds: (_columns(row, names), row["timestamp_ms"], row["final"])
        for bounds, row in run.rows.items()
    }
    wrong = [
        (p, actual.get(p), expected.get(p))
        for p in actual | expected
        if actual.get(p) != expected.get(p)
    ]
    assert not wrong, f"{len(wrong)} rows differ; the first, actual and expected: {wrong[0]}"


def _check_counts(run: Run, outcome: Outcome | FunctionOutcome) -> None:
    counted, expected = (run.applied, run.late), (outcome.applied, outcome.late)
    assert counted == expected, f"applied and late are {counted}, not {expected}"


def _columns(row: Row, names: list[str]) -> Any:
    """Return the value of an aggregator: the column itself, or a dict of several columns."""
    return row[names[0]] if len(names) == 1 else {name: row[name] for name in names}


def _bounds(row: Row) -> Place:
    return row["key"], row["window_start_ms"], row["window_end_ms"]


def _is_final(windows: Windows, end: int, close: int) -> bool:
    if windows.kind == "none":
        return False
    return end <= close if windows.kind in {"tumbling", "hopping"} else end < close


def _count(run: Run, late: int, passed: int, result: EngineResult) -> None:
    rejected = result.rejected.to_pylist()
    for row in rejected:
        partition_offset = row["partition"], row["offset"]
        assert partition_offset not in run.rejected, f"a record was rejected twice: {row}"
        run.rejected[partition_offset] = row["detail"]
    run.late += late + result.late
    run.applied += passed - result.late - len(rejected)


def _changes(setup: Setup, engine: WindowEngine, result: EngineResult) -> list[Row]:
    names = list(engine.aggregate_types)
    expected = [
        "key",
        "window_start_ms",
        "window_end_ms",
        *names,
        *([w.PARTIALS.name] if engine.kept else []),
        "timestamp_ms",
        "final",
        "deleted",
    ]
    assert result.changes.column_names == expected
    for name, promised in engine.aggregate_types.items():
        assert result.changes.schema.field(name).type == promised
    changes: list[Row] = result.changes.to_pylist()
    return changes


def _taken(logs: Logs, position: dict[int, int], cut: Cut) -> list[tuple[int, int, Record]]:
    """Return the records of a batch as (partition, offset, record), by partition and offset."""
    rows = []
    for p, size in cut.items():
        rows += [(p, i, logs[p][i]) for i in range(position[p], position[p] + size)]
        position[p] += size
    return rows


def _records_of_batch(
    rows: Sequence[tuple[int, int, Record]], setup: Setup, clock: StreamTimes
) -> pa.Table:
    partition = np.array([p for p, _, _ in rows], dtype=np.int32)
    times = np.array([time for _, _, (_, time, _) in rows], dtype=np.int64)
    columns = {
        "key": pa.array([key for _, _, (key, _, _) in rows], pa.string()),
        "timestamp_ms": times,
        "partition": partition,
        "offset": pa.array([i // 2 if setup.shared_offsets else i for _, i, _ in rows], pa.int64()),
        w.LINEAGE.name: pa.array([lineage(i % 2) for _, i, _ in rows], w.LINEAGE.type),
        "close_ms": clock.advance(partition, times) - setup.windows.close_delay_ms,
        "group": pa.array([f"of {key}" for _, _, (key, _, _) in rows], pa.string()),
        "input": pa.array(partition % setup.inputs, pa.int8()),
        "null_value": pa.array([value is None for _, _, (_, _, value) in rows], pa.bool_()),
    }
    for column in setup.values:
        cells = [_cell(value, column.name) for _, _, (_, _, value) in rows]
        columns[column.name] = pa.array(cells, column.type)
    return pa.table(columns)


def _cell(value: Value, name: str) -> Any:
    return None if value is None else value.get(name)


def _check_state(state: pa.Table, engine: WindowEngine) -> None:
    """Check that the state has its columns, and that carried columns belong to the key."""
    assert state.schema.equals(engine.state_schema)
    carried = [f"of {key}" for key in state["key"].to_pylist()]
    assert state["group"].to_pylist() == carried


def _saved_and_loaded(state: pa.Table) -> pa.Table:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, state.schema) as writer:
        writer.write_table(state)
    return pa.ipc.open_file(sink.getvalue()).read_all()
