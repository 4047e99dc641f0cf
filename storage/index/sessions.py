"""Reading sessions: ordered by start like all windows, found and expired by their ends.

A key's sessions may overlap, so those that end at E or later need not lie together. But none
of them starts before E less the longest session of the index, so a scan from there on finds
them all, looking at each record's end (the last 8 bytes of its key) on the way.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from oriel.storage.contracts import LATEST_MS, SessionRange, WindowPage, WindowRange
from oriel.storage.index.snapshot import CHUNK, NO_WINDOWS, IndexSnapshot, Item, is_of_key, page_of
from oriel.storage.key_codec import (
    TIME_BYTES,
    after_key,
    encoded_time,
    key_prefix,
    lower_bound,
    record_key,
    upper_bound,
)


class _Scan(NamedTuple):
    """Records with ``low <= key < high`` whose end, as it is encoded, is at least ``least_end``."""

    low: bytes
    high: bytes
    least_end: bytes

    def take(self, items: Iterator[Item], count: int) -> list[Item]:
        """The first ``count`` of them in a scan in either direction."""
        found: list[Item] = []
        while len(found) < count:
            chunk = list(islice(items, CHUNK))
            # Once a scan has left the range it doesn't come back: bisect finds where.
            left_at = bisect_left(
                chunk, x=True, key=lambda item: not self.low <= item[0] < self.high
            )
            found += [item for item in chunk[:left_at] if item[0][-TIME_BYTES:] >= self.least_end]
            if left_at < CHUNK:
                break
        return found[:count]


class SessionSnapshot(IndexSnapshot):
    """One version of a session store, as a ``ReadOnlySessionStore``."""

    __slots__ = ()

    def fetch(self, wanted: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return self._forward(wanted, self._scan(wanted.key, wanted.from_ms, wanted.to_ms))

    def backward_fetch(self, wanted: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return self._backward(wanted, self._scan(wanted.key, wanted.from_ms, wanted.to_ms))

    def find_sessions(self, wanted: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        scan = self._scan(wanted.key, 0, wanted.latest_start_ms, wanted.earliest_end_ms)
        return self._forward(wanted, scan)

    def backward_find_sessions(self, wanted: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        scan = self._scan(wanted.key, 0, wanted.latest_start_ms, wanted.earliest_end_ms)
        return self._backward(wanted, scan)

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        if window_end_ms < self.earliest_ms:
            return None
        return self._exactly(key, window_start_ms, window_end_ms)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(key)
        found = self._newest(prefix)
        return found if found is not None and is_of_key(found, key, prefix) else None

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        return self._newest(encoded_prefix) is not None

    def _newest(self, prefix: bytes) -> bytes | None:
        """The last visible session of a key prefix."""
        if not self._last_before(after_key(prefix)):
            return None
        scan = self._scan_of(prefix, 0, LATEST_MS, 0)
        for encoded, value in self._cursor.iterprev():
            if encoded < scan.low:
                return None
            if encoded[-TIME_BYTES:] >= scan.least_end:
                return value
        return None

    def _scan(
        self, key: str, least_start_ms: int, latest_start_ms: int, least_end_ms: int = 0
    ) -> _Scan:
        return self._scan_of(key_prefix(key), least_start_ms, latest_start_ms, least_end_ms)

    def _scan_of(
        self, prefix: bytes, least_start_ms: int, latest_start_ms: int, least_end_ms: int
    ) -> _Scan:
        """The visible sessions of a key prefix within these bounds, all inclusive."""
        end_ms = max(least_end_ms, self.earliest_ms)
        start_ms = max(least_start_ms, end_ms - self.state.extent.longest_ms, 0)
        return _Scan(
            lower_bound(prefix, start_ms),
            upper_bound(prefix, latest_start_ms),
            encoded_time(end_ms),
        )

    def _forward(self, wanted: WindowRange | SessionRange, scan: _Scan) -> WindowPage:
        if wanted.after is not None:
            after = record_key(wanted.key, *wanted.after) + b"\x00"
            scan = scan._replace(low=max(scan.low, after))
        if not self._cursor.set_range(scan.low):
            return NO_WINDOWS
        found = scan.take(self._cursor.iternext(), wanted.limit + 1)
        return page_of(found, wanted, key_prefix(wanted.key))

    def _backward(self, wanted: WindowRange | SessionRange, scan: _Scan) -> WindowPage:
        if wanted.after is not None:
            scan = scan._replace(high=min(scan.high, record_key(wanted.key, *wanted.after)))
        if not self._last_before(scan.high):
            return NO_WINDOWS
        found = scan.take(self._cursor.iterprev(), wanted.limit + 1)
        return page_of(found, wanted, key_prefix(wanted.key))
