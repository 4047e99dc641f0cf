"""Tests of record keys: order, round trip, and equal bytes from scalar and vectorized code."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage.key_codec import (
    LMDB_KEY_BYTES_MAX,
    after_key,
    decode_prefix,
    encoded_time,
    is_long,
    key_prefix,
    key_span,
    lower_bound,
    prefix_of,
    record_key,
    record_keys,
    scan_start,
    start_of,
    upper_bound,
    window_times,
)
from oriel.storage.key_types import TEXT

_TIMES = st.integers(-(2**63), 2**63 - 1)
_ANY_KEYS = st.one_of(
    st.text(),
    st.text(alphabet="a\x00\x01\xff", max_size=12),
    st.text(alphabet="a\x00é", min_size=440, max_size=520),
)
_SHORT_KEYS = st.text(alphabet=st.sampled_from("ab\x00\x01\x7fé😀/"), max_size=9)
_WINDOWS = st.tuples(_SHORT_KEYS, _TIMES, _TIMES)


@given(_WINDOWS, _WINDOWS)
def test_bytes_are_ordered_by_key_then_start_then_end(
    first: tuple[str, int, int], second: tuple[str, int, int]
) -> None:
    """Record keys have the order of (UTF-8 bytes, start, end)."""
    expected = (first[0].encode(), *first[1:]) < (second[0].encode(), *second[1:])
    assert (record_key(*first, TEXT) < record_key(*second, TEXT)) == expected


@given(_ANY_KEYS, _TIMES, _TIMES)
def test_a_record_key_reads_back(key: str, start_ms: int, end_ms: int) -> None:
    """Short keys and all times are decoded, and a long key is decoded as None."""
    encoded = record_key(key, start_ms, end_ms, TEXT)
    decoded = decode_prefix(prefix_of(encoded), TEXT)
    assert decoded in (key, None)
    assert (decoded is None) == is_long(key_prefix(key, TEXT))
    assert window_times(encoded) == (start_ms, end_ms)
    assert prefix_of(encoded) == key_prefix(key, TEXT)


@given(_ANY_KEYS)
def test_no_record_key_is_longer_than_lmdb_takes(key: str) -> None:
    """The record key of any key is short enough for LMDB."""
    assert len(record_key(key, 0, 0, TEXT)) <= LMDB_KEY_BYTES_MAX


@given(st.lists(st.tuples(_ANY_KEYS, _TIMES, _TIMES), max_size=20))
def test_whole_columns_give_the_same_bytes(rows: list[tuple[str, int, int]]) -> None:
    """Vectorized and scalar encoding return the same bytes."""
    keys = pa.array([row[0] for row in rows], pa.string())
    starts = np.array([row[1] for row in rows], np.int64)
    ends = np.array([row[2] for row in rows], np.int64)
    assert record_keys(keys, starts, ends, TEXT).to_pylist() == [
        record_key(*row, TEXT) for row in rows
    ]


@given(_ANY_KEYS, _ANY_KEYS, _TIMES, _TIMES)
def test_bounds_hold_exactly_the_windows_of_a_key_in_range(
    key: str, other: str, start_ms: int, bound_ms: int
) -> None:
    """The bounds of a range include exactly the windows of the key with a start in the range."""
    prefix, encoded = key_prefix(key, TEXT), record_key(key, start_ms, 5, TEXT)
    assert (encoded >= lower_bound(prefix, bound_ms)) == (start_ms >= bound_ms)
    assert (encoded < upper_bound(prefix, bound_ms)) == (start_ms <= bound_ms)
    foreign = record_key(other, start_ms, 5, TEXT)
    assert (prefix <= foreign < after_key(prefix)) == (other == key)


@given(_ANY_KEYS, st.integers(0, 600))
def test_a_scan_by_prefix_meets_each_key_that_begins_so(key: str, length: int) -> None:
    """The record key of a key starts with the scan bytes of each prefix of the key."""
    assert record_key(key, 0, 0, TEXT).startswith(scan_start(key[:length], TEXT))


@given(_ANY_KEYS, st.one_of(st.none(), _ANY_KEYS), st.one_of(st.none(), _ANY_KEYS), st.data())
def test_a_span_has_exactly_the_keys_between_its_bounds(
    key: str, key_from: str | None, key_to: str | None, data: st.DataObject
) -> None:
    """A span has exactly the keys between its bounds with its prefix, for any key length."""
    cut = data.draw(st.integers(0, len(key)))
    for prefix in ("", key[:cut], key[:cut] + "a"):
        expected = (
            (key_from is None or key_from.encode() <= key.encode())
            and (key_to is None or key.encode() <= key_to.encode())
            and key.encode().startswith(prefix.encode())
        )
        low, high, has = key_span(key_from, key_to, prefix, TEXT)
        is_met = low <= record_key(key, 0, 5, TEXT) < high
        assert (is_met and (has is None or has(key))) == expected


def test_the_layout_is_what_the_docstring_says() -> None:
    """Record keys have the bytes of the documented layout."""
    assert record_key("a", 1, 2, TEXT) == b"a\x00\x00\x80\0\0\0\0\0\0\x01\x80\0\0\0\0\0\0\x02"
    assert record_key("\x00", -1, 0, TEXT).startswith(b"\x00\xff\x00\x00\x7f\xff\xff\xff")
    long_key = "x" * 494
    digest = hashlib.sha256(long_key.encode()).digest()
    assert key_prefix(long_key, TEXT) == b"x" * 459 + b"\x00\x01" + digest + b"\x00\x00"
    assert key_prefix("x" * 493, TEXT) == b"x" * 493 + b"\x00\x00"


@pytest.mark.parametrize("length", [457, 458, 459, 460, 492, 493])
def test_a_key_of_at_most_493_bytes_is_written_whole(length: int) -> None:
    """A key of at most 493 bytes is stored whole, although a long key keeps only 459 bytes."""
    prefix = key_prefix("x" * length, TEXT)
    assert not is_long(prefix)
    assert decode_prefix(prefix, TEXT) == "x" * length


@pytest.mark.parametrize("length", [494, 495, 10_000])
def test_a_key_of_more_than_493_bytes_is_long(length: int) -> None:
    """A key of more than 493 bytes cannot be decoded from the record key."""
    prefix = key_prefix("x" * length, TEXT)
    assert is_long(prefix)
    assert decode_prefix(prefix, TEXT) is None


def test_the_start_of_a_record_key_is_between_its_key_and_its_end() -> None:
    """The start of a window is 8 bytes in the format of `encoded_time`."""
    assert start_of(record_key("abcdefghi", -7, 9, TEXT)) == encoded_time(-7)


@pytest.mark.parametrize("bound", ["x" * 458, "x" * 459])
def test_bounds_of_at_most_459_bytes_need_no_filter(bound: str) -> None:
    """A bound of at most 459 bytes needs no filter, because its record keys are contiguous."""
    for span in (
        key_span(None, None, bound, TEXT),
        key_span(bound, None, "", TEXT),
        key_span(None, bound, "", TEXT),
    ):
        assert span.has is None


def test_a_longer_bound_needs_a_filter() -> None:
    """A longer bound needs a filter, because record keys on both sides of it are mixed."""
    bound, less, greater = "x" * 460, "x" * 459, "x" * 460 + "y"
    begins, is_from, is_to = (
        key_span(None, None, bound, TEXT).has,
        key_span(bound, None, "", TEXT).has,
        key_span(None, bound, "", TEXT).has,
    )
    assert begins is not None
    assert is_from is not None
    assert is_to is not None
    keys = (less, bound, greater)
    assert [begins(key) for key in keys] == [False, True, True]
    assert [is_from(key) for key in keys] == [False, True, True]
    assert [is_to(key) for key in keys] == [True, True, False]
