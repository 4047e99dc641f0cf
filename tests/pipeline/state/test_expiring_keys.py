"""The state of expiring keys: a batch finds the expired ones without reading the others."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.state import KeyedState, Layout, Version, segments, sorted_runs
from oriel.pipeline.windows import ExpiryEngine, InputStreamTimes, StreamTimes, Times
from tests.campaigns import full
from tests.pipeline.state.test_keyed_engines import CARRIED, VALUES, in_order


def batches(random: Random, number: int, keys: int) -> Iterator[list[tuple[str, int, int]]]:
    """Yield the records of each batch as (key, time, partition). The second partition lags."""
    now = 0
    for _ in range(number):
        now += random.choice([0, 1, 1, 8, 30])
        rows = []
        for _ in range(random.choice([0, 1, 4, 12])):
            partition = random.randint(0, 1)
            time = max(0, now + random.randint(-20, 5) - 10 * partition)
            rows.append((f"k{random.randint(0, keys)}", time, partition))
        yield rows


def table_of(
    engine: ExpiryEngine, clock: StreamTimes, rows: list[tuple[str, int, int]], offset: int
) -> pa.Table:
    """Return records with offsets from ``offset``."""
    keys, times, partitions = list(zip(*rows, strict=True)) or [()] * 3
    sources = np.array(partitions, dtype=np.int32)
    columns = {
        "key": keys, "timestamp_ms": times, "partition": partitions,
        "offset": range(offset, offset + len(rows)),
        "stream_time_ms": clock.advance(sources, np.array(times, dtype=np.int64)),
        "side": [0] * len(rows), "null_value": [time % 7 == 0 for time in times],
        "v": times, "key_group": [len(key) for key in keys],
    }  # fmt: skip
    names = engine.record_schema.names
    return pa.table([pa.array(columns[name]) for name in names], names).cast(engine.record_schema)


def times_of(clock: StreamTimes) -> InputStreamTimes:
    """Return the stream time of each partition."""
    return clock.stream_time_ms[0], clock.stream_time_ms[1]


@pytest.mark.parametrize("of_table", [False, True])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("more", [0, *full(60)])
def test_a_batch_removes_the_same_keys_with_only_its_working_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, more: int, *, of_table: bool
) -> None:
    """Results and state equal those with all rows in the working set, also with small merges."""
    monkeypatch.setattr(sorted_runs, "SLICE_ROWS", 10)
    monkeypatch.setattr(sorted_runs, "SLICE_BATCHES", 1)
    monkeypatch.setattr(segments, "MAX_SEGMENTS", 3)
    random, clock = Random(seed), StreamTimes({0: -1, 1: -1})
    engine = ExpiryEngine(VALUES, CARRIED, ttl_ms=random.choice((3, 25)), of_table=of_table)
    whole, version, offset, removals = engine.empty_state(), Version([], 0), 0, 0
    for rows in batches(random, 60 + more, 25):
        before = times_of(clock)
        batch = table_of(engine, clock, rows, offset)
        offset += len(rows)
        times = Times(before, times_of(clock))
        expected = engine.apply(whole, batch, times)
        whole = expected.state
        state = KeyedState(tmp_path, version.names, Layout.of(engine))
        needed = engine.needed_state(state, batch, times)
        result = engine.apply(needed.rows, batch, times)
        version = state.replaced(needed, result.state, f"{offset}", sync=False)
        assert in_order(result.results) == in_order(expected.results)
        assert result.late == expected.late
        stored = KeyedState(tmp_path, version.names, Layout.of(engine))
        assert in_order(stored.all_rows()) == in_order(whole)
        assert version.rows == len(whole)
        removals += len(result.results) - (len(batch) - sum(result.late))
    assert removals > 10


def test_the_state_stays_flat_with_ever_new_keys(tmp_path: Path) -> None:
    """The state and its files do not grow, and a batch reads the same number of rows."""
    clock = StreamTimes({0: -1, 1: -1})
    engine = ExpiryEngine(VALUES, CARRIED, ttl_ms=100, of_table=True)
    version, sizes, read = Version([], 0), [], []
    for number in range(400):
        before = times_of(clock)
        rows = [(f"{number}-{place}", 10 * number, place % 2) for place in range(20)]
        rows = [(key, time + (time % 7 == 0), partition) for key, time, partition in rows]
        batch = table_of(engine, clock, rows, number * 20)
        times = Times(before, times_of(clock))
        state = KeyedState(tmp_path, version.names, Layout.of(engine))
        needed = engine.needed_state(state, batch, times)
        result = engine.apply(needed.rows, batch, times)
        version = state.replaced(needed, result.state, f"{number}", sync=False)
        sizes.append(sum((tmp_path / name).stat().st_size for name in version.names))
        read.append(len(needed.rows))
    assert version.rows <= 12 * 20
    assert max(read[300:]) <= max(read[20:100]) <= 40
    assert max(sizes[300:]) <= 1.5 * max(sizes[20:100])
