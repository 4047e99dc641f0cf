"""The updates of windows of which a record changes many: sliding windows and sessions."""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oriel import SessionWindows, SlidingWindows
from oriel.pipeline.windows import (
    AggregateUpdatesEngine,
    IllegalArgument,
    engine_for,
    updates_engine_for,
)
from tests.slow_updates import (
    Entry,
    every_aggregate,
    session_updates,
    sliding_updates,
)
from tests.windows.test_aggregate_updates import (
    AGGREGATES,
    CARRIED,
    FOLD,
    VALUES,
    batch_of,
    engine_updates,
    folded,
    random_log,
    sorted_lists,
)

SPANS = [(0, 0), (3, 0), (3, 5), (10, 2), (10, 100)]


def cuts_of(random: Random, log: Sequence[Entry]) -> list[list[int]]:
    """One batch, record by record, and cut at random."""
    some = sorted(random.sample(range(len(log) + 1), 3))
    return [[len(log)], list(range(1, len(log) + 1)), [*some, len(log)]]


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize(("difference_ms", "grace_ms"), SPANS[1:])
def test_updates_of_sliding_windows_are_those_of_the_model(
    difference_ms: int, grace_ms: int, seed: int
) -> None:
    """Also of records that come late in part, in any cut."""
    random, log = random_log(seed)
    log = [entry for entry in log if entry.value is not None] or [Entry("a", 1, 5)] * 3
    expected = sorted_lists(sliding_updates(log, difference_ms, grace_ms, every_aggregate))
    windows = SlidingWindows.of_time_difference_and_grace(difference_ms, grace_ms)
    for cuts in cuts_of(random, log):
        engine = updates_engine_for(windows, AGGREGATES, VALUES, CARRIED)
        assert sorted_lists(engine_updates(engine, log, cuts)) == expected


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize(("gap_ms", "grace_ms"), SPANS)
@pytest.mark.parametrize("how", ["columns", "functions"])
def test_updates_of_sessions_are_those_of_the_model(
    how: str, gap_ms: int, grace_ms: int, seed: int
) -> None:
    """Of functions, too, which may remove a session; in any cut."""
    random, log = random_log(seed)
    windows = SessionWindows.of_inactivity_gap_and_grace(gap_ms, grace_ms)
    aggregates, row_of = (AGGREGATES, every_aggregate) if how == "columns" else (FOLD, folded)
    expected = sorted_lists(session_updates(log, gap_ms, grace_ms, row_of))
    for cuts in cuts_of(random, log):
        engine = updates_engine_for(windows, aggregates, VALUES, CARRIED)
        assert sorted_lists(engine_updates(engine, log, cuts)) == expected


def told(engine: AggregateUpdatesEngine, log: Sequence[Entry]) -> list[tuple[Any, ...]]:
    """Of each row its record, number in it, bounds, time and list."""
    batch = batch_of(engine, log, 0, len(log))
    result = engine.process(engine.empty_state(), batch, (0, -1))
    rows = sorted(result.results.to_pylist(), key=lambda row: (row["offset"], row["suborder"]))
    bounds = "window_start_ms", "window_end_ms", "timestamp_ms", "all"
    return [(row["offset"], row["suborder"], *(row[name] for name in bounds)) for row in rows]


def test_each_record_tells_its_windows_in_kafkas_order() -> None:
    """The example of semantics 2.2, and that of 2.4, whose records are early."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    engine = updates_engine_for(windows, AGGREGATES, VALUES, CARRIED)
    log = [Entry("a", value, time) for value, time in enumerate((10, 10, 14, 15, 20), 1)]
    assert told(engine, log) == [
        (0, 0, 0, 10, 10, [1]),
        (1, 0, 0, 10, 10, [1, 2]),
        (2, 0, 11, 21, 14, [3]), (2, 1, 4, 14, 14, [1, 2, 3]),
        (3, 0, 11, 21, 15, [3, 4]), (3, 1, 15, 25, 15, [4]), (3, 2, 5, 15, 15, [1, 2, 3, 4]),
        (4, 0, 15, 25, 20, [4, 5]), (4, 1, 11, 21, 20, [3, 4, 5]), (4, 2, 16, 26, 20, [5]),
        (4, 3, 10, 20, 20, [1, 2, 3, 4, 5]),
    ]  # fmt: skip
    early = [Entry("a", value, time) for value, time in ((1, 10), (2, 3), (3, 6))]
    assert told(engine, early) == [
        (0, 0, 0, 10, 10, [1]),
        (1, 0, 4, 14, 10, [1]), (1, 1, 0, 10, 10, [2, 1]),
        (2, 0, 4, 14, 10, [3, 1]), (2, 1, 7, 17, 10, [1]), (2, 2, 0, 10, 10, [2, 3, 1]),
    ]  # fmt: skip


def test_a_session_that_grows_is_told_gone_first() -> None:
    """The example of semantics section 4; a record of the same ms removes nothing."""
    windows = SessionWindows.of_inactivity_gap_and_grace(10, 20)
    engine = updates_engine_for(windows, AGGREGATES, VALUES, CARRIED)
    log = [Entry("a", value, time) for value, time in enumerate((0, 0, 30, 15, 20, 10), 1)]
    assert told(engine, log) == [
        (0, 0, 0, 0, 0, [1]),
        (1, 0, 0, 0, 0, [1, 2]),
        (2, 0, 30, 30, 30, [3]),
        (3, 0, 15, 15, 15, [4]),
        (4, 0, 15, 15, 15, None), (4, 1, 30, 30, 30, None), (4, 2, 15, 30, 30, [4, 5, 3]),
        (5, 0, 0, 0, 0, None), (5, 1, 15, 30, 30, None), (5, 2, 0, 30, 30, [1, 2, 6, 4, 5, 3]),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_sessions_of_several_partitions_become_those_of_the_store(seed: int) -> None:
    """Rows that are told, and told gone, leave behind each batch what a store's engine has."""
    random, log = random_log(seed)
    windows = SessionWindows.of_inactivity_gap_and_grace(4, random.choice((0, 3, 20)))
    engine = updates_engine_for(windows, AGGREGATES, VALUES, CARRIED)
    store = engine_for(windows, AGGREGATES, VALUES, carried=CARRIED)
    partitions = [random.randrange(3) for _ in log]
    clocks = dict.fromkeys(range(3), -1)
    state, of_store = engine.empty_state(), store.empty_state()
    rows: dict[tuple[str, int, int], Any] = {}
    kept: dict[tuple[str, int, int], Any] = {}
    closed_ms = -1
    for low, high in pairwise([0, len(log) // 3, len(log) // 2, len(log)]):
        batch = batch_of(engine, log, low, high).to_pydict()
        batch["partition"] = partitions[low:high]
        for number, partition in enumerate(batch["partition"]):
            clocks[partition] = max(clocks[partition], batch["timestamp_ms"][number])
            batch["stream_time_ms"][number] = clocks[partition]
        result = engine.process(
            state, pa.table(batch, engine.record_schema), (min(clocks.values()), -1)
        )
        told_rows = result.results.to_pylist()
        order = ("stream_time_ms", "partition", "offset", "suborder")
        for row in sorted(told_rows, key=itemgetter(*order)):
            place = row["key"], row["window_start_ms"], row["window_end_ms"]
            rows.pop(place, None)
            if not row["null_value"]:
                rows[place] = (row["n"], row["total"], row["all"])
        delay_ms = windows.close_delay_ms
        batch["close_ms"] = [time - delay_ms for time in batch["stream_time_ms"]]
        close_ms = max(closed_ms, min(clocks.values()) - delay_ms)
        columns = {name: batch[name] for name in store.record_schema.names}
        records = pa.table(columns, store.record_schema)
        changed = store.process(of_store, records, closed_ms, close_ms)
        for row in changed.changes.to_pylist():
            place = row["key"], row["window_start_ms"], row["window_end_ms"]
            kept.pop(place, None)
            if not row["deleted"]:
                kept[place] = (row["n"], row["total"], row["all"])
        assert rows == kept
        assert sum(result.late) == changed.late
        state, of_store, closed_ms = result.state, changed.state, close_ms
        assert len(state) == len(of_store)


def test_functions_make_no_updates_of_sliding_windows() -> None:
    """They would be called for all records of a window each time."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 0)
    with pytest.raises(IllegalArgument, match="functions make no updates of sliding windows"):
        updates_engine_for(windows, FOLD, VALUES, CARRIED)
