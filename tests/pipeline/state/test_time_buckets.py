"""Time buckets: what a batch reads and writes does not depend on the other open windows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oriel import SlidingWindows, TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.state import KeyedState, Layout, Version, segments, sorted_runs
from oriel.pipeline.state import hashes as hashing
from oriel.pipeline.state.segments import open_segment
from oriel.pipeline.windows import (
    NEVER_CLOSED_MS,
    EmitStrategy,
    Ints,
    UserFunctions,
    WindowEngine,
    Windows,
    engine_for,
)

VALUES = pa.schema([("v", pa.int64())])
WINDOWS: dict[str, Windows] = {
    "tumbling": TimeWindows.of_size_and_grace(10, 10_000),
    "hopping": TimeWindows.of_size_and_grace(40, 10_000).advance_by(5),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 10_000),
}
#: State rows that expire when they are due.
SCHEMA = pa.schema([("key", pa.string()), ("key_group", pa.int32()), ("last_ms", pa.int64())])


def engine_of(windows: Windows, *, folds: bool) -> WindowEngine:
    """Return the engine of a store."""
    aggregates: dict[str, w.Aggregate] | UserFunctions = {"n": w.count()}
    if folds:
        aggregates = UserFunctions(lambda: 0, (lambda *_: 1,), None, {"n": pa.int64()}, step="s")
    return engine_for(windows, aggregates, VALUES, emit=EmitStrategy.on_window_update())


def records(engine: WindowEngine, times_ms: Ints, first: int) -> pa.Table:
    """Return a record of each of 20 keys at each time."""
    keys = [f"k{number}" for number in range(20) for _ in times_ms]
    length = len(keys)
    batch = {
        "key": keys, "timestamp_ms": np.tile(times_ms, 20), "partition": np.zeros(length, np.int32),
        "offset": np.arange(first, first + length), "close_ms": np.full(length, NEVER_CLOSED_MS),
        "input": np.zeros(length, np.int8), "null_value": np.zeros(length, np.bool_),
        "v": np.arange(length),
    }  # fmt: skip
    return pa.table(batch).select(engine.record_schema.names).cast(engine.record_schema)


def processed(
    engine: WindowEngine,
    directory: Path,
    version: Version,
    batch: pa.Table,
    close_ms: tuple[int, int],
) -> tuple[Version, int]:
    """Process a batch, and return the next version and the number of rows that were read."""
    state = KeyedState(directory, version.names, Layout.of(engine))
    times = w.Times.closing(*close_ms)
    needed = engine.needed_state(state, batch, times)
    result = engine.apply(needed.rows, batch, times)
    after = state.replaced(needed, result.state, "n", sync=False, added_rows=result.added)
    return after, len(needed.rows)


def rows_written(directory: Path, before: Version, after: Version) -> int:
    """Return the number of rows in the files that only the later version names."""
    new = set(after.names) - set(before.names)
    return sum(len(open_segment(directory, name)) for name in new)


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_batch_reads_and_writes_what_it_touches(tmp_path: Path, kind: str, folds: bool) -> None:
    """A batch reads and writes the same rows if its keys have 40 times as many records."""
    engine = engine_of(WINDOWS[kind], folds=folds)
    found = []
    for spans in (5, 200):
        opened = records(engine, 5_000 - 10 * np.arange(spans), 0)
        version, _ = processed(
            engine, tmp_path, Version([], 0), opened, (NEVER_CLOSED_MS, NEVER_CLOSED_MS)
        )
        batch = records(engine, np.array([5_004]), 9_000)
        after, read = processed(
            engine, tmp_path, version, batch, (NEVER_CLOSED_MS, NEVER_CLOSED_MS)
        )
        found.append((read, rows_written(tmp_path, version, after)))
    small, large = found
    if kind == "hopping":
        # Five records are in fewer windows than time buckets can have.
        assert large[0] <= small[0] + 20 * 4
        assert large[1] <= small[1] + 20 * 4
    else:
        assert large == small
        assert small[1] == 20


@pytest.mark.parametrize("kind", WINDOWS)
def test_what_closes_is_read_with_what_is_near(tmp_path: Path, kind: str) -> None:
    """Far windows that stay open are not read, and nothing is written for expired rows."""
    engine = engine_of(WINDOWS[kind], folds=False)
    far = records(engine, np.arange(3_000, 5_000, 20), 0)
    version, _ = processed(engine, tmp_path, Version([], 0), far, (NEVER_CLOSED_MS, 0))
    near = records(engine, np.array([100, 107]), 9_000)
    version, _ = processed(engine, tmp_path, version, near, (0, 0))
    opened = version.rows
    empty = near.slice(0, 0)
    after, read = processed(engine, tmp_path, version, empty, (0, 200))
    assert 20 <= read == opened - after.rows
    # The segment with only expired rows is dropped. A new segment has the number of visible rows.
    assert rows_written(tmp_path, version, after) == 0
    assert version.names[0] in after.names
    assert version.names[1] not in after.names
    again, read = processed(engine, tmp_path, after, empty, (200, 300))
    assert (again, read) == (after, 0)


def _hash_of_others(keys: pa.Array) -> Ints:
    """Return one hash for the key "others", and one for all other keys."""
    return np.array([key == "others" for key in keys.to_pylist()], dtype=np.int64)


def last_ms(rows: pa.Table) -> Ints:
    """Return when each row is due: its column `last_ms`."""
    return np.asarray(rows["last_ms"])


def test_a_row_that_was_removed_stays_so_when_others_of_its_hash_leave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tombstone of one key does not expire with the row of another key."""
    monkeypatch.setattr(hashing, "key_hashes", _hash_of_others)
    layout = Layout(SCHEMA, last_ms, leave_ms=last_ms)

    def next_version(
        version: Version, close: tuple[int, int], keys: list[str], rows: list[tuple[str, int]]
    ) -> Version:
        state = KeyedState(tmp_path, version.names, layout)
        needed = state.working_set(pa.chunked_array([keys], pa.string()), close)
        table = pa.Table.from_pylist(
            [{"key": key, "key_group": 0, "last_ms": last} for key, last in rows], schema=SCHEMA
        )
        return state.replaced(needed, table, "n", sync=False)

    def open_keys(version: Version, close_ms: int) -> list[str]:
        rows = KeyedState(tmp_path, version.names, layout).all_rows(close_ms)
        assert len(rows) == version.rows
        return sorted(set(rows["key"].to_pylist()))

    # Enough rows, so that removed and expired rows do not cause a complete rewrite.
    some = [("a", 5), ("b", 90), *[("others", 90)] * 9]
    first = next_version(Version([], 0), (0, 0), ["a", "b", "others"], some)
    removed = next_version(first, (0, 0), ["a", "b"], [("a", 5)])
    assert open_keys(removed, 0) == ["a", "others"]
    left = next_version(removed, (0, 6), [], [])
    assert first.names[0] in left.names
    assert open_keys(left, 6) == ["others"]


@pytest.mark.slow
def test_no_batch_merges_more_than_a_slice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each batch writes a bounded part of many rows, although most rows are replaced in the end."""
    monkeypatch.setattr(sorted_runs, "SLICE_ROWS", 64)
    layout = Layout(SCHEMA)
    model: dict[str, int] = {}
    version, most, files = Version([], 0), 0, 0
    random = np.random.default_rng(1)
    for batch in range(200):
        chosen = random.choice(4_000, 20, replace=False) if batch else np.arange(4_000)
        keys = [f"k{number}" for number in chosen]
        # A third of the keys are removed.
        kept = chosen[(chosen % 3 > 0) | (batch == 0)]
        rows = {f"k{number}": batch for number in kept}
        for key in keys:
            model.pop(key, None)
        model |= rows
        state = KeyedState(tmp_path, version.names, layout)
        needed = state.working_set(pa.chunked_array([keys]))
        table = pa.table([list(rows), [0] * len(rows), list(rows.values())], schema=SCHEMA)
        after = state.replaced(needed, table, "n", sync=False)
        if batch:
            most = max(most, rows_written(tmp_path, version, after))
        version, files = after, max(files, len(after.names))
        assert version.rows == len(model)
    found = KeyedState(tmp_path, version.names, layout).all_rows()
    assert dict(zip(found["key"].to_pylist(), last_ms(found).tolist(), strict=True)) == model
    # A slice of all rows, a merge of the rows of later batches, and the batch.
    assert most < 2 * 4_000 / sorted_runs.MAX_SLICES + sorted_runs.SLICE_BATCHES * 20 + 64 + 20
    assert files <= 3 * sorted_runs.MAX_SLICES + 2 * segments.MAX_SEGMENTS
    stored = sum(len(open_segment(tmp_path, name)) for name in version.names)
    assert stored < 3 * len(model)
