"""One version of a store, read from its index in one LMDB read transaction.

A read is a range of record keys, ``low <= record key < high`` (``oriel.storage.key_codec``), that a
cursor walks in either direction. Windows of a key lie together, ordered by start, then end, so a
range of starts is a range of record keys.

Whatever comes from the index is compared with its checksum (``oriel.storage.index.checksums``)
before it is used, the records on both sides of where a search ended as well: a record key with a
flipped bit can lead a search past what it looks for, and is then one of these two.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from types import TracebackType
from typing import Self

import lmdb
import orjson

from oriel.storage.contracts import (
    LATEST_MS,
    KeyPage,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
)
from oriel.storage.index.checksums import (
    Record,
    check,
    check_values,
    content,
    content_of,
)
from oriel.storage.index.generation import OpenGeneration
from oriel.storage.index.lengths import class_prefix, classes_of, longest_ms
from oriel.storage.index.state import IndexState
from oriel.storage.key_codec import (
    TIME_BYTES,
    after_key,
    decode_prefix,
    encoded_time,
    is_long,
    key_prefix,
    lower_bound,
    prefix_of,
    record_key,
    scan_start,
    upper_bound,
    window_times,
)

#: Records read ahead of the check that they are still in range.
_CHUNK = 128
#: The same where ends are looked at, at first: often the first few are enough.
_CHUNK_MIN = 4

#: Keys looked at for one page of keys, visible or not.
_KEYS_SCANNED_MAX = 20_000

#: A key's prefix, low, high and least end: the records of the key with ``low <= record key < high``
#: whose window end, as it is encoded, is at least the least end (b"" for any end).
_Scan = tuple[bytes, bytes, bytes, bytes]

_value_of = itemgetter(1)
_NO_WINDOWS = WindowPage([], None)


class IndexSnapshot:
    """One version of a store, as a ``ReadOnlyWindowStore``; use it in a ``with`` statement.

    ``IndexReader`` begins them, and knows which class reads which kind of store.
    """

    __slots__ = ("_cursor", "_generation", "_txn", "earliest_ms", "state")

    def __init__(
        self, generation: OpenGeneration, txn: "lmdb.Transaction[bytes]", state: IndexState
    ) -> None:
        """Read an open generation in a read transaction that sees this state."""
        self._generation = generation
        self._txn = txn
        self._cursor = txn.cursor(generation.environment.windows)
        self.state = state
        self.earliest_ms = state.earliest_ms

    def __enter__(self) -> Self:
        """Give the snapshot itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the read transaction; an LMDB error inside becomes ``IndexDamaged``."""
        self._generation.end(self._txn)
        if isinstance(error, lmdb.Error):
            raise self._generation.failed(error) from error

    def window_count(self) -> int:
        """Number of records, expired ones that are not deleted yet included."""
        return self._txn.stat(self._generation.environment.windows)["entries"]

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        page = self.fetch(WindowRange(key, window_start_ms, window_start_ms, 1))
        return page.windows[0] if page.windows and window_start_ms >= 0 else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return self._forward(window_range, self._scan_by_start(window_range))

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return self._backward(window_range, self._scan_by_start(window_range))

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(key)
        if not self._last_before(after_key(prefix)):
            return None
        encoded, value = self._cursor.item()
        # Of a key before this one, or expired: both compare lower.
        if encoded < lower_bound(prefix, self.earliest_ms):
            return None
        return content(value) if _is_of_key(value, key, prefix) else None

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """See ``ReadOnlyWindowStore``. Skips from key to key, whatever their windows number."""
        scan = scan_start(prefix)
        position = scan if after is None else after_key(key_prefix(after))
        keys: list[str] = []
        key = None
        for _ in range(_KEYS_SCANNED_MAX):
            if not self._first_from(position) or not self._cursor.key().startswith(scan):
                return KeyPage(keys, None)
            if len(keys) == limit:
                break
            encoded_prefix = prefix_of(self._cursor.key())
            key = decode_prefix(encoded_prefix)
            if key is None:
                # A long key: the index has its first bytes only, each window has all of it.
                key = str(orjson.loads(content(self._cursor.value()))["key"])
            if key.startswith(prefix) and self._is_visible(encoded_prefix):
                keys.append(key)
            position = after_key(encoded_prefix)
        return KeyPage(keys, key)

    def _scan_by_start(self, window_range: WindowRange) -> _Scan:
        """The scan for the visible windows that start in a range."""
        prefix = key_prefix(window_range.key)
        low = lower_bound(prefix, max(window_range.from_ms, self.earliest_ms))
        return prefix, low, upper_bound(prefix, window_range.to_ms), b""

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        """Whether the key at the cursor has a window that retention leaves visible."""
        if self.earliest_ms == 0:
            return True
        is_there = self._first_from(lower_bound(encoded_prefix, self.earliest_ms))
        return is_there and self._cursor.key().startswith(encoded_prefix)

    def _exactly(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """The record of exactly this window, expired or not."""
        encoded = record_key(key, window_start_ms, window_end_ms)
        if not self._first_from(encoded) or self._cursor.key() != encoded:
            return None
        value = self._cursor.value()
        return content(value) if _is_of_key(value, key, prefix_of(encoded)) else None

    def _last_before(self, bound: bytes) -> bool:
        """Place the cursor on the last record below ``bound``; False when there is none."""
        return last_before(self._cursor, bound)

    def _first_from(self, bound: bytes) -> bool:
        """Place the cursor on the first record at or above ``bound``; False when there is none."""
        return first_from(self._cursor, bound)

    def _forward(
        self, read_range: WindowRange | SessionRange, scan: _Scan, before: Sequence[Record] = ()
    ) -> WindowPage:
        """A page of the records of a scan, oldest start first, and of those before it."""
        prefix, low, high, least_end = scan
        # One more than the page may have tells whether there is a next page.
        count = read_range.limit + 1
        if read_range.after is not None:
            # No bytes are between a record key and the same with a zero byte behind it.
            beyond = record_key(read_range.key, *read_range.after) + b"\x00"
            before = [record for record in before if record[0] >= beyond]
            low = max(low, beyond)
        records = list(before[:count])
        if low < high and len(records) < count and self._first_from(low):
            walk = self._cursor.iternext()
            records += _take(walk, low, high, least_end, count - len(records))
        return _page(records, read_range, prefix)

    def _backward(
        self, read_range: WindowRange | SessionRange, scan: _Scan, behind: Sequence[Record] = ()
    ) -> WindowPage:
        """A page of the records of a scan, newest start first, and of those behind it."""
        prefix, low, high, least_end = scan
        count = read_range.limit + 1
        if read_range.after is not None:
            last = record_key(read_range.key, *read_range.after)
            behind = [record for record in behind if record[0] < last]
            high = min(high, last)
        records: list[Record] = []
        if low < high and self._last_before(high):
            records = _take(self._cursor.iterprev(), low, high, least_end, count)
        records += behind[: count - len(records)]
        return _page(records, read_range, prefix)


class SessionSnapshot(IndexSnapshot):
    """One version of a session store, as a ``ReadOnlySessionStore``.

    Sessions are ordered by start, yet found and expired by their ends. A key's sessions may
    overlap (docs/decisions/0009), so those that end at E or later need not lie together. A search
    for them has two parts. The main one goes by start, from E less the length of the shortest class
    of which the key has sessions: what begins before and ends at E or later is longer. Those are
    looked up class by class (``oriel.storage.index.lengths``), a few records each.
    """

    __slots__ = ()

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        begun_before, scan = self._overlapping(session_range)
        return self._forward(session_range, scan, begun_before)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        begun_before, scan = self._overlapping(session_range)
        return self._backward(session_range, scan, begun_before[::-1])

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        if window_end_ms < self.earliest_ms:
            return None
        return self._exactly(key, window_start_ms, window_end_ms)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(key)
        value = self._newest(prefix)
        return content(value) if value is not None and _is_of_key(value, key, prefix) else None

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        return self._newest(encoded_prefix) is not None

    def _newest(self, prefix: bytes) -> bytes | None:
        """The value of the last visible session of a key prefix."""
        if not self._last_before(after_key(prefix)):
            return None
        # The last by start may have expired, and a longer one before it not.
        _, low, _, least_end = self._scan(prefix, 0, LATEST_MS, 0)
        for encoded, value in self._cursor.iterprev():
            check([(encoded, value)])
            if encoded < low:
                return None
            if encoded[-TIME_BYTES:] >= least_end:
                return value
        return None

    def _scan_by_start(self, window_range: WindowRange) -> _Scan:
        prefix = key_prefix(window_range.key)
        return self._scan(prefix, window_range.from_ms, window_range.to_ms, 0)

    def _overlapping(self, session_range: SessionRange) -> tuple[list[Record], _Scan]:
        """What to read for the visible sessions that reach into a span of time.

        The records of sessions that begin before the scan does, oldest start first, and the scan.
        """
        prefix = key_prefix(session_range.key)
        end_ms = max(session_range.earliest_end_ms, self.earliest_ms, 0)
        cursor = self._txn.cursor(self._generation.environment.lengths)
        classes = list(classes_of(cursor, prefix))
        start_ms = max(0, end_ms - longest_ms(classes[0])) if classes else 0
        latest_ms = session_range.latest_start_ms
        least_end, high_ms = encoded_time(end_ms), min(start_ms - 1, latest_ms)
        found: list[bytes] = []
        for length_class in classes[1:] if start_ms else []:
            of_class = class_prefix(prefix, length_class)
            low = lower_bound(of_class, max(0, end_ms - longest_ms(length_class)))
            high = upper_bound(of_class, high_ms)
            if low >= high or not first_from(cursor, low):
                continue
            longer = _take(cursor.iternext(), low, high, least_end, sys.maxsize)
            found += [encoded[len(of_class) :] for encoded, _ in longer]
        keys = [prefix + times for times in sorted(found)]
        windows = self._generation.environment.windows
        begun_before = [(key, self._txn.get(key, b"", windows)) for key in keys]
        check(begun_before)
        low, high = lower_bound(prefix, start_ms), upper_bound(prefix, latest_ms)
        return begun_before, (prefix, low, high, least_end)

    def _scan(
        self, prefix: bytes, earliest_start_ms: int, latest_start_ms: int, earliest_end_ms: int
    ) -> _Scan:
        """The scan for the visible sessions within these bounds, all inclusive."""
        end_ms = max(earliest_end_ms, self.earliest_ms)
        # start >= end - L, see above; no session starts before 0.
        start_ms = max(earliest_start_ms, end_ms - self.state.extent.longest_ms, 0)
        low, high = lower_bound(prefix, start_ms), upper_bound(prefix, latest_start_ms)
        return prefix, low, high, encoded_time(end_ms)


class KeyValueSnapshot(IndexSnapshot):
    """One version of a store without windows, as a ``ReadOnlyKeyValueStore``."""

    __slots__ = ()

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        # The one row of a key is written as if it were of a window [0, 0].
        return self._exactly(key, 0, 0)


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
        message = "records are not in their order"
        raise lmdb.CorruptedError(message)
    return is_there


def first_from(cursor: "lmdb.Cursor[bytes]", bound: bytes) -> bool:
    """Place a cursor on the first record at or above ``bound``; see ``last_before``."""
    return cursor.next() if last_before(cursor, bound) else cursor.first()


def _take(
    walk: Iterator[Record], low: bytes, high: bytes, least_end: bytes, count: int
) -> list[Record]:
    """The first ``count`` records of a scan, by a cursor that walks in either direction."""
    records: list[Record] = []
    size = _CHUNK_MIN
    while len(records) < count:
        # Where ends are looked at, any number of records may be passed over.
        size = min(_CHUNK, 2 * size) if least_end else min(_CHUNK, count - len(records))
        chunk = list(islice(walk, size))
        if not chunk:
            break
        if least_end:
            # Each key has a say here.
            check(chunk)
        else:
            check_values([value for _, value in chunk])
        # A scan moves one way, so once it has left the range it doesn't come back: if the last
        # record is inside, all are, and if not, bisect finds where it left.
        has_left = not low <= chunk[-1][0] < high
        end = len(chunk) - 1
        if has_left:
            end = bisect_left(chunk, x=True, key=lambda r: not low <= r[0] < high)
        # The records on both sides of the end: a garbled key may only seem to be out of range.
        check(chunk[max(0, end - 1) : end + 1])
        if has_left:
            del chunk[end:]
        if least_end:
            chunk = [record for record in chunk if record[0][-TIME_BYTES:] >= least_end]
        records += chunk
        if has_left:
            break
    return records[:count]


def _page(
    records: list[Record], read_range: WindowRange | SessionRange, prefix: bytes
) -> WindowPage:
    """The page of a scan that looked for one record more than the page may have."""
    if not records or not _is_of_key(records[0][1], read_range.key, prefix):
        return _NO_WINDOWS
    if len(records) <= read_range.limit:
        return WindowPage(list(map(content_of, map(_value_of, records))), None)
    records.pop()
    last = WindowId(*window_times(records[-1][0]))
    return WindowPage(list(map(content_of, map(_value_of, records))), last)


def _is_of_key(value: bytes, key: str, prefix: bytes) -> bool:
    """Guard against two long keys with one digest; short keys are in the record key whole."""
    return not is_long(prefix) or value.startswith(b'{"key":%b,' % orjson.dumps(key))
