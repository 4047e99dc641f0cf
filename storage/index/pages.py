"""Pages of records: ranges of record keys that a cursor walks in either direction.

A walk reads records in chunks and sifts each whole. Where only some starts of each key are wanted,
it goes on through what is between them, or, when a chunk ends there, by one search to where the
next ones begin, whichever comes first: so many unwanted windows of few keys cost no more than few
of many keys.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate, islice
from typing import NamedTuple

import lmdb
import orjson

from oriel.storage.key_codec import (
    TIME_BYTES,
    after_key,
    after_starts,
    decode_prefix,
    prefix_of,
    start_of,
)

#: Records read at once, and right behind a search for wanted ones.
_CHUNK, _SMALL_CHUNK = 128, 8

#: How the JSON of a final window ends: ``final`` is its last field.
_FINAL = b'"final":true}'

#: A record of the index: record key and window as JSON.
Record = tuple[bytes, bytes]


class Span(NamedTuple):
    """Which records to read: those with ``low <= record key < high``, and of these the wanted.

    Times are as record keys have them, b"" for no bound; those of starts are inclusive and come
    both or not at all. ``final`` is as in a ``WindowRange``, ``has_key`` as in a ``KeySpan``.
    """

    low: bytes
    high: bytes
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
    """
    records: list[Record] = []
    windows: list[bytes] = []
    looks = size = 0
    chunk_records = _CHUNK
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
            # A walk moves one way, so once it has left the span it doesn't come back: if the last
            # record is inside, all are, and if not, bisect finds where it left.
            has_left = not (chunk and span.low <= last < span.high)
            if has_left:
                outside = bisect_left(chunk, x=True, key=lambda r: not span.low <= r[0] < span.high)
                del chunk[outside:]
            if found := _sift(chunk, span) if is_sifted else chunk:
                found_windows = [window for _, window in found]
                size += sum(map(len, found_windows))
                windows += found_windows
                records += found
            if len(windows) > bounds.records or size >= bounds.bytes:
                kept = bounds.records if size < bounds.bytes else _fitting(windows, bounds)
                if kept < len(windows):
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
    """Place the cursor on the last record below ``bound``; False when there is none."""
    if cursor.set_range(bound):
        return cursor.prev()
    return cursor.last()


def key_of(record: Record) -> str:
    """The key that a record is of."""
    key = decode_prefix(prefix_of(record[0]))
    # Of a long key the index has the first bytes only, each window has all of it.
    return str(orjson.loads(record[1])["key"]) if key is None else key


def _place(cursor: "lmdb.Cursor[bytes]", at: bytes, *, backward: bool) -> bool:
    return last_before(cursor, at) if backward else cursor.set_range(at)


def _sift(chunk: list[Record], span: Span) -> list[Record]:
    """Those records of a chunk that are wanted."""
    earliest, latest, least_end = span.earliest_start, span.latest_start, span.least_end
    if earliest:
        chunk = [record for record in chunk if earliest <= start_of(record[0]) <= latest]
    if least_end:
        chunk = [record for record in chunk if record[0][-TIME_BYTES:] >= least_end]
    if span.final is not None:
        chunk = [record for record in chunk if record[1].endswith(_FINAL) == span.final]
    if span.has_key is not None:
        chunk = [record for record in chunk if span.has_key(key_of(record))]
    return chunk


def _fitting(windows: list[bytes], bounds: PageBounds) -> int:
    """How many of the first windows a page has."""
    sizes = accumulate(map(len, windows[: bounds.records]))
    fitting = (i for i, size in enumerate(sizes, 1) if size >= bounds.bytes)
    return min(next(fitting, len(windows)), bounds.records)


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
