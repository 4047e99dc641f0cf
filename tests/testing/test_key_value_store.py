"""The key-value store of the test driver: each line of semantics.md#8-1."""

from random import Random
from typing import Any

import pytest

from oriel.pipeline.windows import FOREVER_MS
from oriel.testing import DriverKeyValueStore, KeyValue
from tests.testing.changed_rows import (
    KEYS,
    entry,
    inside,
    key_ranges,
    one_warning,
    removed,
    stored,
)


@pytest.fixture
def store() -> DriverKeyValueStore:
    """Return a store with the keys a, a!, b and ä, added in no order."""
    keys = ("b", "ä", "a!", "a")
    return DriverKeyValueStore(stored(*(entry(key, n, n=n) for n, key in enumerate(keys))))


def keys_of(entries: list[KeyValue]) -> list[str]:
    """Return the keys in order."""
    return [found.key for found in entries]


def test_get(store: DriverKeyValueStore) -> None:
    """``get`` returns key, aggregates and time without window bounds, or None."""
    assert store.get("a!") == KeyValue("a!", {"n": 2}, 2)
    assert store.get("x") is None
    assert store.get("") is None


def test_the_newest_row_of_a_key_counts() -> None:
    """A later row of a key replaces its value and time, also with a lower time."""
    rows = stored(entry("a", 6, n=1), entry("a", 4, n=2))
    assert DriverKeyValueStore(rows).all() == [KeyValue("a", {"n": 2}, 4)]


def test_all(store: DriverKeyValueStore) -> None:
    """Entries are in key order, and ``reverse_all`` is the exact reverse."""
    assert keys_of(store.all()) == ["a", "a!", "b", "ä"]
    assert keys_of(store.reverse_all()) == ["ä", "b", "a!", "a"]


def test_keys_are_ordered_by_utf8_bytes() -> None:
    """A key directly precedes the keys that start with it, and non-ASCII keys follow ASCII keys."""
    rows = stored(*(entry(key) for key in KEYS[::-1]))
    assert keys_of(DriverKeyValueStore(rows).all()) == list(KEYS)


@pytest.mark.parametrize(
    ("key_from", "key_to", "expected"),
    [
        ("a", "b", ["a", "a!", "b"]),
        ("a!", "a!", ["a!"]),
        ("aa", "z", ["b"]),
        (None, "a!", ["a", "a!"]),
        ("b", None, ["b", "ä"]),
        (None, None, ["a", "a!", "b", "ä"]),
        ("c", "d", []),
    ],
)
def test_a_range_of_keys(
    store: DriverKeyValueStore, key_from: str | None, key_to: str | None, expected: list[str]
) -> None:
    """The key bounds are inclusive, and None leaves a bound open."""
    assert keys_of(store.range(key_from, key_to)) == expected
    assert keys_of(store.reverse_range(key_from, key_to)) == expected[::-1]


def test_a_range_of_keys_the_wrong_way_round(
    store: DriverKeyValueStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A first key above the last one returns an empty result and logs a warning."""
    with one_warning(caplog):
        assert store.range("b", "a") == []
    with one_warning(caplog):
        assert store.reverse_range("ä", "z") == []


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("a", ["a", "a!"]), ("a!", ["a!"]), ("ä", ["ä"]), ("", ["a", "a!", "b", "ä"]), ("c", [])],
)
def test_prefix_scan(store: DriverKeyValueStore, prefix: str, expected: list[str]) -> None:
    """A prefix scan returns the keys that begin with the prefix, including the prefix itself."""
    assert keys_of(store.prefix_scan(prefix)) == expected


def test_one_key_must_be_given(store: DriverKeyValueStore) -> None:
    """``None`` as a key or prefix raises a TypeError that says where ``None`` is allowed."""
    nothing: Any = None
    with pytest.raises(TypeError, match=r"the key must be a string, not None\. Only the bounds"):
        store.get(nothing)
    with pytest.raises(TypeError, match="the prefix must be a string, not None"):
        store.prefix_scan(nothing)
    number: Any = 7
    with pytest.raises(TypeError, match="key_from must be a string or None"):
        store.range(number, None)
    with pytest.raises(TypeError, match="key_to must be a string or None"):
        store.reverse_range(None, number)


def test_the_number_of_entries(store: DriverKeyValueStore) -> None:
    """The number of entries is exact, also after a removal."""
    assert store.approximate_num_entries() == 4
    store._rows.apply([removed("a", 0, FOREVER_MS), entry("b", 9)])
    assert store.approximate_num_entries() == 3
    assert store.get("a") is None


def test_responses_are_snapshots(store: DriverKeyValueStore) -> None:
    """Read results do not change with the store, and changing them does not change the store."""
    before, point = store.all(), store.get("a")
    store._rows.apply([entry("a", 9, n=9), entry("c", 9, n=9)])
    assert keys_of(before) == ["a", "a!", "b", "ä"]
    assert before[0] == point == KeyValue("a", {"n": 3}, 3)
    before[1].value["n"] = 100
    assert store.get("a!") == KeyValue("a!", {"n": 2}, 2)


@pytest.mark.parametrize("seed", range(6))
def test_every_read_is_a_filter_of_the_rows(seed: int) -> None:
    """On random rows, each read equals a sorted search through all rows."""
    random = Random(seed)
    log = [entry(random.choice(KEYS), random.randint(0, 9), n=n) for n in range(20 * (seed % 3))]
    store = DriverKeyValueStore(stored(*log))
    newest = {row["key"]: KeyValue(row["key"], {"n": row["n"]}, row["timestamp_ms"]) for row in log}
    entries = [newest[key] for key in sorted(newest, key=str.encode)]
    assert store.all() == entries == store.reverse_all()[::-1]
    assert store.approximate_num_entries() == len(entries)
    for key_from, key_to in key_ranges():
        expected = [found for found in entries if inside(found.key, key_from, key_to)]
        assert store.range(key_from, key_to) == expected
        assert store.reverse_range(key_from, key_to) == expected[::-1]
    for key in KEYS:
        assert store.get(key) == newest.get(key)
        assert store.prefix_scan(key) == [e for e in entries if e.key.startswith(key)]
