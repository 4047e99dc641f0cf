"""Tests of every ``ReadOnlyWindowStore``. The test class of an implementation inherits them.

Most tests use these windows of key "a", by start, with D = 10. Key "ab" has one window at 20:

    start   10    20    30    40    50
"""

from collections.abc import Callable, Iterable

import orjson
import pytest

from oriel.storage import LATEST_MS, WindowId, WindowRange
from oriel.storage.contracts import ReadOnlyWindowStore
from oriel.testing.scan_conformance import LONG_KEYS, ODD_KEYS, ScanConformance
from oriel.testing.store_models import Put, put

#: Creates a store with these puts and this retention.
MakeStore = Callable[[Iterable[Put], int | None], ReadOnlyWindowStore]


def starts(windows: Iterable[bytes]) -> list[int]:
    """Return the starts of windows in their order."""
    return [orjson.loads(window)["window_start_ms"] for window in windows]


WINDOWS = (*(put("a", start) for start in (10, 20, 30, 40, 50)), put("ab", 20))


class WindowStoreConformance(ScanConformance):
    """Tests that a window store behaves as Kafka Streams' read-only store.

    Inherit the suite in a test class with a fixture ``make_store``. It returns a function that
    creates a store from puts and a retention in ms.

    Example:
        >>> import pytest
        >>> class TestMyStore(WindowStoreConformance):
        ...     @pytest.fixture
        ...     def make_store(self):
        ...         return ModelWindowStore  # Replace it by your store.
    """

    def test_fetch_has_both_bounds_inclusive_and_is_oldest_first(
        self, make_store: MakeStore
    ) -> None:
        """The result has the windows at both bounds and between them."""
        page = make_store(WINDOWS, None).fetch(WindowRange("a", 20, 40))
        assert starts(page.windows) == [20, 30, 40]
        assert page.next_after is None

    def test_backward_fetch_is_fetch_the_other_way_round(self, make_store: MakeStore) -> None:
        """The result has the same windows, newest first."""
        page = make_store(WINDOWS, None).backward_fetch(WindowRange("a", 20, 40))
        assert starts(page.windows) == [40, 30, 20]
        assert page.next_after is None

    @pytest.mark.parametrize(
        ("from_ms", "to_ms", "expected"),
        [
            (0, LATEST_MS, [10, 20, 30, 40, 50]),
            (-5, 10, [10]),
            (-9, -1, []),
            (11, 19, []),
            (40, 20, []),
            (51, LATEST_MS, []),
            (50, 50, [50]),
            (0, 9, []),
        ],
    )
    def test_bounds_between_before_and_behind_the_windows(
        self, make_store: MakeStore, from_ms: int, to_ms: int, expected: list[int]
    ) -> None:
        """Bounds can be any times. If the first bound is greater, the result is empty."""
        store = make_store(WINDOWS, None)
        window_range = WindowRange("a", from_ms, to_ms)
        assert starts(store.fetch(window_range).windows) == expected
        assert starts(store.backward_fetch(window_range).windows) == expected[::-1]

    def test_pages_join_to_the_whole_range(self, make_store: MakeStore) -> None:
        """All pages together have each window once, in both directions."""
        store = make_store(WINDOWS, None)
        first = store.fetch(WindowRange("a", limit=2))
        assert (starts(first.windows), first.next_after) == ([10, 20], WindowId(20, 30))
        rest = store.fetch(WindowRange("a", limit=3, after=first.next_after))
        assert (starts(rest.windows), rest.next_after) == ([30, 40, 50], None)
        newest = store.backward_fetch(WindowRange("a", limit=4))
        assert (starts(newest.windows), newest.next_after) == ([50, 40, 30, 20], WindowId(20, 30))
        last = store.backward_fetch(WindowRange("a", limit=4, after=newest.next_after))
        assert (starts(last.windows), last.next_after) == ([10], None)

    def test_a_page_longer_than_one_chunk(self, make_store: MakeStore) -> None:
        """A range of many windows is complete and ends at its bound."""
        store = make_store([*(put("k", start) for start in range(1000)), put("l", 5)], None)
        window_range = WindowRange("k", 3, 998, limit=10_000)
        assert starts(store.fetch(window_range).windows) == list(range(3, 999))
        assert starts(store.backward_fetch(window_range).windows) == list(range(998, 2, -1))
        assert len(store.fetch(window_range._replace(limit=128)).windows) == 128

    def test_an_unknown_key_has_no_windows(self, make_store: MakeStore) -> None:
        """The results are empty, also if the store has similar keys."""
        store = make_store(WINDOWS, None)
        for key in ("", "A", "aa", "b", "a\x00"):
            assert store.fetch(WindowRange(key)).windows == []
            assert store.backward_fetch(WindowRange(key)).windows == []
            assert store.latest(key) is None
            assert store.fetch_window(key, 20) is None

    def test_an_empty_store_answers(self, make_store: MakeStore) -> None:
        """The results are empty."""
        store = make_store([], None)
        assert store.fetch(WindowRange("a")).windows == []
        assert store.backward_fetch(WindowRange("a")).windows == []
        assert store.latest("a") is None
        assert store.keys("", 10) == ([], None)

    def test_latest_is_the_greatest_start_of_that_key(self, make_store: MakeStore) -> None:
        """The first and the last key of the store also have their latest window."""
        store = make_store(WINDOWS, None)
        assert store.latest("a") == put("a", 50).value
        assert store.latest("ab") == put("ab", 20).value

    def test_current_ends_at_the_newest_record_of_that_key(self, make_store: MakeStore) -> None:
        """For sliding windows, ``current`` ends at the newest record, so it is not ``latest``."""
        # The windows of records at 5, 18, 20 and 23 with D = 10.
        made = ((0, 5), (6, 18), (8, 18), (10, 20), (13, 23), (19, 23), (21, 23))
        windows = [put("a", start, timestamp_ms=newest) for start, newest in made]
        others = [put("", 90, timestamp_ms=99), put("ab", 0, timestamp_ms=1)]
        store = make_store([*windows, *others], None)
        assert store.current("a") == windows[4].value
        assert store.current("ab") == others[1].value
        assert store.current("b") is None
        assert make_store([windows[0], *windows[5:]], None).current("a") == windows[5].value

    def test_fetch_window_needs_the_exact_start(self, make_store: MakeStore) -> None:
        """An unknown start finds no window, also a negative start."""
        store = make_store(WINDOWS, None)
        assert store.fetch_window("a", 30) == put("a", 30).value
        assert store.fetch_window("a", 31) is None
        assert store.fetch_window("a", -30) is None

    def test_odd_and_long_keys_do_not_meet(self, make_store: MakeStore) -> None:
        """A key can have any bytes and has its own windows."""
        keys = (*ODD_KEYS, *LONG_KEYS)
        store = make_store([put(key, i) for i, key in enumerate(keys)], None)
        for i, key in enumerate(keys):
            assert starts(store.fetch(WindowRange(key)).windows) == [i]
            assert starts(store.backward_fetch(WindowRange(key)).windows) == [i]
            assert store.latest(key) == put(key, i).value

    def test_keys_come_in_order_of_their_bytes(self, make_store: MakeStore) -> None:
        """Each key is listed once, and a prefix of other keys is listed before them."""
        store = make_store([put(key, start) for key in ODD_KEYS for start in (1, 2)], None)
        expected = sorted(ODD_KEYS, key=str.encode)
        assert store.keys("", 100) == (expected, None)
        with_a = [key for key in expected if key.startswith("a")]
        assert store.keys("a", 100) == (with_a, None)
        assert store.keys("a\x00", 100) == (["a\x00", "a\x00\x00b"], None)

    def test_pages_of_keys_join_to_all_keys(self, make_store: MakeStore) -> None:
        """All pages together have each key once."""
        store = make_store([put(key, 1) for key in ODD_KEYS], None)
        keys: list[str] = []
        after = None
        while True:
            page = store.keys("", 5, after)
            keys += page.keys
            after = page.next_after
            if after is None:
                break
        assert keys == sorted(ODD_KEYS, key=str.encode)

    def test_long_keys_are_listed_by_prefix(self, make_store: MakeStore) -> None:
        """A long key is listed completely, also if the prefix is longer than a key of LMDB."""
        store = make_store([put(key, 1) for key in (*LONG_KEYS, "z")], None)
        assert sorted(store.keys("é", 10).keys) == list(LONG_KEYS)
        assert store.keys("é" * 300 + "2", 10).keys == [LONG_KEYS[1]]

    def test_a_later_put_replaces_an_earlier_one(self, make_store: MakeStore) -> None:
        """A later put of a window replaces the earlier put."""
        newer = Put("a", 10, 20, b'{"key":"a","window_start_ms":10,"n":2}')
        store = make_store([put("a", 10), newer], None)
        assert store.fetch(WindowRange("a")).windows == [newer.value]

    @pytest.mark.parametrize(
        ("retention_ms", "visible"),
        [(1, [50]), (10, [50]), (11, [40, 50]), (41, [10, 20, 30, 40, 50]), (100, None)],
    )
    def test_retention_hides_what_started_before_the_clock_minus_retention(
        self, make_store: MakeStore, retention_ms: int, visible: list[int] | None
    ) -> None:
        """Each read returns windows with start >= observed - retention + 1 (semantics.md#7)."""
        expected = [10, 20, 30, 40, 50] if visible is None else visible
        store = make_store(WINDOWS, retention_ms)
        assert starts(store.fetch(WindowRange("a")).windows) == expected
        assert starts(store.backward_fetch(WindowRange("a")).windows) == expected[::-1]
        assert (store.fetch_window("a", 10) is None) == (10 not in expected)
        assert store.latest("a") == put("a", 50).value

    def test_retention_counts_from_the_greatest_start_of_any_key(
        self, make_store: MakeStore
    ) -> None:
        """A key without visible windows is not listed."""
        store = make_store([put("old", 10), put("older", 5), put("new", 1000)], 100)
        assert store.latest("old") is None
        assert store.fetch(WindowRange("old")).windows == []
        assert store.keys("", 10) == (["new"], None)
        assert store.keys("old", 10) == ([], None)
