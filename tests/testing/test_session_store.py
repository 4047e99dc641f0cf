"""The session store of the test driver: each line of semantics.md#8-1."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from oriel import IllegalArgument
from oriel.testing import DriverSessionStore, WindowedValue
from tests.testing.changed_rows import (
    KEYS,
    NO_TIMES,
    TIME_MAX,
    changed,
    inside,
    key_ranges,
    left_over,
    one_warning,
    places,
    random_rows,
    removed,
    stored,
)


@pytest.fixture
def store() -> DriverSessionStore:
    """Return [0,10], [20,20], [30,50] of a, [5,25] of b and [7,7] of ä, added in no order."""
    return DriverSessionStore(
        stored(
            changed("ä", 7, 7, n=1),
            changed("a", 30, 50, n=3),
            changed("b", 5, 25, n=4),
            changed("a", 0, 10, n=2),
            changed("a", 20, 20, n=1),
        )
    )


def spans(sessions: list[WindowedValue]) -> list[tuple[int, int]]:
    """Return start and end of each session in order."""
    return [(s.window_start_ms, s.window_end_ms) for s in sessions]


def test_all_sessions_of_a_key(store: DriverSessionStore) -> None:
    """``fetch`` returns a key's sessions oldest first, ``backward_fetch`` newest first."""
    assert spans(store.fetch("a")) == [(0, 10), (20, 20), (30, 50)]
    assert spans(store.backward_fetch("a")) == [(30, 50), (20, 20), (0, 10)]
    assert store.fetch("b") == [WindowedValue("b", 5, 25, {"n": 4}, 25, final=False)]
    assert store.fetch("x") == store.backward_fetch("x") == []


def test_sessions_are_ordered_by_end_then_start() -> None:
    """Sessions are ordered by end, then by start."""
    rows = stored(*(changed("a", *span) for span in ((0, 30), (10, 20), (5, 30), (40, 40))))
    store = DriverSessionStore(rows)
    assert spans(store.fetch("a")) == [(10, 20), (0, 30), (5, 30), (40, 40)]
    assert spans(store.find_sessions("a", 0, 99)) == [(10, 20), (0, 30), (5, 30), (40, 40)]
    assert store.backward_find_sessions("a", 0, 99) == store.fetch("a")[::-1]


def test_the_order_across_keys(store: DriverSessionStore) -> None:
    """Sessions of several keys are ordered by key, end and start, or exactly reversed."""
    expected = [("a", 0, 10), ("a", 20, 20), ("a", 30, 50), ("b", 5, 25), ("ä", 7, 7)]
    assert places(store.all()) == expected
    assert places(store.backward_all()) == expected[::-1]
    assert store.fetch_range(None, None) == store.all()
    assert store.find_sessions_range(None, None, 0, TIME_MAX) == store.all()


def test_keys_are_ordered_by_utf8_bytes() -> None:
    """A key directly precedes the keys that start with it, and non-ASCII keys follow ASCII keys."""
    store = DriverSessionStore(stored(*(changed(key, 1, 2) for key in KEYS[::-1])))
    assert [session.key for session in store.all()] == list(KEYS)


@pytest.mark.parametrize(
    ("key_from", "key_to", "expected"),
    [
        ("a", "b", ["a", "a", "a", "b"]),
        ("a!", "z", ["b"]),
        (None, "a", ["a", "a", "a"]),
        ("b", None, ["b", "ä"]),
        ("c", "d", []),
    ],
)
def test_a_range_of_keys(
    store: DriverSessionStore, key_from: str | None, key_to: str | None, expected: list[str]
) -> None:
    """The key bounds are inclusive, and None leaves a bound open."""
    found = store.fetch_range(key_from, key_to)
    assert [session.key for session in found] == expected
    assert store.backward_fetch_range(key_from, key_to) == found[::-1]
    assert store.find_sessions_range(key_from, key_to, 0, 99) == found
    assert store.backward_find_sessions_range(key_from, key_to, 0, 99) == found[::-1]


def test_a_range_of_keys_the_wrong_way_round(
    store: DriverSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A first key above the last one returns an empty result and logs a warning."""
    with one_warning(caplog):
        assert store.fetch_range("b", "a") == []
    with one_warning(caplog):
        assert store.backward_fetch_range("b", "a") == []
    with one_warning(caplog):
        assert store.find_sessions_range("ä", "z", 0, 99) == []
    with one_warning(caplog):
        assert store.backward_find_sessions_range("ä", "z", 0, 99) == []


@pytest.mark.parametrize(
    ("earliest_end", "latest_start", "expected"),
    [
        (10, 30, [(0, 10), (20, 20), (30, 50)]),  # inclusive at both ends
        (11, 29, [(20, 20)]),
        (40, 40, [(30, 50)]),
        (50, 30, [(30, 50)]),  # contains 30 to 50
        (51, TIME_MAX, []),
        (-9, 0, [(0, 10)]),  # an end below 0 counts as 0
        (0, -1, []),  # as in Kafka's in-memory store
        (-9, -1, []),
    ],
)
def test_find_sessions(
    store: DriverSessionStore,
    earliest_end: int,
    latest_start: int,
    expected: list[tuple[int, int]],
) -> None:
    """A session matches if it ends at or after the earliest end and starts by the latest start."""
    assert spans(store.find_sessions("a", earliest_end, latest_start)) == expected
    found = store.backward_find_sessions("a", earliest_end, latest_start)
    assert spans(found) == expected[::-1]
    found = store.find_sessions_range("a", "a", earliest_end, latest_start)
    assert spans(found) == expected
    found = store.backward_find_sessions_range("a", "a", earliest_end, latest_start)
    assert spans(found) == expected[::-1]
    assert store.find_sessions("x", earliest_end, latest_start) == []


def test_one_session_is_found_by_both_times(store: DriverSessionStore) -> None:
    """``fetch_session`` needs the exact start and end of a session, and otherwise returns None."""
    assert store.fetch_session("a", 30, 50) == WindowedValue("a", 30, 50, {"n": 3}, 50, final=False)
    assert store.fetch_session("ä", 7, 7) is not None
    for key, start, end in (
        ("a", 30, 49),
        ("a", 31, 50),
        ("a", 50, 30),
        ("a", -1, 10),
        ("x", 7, 7),
    ):
        assert store.fetch_session(key, start, end) is None


def test_a_merged_session_is_deleted() -> None:
    """No read returns merged sessions. All return the session into which they were merged."""
    rows = stored(changed("a", 0, 10, n=1), changed("a", 20, 30, n=2), changed("b", 0, 10, n=1))
    store = DriverSessionStore(rows)
    rows.apply([removed("a", 0, 10), removed("a", 20, 30), changed("a", 0, 30, n=4)])
    assert spans(store.fetch("a")) == spans(store.find_sessions("a", 0, 99)) == [(0, 30)]
    assert store.fetch_session("a", 0, 10) is None
    assert places(store.all()) == [("a", 0, 30), ("b", 0, 10)]


def test_removals_are_taken_in_order() -> None:
    """A session that is removed and added again exists, and removing an unknown one is allowed."""
    rows = stored(changed("a", 0, 10, n=1), removed("a", 0, 10), changed("a", 0, 10, n=2))
    rows.apply([removed("x", 0, 10), removed("a", 0, 11)])
    assert [session.value for session in DriverSessionStore(rows).all()] == [{"n": 2}]
    rows.apply([removed("a", 0, 10)])
    assert DriverSessionStore(rows).all() == []


def test_one_key_must_be_given(store: DriverSessionStore) -> None:
    """``None`` as the only key raises a TypeError that says where ``None`` is allowed."""
    nothing: Any = None
    reads: list[Callable[[], object]] = [
        partial(store.fetch, nothing),
        partial(store.backward_fetch, nothing),
        partial(store.find_sessions, nothing, 0, 1),
        partial(store.backward_find_sessions, nothing, 0, 1),
        partial(store.fetch_session, nothing, 0, 1),
    ]
    for read in reads:
        with pytest.raises(TypeError, match=r"key must be a string, not None\. Only the bounds"):
            read()
    number: Any = 7
    with pytest.raises(TypeError, match="key_from must be a string or None"):
        store.fetch_range(number, None)
    with pytest.raises(TypeError, match="key_to must be a string or None"):
        store.find_sessions_range(None, number, 0, 1)


@pytest.mark.parametrize("wrong", NO_TIMES)
def test_times_must_be_times(store: DriverSessionStore, wrong: Any) -> None:
    """A time that is ``None``, not an integer or wider than 64 bits is an illegal argument."""
    for times in ((wrong, 0), (0, wrong)):
        reads: list[Callable[[], object]] = [
            partial(store.find_sessions, "a", *times),
            partial(store.backward_find_sessions, "a", *times),
            partial(store.find_sessions_range, None, None, *times),
            partial(store.backward_find_sessions_range, "b", "a", *times),
            partial(store.fetch_session, "a", *times),
        ]
        for read in reads:
            with pytest.raises(IllegalArgument, match=r"_ms must be (an integer|a signed)"):
                read()


def test_retention_goes_by_the_end() -> None:
    """With retention R, an end is visible from observed - R + 1, in every read."""
    rows = stored(
        *(changed("a", *span) for span in ((0, 10), (2, 11), (0, 12))),
        changed("b", 30, 30),
        retention_ms=20,
        clock="window_end_ms",
    )
    store = DriverSessionStore(rows)
    assert spans(store.fetch("a")) == spans(store.find_sessions("a", 0, 99)) == [(2, 11), (0, 12)]
    assert store.fetch_session("a", 0, 10) is None
    assert store.fetch_session("a", 2, 11) is not None
    assert places(store.all()) == [("a", 2, 11), ("a", 0, 12), ("b", 30, 30)]
    assert store.fetch_range(None, "b") == store.find_sessions_range(None, "b", 0, 99)
    assert store.fetch_range(None, "b") == store.all() == store.backward_all()[::-1]


def test_responses_are_snapshots(store: DriverSessionStore) -> None:
    """Read results do not change with the store, and changing them does not change the store."""
    before, point = store.fetch("a"), store.fetch_session("a", 0, 10)
    store._rows.apply([removed("a", 0, 10)])
    assert before[0] == point
    assert spans(before) == [(0, 10), (20, 20), (30, 50)]
    before[1].value["n"] = 100
    assert store.fetch("a")[0].value == {"n": 1}


def _span(random: Random) -> tuple[int, int]:
    start = random.randint(0, 15)
    return start, start + random.randint(0, 8)


@pytest.mark.parametrize("seed", range(12))
def test_every_read_is_a_filter_of_the_rows(seed: int) -> None:
    """On random rows, each read equals a sorted search through all rows."""
    random = Random(seed)
    retention_ms = random.choice([None, 5, 12])
    log = random_rows(random, _span)
    store = DriverSessionStore(stored(*log, retention_ms=retention_ms, clock="window_end_ms"))
    observed_ms = max((row["window_end_ms"] for row in log), default=-1)
    visible = [
        session
        for session in sorted(
            left_over(log), key=lambda s: (s.key.encode(), s.window_end_ms, s.window_start_ms)
        )
        if retention_ms is None or session.window_end_ms >= observed_ms - retention_ms + 1
    ]
    assert store.all() == visible == store.backward_all()[::-1]
    for key_from, key_to in key_ranges():
        end_ms, start_ms = random.randint(-5, 25), random.randint(-5, 25)
        inner = [s for s in visible if inside(s.key, key_from, key_to)]
        timely = [s for s in inner if s.window_end_ms >= end_ms and s.window_start_ms <= start_ms]
        bounds = (key_from, key_to, end_ms, start_ms)
        assert store.fetch_range(key_from, key_to) == inner
        assert store.backward_fetch_range(key_from, key_to) == inner[::-1]
        assert store.find_sessions_range(*bounds) == timely
        assert store.backward_find_sessions_range(*bounds) == timely[::-1]
        if key_from is not None and key_from == key_to:
            assert store.fetch(key_from) == inner == store.backward_fetch(key_from)[::-1]
            assert store.find_sessions(key_from, end_ms, start_ms) == timely
            assert store.backward_find_sessions(key_from, end_ms, start_ms) == timely[::-1]
            same = [s for s in inner if (s.window_start_ms, s.window_end_ms) == (start_ms, end_ms)]
            assert store.fetch_session(key_from, start_ms, end_ms) == next(iter(same), None)
