"""One version of a store, read from its index in one LMDB read transaction.

A read is a range of record keys, ``low <= record key < high`` (``oriel.storage.key_codec``), that a
cursor walks in either direction. Windows of a key lie together, ordered by start, then end, so a
range of starts is a range of record keys.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import NamedTuple, Self

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
from oriel.storage.index.generation import OpenGeneration
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

#: Keys looked at for one page of keys, visible or not.
_KEYS_SCANNED_MAX = 20_000

#: A record of the index: record key and window as JSON.
_Record = tuple[bytes, bytes]

#: A key's prefix, low, high and least end: the records of the key with ``low <= record key < high``
#: whose window end, as it is encoded, is at least the least end (b"" for any end).
_Scan = tuple[bytes, bytes, bytes, bytes]

_NO_WINDOWS = WindowPage([], None)


class IndexUsage(NamedTuple):
    """What an index takes: the size of its file, and the places of readers in it."""

    size_bytes: int
    readers: int


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
        self._txn.abort()
        if isinstance(error, lmdb.Error):
            raise self._generation.failed(error) from error

    def window_count(self) -> int:
        """Number of records, expired ones that are not deleted yet included."""
        return self._txn.stat(self._generation.environment.windows)["entries"]

    def usage(self) -> IndexUsage:
        """What the index takes at the moment."""
        environment = self._generation.environment
        return IndexUsage(environment.promised_bytes(), environment.env.info()["num_readers"])

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
        encoded, window = self._cursor.item()
        # Of a key before this one, or expired: both compare lower.
        if encoded < lower_bound(prefix, self.earliest_ms):
            return None
        return window if _is_of_key(window, key, prefix) else None

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """See ``ReadOnlyWindowStore``. Skips from key to key, whatever their windows number."""
        scan = scan_start(prefix)
        position = scan if after is None else after_key(key_prefix(after))
        keys: list[str] = []
        key = None
        for _ in range(_KEYS_SCANNED_MAX):
            if not self._cursor.set_range(position) or not self._cursor.key().startswith(scan):
                return KeyPage(keys, None)
            if len(keys) == limit:
                break
            encoded_prefix = prefix_of(self._cursor.key())
            key = decode_prefix(encoded_prefix)
            if key is None:
                # A long key: the index has its first bytes only, each window has all of it.
                key = str(orjson.loads(self._cursor.value())["key"])
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
        is_there = self._cursor.set_range(lower_bound(encoded_prefix, self.earliest_ms))
        return is_there and self._cursor.key().startswith(encoded_prefix)

    def _exactly(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """The record of exactly this window, expired or not."""
        encoded = record_key(key, window_start_ms, window_end_ms)
        window = self._txn.get(encoded, db=self._generation.environment.windows)
        if window is None or not _is_of_key(window, key, prefix_of(encoded)):
            return None
        return window

    def _last_before(self, bound: bytes) -> bool:
        """Place the cursor on the last record below ``bound``; False when there is none."""
        if self._cursor.set_range(bound):
            return self._cursor.prev()
        return self._cursor.last()

    def _forward(self, read_range: WindowRange | SessionRange, scan: _Scan) -> WindowPage:
        """A page of the records of a scan, oldest start first."""
        prefix, low, high, least_end = scan
        if read_range.after is not None:
            # No bytes are between a record key and the same with a zero byte behind it.
            low = max(low, record_key(read_range.key, *read_range.after) + b"\x00")
        if not self._cursor.set_range(low):
            return _NO_WINDOWS
        # One more than the page may have tells whether there is a next page.
        records = _take(self._cursor.iternext(), low, high, least_end, read_range.limit + 1)
        return _page(records, read_range, prefix)

    def _backward(self, read_range: WindowRange | SessionRange, scan: _Scan) -> WindowPage:
        """A page of the records of a scan, newest start first."""
        prefix, low, high, least_end = scan
        if read_range.after is not None:
            high = min(high, record_key(read_range.key, *read_range.after))
        if not self._last_before(high):
            return _NO_WINDOWS
        records = _take(self._cursor.iterprev(), low, high, least_end, read_range.limit + 1)
        return _page(records, read_range, prefix)


class SessionSnapshot(IndexSnapshot):
    """One version of a session store, as a ``ReadOnlySessionStore``.

    Sessions are ordered by start, yet found and expired by their ends. A key's sessions may
    overlap (docs/decisions/0009), so those that end at E or later need not lie together. But
    with L the length of the longest session ever put, a session that ends at E or later has
    start >= end - L >= E - L. So a scan of the starts from E - L on meets them all, and the ends
    of the records that it meets (the last 8 bytes of their keys) say which they are.
    """

    __slots__ = ()

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        return self._forward(session_range, self._scan_by_overlap(session_range))

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        return self._backward(session_range, self._scan_by_overlap(session_range))

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        if window_end_ms < self.earliest_ms:
            return None
        return self._exactly(key, window_start_ms, window_end_ms)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(key)
        window = self._newest(prefix)
        return window if window is not None and _is_of_key(window, key, prefix) else None

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        return self._newest(encoded_prefix) is not None

    def _newest(self, prefix: bytes) -> bytes | None:
        """The last visible session of a key prefix."""
        if not self._last_before(after_key(prefix)):
            return None
        # The last by start may have expired, and a longer one before it not.
        _, low, _, least_end = self._scan(prefix, 0, LATEST_MS, 0)
        for encoded, window in self._cursor.iterprev():
            if encoded < low:
                return None
            if encoded[-TIME_BYTES:] >= least_end:
                return window
        return None

    def _scan_by_start(self, window_range: WindowRange) -> _Scan:
        prefix = key_prefix(window_range.key)
        return self._scan(prefix, window_range.from_ms, window_range.to_ms, 0)

    def _scan_by_overlap(self, session_range: SessionRange) -> _Scan:
        """The scan for the visible sessions that reach into a span of time."""
        prefix = key_prefix(session_range.key)
        return self._scan(prefix, 0, session_range.latest_start_ms, session_range.earliest_end_ms)

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


def _take(
    walk: Iterator[_Record], low: bytes, high: bytes, least_end: bytes, count: int
) -> list[_Record]:
    """The first ``count`` records of a scan, by a cursor that walks in either direction."""
    records: list[_Record] = []
    while len(records) < count:
        # Where ends are looked at, any number of records may be passed over.
        chunk = list(islice(walk, _CHUNK if least_end else min(_CHUNK, count - len(records))))
        if not chunk:
            break
        # A scan moves one way, so once it has left the range it doesn't come back: if the last
        # record is inside, all are, and if not, bisect finds where it left.
        has_left = not low <= chunk[-1][0] < high
        if has_left:
            del chunk[bisect_left(chunk, x=True, key=lambda r: not low <= r[0] < high) :]
        if least_end:
            chunk = [record for record in chunk if record[0][-TIME_BYTES:] >= least_end]
        records += chunk
        if has_left:
            break
    return records[:count]


def _page(
    records: list[_Record], read_range: WindowRange | SessionRange, prefix: bytes
) -> WindowPage:
    """The page of a scan that looked for one record more than the page may have."""
    if not records or not _is_of_key(records[0][1], read_range.key, prefix):
        return _NO_WINDOWS
    if len(records) <= read_range.limit:
        return WindowPage([window for _, window in records], None)
    records.pop()
    last = WindowId(*window_times(records[-1][0]))
    return WindowPage([window for _, window in records], last)


def _is_of_key(window: bytes, key: str, prefix: bytes) -> bool:
    """Guard against two long keys with one digest; short keys are in the record key whole."""
    return not is_long(prefix) or window.startswith(b'{"key":%b,' % orjson.dumps(key))
