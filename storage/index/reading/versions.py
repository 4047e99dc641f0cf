"""Versions of the rows of a store, read from its index: see ``reading.snapshot``.

The record of a version has its time as start. Its end is 1 ms later, or for a tombstone the same.
"""

from collections.abc import Iterator

from oriel.storage.contracts import (
    ScanPage,
    ScanRange,
    WindowId,
    WindowPage,
    WindowRange,
    version_json,
)
from oriel.storage.index.checksums import Record, check, content
from oriel.storage.index.reading.pages import key_of, seek_first_from, seek_last_before
from oriel.storage.index.reading.snapshot import KeyValueSnapshot, is_of_key
from oriel.storage.key_codec import (
    after_key,
    key_prefix,
    prefix_of,
    record_key,
    upper_bound,
    window_times,
)


class VersionedSnapshot(KeyValueSnapshot):
    """One version of a store with the versions of rows, as a ``ReadOnlyVersionedStore``.

    All reads of a key-value store return the newest versions.
    """

    __slots__ = ()

    def get(self, key: str) -> bytes | None:
        prefix = key_prefix(key, self._key_type)
        newest = self._last_before(after_key(prefix), prefix)
        return None if newest is None or _deletes(newest[0]) else _row(newest, key, prefix)

    def get_as_of(self, key: str, time_ms: int) -> bytes | None:
        prefix = key_prefix(key, self._key_type)
        found = self._last_before(upper_bound(prefix, time_ms), prefix)
        if found is None or _deletes(found[0]):
            return None
        row = _row(found, key, prefix)
        return None if row is None else version_json(row, _start(found), self._next_ms(prefix))

    def versions(self, version_range: WindowRange) -> WindowPage:
        key, from_ms, to_ms, *_ = version_range
        prefix = key_prefix(key, self._key_type)
        low = prefix
        # The version that was valid at the lower bound can have started earlier.
        first = self._last_before(upper_bound(prefix, from_ms), prefix)
        if first is not None:
            low = first[0]
        if version_range.after is not None:
            last = record_key(key, *version_range.after, self._key_type)
            low = max(low, last + b"\x00")
        is_found = from_ms <= to_ms and seek_first_from(self._cursor, low)
        records = self._of_key(prefix, backward=False) if is_found else iter(())
        return _forward_page(records, version_range, prefix)

    def backward_versions(self, version_range: WindowRange) -> WindowPage:
        key, from_ms, to_ms, *_ = version_range
        prefix = key_prefix(key, self._key_type)
        high = upper_bound(prefix, to_ms)
        if version_range.after is not None:
            high = min(high, record_key(key, *version_range.after, self._key_type))
        if from_ms > to_ms or self._last_before(high, prefix) is None:
            return WindowPage([], None)
        next_ms = self._next_ms(prefix)
        seek_last_before(self._cursor, high)
        return _backward_page(self._of_key(prefix, backward=True), version_range, prefix, next_ms)

    def approximate_num_entries(self) -> int:
        """Return the number of versions, because the index does not count keys."""
        return self.window_count()

    def scan(self, scan_range: ScanRange) -> ScanPage:
        return self._newest_of_keys(scan_range, backward=False)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        return self._newest_of_keys(scan_range, backward=True)

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        newest = self._last_before(after_key(encoded_prefix), encoded_prefix)
        return newest is not None and not _deletes(newest[0])

    def _last_before(self, bound: bytes, prefix: bytes) -> Record | None:
        """Move the cursor to the last record of a key before ``bound``, and return it."""
        if not seek_last_before(self._cursor, bound):
            return None
        record = self._cursor.item()
        return record if record[0].startswith(prefix) else None

    def _next_ms(self, prefix: bytes) -> int | None:
        """Move the cursor to the next version of a key, and return its time."""
        if not self._cursor.next():
            return None
        record = self._cursor.item()
        check([record])
        return _start(record) if record[0].startswith(prefix) else None

    def _of_key(self, prefix: bytes, *, backward: bool) -> Iterator[Record]:
        """Yield the records of a key from the cursor on."""
        for record in self._cursor.iterprev() if backward else self._cursor.iternext():
            check([record])
            if not record[0].startswith(prefix):
                return
            yield record

    def _newest_of_keys(self, scan_range: ScanRange, *, backward: bool) -> ScanPage:
        """Read a page with the newest row of each key. Its ``next_after`` is a key prefix."""
        low, high, has_key = self._key_span(scan_range)
        if scan_range.after is not None and backward:
            high = min(high, scan_range.after)
        elif scan_range.after is not None:
            low = max(low, after_key(scan_range.after))
        rows: list[bytes] = []
        size = 0
        prefix = None
        for _ in range(scan_range.records_max):
            seek = seek_last_before if backward else seek_first_from
            if not seek(self._cursor, high if backward else low):
                return ScanPage(rows, None)
            if not low <= self._cursor.key() < high:
                return ScanPage(rows, None)
            if len(rows) == scan_range.limit or size >= scan_range.bytes_max:
                break
            prefix = prefix_of(self._cursor.key())
            newest = self._last_before(after_key(prefix), prefix)
            assert newest is not None
            is_row = not _deletes(newest[0])
            if is_row and (has_key is None or has_key(key_of(newest, self._key_type))):
                rows.append(content(newest[1]))
                size += len(rows[-1])
            low, high = (low, prefix) if backward else (after_key(prefix), high)
        return ScanPage(rows, prefix)


def _forward_page(
    records: Iterator[Record], version_range: WindowRange, prefix: bytes
) -> WindowPage:
    """Return a page of the records of a key, whose times ascend."""
    page = _Page(version_range, prefix)
    previous: Record | None = None
    for record in records:
        if previous is not None:
            page.add(previous, _start(record))
        if _start(record) > version_range.to_ms:
            return page.complete()
        if previous is not None and page.is_full:
            return page.with_next(previous)
        previous = record
    if previous is not None:
        page.add(previous, None)
    return page.complete()


def _backward_page(
    records: Iterator[Record], version_range: WindowRange, prefix: bytes, next_ms: int | None
) -> WindowPage:
    """Return a page of the records of a key, whose times descend."""
    page = _Page(version_range, prefix)
    previous: Record | None = None
    for record in records:
        if next_ms is not None and next_ms <= version_range.from_ms:
            break
        if previous is not None and page.is_full:
            return page.with_next(previous)
        page.add(record, next_ms)
        previous, next_ms = record, _start(record)
    return page.complete()


class _Page:
    """A page of the versions of a key."""

    def __init__(self, version_range: WindowRange, prefix: bytes) -> None:
        self._range, self._prefix = version_range, prefix
        self._items: list[bytes] = []
        self._size = self._looks = 0

    @property
    def is_full(self) -> bool:
        """True if the page has reached one of its limits."""
        return (
            len(self._items) >= self._range.limit
            or self._size >= self._range.bytes_max
            or self._looks >= self._range.records_max
        )

    def add(self, record: Record, next_ms: int | None) -> None:
        """Add a version that is valid until ``next_ms``. A tombstone is not added."""
        self._looks += 1
        if _deletes(record[0]) or (next_ms is not None and next_ms <= self._range.from_ms):
            return
        row = _row(record, self._range.key, self._prefix)
        if row is not None:
            self._items.append(version_json(row, _start(record), next_ms))
            self._size += len(self._items[-1])

    def with_next(self, last: Record) -> WindowPage:
        """Return the page, which continues after a record."""
        return WindowPage(self._items, WindowId(*window_times(last[0])))

    def complete(self) -> WindowPage:
        """Return the last page."""
        return WindowPage(self._items, None)


def _start(record: Record) -> int:
    return window_times(record[0])[0]


def _deletes(encoded: bytes) -> bool:
    """Return True if the record of this key is a tombstone."""
    start_ms, end_ms = window_times(encoded)
    return start_ms == end_ms


def _row(record: Record, key: str, prefix: bytes) -> bytes | None:
    """Return the row of a record. Two long keys can have one digest."""
    return content(record[1]) if is_of_key(record[1], key, prefix) else None
