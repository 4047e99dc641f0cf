"""Drive any engine over logs cut into batches, and check what every run must keep.

What the windows should come to is worked out by the slow models; this harness only cuts,
adds close times, feeds, saves and loads, and follows the changes as a store's table would.
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
from tests.models.tables import FoldOutcome, Logs, Outcome, Place, Record, Value, Window
from tests.windows.lineages import lineage
from tests.windows.random_logs import Case, random_case

#: ``v`` moderate doubles, ``x`` awkward ones, ``i`` integers that wrap, ``j`` small ones,
#: ``s`` strings.
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

#: What the state keeps of a key for its caller; here it tells the key itself.
CARRIED = pa.schema([("group", pa.string())])

#: One batch: how many records of each partition it takes.
Cut = dict[int, int]
Row = dict[str, Any]


def emit_strategy(*, final_only: bool) -> EmitStrategy:
    """The strategy that writes final rows only, or every update."""
    if final_only:
        return EmitStrategy.on_window_close()
    return EmitStrategy.on_window_update()


@dataclass(frozen=True)
class Setup:
    """What is run."""

    windows: Windows
    aggregates: Mapping[str, w.Aggregate] | UserFunctions = field(
        default_factory=lambda: AGGREGATES
    )
    values: pa.Schema = VALUES
    emit_final_only: bool = False
    #: Two records at a time share an offset, as join results do. Their lineage distinguishes them.
    shared_offsets: bool = False

    def engine(self) -> WindowEngine:
        """A new engine."""
        engine = engine_for(
            self.windows,
            self.aggregates,
            self.values,
            carried=CARRIED,
            emit=emit_strategy(final_only=self.emit_final_only),
        )
        if self.shared_offsets:
            engine.order_by_lineage()
        return engine

    @property
    def inputs(self) -> int:
        """How many streams a cogroup has."""
        return len(self.aggregates.aggregators) if isinstance(self.aggregates, UserFunctions) else 1


@dataclass
class Run:
    """One run's outcome: the rows that are not deleted, and what it counted."""

    rows: dict[Place, Row] = field(default_factory=dict)
    applied: int = 0
    late: int = 0
    rejected: dict[tuple[int, int], str] = field(default_factory=dict)
    deleted: int = 0
    state_rows: int = 0
    batches: list[list[Row]] = field(default_factory=list)

    def result(self) -> tuple[Any, ...]:
        """What may not depend on cuts and restarts, to the last bit."""
        rows = {bounds: repr(row) for bounds, row in self.rows.items()}
        return rows, self.applied, self.late, self.rejected


def run_engine(
    setup: Setup, logs: Logs, cuts: Sequence[Cut], *, restart: bool = False, seed: int | None = None
) -> Run:
    """Feed ``logs`` by batches; ``restart`` makes all anew from saved state between them.

    With a ``seed`` the rows of each batch are shuffled: their places tell the order.
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
        batch = _stamped(rows, setup, clock)
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
    assert position == {p: len(log) for p, log in logs.items()}, "the cuts must cover the logs"
    run.state_rows = len(state)
    return run


def follow(run: Run, setup: Setup, changes: Sequence[Row], close: int) -> None:
    """Apply one batch's changes, checking what no batch may do."""
    run.batches.append(list(changes))
    all_bounds = [_bounds(row) for row in changes]
    assert len(set(all_bounds)) == len(all_bounds), "a window came twice in one batch"
    for bounds, row in zip(all_bounds, changes, strict=True):
        before = run.rows.get(bounds)
        assert before is None or not before["final"], f"a final window was told again: {row}"
        if row["deleted"]:
            assert not setup.emit_final_only, "a deleted row though only final ones are wanted"
            assert not row["final"], f"a deleted row that is final: {row}"
            # The state of sliding windows is records: what was told of a window isn't known.
            known = before is not None or setup.windows.kind == "sliding"
            assert known, f"a row was deleted that was never told: {row}"
            run.deleted += before is not None
            run.rows.pop(bounds, None)
            continue
        if isinstance(setup.aggregates, Mapping):
            assert repr(before) != repr(row), f"an unchanged window was told again: {row}"
        assert row["final"] == _is_final(setup.windows, bounds[2], close), f"{row} at {close}"
        assert row["final"] or not setup.emit_final_only, f"a row that is not final: {row}"
        run.rows[bounds] = row


def random_cuts(logs: Logs, random: Random) -> list[Cut]:
    """Cut logs at random: any interleaving of partitions, empty parts included."""
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
    """Everything in one batch."""
    return [{p: len(log) for p, log in logs.items()}]


def one_by_one(logs: Logs) -> list[Cut]:
    """A batch a record, one partition after the other."""
    return [{p: 1} for p, log in logs.items() for _ in log]


#: Doubles whose sums go wrong in every way that is not exact.
_AWKWARD = (1e16, -1e16, 0.1, 1e308, -1e308, 5e-324, 3.0, 2.0**53, math.nan, math.inf, -math.inf)
_WHOLE = (0, 1, -7, 2**62, -(2**63), 2**53 + 1)


def valued_logs(seed: int) -> dict[int, list[Record]]:
    """The random logs of ``seed`` with all of ``VALUES``; many have three partitions.

    Some records have no value at all.
    """
    logs = _valued(random_case(seed))
    if seed % 3:
        # Of another drift and disorder than the others.
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
    # Not a number and infinities are rare, or most sums were nothing else.
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
    """Whether two members of one time stand by partition against their offsets (a rare branch)."""
    pairs = pairwise(window.members)
    return any(a.time == b.time and a.offset > b.offset for a, b in pairs)


def check_against_model(run: Run, outcome: Outcome, setup: Setup) -> None:
    """The run's windows are exactly the model's, value by value."""
    _check_counts(run, outcome)
    assert not run.rejected
    expected = {
        bounds: window
        for bounds, window in outcome.windows.items()
        if window.final or not setup.emit_final_only
    }
    actual = set(run.rows)
    assert actual == set(expected), (
        f"missing {set(expected) - actual}, too many {actual - set(expected)}"
    )
    for bounds, row in run.rows.items():
        check_window(row, expected[bounds])


def check_fold_against_model(
    run: Run, outcome: FoldOutcome, setup: Setup, names: list[str]
) -> None:
    """The run's rows are exactly those of the model's calls of the user's functions."""
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


def _check_counts(run: Run, outcome: Outcome | FoldOutcome) -> None:
    counted, expected = (run.applied, run.late), (outcome.applied, outcome.late)
    assert counted == expected, f"applied and late are {counted}, not {expected}"


def _columns(row: Row, names: list[str]) -> Any:
    """A fold's value: bare for one column, a dict for several."""
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
    """The batch's records as (partition, offset, record), each partition in offset order."""
    rows = []
    for p, size in cut.items():
        rows += [(p, i, logs[p][i]) for i in range(position[p], position[p] + size)]
        position[p] += size
    return rows


def _stamped(rows: Sequence[tuple[int, int, Record]], setup: Setup, clock: StreamTimes) -> pa.Table:
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
    """The state has the promised columns, and each row's carried column is that of its key."""
    assert state.schema.equals(engine.state_schema)
    carried = [f"of {key}" for key in state["key"].to_pylist()]
    assert state["group"].to_pylist() == carried


def _saved_and_loaded(state: pa.Table) -> pa.Table:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, state.schema) as writer:
        writer.write_table(state)
    return pa.ipc.open_file(sink.getvalue()).read_all()
