"""Pages of records: ranges of record keys that a cursor walks in either direction.

A walk reads records in chunks and sifts each whole. Where only some starts of each key are wanted,
it goes on through what is between them, or, when a chunk ends there, by one search to where the
next ones begin, whichever comes first: so many unwanted windows of few keys cost no more than few
of many keys.

Whatever comes from the index is compared with its checksum (``oriel.storage.index.checksums``)
before it is used, the records on both sides of where a search ended as well: a record key with a
flipped bit can lead a search past what it looks for, and is then one of these two.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from operator import itemgetter
from typing import NamedTuple

import lmdb
import orjson

from oriel.storage.index.checksums import (
    CHECKSUM_BYTES,
    Record,
    check,
    check_values,
    content,
    content_of,
)
from oriel.storage.key_codec import (
    TIME_BYTES,
    after_key,
    after_starts,
    decode_prefix,
    prefix_of,
    start_of,
)
from oriel.storage.key_types import KeyType

#: Records read at once, and right behind a search for wanted ones.
_CHUNK, _SMALL_CHUNK = 128, 8

_value_of = itemgetter(1)

#: How the JSON of a final window ends: ``final`` is its last field.
FINAL = b'"final":true}'
#: Where it stands in a value, in front of the checksum.
_FINAL_PLACE = slice(-CHECKSUM_BYTES - len(FINAL), -CHECKSUM_BYTES)


class Span(NamedTuple):
    """Which records to read: those with ``low <= record key < high``, and of these the wanted.

    Times are as record keys have them, b"" for no bound; those of starts are inclusive and come
    both or not at all. ``final`` is as in a ``WindowRange``, ``has_key`` as in a ``KeySpan``; the
    keys are of the type ``key_type``.
    """

    low: bytes
    high: bytes
    key_type: KeyType
    earliest_start: bytes = b""
    latest_start: bytes = b""
    least_end: bytes = b""
    final: bool | None = None
    has_key: Callable[[str], bool] | None = None


class PageBounds(NamedTuple):
    """What ends a page: so many records, so many bytes of JSON, a look at so many records."""

    records: int
    bytes: int
    looks: int


def read_page(
    cursor: "lmdb.Cursor[bytes]", span: Span, bounds: PageBounds, *, backward: bool = False
) -> tuple[list[bytes], bytes | None]:
    """Read the first windows of a span, or backwards the last ones.

    Returns them and the record key behind which the next page goes on, None when there is none.

    Raises:
        lmdb.CorruptedError: a record is damaged.
    """
    records: list[Record] = []
    windows: list[bytes] = []
    looks = size = 0
    # Where ends are looked at, the first few are often enough.
    chunk_records = _SMALL_CHUNK if span.least_end else _CHUNK
    is_sifted = bool(
        span.earliest_start or span.least_end or span.has_key or span.final is not None
    )
    at: bytes | None = span.high if backward else span.low
    while at is not None and _place(cursor, at, backward=backward):
        walk = cursor.iterprev() if backward else cursor.iternext()
        at = None
        while at is None:
            # One more than the page may have tells whether there is a next page.
            most = min(chunk_records, bounds.looks - looks)
            if not is_sifted:
                most = min(most, bounds.records + 1 - len(windows))
            chunk = list(islice(walk, most))
            looks += len(chunk)
            last = chunk[-1][0] if chunk else b""
            # A walk moves one way, so once it has left the span it doesn't come back.
            has_left = not (chunk and span.low <= last < span.high)
            chunk = _inside(chunk, span, has_left=has_left, is_sifted=is_sifted)
            if found := _sift(chunk, span) if is_sifted else chunk:
                found_windows = list(map(content_of, map(_value_of, found)))
                size += sum(map(len, found_windows))
                windows += found_windows
                records += found
            if len(windows) > bounds.records or size >= bounds.bytes:
                kept = bounds.records if size < bounds.bytes else fitting(windows, bounds)
                if kept < len(windows):
                    check(records[kept - 1 : kept])
                    return windows[:kept], records[kept - 1][0]
                return windows, None if has_left else last
            if has_left:
                return windows, None
            if looks >= bounds.looks:
                return windows, last
            at = _next_wanted(last, span, backward=backward)
            chunk_records = min(4 * chunk_records, _CHUNK) if at is None else _SMALL_CHUNK
    return windows, None


def last_before(cursor: "lmdb.Cursor[bytes]", bound: bytes) -> bool:
    """Place a cursor on the last record below ``bound``; False when there is none.

    Raises:
        lmdb.CorruptedError: it or the one behind it is damaged, so perhaps it is not the last.
    """
    around: list[Record] = []
    if cursor.set_range(bound):
        around.append(cursor.item())
        is_there = cursor.prev()
    else:
        is_there = cursor.last()
    if is_there:
        around.append(cursor.item())
    check(around)
    # Where pages are mixed up, a search ends beside its place.
    if (is_there and around[-1][0] >= bound) or (len(around) > is_there and around[0][0] < bound):
        message = "the records are not in the order of their keys"
        raise lmdb.CorruptedError(message)
    return is_there


def first_from(cursor: "lmdb.Cursor[bytes]", bound: bytes) -> bool:
    """Place a cursor on the first record at or above ``bound``; see ``last_before``."""
    return cursor.next() if last_before(cursor, bound) else cursor.first()


def key_of(record: Record, key_type: KeyType) -> str:
    """The key of this type that a record is of, which was compared with its checksum."""
    key = decode_prefix(prefix_of(record[0]), key_type)
    # Of a long key the index has the first bytes only, each window has all of it.
    return str(orjson.loads(content(record[1]))["key"]) if key is None else key


def _place(cursor: "lmdb.Cursor[bytes]", at: bytes, *, backward: bool) -> bool:
    return last_before(cursor, at) if backward else first_from(cursor, at)


def is_final(record: Record) -> bool:
    """Whether no record can change the window any more."""
    return record[1][_FINAL_PLACE] == FINAL


def _inside(chunk: list[Record], span: Span, *, has_left: bool, is_sifted: bool) -> list[Record]:
    """The records of a chunk that are in the span, compared with their checksums."""
    if is_sifted:
        # Each key has a say here.
        check(chunk)
    else:
        check_values([value for _, value in chunk])
    end = len(chunk) - 1
    if has_left:
        # If the last record is inside, all are, and if not, bisect finds where the walk left.
        end = bisect_left(chunk, x=True, key=lambda r: not span.low <= r[0] < span.high)
    # The records on both sides of the end: a garbled key may only seem to be out of range.
    check(chunk[max(0, end - 1) : end + 1])
    return chunk[:end] if has_left else chunk


def _sift(chunk: list[Record], span: Span) -> list[Record]:
    """Those records of a chunk that are wanted."""
    earliest, latest, least_end = span.earliest_start, span.latest_start, span.least_end
    if earliest:
        chunk = [record for record in chunk if earliest <= start_of(record[0]) <= latest]
    if least_end:
        chunk = [record for record in chunk if record[0][-TIME_BYTES:] >= least_end]
    if span.final is not None:
        chunk = [record for record in chunk if is_final(record) == span.final]
    if span.has_key is not None:
        chunk = [record for record in chunk if span.has_key(key_of(record, span.key_type))]
    return chunk


def fitting(windows: Sequence[bytes], bounds: PageBounds) -> int:
    """How many of the first windows a page has."""
    sizes = accumulate(map(len, windows[: bounds.records]))
    ends = (i for i, size in enumerate(sizes, 1) if size >= bounds.bytes)
    return min(next(ends, len(windows)), bounds.records)


def _next_wanted(last: bytes, span: Span, *, backward: bool) -> bytes | None:
    """Where to search for the next wanted start; None when it may be the next record's."""
    if not span.earliest_start:
        return None
    start, prefix = start_of(last), prefix_of(last)
    if start < span.earliest_start:
        return prefix if backward else prefix + span.earliest_start
    if start > span.latest_start:
        return after_starts(prefix, span.latest_start) if backward else after_key(prefix)
    return None
