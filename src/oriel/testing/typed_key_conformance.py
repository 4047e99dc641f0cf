"""Tests of every read-only store with keys that are not strings.

The tests use the reads that stores of all kinds have. A read of one key is a range of one key.
"""

from collections.abc import Callable, Iterable, Sequence

import orjson
import pytest

from oriel.storage import ScanRange
from oriel.storage.contracts import ReadOnlyStore
from oriel.storage.errors import KeyTypeMismatch
from oriel.testing.scan_conformance import all_pages
from oriel.testing.store_models import Put, put

#: Creates a store with these puts and with keys of this type.
MakeTypedStore = Callable[[Iterable[Put], str], ReadOnlyStore]


def _composites(*values: Sequence[str | int]) -> tuple[str, ...]:
    return tuple(orjson.dumps(value).decode() for value in values)


#: Name of a type -> its keys in their order. Some are longer than a key of LMDB and differ in their
#: first bytes.
ORDERED_KEYS = {
    "long": (
        "-9223372036854775808", "-4294967296", "-257", "-256", "-10", "-9", "-1", "0", "1", "9",
        "10", "255", "256", "65536", "9007199254740993", "9223372036854775807",
    ),
    "[text, long]": _composites(
        ("", -1), ("", 0), ("", 1), ("\x00", -5), ('"', 0), ("a", -256), ("a", 2), ("a", 10),
        ("a\x00", -3), ("a\x00\x00", -4), ("a\x01", 1), ("a,b", 1), ("ab", -1), ("ab" * 300, 5),
        ("ac" * 300, 4), ("b", 0), ("é", 7), ("\uffff", 7), ("😀", 6),
    ),
    "[long, text, text]": _composites(
        (-2, "z", "z"), (-1, "", ""), (-1, "", "a"), (-1, "a", ""), (-1, "a", "b"), (-1, "ab", ""),
        (0, "", ""), (255, "", ""), (256, "a", "b"), (2**63 - 1, "", "\x00"),
    ),
    "[long, long]": _composites((-1, 5), (0, -1), (0, 0), (0, 256), (1, -(2**63)), (256, 0)),
    "[text]": _composites([""], ["a"], ["aa"], ["b"]),
}  # fmt: skip

#: Name of a type -> prefixes of its keys.
PREFIXES = {
    "[text, long]": ('["",', '["a",', '["a\\u0000",', '["none",'),
    "[long, text, text]": ("[-1,", '[-1,"a",', "[7,"),
    "[long, long]": ("[0,", "[256,"),
}

#: Name of a type -> strings that are not its keys, or not prefixes of keys next to each other.
UNFIT_KEYS = {
    "long": (
        "", "abc", "007", "-0", "+1", "1.0", "1e3", " 1", "[1]", "9223372036854775808",
        "-9223372036854775809",
    ),
    "[text, long]": (
        "", "a", '["a"]', '["a",1,2]', '["a","1"]', '["a",1.0]', '["a",true]', '["a", 1]',
        '["\\u0061",1]', '[1,"a"]', '["a",9223372036854775808]',
    ),
}  # fmt: skip
UNFIT_PREFIXES = {
    "long": ("1", "-", "abc"),
    "[text, long]": ("[", '["a', '["a"', '["a"]', '["a",1,', "a", "[1,", '["a" ,'),
}

_TYPES = pytest.mark.parametrize("key_type", ORDERED_KEYS)


def _keys(entries: Iterable[bytes]) -> list[str]:
    return [orjson.loads(entry)["key"] for entry in entries]


def _puts(key_type: str) -> list[Put]:
    # The order differs from the order of the keys and its reverse.
    keys = ORDERED_KEYS[key_type]
    return [put(key, 0, 0) for key in (*keys[1::2], *keys[::2])]


class TypedKeyConformance:
    """Tests that a store of any kind compares keys by their type.

    Inherit the suite in a test class with a fixture ``make_typed_store``. It returns a function
    that creates a store from puts and the name of a key type, for example ``"[text, long]"``.

    Example:
        >>> import pytest
        >>> class TestMyStore(TypedKeyConformance):
        ...     @pytest.fixture
        ...     def make_typed_store(self):
        ...         # Replace ModelWindowStore by your store.
        ...         return lambda puts, key_type: ModelWindowStore(puts, key_type=key_type)
    """

    @_TYPES
    @pytest.mark.parametrize("limit", [1, 3, 100])
    def test_keys_come_in_the_order_of_their_type(
        self, make_typed_store: MakeTypedStore, key_type: str, limit: int
    ) -> None:
        """Each page size returns the same order, and backward reads return the reverse."""
        store, expected = make_typed_store(_puts(key_type), key_type), [*ORDERED_KEYS[key_type]]
        for read, in_order in ((store.scan, expected), (store.backward_scan, expected[::-1])):
            pages = all_pages(read, ScanRange(limit=limit))
            assert [key for page in pages for key in _keys(page)] == in_order

    @_TYPES
    def test_keys_are_listed_in_the_order_of_their_type(
        self, make_typed_store: MakeTypedStore, key_type: str
    ) -> None:
        """All pages together have all keys in order."""
        store, listed = make_typed_store(_puts(key_type), key_type), []
        page = store.keys("", 2)
        while page.next_after is not None:
            listed += page.keys
            page = store.keys("", 2, page.next_after)
        assert [*listed, *page.keys] == [*ORDERED_KEYS[key_type]]

    @_TYPES
    def test_ranges_have_both_keys_inclusive(
        self, make_typed_store: MakeTypedStore, key_type: str
    ) -> None:
        """Bounds can be unknown keys. If the first bound is greater, the result is empty."""
        keys = ORDERED_KEYS[key_type]
        there = set(keys[::2])
        store = make_typed_store([put(key, 0, 0) for key in there], key_type)
        for at_from in range(0, len(keys), 3):
            for at_to in range(1, len(keys), 3):
                expected = [key for key in keys[at_from : at_to + 1] if key in there]
                scan_range = ScanRange(keys[at_from], keys[at_to])
                assert _keys(store.scan(scan_range).entries) == expected
                assert _keys(store.backward_scan(scan_range).entries) == expected[::-1]

    @pytest.mark.parametrize("key_type", PREFIXES)
    def test_prefixes_are_of_whole_components(
        self, make_typed_store: MakeTypedStore, key_type: str
    ) -> None:
        """A prefix of composite keys ends with a comma."""
        store = make_typed_store(_puts(key_type), key_type)
        for prefix in PREFIXES[key_type]:
            expected = [key for key in ORDERED_KEYS[key_type] if key.startswith(prefix)]
            assert _keys(store.scan(ScanRange(prefix=prefix)).entries) == expected
            assert _keys(store.backward_scan(ScanRange(prefix=prefix)).entries) == expected[::-1]
            assert store.keys(prefix, 100).keys == expected

    @pytest.mark.parametrize("key_type", UNFIT_KEYS)
    def test_what_is_no_key_of_the_type_is_refused(
        self, make_typed_store: MakeTypedStore, key_type: str
    ) -> None:
        """A key has only one spelling, and a prefix of digits is not a range of numbers."""
        store = make_typed_store(_puts(key_type), key_type)
        for key in UNFIT_KEYS[key_type]:
            for scan_range in (ScanRange(key_from=key), ScanRange(key_to=key)):
                with pytest.raises(KeyTypeMismatch):
                    store.scan(scan_range)
        for prefix in UNFIT_PREFIXES[key_type]:
            with pytest.raises(KeyTypeMismatch):
                store.scan(ScanRange(prefix=prefix))
            with pytest.raises(KeyTypeMismatch):
                store.keys(prefix, 1)
