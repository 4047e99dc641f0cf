"""Tests of every ``ReadOnlyKeyValueStore``. The test class of an implementation inherits them."""

from collections.abc import Callable, Iterable
from itertools import chain

import pytest

from oriel.storage import ScanRange
from oriel.storage.contracts import ReadOnlyKeyValueStore
from oriel.testing.scan_conformance import LONG_KEYS, ODD_KEYS, all_pages
from oriel.testing.store_models import Put

#: Creates a store with these puts.
MakeKeyValueStore = Callable[[Iterable[Put]], ReadOnlyKeyValueStore]


def row(key: str, value: bytes = b"{}") -> Put:
    """Return the row of a key."""
    return Put(key, 0, 0, value)


class KeyValueStoreConformance:
    """Tests that a key-value store behaves as Kafka Streams' read-only store.

    Inherit the suite in a test class with a fixture ``make_store``. It returns a function that
    creates a store from puts.

    Example:
        >>> import pytest
        >>> class TestMyStore(KeyValueStoreConformance):
        ...     @pytest.fixture
        ...     def make_store(self):
        ...         return ModelKeyValueStore  # Replace it by your store.
    """

    def test_each_key_has_its_own_row(self, make_store: MakeKeyValueStore) -> None:
        """A key can have any bytes and any length."""
        keys = (*ODD_KEYS, *LONG_KEYS)
        values = {key: b'{"key":%b,"n":%d}' % (_quoted(key), i) for i, key in enumerate(keys)}
        store = make_store([row(key, value) for key, value in values.items()])
        assert {key: store.get(key) for key in keys} == values

    def test_an_unknown_key_has_no_row(self, make_store: MakeKeyValueStore) -> None:
        """The result is None, also if the store has similar keys."""
        store = make_store([row("a"), row("ab")])
        for key in ("", "A", "aa", "b", "a\x00", LONG_KEYS[0]):
            assert store.get(key) is None
        assert make_store([]).get("a") is None

    def test_a_later_put_replaces_an_earlier_one(self, make_store: MakeKeyValueStore) -> None:
        """A key has one row, which is the last put."""
        assert make_store([row("a", b'{"n":1}'), row("a", b'{"n":2}')]).get("a") == b'{"n":2}'

    def test_keys_come_in_order_of_their_bytes(self, make_store: MakeKeyValueStore) -> None:
        """The order also applies to prefixes and pages."""
        store = make_store([row(key) for key in ODD_KEYS])
        expected = sorted(ODD_KEYS, key=str.encode)
        assert store.keys("", 100) == (expected, None)
        assert store.keys("a\x00", 100) == (["a\x00", "a\x00\x00b"], None)
        first = store.keys("", 5)
        assert store.keys("", 100, first.next_after) == (expected[5:], None)
        assert first == (expected[:5], expected[4])

    @pytest.mark.parametrize("limit", [1, 5, 100])
    def test_ranges_of_rows(self, make_store: MakeKeyValueStore, limit: int) -> None:
        """Bounds are inclusive and optional, and backward reads return the reverse."""
        rows = {key: row(key, b'{"key":%b}' % _quoted(key)) for key in ODD_KEYS}
        store = make_store(rows.values())
        for key_from, key_to, prefix in (
            (None, None, ""), ("a", None, ""), (None, "a\x00", ""), ("a", "ü", ""), ("b", "a", ""),
            (None, None, "a"), ("a\x00", "zz", "a"),
        ):  # fmt: skip
            expected = [
                rows[key].value
                for key in sorted(ODD_KEYS, key=str.encode)
                if key.startswith(prefix)
                and (key_from is None or key.encode() >= key_from.encode())
                and (key_to is None or key.encode() <= key_to.encode())
            ]
            scan_range = ScanRange(key_from, key_to, prefix, limit=limit)
            assert [*chain(*all_pages(store.scan, scan_range))] == expected
            assert [*chain(*all_pages(store.backward_scan, scan_range))] == expected[::-1]

    def test_rows_are_counted(self, make_store: MakeKeyValueStore) -> None:
        """Each key counts once."""
        assert make_store([]).approximate_num_entries() == 0
        assert make_store([row("a"), row("b"), row("a")]).approximate_num_entries() == 2


def _quoted(key: str) -> bytes:
    escapes = {"\x00": "\\u0000", "\x01": "\\u0001"}
    return ('"' + "".join(escapes.get(c, c) for c in key) + '"').encode()
