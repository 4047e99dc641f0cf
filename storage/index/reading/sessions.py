"""Sessions of one version of a store, read from its index: see ``reading.snapshot``."""

from collections.abc import Sequence
from itertools import islice

import lmdb
import orjson

from oriel.storage.contracts import (
    LATEST_MS,
    ScanRange,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
)
from oriel.storage.index.checksums import Record, check, content
from oriel.storage.index.lengths import class_prefix, classes_of, longest_ms
from oriel.storage.index.reading.pages import fitting, is_final, seek_first_from, seek_last_before
from oriel.storage.index.reading.snapshot import Scan, WindowSnapshot, is_of_key, page_bounds
from oriel.storage.key_codec import (
    TIME_BYTES,
    after_key,
    encoded_time,
    key_prefix,
    lower_bound,
    upper_bound,
    window_times,
)

#: Records per chunk in a search by end, at first and at most.
_CHUNK_MIN, _CHUNK = 8, 128


class SessionSnapshot(WindowSnapshot):
    """One version of a session store, as a ``ReadOnlySessionStore``.

    Sessions are ordered by start, but found and expired by end. Sessions of a key can overlap
    (docs/decisions/0009), so sessions that end at E or later need not be next to each other. A
    search for them has two parts:

    - A scan by start. It begins at E minus the maximum length of the key's shortest length class.

    - A lookup in each longer length class (``oriel.storage.index.lengths``). A session that starts
      before the scan and ends at E or later is longer than the shortest class. Each class needs a
      few records.
    """

    __slots__ = ()

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        earlier_sessions, scan = self._overlapping(session_range)
        if not earlier_sessions:
            return self._read(session_range, scan)
        if session_range.after is not None:
            last = self._record_key(session_range, session_range.after)
            earlier_sessions = [record for record in earlier_sessions if record[0] > last]
        bounds = page_bounds(session_range)
        windows = [content(value) for _, value in earlier_sessions]
        count = fitting(windows, bounds)
        size = sum(map(len, windows[:count]))
        if count == len(windows) and count < bounds.records and size < bounds.bytes:
            rest = session_range._replace(
                limit=bounds.records - count, bytes_max=bounds.bytes - size
            )
            page = self._read(rest, scan)
            return WindowPage(windows + page.windows, page.next_after)
        if count == len(windows) and not self._read(session_range._replace(limit=1), scan).windows:
            return WindowPage(windows, None)
        return WindowPage(windows[:count], WindowId(*window_times(earlier_sessions[count - 1][0])))

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        earlier_sessions, scan = self._overlapping(session_range)
        page = self._read(session_range, scan, backward=True)
        if page.next_after is not None or not earlier_sessions:
            return page
        if session_range.after is not None:
            last = self._record_key(session_range, session_range.after)
            earlier_sessions = [record for record in earlier_sessions if record[0] < last]
        bounds = page_bounds(session_range)
        rest = bounds._replace(
            records=bounds.records - len(page.windows),
            bytes=bounds.bytes - sum(map(len, page.windows)),
        )
        windows = [content(value) for _, value in reversed(earlier_sessions)]
        count = fitting(windows, rest) if rest.records > 0 and rest.bytes > 0 else 0
        if count == len(windows):
            return WindowPage(page.windows + windows, None)
        items = page.windows + windows[:count]
        last_item = orjson.loads(items[-1])
        next_after = WindowId(last_item["window_start_ms"], last_item["window_end_ms"])
        return WindowPage(items, next_after)

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        if window_end_ms < self.earliest_ms:
            return None
        return self._fetch_exact(key, window_start_ms, window_end_ms)

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        return self._newest(encoded_prefix) is not None

    def _has_expired(self, encoded: bytes) -> bool:
        return encoded[-TIME_BYTES:] < encoded_time(self.earliest_ms)

    def _latest(self, prefix: bytes) -> bytes | None:
        found = self._newest(prefix)
        return None if found is None else found[1]

    def _current(self, prefix: bytes) -> bytes | None:
        """Return the visible session that ends last. If several do, it is the last by start."""
        found = candidate = self._newest(prefix)
        # The session with the greatest start can end earlier than an older session that continued.
        while candidate is not None:
            found = candidate
            candidate = self._newest(prefix, window_times(found[0])[1] + 1)
        return None if found is None else found[1]

    def _newest(self, prefix: bytes, earliest_end_ms: int = 0) -> Record | None:
        """Return the visible session with the greatest start that ends at this time or later."""
        if not seek_last_before(self._cursor, after_key(prefix)):
            return None
        # The last session by start can have expired, although a longer one before it has not.
        _, low, _, least_end = self._scan(prefix, 0, LATEST_MS, earliest_end_ms)
        for encoded, value in self._cursor.iterprev():
            check([(encoded, value)])
            if encoded < low:
                return None
            if encoded[-TIME_BYTES:] >= least_end:
                return encoded, value
        return None

    def _visible_bounds(self, scan_range: ScanRange) -> tuple[int, int]:
        end_ms = max(scan_range.earliest_end_ms, self.earliest_ms)
        # A session that ends then or later does not start earlier.
        return max(scan_range.from_ms, end_ms - self.state.extent.longest_ms), end_ms

    def _scan_by_start(self, window_range: WindowRange) -> Scan:
        prefix = key_prefix(window_range.key, self._key_type)
        return self._scan(prefix, window_range.from_ms, window_range.to_ms, 0)

    def _overlapping(self, session_range: SessionRange) -> tuple[Sequence[Record], Scan]:
        """Find the visible sessions that overlap a span of time.

        Returns:
            The records of the sessions that start before the scan, oldest start first, and the
            scan.
        """
        prefix = key_prefix(session_range.key, self._key_type)
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
            if low >= high or not seek_first_from(cursor, low):
                continue
            found_keys = _ending_from(cursor, high, least_end)
            found += [encoded[len(of_class) :] for encoded in found_keys]
        keys = [prefix + times for times in sorted(found)]
        windows = self._generation.environment.windows
        earlier_sessions = [(key, self._txn.get(key, b"", windows)) for key in keys]
        check(earlier_sessions)
        if session_range.final is not None:
            earlier_sessions = [r for r in earlier_sessions if is_final(r) == session_range.final]
        if earlier_sessions and not is_of_key(earlier_sessions[0][1], session_range.key, prefix):
            earlier_sessions = []
        low, high = lower_bound(prefix, start_ms), upper_bound(prefix, latest_ms)
        return earlier_sessions, (prefix, low, high, least_end)

    def _scan(
        self, prefix: bytes, earliest_start_ms: int, latest_start_ms: int, earliest_end_ms: int
    ) -> Scan:
        """Return the scan for the visible sessions within these inclusive bounds."""
        end_ms = max(earliest_end_ms, self.earliest_ms)
        # A session that ends at E or later starts at E minus the maximum length, or later.
        start_ms = max(earliest_start_ms, end_ms - self.state.extent.longest_ms, 0)
        low, high = lower_bound(prefix, start_ms), upper_bound(prefix, latest_start_ms)
        return prefix, low, high, encoded_time(end_ms)


def _ending_from(cursor: "lmdb.Cursor[bytes]", high: bytes, least_end: bytes) -> list[bytes]:
    """Return the keys from the cursor on below ``high`` whose end is at least ``least_end``."""
    keys: list[bytes] = []
    walk, size = cursor.iternext(), _CHUNK_MIN
    while chunk := list(islice(walk, size)):
        check(chunk)
        inside = [key for key, _ in chunk if key < high]
        keys += [key for key in inside if key[-TIME_BYTES:] >= least_end]
        if len(inside) < len(chunk):
            break
        size = min(_CHUNK, 2 * size)
    return keys
