"""The numeric examples of docs/reference/semantics.md for all kinds except sliding windows.

The name of an example starts with its rule.

An example has its input as ``KEY:TIME`` in order of arrival, in one partition. A window is written
as the sorted times of its members. If Kafka Streams has another result because of its retention or
because it changes a final result, a comment says which.
"""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import NoWindows, Windows
from tests.models.tables import Record
from tests.windows.engine_runs import Row, Run, Setup, one_by_one, run_engine, whole

VALUES = pa.schema([("t", pa.int64())])
AGGREGATES = {"n": w.count(), "times": w.collect_list("t")}
TimesByWindow = dict[tuple[str, int, int], list[int]]


def tumbling(size: int, grace: int = 0, advance: int | None = None) -> TimeWindows:
    """Return time windows. Without an advance, they are tumbling."""
    windows = TimeWindows.of_size_and_grace(size, grace)
    return windows if advance is None else windows.advance_by(advance)


sessions = SessionWindows.of_inactivity_gap_and_grace


def log_of(text: str) -> list[Record]:
    """Return the records of ``text``. The value ``t`` of a record is its time."""
    log: list[Record] = []
    for record in text.split():
        key, _, time = record.rpartition(":")
        log.append((key or "k", int(time), {"t": int(time)}))
    return log


def run(text: str, windows: Windows, *, closed: bool = False, batches: bool = True) -> Run:
    """Run the records of ``text``, one per batch or all in one batch."""
    setup = Setup(windows, AGGREGATES, VALUES, emit_final_only=closed)
    logs = {0: log_of(text)}
    return run_engine(setup, logs, one_by_one(logs) if batches else whole(logs))


def times_by_window(rows: Sequence[Row]) -> TimesByWindow:
    """Return the bounds of each row, and the times of its members."""
    return {(r["key"], r["window_start_ms"], r["window_end_ms"]): r["times"] for r in rows}


EXAMPLES: dict[str, tuple[str, Windows, TimesByWindow, int]] = {
    # time 10        15        20 21     22        27        32
    # [10,22)   |...................21...|
    # [15,27)             |.........21.............|
    # [20,32)                       |21......................|
    "3: hopping windows of one record": (
        "21",
        tumbling(12, advance=5),
        {("k", 10, 22): [21], ("k", 15, 27): [21], ("k", 20, 32): [21]},
        0,
    ),
    "3: no window starts before 0": ("0", tumbling(12, advance=5), {("k", 0, 12): [0]}, 0),
    "3: times below the size have fewer windows": (
        "11",
        tumbling(12, advance=5),
        {("k", 0, 12): [11], ("k", 5, 17): [11], ("k", 10, 22): [11]},
        0,
    ),
    "3: a tumbling window starts at a multiple of its size": (
        "29 30 39",
        tumbling(10, 100),
        {("k", 20, 30): [29], ("k", 30, 40): [30, 39]},
        0,
    ),
    # close time 100 - 90 = 10: [0,10) is closed, [5,15) is open
    "3: a hopping record can be partly late": (
        "A:100 B:5",
        tumbling(10, 90, advance=5),
        {("A", 95, 105): [100], ("A", 100, 110): [100], ("B", 5, 15): [5]},
        0,
    ),
    "3: a window accepts records until stream time is its end plus grace minus 1": (
        "A:14 B:9",
        tumbling(10, 5),
        {("A", 10, 20): [14], ("B", 0, 10): [9]},
        0,
    ),
    "3: a window rejects records once stream time is its end plus grace": (
        "A:15 B:9",
        tumbling(10, 5),
        {("A", 10, 20): [15]},
        1,
    ),
    # semantics.md#1-1: stream time, which all keys share, advances before the check of the record
    "1: a record of another key closes a window": (
        "A:5 B:10 A:6",
        tumbling(10),
        {("A", 0, 10): [5], ("B", 10, 20): [10]},
        1,
    ),
    # 4: 0 and 10 are one session, 0 and 11 are two
    "4: records exactly the gap apart are one session": (
        "0 10",
        sessions(10, 100),
        {("k", 0, 10): [0, 10]},
        0,
    ),
    "4: one more apart are two": (
        "0 11",
        sessions(10, 100),
        {("k", 0, 0): [0], ("k", 11, 11): [11]},
        0,
    ),
    "4: a gap of 0 merges equal times only": (
        "5 5 6",
        sessions(0, 0),
        {("k", 5, 5): [5, 5], ("k", 6, 6): [6]},
        0,
    ),
    # close time 18 after B:28, and each old record is within the gap of the open session up to 20
    "4: an old record near an open session is accepted": (
        "A:20 B:28 A:17 A:11 A:7",
        sessions(10, 0),
        {("A", 7, 20): [7, 11, 17, 20], ("B", 28, 28): [28]},
        0,
    ),
    "4: an old record near no open session is late": (
        "A:20 B:28 A:9",
        sessions(10, 0),
        {("A", 20, 20): [20], ("B", 28, 28): [28]},
        1,
    ),
    "4: a record without a session is accepted if it is not before the close time": (
        "B:28 A:18 C:17",
        sessions(10, 0),
        {("A", 18, 18): [18], ("B", 28, 28): [28]},
        1,
    ),
    # Kafka's default retention hides [0,0], but with one ms more it also has [0,30]
    "4: a session exactly the gap away is found for any retention": (
        "0 30 15 20 10",
        sessions(10, 20),
        {("k", 0, 30): [0, 10, 15, 20, 30]},
        0,
    ),
    # Kafka's default retention results in [0,0] and [10,10]
    "4: retention does not affect merging": (
        "A:0 B:10 A:10",
        sessions(10, 0),
        {("A", 0, 10): [0, 10], ("B", 10, 10): [10]},
        0,
    ),
    # close time 5 after B:15, but Kafka reopens [0,0] with a long retention
    "4: a closed session is frozen": (
        "A:0 B:15 A:8",
        sessions(10, 0),
        {("A", 0, 0): [0], ("A", 8, 8): [8], ("B", 15, 15): [15]},
        0,
    ),
    "the latest possible time, tumbling": (
        "0 253402300799999",
        tumbling(10, advance=5),
        {
            ("k", 0, 10): [0],
            ("k", 253402300799990, 253402300800000): [253402300799999],
            ("k", 253402300799995, 253402300800005): [253402300799999],
        },
        0,
    ),
    "the latest possible time, a session": (
        "0 253402300799999",
        sessions(10, 0),
        {("k", 0, 0): [0], ("k", 253402300799999, 253402300799999): [253402300799999]},
        0,
    ),
    "the longest possible session": (
        "0 253402300799999",
        sessions(253402300799999, 0),
        {("k", 0, 253402300799999): [0, 253402300799999]},
        0,
    ),
    "5: without windows, all records count, also old ones": (
        "A:100 B:0 A:3",
        NoWindows(),
        {("A", 0, 2**61): [3, 100], ("B", 0, 2**61): [0]},
        0,
    ),
}


@pytest.mark.parametrize("batches", [False, True], ids=["one batch", "batch a record"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, *, batches: bool) -> None:
    """Each example has these windows and late records, in one batch and record by record."""
    text, windows, expected, late = EXAMPLES[name]
    result = run(text, windows, batches=batches)
    assert times_by_window(list(result.rows.values())) == expected
    assert result.late == late


def test_merged_sessions_are_emitted_as_deleted() -> None:
    """The example of semantics.md#4-1: each batch deletes what it replaces (semantics.md#4-4)."""
    #            0          10      15   20         30
    # 0:1        |
    # 30:2       |                                  |
    # 15:3       |                  |               |
    # 20:4       |                  |===============|
    # 10:5       |==================================|
    result = run("0 30 15 20 10", sessions(10, 20))
    changes = [
        sorted((r["window_start_ms"], r["window_end_ms"], r["deleted"]) for r in batch)
        for batch in result.batches
    ]
    assert changes == [
        [(0, 0, False)],
        [(30, 30, False)],
        [(15, 15, False)],
        [(15, 15, True), (15, 30, False), (30, 30, True)],
        [(0, 0, True), (0, 30, False), (15, 30, True)],
    ]
    rows = [row for batch in result.batches for row in batch]
    assert [row for row in rows if row["timestamp_ms"] != row["window_end_ms"]] == []


def test_the_same_single_time_again_deletes_nothing() -> None:
    """A second record at the time of a session of one ms updates it."""
    result = run("7 7", sessions(10, 0))
    assert [[(r["n"], r["deleted"]) for r in b] for b in result.batches] == [
        [(1, False)],
        [(2, False)],
    ]


@pytest.mark.parametrize("batches", [False, True], ids=["one batch", "batch a record"])
def test_a_frozen_session_is_unchanged_until_it_is_final(*, batches: bool) -> None:
    """It accepts neither old nor current records until the other partition closes it."""
    #                        0         5    8        15  18
    # close time of k:8      |         |    |
    # [0,0]      frozen      k
    # [8,18]                                k============k    8 is the gap from 18, and open for it
    logs = {0: log_of("k:0 z:15 k:8 k:18"), 1: log_of("y:0")}
    setup = Setup(sessions(10, 0), AGGREGATES, VALUES)
    result = run_engine(setup, logs, one_by_one(logs) if batches else whole(logs))
    assert result.late == 0
    assert times_by_window([row for row in result.rows.values() if row["key"] == "k"]) == {
        ("k", 0, 0): [0],
        ("k", 8, 18): [8, 18],
    }
    assert [row for row in result.rows.values() if row["final"]] == []


#: Input, windows, and the rows that become final with each record. Only these are emitted on close.
CLOSING: dict[str, tuple[str, Windows, list[TimesByWindow]]] = {
    "3: closed windows are emitted by key and start": (
        "B:1 A:2 A:9 A:10 A:3 A:25",
        tumbling(10),
        [{}, {}, {}, {("A", 0, 10): [2, 9], ("B", 0, 10): [1]}, {}, {("A", 10, 20): [10]}],
    ),
    # Kafka's default retention loses [0,10)
    "3: a jump of stream time loses nothing": (
        "1 25 37",
        tumbling(10),
        [{}, {("k", 0, 10): [1]}, {("k", 20, 30): [25]}],
    ),
    "3: a window closes at its end plus grace": (
        "9 14 15",
        tumbling(10, 5),
        [{}, {}, {("k", 0, 10): [9]}],
    ),
    # Kafka emits no row, because whole segments of its store are deleted before the scan
    "4: sessions far apart are all emitted": (
        "0 70000 200000",
        sessions(10, 0),
        [{}, {("k", 0, 0): [0]}, {("k", 70_000, 70_000): [70_000]}],
    ),
    # Kafka's suppress is 1 ms early and emits at 15
    "4: a session closes once stream time is more than gap and grace after its end": (
        "0 A:15 A:16",
        sessions(10, 5),
        [{}, {}, {("k", 0, 0): [0]}],
    ),
    # Kafka's suppress emits each left window immediately, and [0,10] twice
    "2.6: a sliding window is emitted once, after its end": (
        "10 10 12",
        SlidingWindows.of_time_difference_and_grace(10, 0),
        [{}, {}, {("k", 0, 10): [10, 10]}],
    ),
    "2.6: with grace, a window contains a late record at its end": (
        "10 15 10 16",
        SlidingWindows.of_time_difference_and_grace(10, 5),
        [{}, {}, {}, {("k", 0, 10): [10, 10]}],
    ),
    # Kafka hides [0,10] and [1,11] before its scan, so starts below 52 are not emitted
    "2.6: a jump of stream time hides no sliding window": (
        "1 10 60 181",
        SlidingWindows.of_time_difference_and_grace(10, 100),
        [
            {},
            {},
            {},
            {("k", 0, 10): [1, 10], ("k", 2, 12): [10], ("k", 50, 60): [60]},
        ],
    ),
    "without windows nothing is ever final": ("1 2 99999", NoWindows(), [{}, {}, {}]),
}


@pytest.mark.parametrize("name", CLOSING)
def test_emission_on_close(name: str) -> None:
    """Each window is emitted once, by the record that closes it."""
    text, windows, expected = CLOSING[name]
    assert [times_by_window(batch) for batch in run(text, windows, closed=True).batches] == expected


@pytest.mark.parametrize("name", CLOSING)
def test_emission_on_update_makes_the_same_windows_final(name: str) -> None:
    """With emission on update, the same windows become final with the same record."""
    text, windows, expected = CLOSING[name]
    result = run(text, windows).batches
    assert [times_by_window([row for row in batch if row["final"]]) for batch in result] == expected


KIP_259 = "1 2 5 6 4 3 7 9"


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (NoWindows(), [1, 2, 5, 6, 6, 6, 7, 9]),
        (tumbling(10, 100), [1, 2, 5, 6, 6, 6, 7, 9]),
        # [0,5) has 1, 2, 4, 3 and [5,10) has 5, 6, 7, 9
        (tumbling(5, 100), [1, 2, 5, 6, 4, 4, 7, 9]),
        # one session, whose timestamp is its end
        (sessions(4, 100), [1, 2, 5, 6, 6, 6, 7, 9]),
    ],
    ids=["no window", "tumbling 10", "tumbling 5", "session"],
)
def test_timestamps_of_kip_259(windows: Windows, expected: list[int]) -> None:
    """A result's timestamp is the greatest time of its window so far."""
    batches = run(KIP_259, windows).batches
    assert [[r["timestamp_ms"] for r in b if not r["deleted"]] for b in batches] == [
        [timestamp] for timestamp in expected
    ]


@pytest.mark.parametrize("windows", [tumbling(10), sessions(10, 0)], ids=["tumbling", "session"])
def test_a_record_without_a_value_is_counted(windows: Windows) -> None:
    """In time windows and sessions a null value adds 1 to the count (semantics.md#1-2)."""
    log: list[Record] = [("k", 1, None), ("k", 2, {"t": 2})]
    setup = Setup(windows, {"n": w.count(), "values": w.count("t")}, VALUES)
    (row,) = run_engine(setup, {0: log}, one_by_one({0: log})).rows.values()
    assert (row["n"], row["values"], row["timestamp_ms"]) == (2, 1, 2)


def test_the_slowest_partition_determines_final_windows() -> None:
    """A window is final once the stream time of each partition is past it, without new records."""
    logs = {0: log_of("a:1 b:500"), 1: log_of("c:2 c:40")}
    for windows, ends in ((tumbling(10), {10}), (sessions(10, 0), {1, 2})):
        setup = Setup(windows, AGGREGATES, VALUES)
        held_back = run_engine(setup, logs, [{0: 2, 1: 1}, {0: 0, 1: 1}])
        first, second = held_back.batches
        assert [row for row in first if row["final"]] == []
        assert {row["window_end_ms"] for row in second if row["final"]} == ends
