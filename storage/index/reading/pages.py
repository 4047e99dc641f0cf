"""Pages of records: ranges of record keys that a cursor reads in either direction.

A read fetches records in chunks and filters each chunk. If only some window starts of each key are
wanted, it continues through the unwanted records of the chunk. At the end of a chunk, one search
skips to the next wanted start. For example, many unwanted windows of few keys cost no more than few
unwanted windows of many keys.

Each record is compared with its checksum (``oriel.storage.index.checksums``) before it is used. So
are the records on both sides of the end of a search. If a flipped bit in a record key leads a
search past its target, this record is one of the two.
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

#: Records per chunk, at most and directly after a search for wanted records.
_CHUNK, _SMALL_CHUNK = 128, 8

_value_of = itemgetter(1)

#: The end of the JSON of a final window: ``final`` is its last field.
FINAL = b'"final":true}'
#: The place of the bytes in a value, before the checksums.
_FINAL_SLICE = slice(-CHECKSUM_BYTES - len(FINAL), -CHECKSUM_BYTES)


class Span(NamedTuple):
    """The records to read: ``low <= record key < high``, and a filter.

    Attributes:
        low: The least record key.
        high: The end of the record keys (exclusive).
        key_type: The type of the keys.
        earliest_start: The least window start (inclusive), encoded as in record keys. b"": no
            bound.
        latest_start: The greatest window start (inclusive). Set both bounds of the start or
            neither.
        least_end: The least window end, encoded as in record keys. b"": no bound.
        final: See ``WindowRange``.
        has_key: See ``KeySpan``.
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
    """The bounds of a page.

    Attributes:
        records: The maximum number of records.
        bytes: The page ends with the record that reaches this number of bytes of JSON.
        looks: The maximum number of records that are read.
    """

    records: int
    bytes: int
    looks: int


def read_page(
    cursor: "lmdb.Cursor[bytes]", span: Span, bounds: PageBounds, *, backward: bool = False
) -> tuple[list[bytes], bytes | None, list[Record]]:
    """Read the first windows of a span, or the last ones if ``backward``.

    Returns:
        The windows, the record key after which the next page continues (None: this is the last
            page), and the records of the windows, which can be more than the windows.

    Raises:
        lmdb.CorruptedError: a record is damaged.
    """
    records: list[Record] = []
    windows: list[bytes] = []
    looks = size = 0
    # If the windows are filtered by their ends, the first few are often enough.
    chunk_records = _SMALL_CHUNK if span.least_end else _CHUNK
    is_filtered = bool(
        span.earliest_start or span.least_end or span.has_key or span.final is not None
    )
    search_key: bytes | None = span.high if backward else span.low
    while search_key is not None and _seek(cursor, search_key, backward=backward):
        walk = cursor.iterprev() if backward else cursor.iternext()
        search_key = None
        while search_key is None:
            # One record more than the page can have shows whether a next page exists.
            read_max = min(chunk_records, bounds.looks - looks)
            if not is_filtered:
                read_max = min(read_max, bounds.records + 1 - len(windows))
            chunk = list(islice(walk, read_max))
            looks += len(chunk)
            last = chunk[-1][0] if chunk else b""
            # A read moves in one direction. After it has left the span, it does not return.
            has_left = not (chunk and span.low <= last < span.high)
            chunk = _verified_in_span(chunk, span, has_left=has_left, is_filtered=is_filtered)
            if found := _filter(chunk, span) if is_filtered else chunk:
                found_windows = list(map(content_of, map(_value_of, found)))
                size += sum(map(len, found_windows))
                windows += found_windows
                records += found
            if len(windows) > bounds.records or size >= bounds.bytes:
                kept = bounds.records if size < bounds.bytes else fitting(windows, bounds)
                if kept < len(windows):
                    check(records[kept - 1 : kept])
                    return windows[:kept], records[kept - 1][0], records
                return windows, None if has_left else last, records
            if has_left:
                return windows, None, records
            if looks >= bounds.looks:
                return windows, last, records
            search_key = _next_search_key(last, span, backward=backward)
            chunk_records = min(4 * chunk_records, _CHUNK) if search_key is None else _SMALL_CHUNK
    return windows, None, records


def seek_last_before(cursor: "lmdb.Cursor[bytes]", bound: bytes) -> bool:
    """Move a cursor to the last record below ``bound``. Return False if no such record exists.

    Raises:
        lmdb.CorruptedError: this record or the next one is damaged, so it may not be the last.
    """
    neighbors: list[Record] = []
    if cursor.set_range(bound):
        neighbors.append(cursor.item())
        is_found = cursor.prev()
    else:
        is_found = cursor.last()
    if is_found:
        neighbors.append(cursor.item())
    check(neighbors)
    # If pages were swapped, a search can end at a wrong record.
    if (is_found and neighbors[-1][0] >= bound) or (
        len(neighbors) > is_found and neighbors[0][0] < bound
    ):
        message = "the records are not in the order of their keys"
        raise lmdb.CorruptedError(message)
    return is_found


def seek_first_from(cursor: "lmdb.Cursor[bytes]", bound: bytes) -> bool:
    """Move a cursor to the first record at or above ``bound``. See ``seek_last_before``."""
    return cursor.next() if seek_last_before(cursor, bound) else cursor.first()


def key_of(record: Record, key_type: KeyType) -> str:
    """Return the key of a record whose checksum was verified."""
    key = decode_prefix(prefix_of(record[0]), key_type)
    # For a long key, a record key has only the first bytes. The JSON of each window has the whole
    # key.
    return str(orjson.loads(content(record[1]))["key"]) if key is None else key


def _seek(cursor: "lmdb.Cursor[bytes]", search_key: bytes, *, backward: bool) -> bool:
    return seek_last_before(cursor, search_key) if backward else seek_first_from(cursor, search_key)


def is_final(record: Record) -> bool:
    """Return True if the window is final."""
    return record[1][_FINAL_SLICE] == FINAL


def _verified_in_span(
    chunk: list[Record], span: Span, *, has_left: bool, is_filtered: bool
) -> list[Record]:
    """Return the records of a chunk that are in the span, with verified checksums."""
    if is_filtered:
        # The filters use each key.
        check(chunk)
    else:
        check_values([value for _, value in chunk])
    end = len(chunk) - 1
    if has_left:
        # If the last record is in the span, all are. Otherwise, bisect finds the first one after
        # it.
        end = bisect_left(chunk, x=True, key=lambda r: not span.low <= r[0] < span.high)
    # The records on both sides of the end, because a corrupt key can appear to be out of range.
    check(chunk[max(0, end - 1) : end + 1])
    return chunk[:end] if has_left else chunk


def _filter(chunk: list[Record], span: Span) -> list[Record]:
    """Return the wanted records of a chunk."""
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
    """Return how many of the first windows fit on a page."""
    sizes = accumulate(map(len, windows[: bounds.records]))
    ends = (i for i, size in enumerate(sizes, 1) if size >= bounds.bytes)
    return min(next(ends, len(windows)), bounds.records)


def _next_search_key(last: bytes, span: Span, *, backward: bool) -> bytes | None:
    """Return where to search for the next wanted start. None: the next record can have it."""
    if not span.earliest_start:
        return None
    start, prefix = start_of(last), prefix_of(last)
    if start < span.earliest_start:
        return prefix if backward else prefix + span.earliest_start
    if start > span.latest_start:
        return after_starts(prefix, span.latest_start) if backward else after_key(prefix)
    return None
