"""Run the sliding-window engine over logs cut into batches, and check the rules of all runs."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from oriel import SlidingWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import NEVER_CLOSED_MS, StreamTimes, Times, close_time_ms, engine_for
from tests.models.sliding import Logs, Outcome, Record, Window

AGGREGATES = {
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
}
VALUES = pa.schema([("v", pa.float64())])

#: One batch: the number of records of each partition.
Cut = dict[int, int]
Row = dict[str, Any]


@dataclass
class Run:
    """The result of a run: the newest row of each window, and the counters."""

    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    applied: int = 0
    late: int = 0
    batches: int = 0


def run_engine(
    logs: Logs, difference: int, grace: int, cuts: Sequence[Cut], *, restart: bool = False
) -> Run:
    """Process ``logs`` in batches. With ``restart``, save and load the state after each batch."""
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    engine = engine_for(windows, AGGREGATES, VALUES)
    clock = StreamTimes(dict.fromkeys(logs, -1))
    state, close = engine.empty_state(), NEVER_CLOSED_MS
    position = dict.fromkeys(logs, 0)
    run = Run()
    for cut in cuts:
        batch = _records_of_batch(logs, position, cut, clock, grace)
        late = engine.is_late(np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"]))
        run.late += int(late.sum())
        run.applied += int((~late).sum())
        before, close = close, close_time_ms(clock.stream_time_ms, grace)
        result = engine.apply(state, batch.filter(pa.array(~late)), Times.closing(before, close))
        _fold(run, result.changes.to_pylist(), close)
        state = result.state
        times = np.asarray(state["timestamp_ms"])
        needless = times[times < close - difference - 1].tolist()
        assert needless == [], "the state has records that no window needs"
        if restart:
            state = _saved_and_loaded(state)
            clock = StreamTimes(dict(clock.stream_time_ms))
    assert position == {p: len(log) for p, log in logs.items()}, (
        "the batches must contain all records of the logs"
    )
    return run


def random_cuts(logs: Logs, random: Random) -> list[Cut]:
    """Return random batches: any interleaving of partitions, also batches without records."""
    left = {p: len(log) for p, log in logs.items()}
    cuts: list[Cut] = []
    while any(left.values()):
        most = random.choice((1, 3, 10))
        cut = {p: random.randint(0, min(most, n)) for p, n in left.items()}
        for p, n in cut.items():
            left[p] -= n
        cuts.append(cut)
    return cuts


def whole(logs: Logs) -> list[Cut]:
    """Return one batch with all records."""
    return [{p: len(log) for p, log in logs.items()}]


def check_against_model(run: Run, outcome: Outcome) -> None:
    """Check that the run has exactly the windows of the model, value by value."""
    assert (run.applied, run.late) == (outcome.applied, outcome.late)
    assert sorted(run.rows) == sorted(outcome.windows)
    for key_and_start, row in run.rows.items():
        _check_window(row, outcome.windows[key_and_start])


def _check_window(row: Row, window: Window) -> None:
    values = window.values
    assert row["window_end_ms"] == window.end
    assert row["timestamp_ms"] == window.timestamp
    assert row["final"] == window.final
    assert row["n"] == len(window.members)
    assert row["values"] == len(values)
    assert row["all"] == values
    assert row["total"] == (math.fsum(values) if values else None)
    assert row["mean"] == (math.fsum(values) / len(values) if values else None)
    assert row["least"] == min(values, default=None)
    assert row["most"] == max(values, default=None)
    assert row["first"] == (values[0] if values else None)
    assert row["last"] == (values[-1] if values else None)
    _check_spread(row["spread"], values)


def _check_spread(actual: float | None, values: Sequence[float]) -> None:
    if len(values) < 2:
        assert actual is None
        return
    mean = math.fsum(values) / len(values)
    expected = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    assert actual is not None
    assert math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12)


def _fold(run: Run, changes: Sequence[Row], close: int) -> None:
    """Apply the changes of a batch, and check the rules of every batch."""
    run.batches += 1
    keys_and_starts = [(row["key"], row["window_start_ms"]) for row in changes]
    assert len(set(keys_and_starts)) == len(keys_and_starts), "a batch emitted a window twice"
    for key_and_start, row in zip(keys_and_starts, changes, strict=True):
        before = run.rows.get(key_and_start)
        if before is not None:
            assert not before["final"], "a final window was emitted again"
            assert before != row, "an unchanged window was emitted again"
        assert row["final"] == (row["window_end_ms"] < close)
        run.rows[key_and_start] = row


def _records_of_batch(
    logs: Logs, position: dict[int, int], cut: Cut, clock: StreamTimes, grace: int
) -> pa.Table:
    rows: list[tuple[int, int, Record]] = []
    for p, size in cut.items():
        rows += [(p, i, logs[p][i]) for i in range(position[p], position[p] + size)]
        position[p] += size
    partition = np.array([p for p, _, _ in rows], dtype=np.int32)
    times = np.array([time for _, _, (_, time, _) in rows], dtype=np.int64)
    return pa.table(
        {
            "key": pa.array([key for _, _, (key, _, _) in rows], pa.string()),
            "timestamp_ms": times,
            "partition": partition,
            "offset": pa.array([i for _, i, _ in rows], pa.int64()),
            "close_ms": clock.advance(partition, times) - grace,
            "v": pa.array([value for _, _, (_, _, value) in rows], pa.float64()),
        }
    )


def _saved_and_loaded(state: pa.Table) -> pa.Table:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, state.schema) as writer:
        writer.write_table(state)
    return pa.ipc.open_file(sink.getvalue()).read_all()
