"""Engines of updates emit the same with the rows of the working set as with all rows."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline import windows as w
from oriel.pipeline.state import KeyedState, Layout, segments, sorted_runs
from oriel.pipeline.windows import StreamTimes, Times, UserFunctions, updates_engine_for
from tests.campaigns import full
from tests.pipeline.state.test_keyed_engines import (
    CARRIED,
    VALUES,
    WINDOWS,
    added,
    both,
    in_order,
)

pytestmark = pytest.mark.slow


def random_batch(
    engine: w.AggregateUpdatesEngine, clock: StreamTimes, random: Random, now: int, offset: int
) -> pa.Table:
    """Return records of two partitions. The second one lags, so time buckets wait for it."""
    rows = []
    for place in range(random.choice([0, 1, 4, 12])):
        partition = random.randint(0, 1)
        time = max(0, now + random.randint(-20, 5) - 10 * partition)
        value = random.choice([None, *range(20)])
        rows.append((f"k{random.randint(0, 25)}", time, partition, offset + place, value))
    keys, times, partitions, offsets, values = list(zip(*rows, strict=True)) or [()] * 5
    sources = np.array(partitions, dtype=np.int32)
    columns = {
        "key": keys, "timestamp_ms": times, "partition": partitions, "offset": offsets,
        "stream_time_ms": clock.advance(sources, np.array(times, dtype=np.int64)),
        "side": [0] * len(rows), "null_value": [value is None for value in values], "v": values,
        "key_group": [int(key[1:]) for key in keys],
    }  # fmt: skip
    names = engine.record_schema.names
    return pa.table([pa.array(columns[name]) for name in names], names).cast(engine.record_schema)


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("folds", [0, 1])
@pytest.mark.parametrize("seed", [1, *full(7)])
def test_what_a_batch_does_not_touch_is_not_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, folds: int, seed: int
) -> None:
    """With only the rows of its working set, a batch emits the same and leaves the same state."""
    monkeypatch.setattr(sorted_runs, "SLICE_ROWS", 10)
    monkeypatch.setattr(sorted_runs, "SLICE_BATCHES", 1)
    monkeypatch.setattr(segments, "MAX_SEGMENTS", 3)
    random = Random(seed)
    aggregates: Any = {"n": w.count(), "all": w.collect_list("v"), "last": w.last("v")}
    if folds:
        aggregates = UserFunctions(lambda: 1, (added,), both, {"sum": pa.int64()}, step="s")
    engine = updates_engine_for(WINDOWS[kind], aggregates, VALUES, CARRIED)
    layout = Layout.of(engine)
    clock = StreamTimes({0: -1, 1: -1})
    names: list[str] = []
    whole, now, offset, emitted = engine.empty_state(), 0, 0, 0
    stream_times = (-1, -1)
    for _ in range(25):
        now += random.choice([0, 1, 1, 8])
        batch = random_batch(engine, clock, random, now, offset)
        offset += len(batch)
        before, stream_times = stream_times, (min(clock.stream_time_ms.values()), -1)
        expected = engine.apply(whole, batch, Times.at(stream_times))
        whole = expected.state
        state = KeyedState(tmp_path, names, layout)
        needed = engine.needed_state(state, batch, w.Times(before, stream_times))
        result = engine.apply(needed.rows, batch, Times.at(stream_times))
        version = state.replaced(needed, result.state, kind, sync=False, added_rows=result.added)
        assert in_order(result.results) == in_order(expected.results)
        assert (result.late, result.filtered) == (expected.late, expected.filtered)
        names, close_ms = version.names, engine.close_ms(stream_times)
        assert in_order(KeyedState(tmp_path, names, layout).all_rows(close_ms)) == in_order(
            layout.without_expired(whole, close_ms)
        )
        assert version.rows == len(whole)
        emitted += len(result.results)
    assert emitted > 50
