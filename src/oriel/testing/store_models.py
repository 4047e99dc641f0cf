"""The models of stores: plain lists, searched from end to end.

Shares no code with the index, so that what they agree on is right.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import orjson

from oriel.storage import (
    ScanPage,
    ScanRange,
    SessionRange,
    StoreKind,
    WindowId,
    WindowPage,
    WindowRange,
    WindowSpec,
)
from oriel.storage.contracts import KEY_BYTES_MAX, UNBOUNDED, KeyPage


class Put(NamedTuple):
    """One window put into a store; ``value`` is its JSON."""

    key: str
    start_ms: int
    end_ms: int
    value: bytes


def put(
    key: str,
    start_ms: int,
    size_ms: int = 10,
    *,
    timestamp_ms: int | None = None,
    final: bool = False,
) -> Put:
    """A window whose value says which one it is."""
    end_ms = start_ms + size_ms
    fields = {
        "key": key,
        "window_start_ms": start_ms,
        "window_end_ms": end_ms,
        "timestamp_ms": start_ms + 5 if timestamp_ms is None else timestamp_ms,
        "final": final,
    }
    return Put(key, start_ms, end_ms, orjson.dumps(fields))


class ModelStore(ABC):
    """What models of every kind answer: lists of puts, cut into pages."""

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``."""
        del records_max
        listed = {put.key for put in self._all_visible()}
        matching = sorted(
            (
                key
                for key in listed
                if key.startswith(prefix)
                and len(key.encode()) <= KEY_BYTES_MAX
                and (after is None or key.encode() > after.encode())
            ),
            key=str.encode,
        )
        page = matching[:limit]
        return KeyPage(page, page[-1] if len(matching) > limit else None)

    def scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        return _scan_page(self._scanned(scan_range), scan_range)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        return _scan_page(self._scanned(scan_range)[::-1], scan_range)

    def _scanned(self, scan_range: ScanRange) -> list[Put]:
        inside = [
            put
            for put in self._all_visible()
            if _has_key(scan_range, put.key)
            and scan_range.from_ms <= put.start_ms <= scan_range.to_ms
            and put.end_ms >= scan_range.earliest_end_ms
            and _is_final(put, scan_range.final)
        ]
        return sorted(inside, key=lambda put: (put.key.encode(), put.start_ms, put.end_ms))

    @abstractmethod
    def _all_visible(self) -> list[Put]:
        """Everything that was put and has not expired."""


class ModelWindowStore(ModelStore):
    """A ``ReadOnlyWindowStore`` over everything that was put, the last put of a window winning."""

    def __init__(
        self, puts: Iterable[Put], retention_ms: int | None = None, window: WindowSpec | None = None
    ) -> None:
        """Put them all; the store clock is the greatest start ever put."""
        self._window = window or WindowSpec(StoreKind.SLIDING, 10, 0)
        self._windows = {(put.key, put.start_ms, put.end_ms): put for put in puts}
        observed_ms = max((self._clock_ms(put) for put in self._windows.values()), default=-1)
        self.earliest_ms = 0 if retention_ms is None else max(0, observed_ms - retention_ms + 1)

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        matching = [put.value for put in self._visible(key) if put.start_ms == window_start_ms]
        return matching[0] if matching else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        inside = [
            put
            for put in self._visible(window_range.key)
            if window_range.from_ms <= put.start_ms <= window_range.to_ms
            and (window_range.after is None or (put.start_ms, put.end_ms) > window_range.after)
            and _is_final(put, window_range.final)
        ]
        return _page(inside, window_range)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        inside = [
            put
            for put in reversed(self._visible(window_range.key))
            if window_range.from_ms <= put.start_ms <= window_range.to_ms
            and (window_range.after is None or (put.start_ms, put.end_ms) < window_range.after)
            and _is_final(put, window_range.final)
        ]
        return _page(inside, window_range)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        visible = self._visible(key)
        return visible[-1].value if visible else None

    def current(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``: searched among all windows of the key."""
        windows = self._visible(key)
        if not windows:
            return None
        newest_ms = max(orjson.loads(put.value)["timestamp_ms"] for put in windows)
        last = 0 if self._window.kind.has_inclusive_end else 1
        holding = [put for put in windows if put.start_ms <= newest_ms <= put.end_ms - last]
        return min(holding, key=lambda put: put.end_ms).value

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        return self._of_each_key(scan_range, self.latest)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        return self._of_each_key(scan_range, self.current)

    def _of_each_key(self, scan_range: ScanRange, read: Callable[[str], bytes | None]) -> ScanPage:
        keys = sorted({put.key for put in self._all_visible()}, key=str.encode)
        values = [Put(key, 0, 0, read(key) or b"") for key in keys if _has_key(scan_range, key)]
        return _scan_page(values, scan_range)

    def _all_visible(self) -> list[Put]:
        windows = self._windows.values()
        return [put for put in windows if self._clock_ms(put) >= self.earliest_ms]

    def _visible(self, key: str) -> list[Put]:
        """The key's windows that have not expired, by start and end."""
        matching = [
            put
            for put in self._windows.values()
            if put.key == key and self._clock_ms(put) >= self.earliest_ms
        ]
        return sorted(matching, key=lambda put: (put.start_ms, put.end_ms))

    def _clock_ms(self, put: Put) -> int:
        """The time by which retention counts."""
        return put.start_ms


class ModelSessionStore(ModelWindowStore):
    """A ``ReadOnlySessionStore`` over everything that was put."""

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        times = (window_start_ms, window_end_ms)
        matching = [put.value for put in self._visible(key) if (put.start_ms, put.end_ms) == times]
        return matching[0] if matching else None

    def current(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        sessions = self._visible(key)
        last = max(sessions, key=lambda put: (put.end_ms, put.start_ms), default=None)
        return None if last is None else last.value

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        inside = [
            put
            for put in self._overlapping(session_range)
            if session_range.after is None or (put.start_ms, put.end_ms) > session_range.after
        ]
        return _page(inside, session_range)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        inside = [
            put
            for put in reversed(self._overlapping(session_range))
            if session_range.after is None or (put.start_ms, put.end_ms) < session_range.after
        ]
        return _page(inside, session_range)

    def _overlapping(self, session_range: SessionRange) -> list[Put]:
        return [
            put
            for put in self._visible(session_range.key)
            if put.end_ms >= session_range.earliest_end_ms
            and put.start_ms <= session_range.latest_start_ms
            and _is_final(put, session_range.final)
        ]

    def _clock_ms(self, put: Put) -> int:
        return put.end_ms


class ModelKeyValueStore(ModelStore):
    """A ``ReadOnlyKeyValueStore`` over everything that was put, the last put of a key winning."""

    def __init__(self, puts: Iterable[Put]) -> None:
        """Put them all."""
        self._rows = {put.key: put for put in puts}

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        return self._rows[key].value if key in self._rows else None

    def approximate_num_entries(self) -> int:
        """See ``ReadOnlyKeyValueStore``."""
        return len(self._rows)

    def _all_visible(self) -> list[Put]:
        return list(self._rows.values())


def _has_key(scan_range: ScanRange, key: str) -> bool:
    """Whether a range has a key, by the bytes."""
    encoded = key.encode()
    return (
        encoded.startswith(scan_range.prefix.encode())
        and (scan_range.key_from is None or encoded >= scan_range.key_from.encode())
        and (scan_range.key_to is None or encoded <= scan_range.key_to.encode())
    )


def _is_final(put: Put, wanted: bool | None) -> bool:  # noqa: FBT001 - None is no choice
    return wanted is None or orjson.loads(put.value)["final"] is wanted


def _page(inside: list[Put], read_range: WindowRange | SessionRange) -> WindowPage:
    fitting = _fitting(inside, read_range)
    page = inside[:fitting]
    after = WindowId(page[-1].start_ms, page[-1].end_ms) if len(inside) > fitting else None
    return WindowPage([put.value for put in page], after)


def _scan_page(inside: list[Put], scan_range: ScanRange) -> ScanPage:
    """A page of puts in reading order; where it ended is the last put's identity as JSON."""
    identities = [orjson.dumps(put[:3]) for put in inside]
    if scan_range.after is not None:
        first = identities.index(scan_range.after) + 1
        inside, identities = inside[first:], identities[first:]
    fitting = _fitting(inside, scan_range)
    after = identities[fitting - 1] if len(inside) > fitting else None
    return ScanPage([put.value for put in inside[:fitting]], after)


def _fitting(inside: Sequence[Put], read_range: WindowRange | SessionRange | ScanRange) -> int:
    """How many of the first puts a page has."""
    size = 0
    for count, put in enumerate(inside[: read_range.limit], 1):
        size += len(put.value)
        if size >= read_range.bytes_max:
            return count
    return min(len(inside), read_range.limit)
