"""The numeric examples of docs/reference/semantics.md, run with the test driver's public methods.

The name of an example begins with its rule. An example lists its input as ``KEY:TIME`` in arrival
order, and each window as the times of its members. A comment says where Kafka Streams differs,
because retention decides or because it loses an accepted record.
"""

import pytest

from oriel import SlidingWindows
from oriel.pipeline.windows import Windows
from tests.testing.driver_runs import (
    MemberTimes,
    hopping,
    member_times,
    pipe,
    row_times,
    sessions,
    sliding,
    times_driver,
    tumbling,
    windows_of,
)


def of(key: str, windows: dict[tuple[int, int], list[int]]) -> MemberTimes:
    """Return the windows of one key."""
    return {(key, *bounds): times for bounds, times in windows.items()}


EXAMPLES: dict[str, tuple[str, Windows, MemberTimes, int]] = {
    "1: two keys share a partition's clock": (
        "a:100 b:5", tumbling(10, 0), of("a", {(100, 110): [100]}), 1,
    ),
    "2.2: KIP-450, four records in seven windows": (
        "10 14 19 26",
        sliding(10, 100),
        of("k", {
            (0, 10): [10], (4, 14): [10, 14], (9, 19): [10, 14, 19], (11, 21): [14, 19],
            (15, 25): [19], (16, 26): [19, 26], (20, 30): [26],
        }),
        0,
    ),
    "2.2: a record at the end shares the right window": (
        "20 30", sliding(10, 100), of("k", {(10, 20): [20], (20, 30): [20, 30], (21, 31): [30]}), 0,
    ),
    "2.2: left and right window may be one": (
        "20 31", sliding(10, 100), of("k", {(10, 20): [20], (21, 31): [31]}), 0,
    ),
    "2.2: a right window without records is not made": (
        "20 32", sliding(10, 100), of("k", {(10, 20): [20], (22, 32): [32]}), 0,
    ),
    # Kafka: B only has [91,101]={101}.
    "2.3: a partly late record is not lost": (
        "A:100 B:95 B:101",
        sliding(10, 0),
        of("A", {(90, 100): [100]}) | of("B", {(91, 101): [95, 101], (96, 106): [101]}),
        0,
    ),
    # Kafka copies a frozen row: [87,97]={90}.
    "2.3: a new right window holds what is in it": (
        "B:90 A:95 B:88 B:86",
        sliding(10, 0),
        of("A", {(85, 95): [95]})
        | of("B", {(80, 90): [90], (87, 97): [88, 90], (89, 99): [90]}),
        0,
    ),
    "2.3: a window that was closed before it was defined is not made": (
        "B:1 A:3 B:2",
        sliding(1, 0),
        of("B", {(0, 1): [1], (2, 3): [2]}) | of("A", {(2, 3): [3]}),
        0,
    ),
    # Kafka's default retention hides the record at 50.
    "2.3: retention has no influence": (
        "50 53 54 51",
        sliding(1, 3),
        of("k", {(49, 50): [50], (50, 51): [50, 51], (51, 52): [51], (52, 53): [53],
                 (53, 54): [53, 54], (54, 55): [54]}),
        0,
    ),
    "2.3: a record is late when its last window is closed": (
        "A:40 B:24 B:25", sliding(10, 5), of("A", {(30, 40): [40]}), 1,
    ),
    "2.4: early records share one window": (
        "10 3 6",
        sliding(10, 100),
        of("k", {(0, 10): [3, 6, 10], (4, 14): [6, 10], (7, 17): [10]}),
        0,
    ),
    "3: a record in three hopping windows": (
        "21", hopping(12, 5), of("k", {(10, 22): [21], (15, 27): [21], (20, 32): [21]}), 0,
    ),
    "3: no window starts below 0": ("0", hopping(12, 5), of("k", {(0, 12): [0]}), 0),
    "3: partly late in hopping windows": (
        "100 5 4",
        hopping(10, 5, 90),
        of("k", {(95, 105): [100], (100, 110): [100], (5, 15): [5]}),
        1,
    ),
    "3: a window takes records until stream time passes it": (
        "A:14 B:9", tumbling(10, 5), of("A", {(10, 20): [14]}) | of("B", {(0, 10): [9]}), 0,
    ),
    "3: and refuses them then": ("A:15 B:9", tumbling(10, 5), of("A", {(10, 20): [15]}), 1),
    "3: the example of both emissions": (
        "B:1 A:2 A:9 A:10 A:3 A:25",
        tumbling(10, 0),
        of("B", {(0, 10): [1]}) | of("A", {(0, 10): [2, 9], (10, 20): [10], (20, 30): [25]}),
        1,
    ),
    "4: an old record is rescued by an open session": (
        "A:20 B:28 A:17 A:11 A:7",
        sessions(10, 0),
        of("A", {(7, 20): [7, 11, 17, 20]}) | of("B", {(28, 28): [28]}),
        0,
    ),
    # Kafka's default retention hides [0,0]: it keeps [0,0] and [10,30].
    "4: sessions exactly the gap apart are one": (
        "0 30 15 20 10", sessions(10, 20), of("k", {(0, 30): [0, 10, 15, 20, 30]}), 0,
    ),
    "4: one ms more, and they are two": (
        "0 11", sessions(10, 20), of("k", {(0, 0): [0], (11, 11): [11]}), 0,
    ),
    # Kafka's default retention leaves A with two sessions.
    "4: retention does not decide merges": (
        "A:0 B:10 A:10",
        sessions(10, 0),
        of("A", {(0, 10): [0, 10]}) | of("B", {(10, 10): [10]}),
        0,
    ),
    # Kafka with a long retention reopens [0,0].
    "4: a closed session stays closed": (
        "A:0 B:15 A:8",
        sessions(10, 0),
        of("A", {(0, 0): [0], (8, 8): [8]}) | of("B", {(15, 15): [15]}),
        0,
    ),
    "4: a late record touches no open session": (
        "A:20 A:31 A:9 A:5", sessions(10, 0), of("A", {(20, 20): [20], (31, 31): [31]}), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("one_by_one", [True, False], ids=["one by one", "in one batch"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_semantics(name: str, one_by_one: bool) -> None:
    """A store has the windows of the page's example, however the records are batched."""
    text, windows, wanted, late = EXAMPLES[name]
    driver = times_driver(windows)
    pipe(driver, text, one_by_one=one_by_one)
    assert member_times(windows_of(driver, windows.kind)) == wanted
    counters = driver.counters("s")
    given = len(text.split())
    assert (counters.input, counters.applied, counters.late) == (given, given - late, late)
    assert (driver.late, driver.dropped, counters.filtered) == (late, 0, 0)
    assert driver.dead_letters("s") == []


EMITTED: dict[str, tuple[str, Windows, list[MemberTimes]]] = {
    # Kafka loses windows with starts below 52 in such a jump.
    "2.6: a jump of stream time loses nothing": (
        "10 181", sliding(10, 100), [{}, of("k", {(0, 10): [10]})],
    ),
    # Kafka's ``suppress`` emits at once, and again with the next record.
    "2.6: a sliding window is final only when it is closed": (
        "10 10 12 21", SlidingWindows.of_time_difference_with_no_grace(10),
        [{}, {}, of("k", {(0, 10): [10, 10]}), of("k", {(2, 12): [10, 10, 12]})],
    ),
    "3: windows come out when stream time reaches their end": (
        "B:1 A:2 A:9 A:10 A:3 A:25", tumbling(10, 0),
        [{}, {}, {}, of("A", {(0, 10): [2, 9]}) | of("B", {(0, 10): [1]}), {},
         of("A", {(10, 20): [10]})],
    ),
    # Kafka with its default retention emits [20,30) only.
    "3: no window is lost": (
        "1 25 37", tumbling(10, 0),
        [{}, of("k", {(0, 10): [1]}), of("k", {(20, 30): [25]})],
    ),
    # Kafka emits nothing, because whole segments are deleted.
    "4: no session is lost": (
        "0 70000 200000", sessions(10, 0),
        [{}, of("k", {(0, 0): [0]}), of("k", {(70000, 70000): [70000]})],
    ),
    "4: a session at the close time is not final": (
        "0 10 20 21", sessions(9, 1), [{}, {}, of("k", {(0, 0): [0]}), of("k", {(10, 10): [10]})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMITTED)
def test_what_is_emitted_when_windows_close(name: str) -> None:
    """Each window is written once, as final, with the record that closes it."""
    text, windows, wanted = EMITTED[name]
    outputs = pipe(times_driver(windows, closed=True), text)
    assert [row_times(rows) for rows in outputs] == wanted
    member_times = [row for rows in outputs for row in rows]
    assert [row for row in member_times if not row["final"] or row["deleted"]] == []


@pytest.mark.parametrize("name", EMITTED)
def test_one_batch_emits_the_same(name: str) -> None:
    """One batch writes all windows that it closes, and the store contains them."""
    text, windows, wanted = EMITTED[name]
    driver = times_driver(windows, closed=True)
    (rows,) = pipe(driver, text, one_by_one=False)
    everything = {place: times for batch in wanted for place, times in batch.items()}
    assert row_times(rows) == everything == member_times(windows_of(driver, windows.kind))


def test_session_tombstones_come_before_the_merged_session() -> None:
    """Merged sessions are deleted in the same batch as the new session (semantics.md#4-4)."""
    outputs = pipe(times_driver(sessions(10, 20)), "30 15 20 22")
    rows = [
        [(r["window_start_ms"], r["window_end_ms"], r["timestamp_ms"], r["deleted"]) for r in batch]
        for batch in outputs
    ]
    assert rows[2] == [(15, 15, 15, True), (15, 30, 30, False), (30, 30, 30, True)]
    assert rows[3] == [(15, 30, 30, False)]


@pytest.mark.parametrize(
    ("windows", "wanted"),
    [
        (None, [1, 2, 5, 6, 6, 6, 7, 9]),
        (tumbling(10, 0), [1, 2, 5, 6, 6, 6, 7, 9]),
        (tumbling(5, 10), [1, 2, 5, 6, 4, 4, 7, 9]),
    ],
    ids=["no window", "size 10", "size 5"],
)
def test_result_timestamps_of_kip_259(windows: Windows | None, wanted: list[int]) -> None:
    """The timestamp of a row is the greatest of its records (semantics.md#5-1)."""
    outputs = pipe(times_driver(windows), "1 2 5 6 4 3 7 9")
    assert [rows[0]["timestamp_ms"] for rows in outputs] == wanted
