"""Updates of sliding windows and sessions, where a record can change several rows."""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel import SessionWindows, SlidingWindows
from oriel.pipeline.windows import (
    AggregateUpdatesEngine,
    Times,
    UserFunctions,
    engine_for,
    updates_engine_for,
)
from tests.campaigns import seeds
from tests.models.aggregate_updates import (
    Entry,
    every_aggregate,
    session_updates,
    sliding_updates,
)
from tests.windows.lineages import indexes_of
from tests.windows.test_aggregate_updates import (
    AGGREGATES,
    CARRIED,
    FUNCTIONS,
    VALUES,
    batch_of,
    engine_updates,
    folded,
    random_log,
    sorted_lists,
)

SPANS = [(0, 0), (3, 0), (3, 5), (10, 2), (10, 100)]


def cuts_of(random: Random, log: Sequence[Entry]) -> list[list[int]]:
    """Return three cuts: one batch, one batch per record, and random batches."""
    some = sorted(random.sample(range(len(log) + 1), 3))
    return [[len(log)], list(range(1, len(log) + 1)), [*some, len(log)]]


@seeds(1, 24)
@pytest.mark.parametrize(("difference_ms", "grace_ms"), SPANS[1:])
@pytest.mark.parametrize("how", ["columns", "functions"])
def test_updates_of_sliding_windows_are_those_of_the_model(
    how: str, difference_ms: int, grace_ms: int, seed: int
) -> None:
    """Logs have partly late records, and functions remove rows. The cut does not matter."""
    random, log = random_log(seed)
    log = [entry for entry in log if entry.value is not None] or [Entry("a", 1, 5)] * 3
    aggregates, row_of = (AGGREGATES, every_aggregate) if how == "columns" else (FUNCTIONS, folded)
    expected = sorted_lists(sliding_updates(log, difference_ms, grace_ms, row_of))
    windows = SlidingWindows.of_time_difference_and_grace(difference_ms, grace_ms)
    for cuts in cuts_of(random, log):
        engine = updates_engine_for(windows, aggregates, VALUES, CARRIED)
        assert sorted_lists(engine_updates(engine, log, cuts)) == expected


@seeds(1, 24)
@pytest.mark.parametrize(("gap_ms", "grace_ms"), SPANS)
@pytest.mark.parametrize("how", ["columns", "functions"])
def test_updates_of_sessions_are_those_of_the_model(
    how: str, gap_ms: int, grace_ms: int, seed: int
) -> None:
    """Functions can remove a session. The cut does not matter."""
    random, log = random_log(seed)
    windows = SessionWindows.of_inactivity_gap_and_grace(gap_ms, grace_ms)
    aggregates, row_of = (AGGREGATES, every_aggregate) if how == "columns" else (FUNCTIONS, folded)
    expected = sorted_lists(session_updates(log, gap_ms, grace_ms, row_of))
    for cuts in cuts_of(random, log):
        engine = updates_engine_for(windows, aggregates, VALUES, CARRIED)
        assert sorted_lists(engine_updates(engine, log, cuts)) == expected


def emitted(engine: AggregateUpdatesEngine, log: Sequence[Entry]) -> list[tuple[Any, ...]]:
    """Return offset, index in the record, bounds, time and list of each emitted row."""
    batch = batch_of(engine, log, 0, len(log))
    result = engine.apply(engine.empty_state(), batch, Times.at((0, -1)))
    rows = sorted(result.results.to_pylist(), key=lambda row: (row["offset"], row["__lineage"]))
    bounds = "window_start_ms", "window_end_ms", "timestamp_ms", "all"
    return [
        (row["offset"], *indexes_of(row["__lineage"]), *(row[name] for name in bounds))
        for row in rows
    ]


def test_each_record_emits_its_windows_in_kafkas_order() -> None:
    """The examples of semantics.md#2-1 and, for early records, of semantics.md#2-4."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    engine = updates_engine_for(windows, AGGREGATES, VALUES, CARRIED)
    log = [Entry("a", value, time) for value, time in enumerate((10, 10, 14, 15, 20), 1)]
    assert emitted(engine, log) == [
        (0, 0, 0, 10, 10, [1]),
        (1, 0, 0, 10, 10, [1, 2]),
        (2, 0, 11, 21, 14, [3]), (2, 1, 4, 14, 14, [1, 2, 3]),
        (3, 0, 11, 21, 15, [3, 4]), (3, 1, 15, 25, 15, [4]), (3, 2, 5, 15, 15, [1, 2, 3, 4]),
        (4, 0, 15, 25, 20, [4, 5]), (4, 1, 11, 21, 20, [3, 4, 5]), (4, 2, 16, 26, 20, [5]),
        (4, 3, 10, 20, 20, [1, 2, 3, 4, 5]),
    ]  # fmt: skip
    early = [Entry("a", value, time) for value, time in ((1, 10), (2, 3), (3, 6))]
    assert emitted(engine, early) == [
        (0, 0, 0, 10, 10, [1]),
        (1, 0, 4, 14, 10, [1]), (1, 1, 0, 10, 10, [2, 1]),
        (2, 0, 4, 14, 10, [3, 1]), (2, 1, 7, 17, 10, [1]), (2, 2, 0, 10, 10, [2, 3, 1]),
    ]  # fmt: skip


def test_a_session_that_grows_emits_a_tombstone_first() -> None:
    """The example of semantics.md#4-1. A record at the same ms does not remove a session."""
    windows = SessionWindows.of_inactivity_gap_and_grace(10, 20)
    engine = updates_engine_for(windows, AGGREGATES, VALUES, CARRIED)
    log = [Entry("a", value, time) for value, time in enumerate((0, 0, 30, 15, 20, 10), 1)]
    assert emitted(engine, log) == [
        (0, 0, 0, 0, 0, [1]),
        (1, 0, 0, 0, 0, [1, 2]),
        (2, 0, 30, 30, 30, [3]),
        (3, 0, 15, 15, 15, [4]),
        (4, 0, 15, 15, 15, None), (4, 1, 30, 30, 30, None), (4, 2, 15, 30, 30, [4, 5, 3]),
        (5, 0, 0, 0, 0, None), (5, 1, 15, 30, 30, None), (5, 2, 0, 30, 30, [1, 2, 6, 4, 5, 3]),
    ]  # fmt: skip


@seeds(2, 30)
@pytest.mark.parametrize("aggregates", [AGGREGATES, FUNCTIONS], ids=["columns", "functions"])
@pytest.mark.parametrize("kind", ["sessions", "sliding"])
def test_rows_of_several_partitions_become_those_of_the_store(
    kind: str, aggregates: Any, seed: int
) -> None:
    """After each batch, the emitted rows and tombstones result in the rows of a store."""
    random, log = random_log(seed)
    grace_ms = random.choice((0, 3, 20))
    windows: SessionWindows | SlidingWindows
    if kind == "sessions":
        windows = SessionWindows.of_inactivity_gap_and_grace(4, grace_ms)
    else:
        windows = SlidingWindows.of_time_difference_and_grace(4, grace_ms)
        log = [entry for entry in log if entry.value is not None] or [Entry("a", 1, 5)]
    engine = updates_engine_for(windows, aggregates, VALUES, CARRIED)
    store = engine_for(windows, aggregates, VALUES, carried=CARRIED)
    partitions = [random.randrange(3) for _ in log]
    stream_times = dict.fromkeys(range(3), -1)
    state, of_store = engine.empty_state(), store.empty_state()
    rows: dict[tuple[str, int, int], Any] = {}
    kept: dict[tuple[str, int, int], Any] = {}
    closed_ms = -1
    for low, high in pairwise([0, len(log) // 3, len(log) // 2, len(log)]):
        batch = batch_of(engine, log, low, high).to_pydict() | {"input": [0] * (high - low)}
        batch["partition"] = partitions[low:high]
        for number, partition in enumerate(batch["partition"]):
            stream_times[partition] = max(stream_times[partition], batch["timestamp_ms"][number])
            batch["stream_time_ms"][number] = stream_times[partition]
        result = engine.apply(
            state,
            pa.table(
                {name: batch[name] for name in engine.record_schema.names}, engine.record_schema
            ),
            Times.at((min(stream_times.values()), -1)),
        )
        emitted_rows = result.results.to_pylist()
        order = ("stream_time_ms", "partition", "offset", "__lineage")
        for row in sorted(emitted_rows, key=itemgetter(*order)):
            place = row["key"], row["window_start_ms"], row["window_end_ms"]
            rows.pop(place, None)
            if not row["null_value"]:
                rows[place] = {name: row[name] for name in store.aggregate_types}
        delay_ms = windows.close_delay_ms
        batch["close_ms"] = [time - delay_ms for time in batch["stream_time_ms"]]
        close_ms = max(closed_ms, min(stream_times.values()) - delay_ms)
        columns = {name: batch[name] for name in store.record_schema.names}
        records = pa.table(columns, store.record_schema)
        # The late filter of a store runs first. Sessions filter again.
        times = (np.array(batch[name]) for name in ("timestamp_ms", "close_ms"))
        is_late = np.asarray(store.is_late(*times))
        records = records.filter(pa.array(~is_late))
        changed = store.apply(of_store, records, Times.closing(closed_ms, close_ms))
        for row in changed.changes.to_pylist():
            place = row["key"], row["window_start_ms"], row["window_end_ms"]
            kept.pop(place, None)
            if not row["deleted"]:
                kept[place] = {name: row[name] for name in store.aggregate_types}
        assert rows == kept
        assert sum(result.late) == changed.late + int(is_late.sum())
        state, of_store, closed_ms = result.state, changed.state, close_ms
        assert len(state) == len(of_store)


def linked_rows(
    log: Sequence[tuple[int, int, int]], gap_ms: int
) -> tuple[list[tuple[int, int, str | None]], AggregateUpdatesEngine, pa.Table]:
    """Return the rows (start, end, text) that records (partition, time, value) of a key emit."""
    windows = SessionWindows.of_inactivity_gap_and_grace(gap_ms, 20)
    engine = updates_engine_for(windows, FUNCTIONS, VALUES, CARRIED)
    batch = batch_of(engine, [Entry("a", value, time) for _, time, value in log], 0, len(log))
    columns = batch.to_pydict() | {"partition": [partition for partition, _, _ in log]}
    stream_times: dict[int, int] = {}
    for number, (partition, time, _) in enumerate(log):
        stream_times[partition] = columns["stream_time_ms"][number] = max(
            stream_times.get(partition, 0), time
        )
    records = pa.table(columns, engine.record_schema)
    result = engine.apply(engine.empty_state(), records, Times.at((0, -1)))
    rows = result.results.to_pylist()
    emitted_rows = [(row["window_start_ms"], row["window_end_ms"], row["text"]) for row in rows]
    return emitted_rows, engine, result.state


def test_a_session_that_a_function_removes_keeps_other_partitions() -> None:
    """Sessions of other partitions stay, with equal bounds or merged into this session."""
    rows, _, state = linked_rows([(0, 5, 1), (1, 5, 7)], 5)
    assert rows == [(5, 5, ",1")]
    assert len(state) == 1
    rows, _, state = linked_rows([(0, 19, 1), (1, 19, 2), (0, 24, 3), (0, 23, 7)], 4)
    assert rows == [
        (19, 19, ",1"), (19, 19, ",1,2"), (24, 24, ",3"),
        (19, 19, None), (24, 24, None), (19, 24, None), (19, 19, ",2"),
    ]  # fmt: skip
    assert len(state) == 1


def test_a_record_on_which_a_function_raises_is_in_no_sliding_window() -> None:
    """The record is in no window and creates none, also if the error depends on other records."""

    def short(_key: str, value: dict[str, Any] | None, text: str) -> str:
        assert value is not None
        if len(text) == 2:
            message = f"{value['v']} is too much"
            raise ValueError(message)
        return f"{text}{value['v']}"

    fold = UserFunctions(lambda: "", (short,), None, {"text": pa.string()}, "aggregate")
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    log = [Entry("a", value, time) for value, time in enumerate((20, 25, 27, 32, 12), 1)]
    for cuts in ([5], [1, 2, 3, 4, 5], [3, 5]):
        engine = updates_engine_for(windows, fold, VALUES, CARRIED)
        state, low, rows = engine.empty_state(), 0, []
        for high in cuts:
            result = engine.apply(state, batch_of(engine, log, low, high), Times.at((high, -1)))
            rows += result.results.to_pylist()
            state, low = result.state, high
        emitted_rows = [
            (row["offset"], row["window_start_ms"], row["text"]) for row in rows if row["text"]
        ]
        assert sorted(emitted_rows) == [
            (0, 10, "1"),
            (1, 15, "12"), (1, 21, "2"),
            (3, 22, "24"), (3, 26, "4"),
            (4, 2, "5"), (4, 10, "15"), (4, 13, "1"),
        ]  # fmt: skip
        raised = [(row["offset"], row["reason"]) for row in rows if row["reason"]]
        assert raised == [(2, "aggregate: ValueError: 3 is too much")]
