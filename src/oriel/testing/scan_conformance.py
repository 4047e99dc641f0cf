"""Tests of reads of many keys, which ``WindowStoreConformance`` inherits.

Session stores also pass them. All windows have the same length, so starts and ends have the same
order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
import pytest

from oriel.storage import LATEST_MS, ScanPage, ScanRange
from oriel.testing.store_models import Put, put

#: Longer than a key of LMDB. The two have the same first 600 bytes.
LONG_KEYS = ("é" * 300 + "1", "é" * 300 + "2")
ODD_KEYS = ("", "\x00", "a\x00", "a\x00\x00b", "a", "a\x01", "ab", "/", "..", "ü", "😀", "\uffff")

Ids = list[tuple[str, int]]


def ids(entries: Iterable[bytes]) -> Ids:
    """Return key and start of windows in their order."""
    windows = [orjson.loads(entry) for entry in entries]
    return [(window["key"], window["window_start_ms"]) for window in windows]


def all_pages(read: Callable[[ScanRange], ScanPage], scan_range: ScanRange) -> list[list[bytes]]:
    """Return the entries of each page, from the first to the last."""
    page = read(scan_range)
    pages = [page.entries]
    while page.next_after is not None:
        page = read(scan_range._replace(after=page.next_after))
        pages.append(page.entries)
    return pages


def joined(read: Callable[[ScanRange], ScanPage], scan_range: ScanRange) -> Ids:
    """Return all entries of all pages."""
    return [entry for page in all_pages(read, scan_range) for entry in ids(page)]


def in_order(puts: Sequence[Put]) -> Ids:
    """Return windows by the bytes of their keys, then by start."""
    every = sorted(puts, key=lambda one: (one.key.encode(), one.start_ms))
    return [(one.key, one.start_ms) for one in every]


WINDOWS = tuple(put(key, start) for key in ODD_KEYS for start in (10, 20, 30))


class ScanConformance:
    """Tests of reads of many keys. A test class has a fixture ``make_store``."""

    @pytest.mark.parametrize("limit", [1, 2, 7, 100])
    def test_a_scan_is_ordered_and_backwards_the_reverse(self, make_store: Any, limit: int) -> None:
        """Windows are ordered by key bytes and start. All pages together have each window once."""
        store = make_store(WINDOWS, None)
        everything = ScanRange(limit=limit)
        assert joined(store.scan, everything) == in_order(WINDOWS)
        assert joined(store.backward_scan, everything) == in_order(WINDOWS)[::-1]
        long_pages = [page for page in all_pages(store.scan, everything) if len(page) > limit]
        assert long_pages == [], f"more than {limit} windows: {long_pages}"

    @pytest.mark.parametrize("key_from", [None, "", "\x00", "a", "a\x00", "aa", "ü", "\uffff"])
    @pytest.mark.parametrize("key_to", [None, "", "\x00", "a", "a\x00", "aa", "ü", "\uffff"])
    def test_a_scan_has_both_keys_inclusive_and_open_ends(
        self, make_store: Any, key_from: str | None, key_to: str | None
    ) -> None:
        """Bounds can be unknown keys. If the first bound is greater, the result is empty."""
        store = make_store(WINDOWS, None)
        scan_range = ScanRange(key_from, key_to, limit=5)
        expected = [
            (key, start)
            for key, start in in_order(WINDOWS)
            if (key_from is None or key.encode() >= key_from.encode())
            and (key_to is None or key.encode() <= key_to.encode())
        ]
        assert joined(store.scan, scan_range) == expected
        assert joined(store.backward_scan, scan_range) == expected[::-1]

    @pytest.mark.parametrize(
        ("from_ms", "to_ms", "starts"),
        [
            (0, LATEST_MS, [10, 20, 30]),
            (-5, 10, [10]),
            (20, 20, [20]),
            (11, 29, [20]),
            (31, LATEST_MS, []),
            (30, 10, []),
            (0, -1, []),
        ],
    )
    def test_a_scan_has_both_times_inclusive(
        self, make_store: Any, from_ms: int, to_ms: int, starts: list[int]
    ) -> None:
        """A scan returns the windows of each key that ``fetch`` returns."""
        store = make_store(WINDOWS, None)
        scan_range = ScanRange(from_ms=from_ms, to_ms=to_ms, limit=4)
        expected = [(key, start) for key, start in in_order(WINDOWS) if start in starts]
        assert joined(store.scan, scan_range) == expected
        assert joined(store.backward_scan, scan_range) == expected[::-1]

    def test_a_scan_by_prefix(self, make_store: Any) -> None:
        """A scan returns the keys with the prefix and the prefix itself."""
        store = make_store(WINDOWS, None)
        found = joined(store.scan, ScanRange(prefix="a\x00", limit=2))
        assert found == [(key, start) for key in ("a\x00", "a\x00\x00b") for start in (10, 20, 30)]
        assert joined(store.scan, ScanRange(prefix="none")) == []

    def test_few_wanted_starts_between_many_others(self, make_store: Any) -> None:
        """Bounds of times apply to keys with many windows, in both directions, on all pages."""
        puts = [put(key, start) for key in ("k", "l", "m") for start in range(1000)]
        store = make_store([*puts, put("l", 5000)], None)
        expected = [(key, start) for key in ("k", "l", "m") for start in (500, 501)]
        for limit in (1, 4, 9):
            scan_range = ScanRange(from_ms=500, to_ms=501, limit=limit)
            assert joined(store.scan, scan_range) == expected
            assert joined(store.backward_scan, scan_range) == expected[::-1]
        assert joined(store.scan, ScanRange(from_ms=1000)) == [("l", 5000)]
        assert joined(store.backward_scan, ScanRange(from_ms=1000)) == [("l", 5000)]

    def test_final_windows_and_open_ones(self, make_store: Any) -> None:
        """A read with ``final`` returns only these windows."""
        puts = [put("k", start, final=start < 300) for start in range(0, 400, 2)]
        store = make_store(puts, None)
        starts = [start for _, start in in_order(puts)]
        for final in (True, False):
            expected = [("k", start) for start in starts if (start < 300) == final]
            assert joined(store.scan, ScanRange(final=final, limit=9)) == expected
            assert joined(store.backward_scan, ScanRange(final=final, limit=9)) == expected[::-1]

    def test_a_page_ends_with_the_window_that_fills_it(self, make_store: Any) -> None:
        """A page has at least one window, also if ``bytes_max`` is less than its size."""
        store = make_store(WINDOWS, None)
        size = len(put("", 10).value)
        for read in (store.scan, store.backward_scan, store.latest_all, store.current_all):
            pages = all_pages(read, ScanRange(bytes_max=1))
            assert {len(page) for page in pages[:-1]} == {1}
        assert len(store.scan(ScanRange(bytes_max=2 * size)).entries) == 2

    def test_a_page_ends_after_so_many_looks(self, make_store: Any) -> None:
        """Pages can be empty. All pages together have the same windows."""
        store = make_store([*WINDOWS, *(put("k", start) for start in range(300))], None)
        for looks in (1, 3, 50):
            scan_range = ScanRange(from_ms=30, to_ms=30, records_max=looks)
            expected = joined(store.scan, scan_range._replace(records_max=LATEST_MS))
            assert joined(store.scan, scan_range) == expected
            assert joined(store.backward_scan, scan_range) == expected[::-1]
            assert joined(store.latest_all, scan_range) == joined(store.latest_all, ScanRange())

    def test_long_keys_are_scanned_whole(self, make_store: Any) -> None:
        """A scan returns exactly the keys of the range, also keys with the same first bytes."""
        keys = [*LONG_KEYS, "é" * 300 + "11", "é" * 240, "é" * 229 + "z" * 99, "z", "ê"]
        store = make_store([put(key, 10) for key in keys], None)
        for key_from in (None, "", LONG_KEYS[0], LONG_KEYS[1], "é" * 250, "é" * 229):
            for key_to in (None, "é", LONG_KEYS[0], "é" * 400, "ê"):
                inside = {
                    key
                    for key in keys
                    if (key_from is None or key.encode() >= key_from.encode())
                    and (key_to is None or key.encode() <= key_to.encode())
                }
                scan_range = ScanRange(key_from, key_to, limit=1)
                forward = joined(store.scan, scan_range)
                assert {key for key, _ in forward} == inside
                assert len(forward) == len(inside)
                assert joined(store.backward_scan, scan_range) == forward[::-1]
                assert joined(store.latest_all, scan_range) == forward
        assert joined(store.scan, ScanRange(prefix=LONG_KEYS[0], limit=1)) == [
            entry for entry in joined(store.scan, ScanRange()) if entry[0].startswith(LONG_KEYS[0])
        ]

    def test_latest_and_current_of_every_key(self, make_store: Any) -> None:
        """The read returns each key once and in order, also with one key per page."""
        store = make_store(WINDOWS, None)
        for limit in (1, 5, 100):
            assert joined(store.latest_all, ScanRange(limit=limit)) == in_order(WINDOWS)[2::3]
            assert joined(store.current_all, ScanRange(limit=limit)) == ids(
                store.current(key) for key in sorted(ODD_KEYS, key=str.encode)
            )
        found = joined(store.latest_all, ScanRange("a", "b", "a\x00", limit=1))
        assert found == [("a\x00", 30), ("a\x00\x00b", 30)]

    def test_what_has_expired_is_in_no_scan(self, make_store: Any) -> None:
        """A key without visible windows is not in the result (semantics.md#7)."""
        puts = [put("old", 10), put("mixed", 10), put("mixed", 60), put("new", 100)]
        store = make_store(puts, 50)
        assert joined(store.scan, ScanRange()) == [("mixed", 60), ("new", 100)]
        assert joined(store.backward_scan, ScanRange()) == [("new", 100), ("mixed", 60)]
        assert joined(store.latest_all, ScanRange()) == [("mixed", 60), ("new", 100)]
        assert joined(store.current_all, ScanRange()) == [("mixed", 60), ("new", 100)]
        assert store.current("old") is None

    def test_an_empty_store_has_nothing_to_scan(self, make_store: Any) -> None:
        """The results are empty."""
        store = make_store([], None)
        for read in (store.scan, store.backward_scan, store.latest_all, store.current_all):
            assert read(ScanRange()) == ScanPage([], None)

    def test_keys_that_nobody_could_ask_for_are_not_listed(self, make_store: Any) -> None:
        """A scan returns the windows of keys that are longer than a request can have."""
        longest, longer = "x" * 8192, "x" * 8193
        store = make_store([put(longest, 10), put(longer, 10), put("y", 10)], None)
        assert store.keys("", 1) == ([longest], longest)
        assert store.keys("", 1, longest) == (["y"], None)
        assert store.latest(longest) == put(longest, 10).value
        assert len(store.scan(ScanRange()).entries) == 3
