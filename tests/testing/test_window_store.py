"""The window store of the test driver: each line of semantics.md#8-1."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import partial
from random import Random
from typing import Any

import pytest

from oriel import IllegalArgument
from oriel.testing import DriverWindowStore, WindowedValue
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


def tumbling(key: str, *starts: int) -> list[dict[str, Any]]:
    """Return rows of windows of 10 ms."""
    return [changed(key, start, start + 10, n=start + 1) for start in starts]


@pytest.fixture
def store() -> DriverWindowStore:
    """Return a store with three keys, added in no order."""
    rows = stored(*tumbling("b", 20, 0), *tumbling("a", 40, 10, 30, 0), *tumbling("ä", 10))
    return DriverWindowStore(rows)


def starts(windows: list[WindowedValue]) -> list[int]:
    """Return the starts in order."""
    return [window.window_start_ms for window in windows]


def test_a_window_is_found_by_its_start(store: DriverWindowStore) -> None:
    """A point fetch returns the window with its bounds, aggregates, time and ``final``."""
    found = store.fetch("a", 30)
    assert found == WindowedValue("a", 30, 40, {"n": 31}, 40, final=False)


@pytest.mark.parametrize(("key", "start"), [("a", 31), ("a", 29), ("a", -1), ("x", 0), ("", 0)])
def test_no_window_starts_then(store: DriverWindowStore, key: str, start: int) -> None:
    """A point fetch with an unknown or negative start, or an unknown key, returns None."""
    assert store.fetch(key, start) is None


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "expected"),
    [
        (10, 30, [10, 30]),  # inclusive at both ends
        (11, 29, []),
        (0, 0, [0]),
        (0, TIME_MAX, [0, 10, 30, 40]),
        (-5, 10, [0, 10]),  # a start below 0 counts as 0
        (-(2**63), 0, [0]),
        (-9, -1, []),
        (30, 10, []),  # to < from
        (41, 50, []),
    ],
)
def test_a_range_of_starts(
    store: DriverWindowStore, from_ms: int, to_ms: int, expected: list[int]
) -> None:
    """``fetch`` returns the starts in the bounds, ascending, and ``backward_fetch`` descending."""
    assert starts(store.fetch("a", from_ms, to_ms)) == expected
    assert starts(store.fetch("a", from_ms=from_ms, to_ms=to_ms)) == expected
    assert starts(store.backward_fetch("a", from_ms, to_ms)) == expected[::-1]
    assert store.fetch("x", from_ms, to_ms) == store.backward_fetch("x", from_ms, to_ms) == []


def test_the_order_across_keys(store: DriverWindowStore) -> None:
    """Windows of several keys are ordered by key and start, or exactly reversed."""
    expected = [("a", 0), ("a", 10), ("a", 30), ("a", 40), ("b", 0), ("b", 20), ("ä", 10)]
    found = [(key, start) for key, start, _ in places(store.all())]
    assert found == expected
    assert store.backward_all() == store.all()[::-1]
    assert store.fetch_all(10, 30) == [w for w in store.all() if 10 <= w.window_start_ms <= 30]
    assert store.backward_fetch_all(10, 30) == store.fetch_all(10, 30)[::-1]


def test_keys_are_ordered_by_utf8_bytes() -> None:
    """A key directly precedes the keys that start with it, and non-ASCII keys follow ASCII keys."""
    rows = stored(*(row for key in KEYS[::-1] for row in tumbling(key, 0)))
    found = [window.key for window in DriverWindowStore(rows).all()]
    assert found == list(KEYS) == sorted(KEYS, key=str.encode)


@pytest.mark.parametrize(
    ("key_from", "key_to", "expected"),
    [
        ("a", "b", ["a", "b"]),
        ("a", "a", ["a"]),
        ("A", "aa", ["a"]),
        ("a!", "z", ["b"]),
        (None, "b", ["a", "b"]),
        ("b", None, ["b", "ä"]),
        (None, None, ["a", "b", "ä"]),
        ("", "", []),
    ],
)
def test_a_range_of_keys(
    store: DriverWindowStore, key_from: str | None, key_to: str | None, expected: list[str]
) -> None:
    """The key bounds are inclusive, and None leaves a bound open."""
    found = store.fetch_range(key_from, key_to, 0, 10)
    assert list(dict.fromkeys(window.key for window in found)) == expected
    assert store.backward_fetch_range(key_from, key_to, 0, 10) == found[::-1]


def test_a_range_of_keys_the_wrong_way_round(
    store: DriverWindowStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A first key above the last one returns an empty result and logs a warning."""
    with one_warning(caplog):
        assert store.fetch_range("b", "a", 0, 50) == []
    with one_warning(caplog):
        assert store.backward_fetch_range("ä", "z", 0, 50) == []


def test_times_of_a_range_of_keys(store: DriverWindowStore) -> None:
    """The rules for times also apply to ranges of keys and to all keys."""
    assert store.fetch_range(None, None, 30, 10) == store.fetch_all(30, 10) == []
    assert store.fetch_range("a", "b", -9, -1) == store.fetch_all(-9, -1) == []
    assert store.fetch_range(None, None, -9, TIME_MAX) == store.fetch_all(-1, 40) == store.all()


def test_one_key_must_be_given(store: DriverWindowStore) -> None:
    """``None`` as the only key raises a TypeError that says where ``None`` is allowed."""
    nothing: Any = None
    message = "key must be a string, not None. Only the bounds of a range"
    with pytest.raises(TypeError, match=message):
        store.fetch(nothing, 0)
    with pytest.raises(TypeError, match=message):
        store.fetch(nothing, 0, 1)
    with pytest.raises(TypeError, match=message):
        store.backward_fetch(nothing, 0, 1)
    number: Any = 7
    with pytest.raises(TypeError, match="not 7"):
        store.fetch(number, 0)
    with pytest.raises(TypeError, match="key_from must be a string or None"):
        store.fetch_range(number, None, 0, 1)
    with pytest.raises(TypeError, match="key_to must be a string or None"):
        store.backward_fetch_range(None, number, 0, 1)


@pytest.mark.parametrize("wrong", NO_TIMES)
def test_times_must_be_times(store: DriverWindowStore, wrong: Any) -> None:
    """A time that is ``None``, not an integer or wider than 64 bits is an illegal argument."""
    with pytest.raises(IllegalArgument, match=r"start_ms must be (an integer|a signed 64-bit)"):
        store.fetch("a", wrong)
    for times in ((wrong, 0), (0, wrong)):
        reads: list[Callable[[], object]] = [
            partial(store.fetch, "a", *times),
            partial(store.backward_fetch, "a", *times),
            partial(store.fetch_range, None, None, *times),
            partial(store.backward_fetch_range, "b", "a", *times),
            partial(store.fetch_all, *times),
            partial(store.backward_fetch_all, *times),
        ]
        for read in reads:
            with pytest.raises(IllegalArgument, match=r"(from_ms|to_ms) must"):
                read()


def test_the_newest_row_of_a_window_counts() -> None:
    """A later row of a window replaces its value, time and ``final``."""
    rows = stored(changed("a", 0, 10, n=1), {**changed("a", 0, 10, n=2), "final": True})
    assert DriverWindowStore(rows).all() == [
        WindowedValue("a", 0, 10, {"n": 2}, 10, final=True),
    ]


def test_retention_hides_in_every_read() -> None:
    """With retention R, a start is visible from observed - R + 1, in every read."""
    rows = stored(*tumbling("a", 0, 10, 11), *tumbling("b", 30), retention_ms=20)
    store = DriverWindowStore(rows)
    assert places(store.all()) == [("a", 11, 21), ("b", 30, 40)]
    assert store.fetch("a", 10) is None
    assert store.fetch("a", 11) is not None
    assert starts(store.fetch("a", 0, 99)) == starts(store.backward_fetch("a", 0, 99)) == [11]
    assert store.fetch_range("a", None, 0, 99) == store.fetch_all(0, 99) == store.all()
    assert store.backward_fetch_range("a", None, 0, 99) == store.backward_all()
    assert store.backward_fetch_all(0, 99) == store.backward_all()


def test_retention_follows_the_greatest_start() -> None:
    """With R = 10, [0,10) disappears when [10,20) is added, and a later update does not show it."""
    rows = stored(*tumbling("a", 0), retention_ms=10)
    store = DriverWindowStore(rows)
    assert starts(store.all()) == [0]
    rows.apply(tumbling("b", 10))
    rows.observed_ms = 10
    assert places(store.all()) == [("b", 10, 20)]
    rows.apply(tumbling("a", 0))
    assert places(store.all()) == [("b", 10, 20)]


def test_responses_are_snapshots() -> None:
    """Read results and written rows are copies, so changing them does not change the store."""
    given = changed("a", 0, 10, all=[1])
    rows = stored(given)
    store = DriverWindowStore(rows)
    given["all"].append(9)
    before, point = store.all(), store.fetch("a", 0)
    rows.apply([changed("a", 0, 10, all=[1, 2]), *tumbling("b", 0), removed("a", 0, 10)])
    assert before == [point] == [WindowedValue("a", 0, 10, {"all": [1]}, 10, final=False)]
    rows.apply([changed("a", 0, 10, all=[1])])
    store.all()[0].value["all"].append(7)
    assert store.fetch("a", 0) == point
    with pytest.raises(FrozenInstanceError):
        before[0].key = "b"  # type: ignore[misc]


def test_an_empty_store() -> None:
    """Every read of a store without rows is empty."""
    store = DriverWindowStore(stored(retention_ms=5))
    assert store.fetch("a", 0) is None
    assert store.all() == store.backward_all() == store.fetch_all(0, TIME_MAX) == []


@pytest.mark.parametrize("seed", range(12))
def test_every_read_is_a_filter_of_the_rows(seed: int) -> None:
    """On random rows, each read equals a sorted search through all rows."""
    random = Random(seed)
    retention_ms = random.choice([None, 5, 12])
    log = random_rows(random, lambda r: (start := r.randint(0, 20), start + 5))
    store = DriverWindowStore(stored(*log, retention_ms=retention_ms))
    observed_ms = max((row["window_start_ms"] for row in log), default=-1)
    visible = [
        window
        for window in sorted(left_over(log), key=lambda w: (w.key.encode(), w.window_start_ms))
        if retention_ms is None or window.window_start_ms >= observed_ms - retention_ms + 1
    ]
    assert store.all() == visible == store.backward_all()[::-1]
    for key_from, key_to in key_ranges():
        from_ms, to_ms = random.randint(-5, 25), random.randint(-5, 25)
        timely = [w for w in visible if from_ms <= w.window_start_ms <= to_ms]
        expected = [w for w in timely if inside(w.key, key_from, key_to)]
        assert store.fetch_range(key_from, key_to, from_ms, to_ms) == expected
        assert store.backward_fetch_range(key_from, key_to, from_ms, to_ms) == expected[::-1]
        assert store.fetch_all(from_ms, to_ms) == timely
        assert store.backward_fetch_all(from_ms, to_ms) == timely[::-1]
        if key_from is not None:
            expected = [w for w in timely if w.key == key_from]
            assert store.fetch(key_from, from_ms, to_ms) == expected
            assert store.backward_fetch(key_from, from_ms, to_ms) == expected[::-1]
            same = [w for w in visible if (w.key, w.window_start_ms) == (key_from, from_ms)]
            assert store.fetch(key_from, from_ms) == (same[0] if same else None)
