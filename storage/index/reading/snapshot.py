"""One version of a store, read from its index in one LMDB read transaction.

A read is a range of record keys, ``low <= record key < high`` (``oriel.storage.key_codec``), that a
cursor reads in either direction. Windows of a key are next to each other, ordered by start, then
end. So a range of starts is a range of record keys.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import lmdb
import orjson

from oriel.storage.contracts import (
    LATEST_MS,
    UNBOUNDED,
    KeyPage,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
    fits_request,
)
from oriel.storage.index.checksums import check, checked_content, content
from oriel.storage.index.generation import OpenGeneration
from oriel.storage.index.reading.pages import (
    PageBounds,
    Span,
    key_of,
    read_page,
    seek_first_from,
    seek_last_before,
)
from oriel.storage.index.state import IndexState
from oriel.storage.key_codec import (
    KeySpan,
    after_key,
    encoded_time,
    is_long,
    key_prefix,
    key_span,
    lower_bound,
    prefix_of,
    record_key,
    scan_start,
    start_of,
    upper_bound,
    window_times,
)

#: The bytes before the time of a window's newest record in its JSON.
_TIMESTAMP = b'"timestamp_ms":'

#: Key prefix, low, high and least end: the records of the key with ``low <= record key < high``
#: whose encoded window end is at least the least end (b"" for any end).
Scan = tuple[bytes, bytes, bytes, bytes]


class IndexUsage(NamedTuple):
    """The usage of an index.

    Attributes:
        size_bytes: The size of its file.
        readers: The number of used slots in its reader table.
    """

    size_bytes: int
    readers: int


class IndexSnapshot:
    """One version of a store, as a ``ReadOnlyStore``. Use it in a ``with`` statement.

    ``IndexReader.snapshot`` creates it, with the class for the kind of the store.
    """

    __slots__ = ("_cursor", "_generation", "_key_type", "_txn", "earliest_ms", "state")

    def __init__(
        self, generation: OpenGeneration, txn: "lmdb.Transaction[bytes]", state: IndexState
    ) -> None:
        """Read an open generation in a read transaction that sees this state."""
        self._generation = generation
        self._txn = txn
        self._cursor = txn.cursor(generation.environment.windows)
        self.state = state
        self._key_type = state.definition.keys
        self.earliest_ms = state.earliest_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the read transaction.

        Raises:
            IndexDamaged: an LMDB error in the block shows damage.
            StoreNotReady: another LMDB error occurred in the block.
        """
        self._generation.end(self._txn)
        if isinstance(error, lmdb.Error):
            raise self._generation.failed(error) from error

    def window_count(self) -> int:
        """Return the number of records, including expired ones that are not deleted yet."""
        return self._txn.stat(self._generation.environment.windows)["entries"]

    def usage(self) -> IndexUsage:
        """Return the current usage of the index."""
        environment = self._generation.environment
        return IndexUsage(environment.required_bytes(), environment.env.info()["num_readers"])

    def scan(self, scan_range: ScanRange) -> ScanPage:
        return self._scan_keys(scan_range, backward=False)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        return self._scan_keys(scan_range, backward=True)

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``. It skips from key to key, not from window to window."""
        scan = scan_start(prefix, self._key_type)
        position = scan if after is None else after_key(key_prefix(after, self._key_type))
        keys: list[str] = []
        key = None
        for _ in range(records_max):
            is_found = seek_first_from(self._cursor, position)
            if not is_found or not self._cursor.key().startswith(scan):
                return KeyPage(keys, None)
            if len(keys) == limit:
                break
            key = key_of(self._cursor.item(), self._key_type)
            encoded_prefix = prefix_of(self._cursor.key())
            is_listed = key.startswith(prefix) and fits_request(key)
            if is_listed and self._is_visible(encoded_prefix):
                keys.append(key)
            position = after_key(encoded_prefix)
        return KeyPage(keys, key)

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        """Return True if the key at the cursor has a visible window."""
        if self.earliest_ms == 0:
            return True
        is_found = seek_first_from(self._cursor, lower_bound(encoded_prefix, self.earliest_ms))
        return is_found and self._cursor.key().startswith(encoded_prefix)

    def _has_expired(self, encoded: bytes) -> bool:
        """Return True if retention has expired the window of a record key (semantics.md#7)."""
        return start_of(encoded) < encoded_time(self.earliest_ms)

    def _fetch_exact(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """Return exactly this window, expired or not."""
        encoded = record_key(key, window_start_ms, window_end_ms, self._key_type)
        if not seek_first_from(self._cursor, encoded) or self._cursor.key() != encoded:
            return None
        value = self._cursor.value()
        return content(value) if is_of_key(value, key, prefix_of(encoded)) else None

    def _scan_keys(self, scan_range: ScanRange, *, backward: bool) -> ScanPage:
        """Read a page of the records of many keys."""
        low, high, has_key = self._key_span(scan_range)
        if scan_range.after is not None:
            low, high = _rest_after(scan_range.after, low, high, backward=backward)
        from_ms, end_ms = self._visible_bounds(scan_range)
        if from_ms > scan_range.to_ms:
            return ScanPage([], None)
        span = Span(low, high, self._key_type, final=scan_range.final, has_key=has_key)
        if from_ms > 0 or scan_range.to_ms < LATEST_MS:
            starts = encoded_time(from_ms), encoded_time(scan_range.to_ms)
            span = span._replace(earliest_start=starts[0], latest_start=starts[1])
        if end_ms > 0:
            span = span._replace(least_end=encoded_time(end_ms))
        windows, next_after, records = read_page(
            self._cursor, span, page_bounds(scan_range), backward=backward
        )
        if not scan_range.with_partials or not windows:
            return ScanPage(windows, next_after)
        keys = [key for key, _ in records[: len(windows)]]
        partials = self._partials(keys, scan_range.bytes_max)
        read = len(partials)
        if read == len(windows):
            return ScanPage(windows, next_after, partials)
        return ScanPage(windows[:read], keys[read - 1], partials)

    def _partials(self, keys: Sequence[bytes], bytes_max: int) -> list[bytes]:
        """Return the partial aggregates of windows, at least one, up to a number of bytes.

        Raises:
            lmdb.CorruptedError: a record is damaged or missing.
        """
        database = self._generation.environment.partials
        found: list[bytes] = []
        size = 0
        for key in keys:
            value = None if database is None else self._txn.get(key, db=database)
            one = checked_content(key, value)
            if one is None:
                message = "the partial aggregates of a window are missing"
                raise lmdb.CorruptedError(message)
            found.append(one)
            size += len(one)
            if size >= bytes_max:
                break
        return found

    def _key_span(self, scan_range: ScanRange) -> KeySpan:
        """Return the record keys of the keys in a range."""
        bounds = scan_range.key_from, scan_range.key_to, scan_range.prefix
        return key_span(*bounds, self._key_type)

    def _visible_bounds(self, scan_range: ScanRange) -> tuple[int, int]:
        """Return the least start and the least end of the windows to read."""
        from_ms = max(scan_range.from_ms, self.earliest_ms)
        return from_ms, scan_range.earliest_end_ms


class WindowSnapshot(IndexSnapshot):
    """One version of a window store, as a ``ReadOnlyWindowStore``."""

    __slots__ = ()

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        page = self.fetch(WindowRange(key, window_start_ms, window_start_ms, 1))
        return page.windows[0] if page.windows and window_start_ms >= 0 else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        return self._read(window_range, self._scan_by_start(window_range))

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        return self._read(window_range, self._scan_by_start(window_range), backward=True)

    def latest(self, key: str) -> bytes | None:
        prefix = key_prefix(key, self._key_type)
        value = self._latest(prefix)
        return content(value) if value is not None and is_of_key(value, key, prefix) else None

    def current(self, key: str) -> bytes | None:
        prefix = key_prefix(key, self._key_type)
        value = self._current(prefix)
        return content(value) if value is not None and is_of_key(value, key, prefix) else None

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``. It skips from key to key, not from window to window."""
        return self._of_each_key(scan_range, self._latest)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``. Like ``latest_all``, it skips from key to key."""
        return self._of_each_key(scan_range, self._current)

    def _scan_by_start(self, window_range: WindowRange) -> Scan:
        """Return the scan for the visible windows that start in a range."""
        prefix = key_prefix(window_range.key, self._key_type)
        low = lower_bound(prefix, max(window_range.from_ms, self.earliest_ms))
        return prefix, low, upper_bound(prefix, window_range.to_ms), b""

    def _latest(self, prefix: bytes) -> bytes | None:
        """Return the value of the visible window with the greatest start, by key prefix."""
        if not seek_last_before(self._cursor, after_key(prefix)):
            return None
        encoded, value = self._cursor.item()
        # A record of an earlier key and an expired record compare lower.
        return value if encoded >= lower_bound(prefix, self.earliest_ms) else None

    def _current(self, prefix: bytes) -> bytes | None:
        """Return the value of the visible window that ends at the newest record, by key prefix.

        Windows with an earlier start close earlier. So the window with the greatest start contains
        the newest record, and its ``timestamp_ms`` is the time of this record. The result is the
        first window from ``time - size`` on that contains the record.
        """
        latest = self._latest(prefix)
        if latest is None:
            return None
        window = self.state.definition.window
        newest_ms = _timestamp_ms(latest)
        first_ms = newest_ms - window.size_ms + (not window.kind.has_inclusive_end)
        # Other programs can write a time outside of the window. The search must not pass this
        # window.
        first = min(lower_bound(prefix, max(first_ms, self.earliest_ms)), self._cursor.key())
        seek_first_from(self._cursor, first)
        # A window that was closed when the record arrived does not contain it, because a late
        # record only joins open windows. The latest window contains it.
        while _timestamp_ms(self._cursor.value()) < newest_ms:
            self._cursor.next()
        return self._cursor.value()

    def _read(
        self, read_range: WindowRange | SessionRange, scan: Scan, *, backward: bool = False
    ) -> WindowPage:
        """Read a page of the records of a scan."""
        prefix, low, high, least_end = scan
        if read_range.after is not None:
            last = self._record_key(read_range, read_range.after)
            low, high = _rest_after(last, low, high, backward=backward)
        span = Span(low, high, self._key_type, least_end=least_end, final=read_range.final)
        windows, next_after, records = read_page(
            self._cursor, span, page_bounds(read_range), backward=backward
        )
        if windows and not is_of_key(windows[0], read_range.key, prefix):
            return WindowPage([], None)
        partials: Sequence[bytes] = ()
        if isinstance(read_range, WindowRange) and read_range.with_partials and windows:
            keys = [key for key, _ in records[: len(windows)]]
            partials = self._partials(keys, read_range.bytes_max)
            read = len(partials)
            if read < len(windows):
                windows, next_after = windows[:read], keys[read - 1]
        next_id = None if next_after is None else WindowId(*window_times(next_after))
        return WindowPage(windows, next_id, partials)

    def _record_key(self, read_range: WindowRange | SessionRange, window: WindowId) -> bytes:
        """Return the record key of a window, for the key of a range."""
        return record_key(read_range.key, *window, self._key_type)

    def _of_each_key(
        self, scan_range: ScanRange, read: Callable[[bytes], bytes | None]
    ) -> ScanPage:
        """Read a page with one window per key. Its ``next_after`` is the last key prefix."""
        low, high, has_key = self._key_span(scan_range)
        if scan_range.after is not None:
            low = max(low, after_key(scan_range.after))
        windows: list[bytes] = []
        size = 0
        prefix = None
        is_found = seek_first_from(self._cursor, low)
        for _ in range(scan_range.records_max):
            if not is_found:
                return ScanPage(windows, None)
            first = self._cursor.item()
            # The search or the step to this record can have followed a corrupt key.
            check([first])
            if first[0] >= high:
                return ScanPage(windows, None)
            if len(windows) == scan_range.limit or size >= scan_range.bytes_max:
                break
            prefix = prefix_of(first[0])
            is_found = self._cursor.next()
            value: bytes | None = first[1]
            if is_found and self._cursor.key().startswith(prefix):
                value = read(prefix)
                is_found = seek_first_from(self._cursor, after_key(prefix))
            elif self._has_expired(first[0]):
                # It is the only window of the key.
                value = None
            if value is not None and (has_key is None or has_key(key_of(first, self._key_type))):
                windows.append(content(value))
                size += len(windows[-1])
        return ScanPage(windows, prefix)


class KeyValueSnapshot(IndexSnapshot):
    """One version of a store without windows, as a ``ReadOnlyKeyValueStore``."""

    __slots__ = ()

    def approximate_num_entries(self) -> int:
        return self.window_count()

    def get(self, key: str) -> bytes | None:
        # The row of a key is stored as the window [0, 0].
        return self._fetch_exact(key, 0, 0)


def page_bounds(read_range: WindowRange | SessionRange | ScanRange) -> PageBounds:
    """Return the bounds of a page of a range."""
    return PageBounds(read_range.limit, read_range.bytes_max, read_range.records_max)


def _rest_after(
    next_after: bytes, low: bytes, high: bytes, *, backward: bool
) -> tuple[bytes, bytes]:
    """Return the rest of a range after a record key, in the direction of the read."""
    # No bytes sort between a record key and the same key with a zero byte after it.
    return (low, min(high, next_after)) if backward else (max(low, next_after + b"\x00"), high)


def _timestamp_ms(value: bytes) -> int:
    """Return the time of the newest record of a window from its value."""
    # Quotes in strings are escaped, so the last match is the field, whatever the aggregates
    # contain.
    _, _, rest = content(value).rpartition(_TIMESTAMP)
    return int(rest[: rest.index(b",")])


def is_of_key(value: bytes, key: str, prefix: bytes) -> bool:
    """Return True if a value belongs to a key. Two long keys can have one digest."""
    return not is_long(prefix) or value.startswith(b'{"key":%b,' % orjson.dumps(key))
