"""Engines that read only the working set return what engines with the whole state return."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.plan import KEY_GROUP
from oriel.pipeline.state import KeyedState, Layout, segments, sorted_runs
from oriel.pipeline.state import hashes as hashing
from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.windows import (
    NEVER_CLOSED_MS,
    EmitStrategy,
    NoWindows,
    StreamTimes,
    TableRowsEngine,
    Times,
    UserFunctions,
    WindowEngine,
    Windows,
    close_time_ms,
    engine_for,
)
from tests.campaigns import full

#: Every engine runs twice over random logs, so these tests run in CI and not in the inner loop.
pytestmark = pytest.mark.slow

VALUES = pa.schema([("v", pa.int64())])
CARRIED = pa.schema([KEY_GROUP])

WINDOWS: dict[str, Windows] = {
    "tumbling": TimeWindows.of_size_and_grace(10, 15),
    "hopping": TimeWindows.of_size_and_grace(12, 3).advance_by(5),
    "hopping often": TimeWindows.of_size_and_grace(20, 30).advance_by(1),
    "sliding": SlidingWindows.of_time_difference_and_grace(6, 15),
    "sliding far": SlidingWindows.of_time_difference_and_grace(25, 0),
    "sliding at once": SlidingWindows.of_time_difference_and_grace(0, 15),
    "session": SessionWindows.of_inactivity_gap_and_grace(4, 12),
    "none": NoWindows(),
}


#: Which rows share a hash: the number of hashes of keys, the step from one time bucket's hash to
#: the next, and the rows of a slice of a merge. If a few hashes are close together, they are all in
#: one slice.
SHARING: dict[str, tuple[int | None, np.int64, int]] = {
    "nobody": (None, hashing.TIME_BUCKET_STEP, 10),
    "keys": (5, hashing.TIME_BUCKET_STEP, 10),
    "keys and units": (5, np.int64(1), sorted_runs.SLICE_ROWS),
}


#: The number of batches of each log, by the number of logs.
LENGTHS = {2: 15, 6: 40}


def added(_key: str, value: Any, aggregate: int) -> int | None:
    """Raise on some values, and remove the row on others."""
    number = 0 if value is None else value["v"]
    if number == 13:
        raise ValueError(number)
    return None if number == 7 else int(aggregate * 3 + number) % 1_000_003


def both(_key: str, left: int, right: int) -> int:
    """Merge two aggregates. The result depends on their order."""
    return (left * 5 + right) % 1_000_003


def engine_of(kind: str, *, folds: bool, final_only: bool) -> WindowEngine:
    """Return the engine of a store."""
    if kind == "table":
        return TableRowsEngine(
            w.TableJoin("outer", 0, 1), (VALUES, pa.schema([("x", pa.int64())])), CARRIED
        )
    aggregates: Any = {"n": w.count(), "all": w.collect_list("v"), "last": w.last("v")}
    if folds:
        aggregates = UserFunctions(lambda: 1, (added,), both, {"sum": pa.int64()}, step="s")
    close, update = EmitStrategy.on_window_close(), EmitStrategy.on_window_update()
    emit = close if final_only else update
    return engine_for(WINDOWS[kind], aggregates, VALUES, carried=CARRIED, emit=emit)


def batches(
    engine: WindowEngine, delay_ms: int, random: Random, number: int
) -> Iterator[tuple[pa.Table, int, int]]:
    """Yield `number` batches without late records, with the close times before and after each."""
    clock = StreamTimes({0: -1, 1: -1})
    close, now, offset = NEVER_CLOSED_MS, 0, 0
    for _ in range(number):
        now += random.choice([0, 1, 1, 8])
        rows = []
        for _ in range(random.choice([0, 1, 4, 12])):
            key, offset = f"k{random.randint(0, 25)}", offset + 1
            value = random.choice([None, *range(20)])
            # Partition 1 lags, so that sessions of both partitions are merged and windows wait.
            source = random.randint(0, 1)
            time = max(0, now + random.randint(-20, 5) - 10 * source)
            rows.append((key, time, source, offset, value))
        columns = list(zip(*rows, strict=True)) or [()] * 5
        partition = np.array(columns[2], dtype=np.int32)
        times = np.array(columns[1], dtype=np.int64)
        batch = {
            "key": pa.array(columns[0], pa.string()), "timestamp_ms": times,
            "partition": partition, "offset": pa.array(columns[3], pa.int64()),
            "close_ms": clock.advance(partition, times) - delay_ms,
            "key_group": pa.array([len(key) + int(key[1:]) for key in columns[0]], pa.int32()),
            "input": pa.array(partition * isinstance(engine, TableRowsEngine), pa.int8()),
            "null_value": pa.array([value is None for value in columns[4]], pa.bool_()),
            **{name: pa.array(columns[4], pa.int64()) for name in "vx"},
        }  # fmt: skip
        table = pa.table(batch)
        late = engine.is_late(times, np.asarray(table["close_ms"]))
        before, close = close, close_time_ms(clock.stream_time_ms, delay_ms)
        names = engine.record_schema.names
        yield table.filter(pa.array(~late)).select(names), before, close


def in_order(rows: pa.Table) -> list[str]:
    """Return the rows in a fixed order."""
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize(
    ("kind", "folds"), [*((kind, folds) for kind in WINDOWS for folds in (0, 1)), ("table", 0)]
)
@pytest.mark.parametrize("sharing", SHARING)
# One log emits on update, the other one on close.
@pytest.mark.parametrize("logs", [2, *full(6)])
def test_what_a_batch_does_not_touch_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, folds: int, sharing: str, logs: int
) -> None:
    """With only the rows of its working set, a batch has the changes and the state of all rows."""
    hashes, bucket_step, slice_rows = SHARING[sharing]
    if hashes is not None:
        monkeypatch.setattr(hashing, "key_hashes", lambda keys: key_hashes(keys) % hashes)
    monkeypatch.setattr(hashing, "TIME_BUCKET_STEP", bucket_step)
    # Small, so that batches merge one slice at a time and have few segments before they do.
    monkeypatch.setattr(sorted_runs, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(sorted_runs, "SLICE_BATCHES", 1)
    monkeypatch.setattr(segments, "MAX_SEGMENTS", 3)
    changes = 0
    for seed in range(logs):
        engine = engine_of(kind, folds=bool(folds), final_only=bool(seed % 2) and kind in WINDOWS)
        layout = Layout.of(engine)
        delay = WINDOWS[kind].close_delay_ms if kind in WINDOWS else 0
        names: list[str] = []
        whole = engine.empty_state()
        for batch, before, close in batches(engine, delay, Random(seed), LENGTHS[logs]):
            times = Times.closing(before, close)
            expected = engine.apply(whole, batch, times)
            whole = expected.state
            state = KeyedState(tmp_path, names, layout)
            needed = engine.needed_state(state, batch, times)
            result = engine.apply(needed.rows, batch, times)
            version = state.replaced(
                needed, result.state, f"{kind}", sync=False, added_rows=result.added
            )
            assert result.changes.to_pylist() == expected.changes.to_pylist()
            assert in_order(result.rejected) == in_order(expected.rejected)
            assert result.late == expected.late
            names = version.names
            after = KeyedState(tmp_path, names, layout)
            assert in_order(after.all_rows(close)) == in_order(whole)
            assert version.rows == len(whole)
            changes += len(result.changes)
    assert changes > 50
