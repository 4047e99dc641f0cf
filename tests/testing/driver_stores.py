"""The stores of the test driver as implementations of the contracts, for the conformance suites.

The driver returns lists, so an adapter divides them into pages. The driver orders sessions by end,
and the contract by start. The driver has no read of one newest window, so an adapter selects it
from the windows of the key.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import orjson

from oriel.pipeline.testing.rows import StoreRows
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import (
    KeyTypeMismatch,
    ScanPage,
    ScanRange,
    SessionRange,
    StoreKind,
    WindowId,
    WindowPage,
    WindowRange,
)
from oriel.storage.contracts import UNBOUNDED, KeyPage, fits_request
from oriel.storage.key_types import key_type as type_of
from oriel.testing import (
    DriverKeyValueStore,
    DriverSessionStore,
    DriverWindowStore,
    KeyValue,
    Put,
    WindowedValue,
)

AnyRange = WindowRange | SessionRange | ScanRange


class StoreOfDriver(ABC):
    """The common parts of all stores."""

    def __init__(self, rows: StoreRows) -> None:
        self._rows = rows

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``."""
        del records_max
        entries = self._scanned(ScanRange(prefix=prefix))
        listed = [key for key in dict.fromkeys(e.key for e in entries) if fits_request(key)]
        rest = listed if after is None else listed[listed.index(after) + 1 :]
        return KeyPage(rest[:limit], rest[limit - 1] if len(rest) > limit else None)

    def scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        return _scan_page(self._scanned(scan_range), scan_range)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        return _scan_page(self._scanned(scan_range, backward=True), scan_range)

    @abstractmethod
    def _entries(
        self, key_from: str | None, key_to: str | None, scan_range: ScanRange, *, backward: bool
    ) -> Sequence[WindowedValue | KeyValue]:
        """Return the entries between two keys and within the times of a range."""

    def _scanned(
        self, scan_range: ScanRange, *, backward: bool = False
    ) -> list[WindowedValue | KeyValue]:
        # The driver has reads by prefix only for stores without windows.
        self._rows.key_type.escaped_prefix(scan_range.prefix)
        try:
            entries = self._entries(*scan_range[:2], scan_range, backward=backward)
        except IllegalArgument as error:
            raise KeyTypeMismatch(str(error)) from error
        return [entry for entry in entries if entry.key.startswith(scan_range.prefix)]


class WindowStoreOfDriver(StoreOfDriver):
    """A window store of the driver as a ``ReadOnlyWindowStore`` of the contracts."""

    def __init__(self, rows: StoreRows) -> None:
        super().__init__(rows)
        self._windows = DriverWindowStore(rows)

    @property
    def earliest_ms(self) -> int:
        """See ``ReadOnlyWindowStore``."""
        return self._rows.earliest_ms

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        return _value_or_none(self._windows.fetch(key, window_start_ms))

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return _window_page(self._windows.fetch(*window_range[:3]), window_range)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return _window_page(self._windows.backward_fetch(*window_range[:3]), window_range)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        page = self.backward_fetch(WindowRange(key, limit=1))
        return page.windows[0] if page.windows else None

    def current(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        windows = self._windows.fetch(key, *WindowRange(key)[1:3])
        # The first of the windows with the newest record ends first.
        return _value_or_none(max(windows, key=lambda one: one.timestamp_ms, default=None))

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        return self._of_each_key(scan_range, self.latest)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        return self._of_each_key(scan_range, self.current)

    def _of_each_key(self, scan_range: ScanRange, read: Callable[[str], bytes | None]) -> ScanPage:
        entries = self._scanned(ScanRange(*scan_range[:3]))
        values = [read(key) or b"" for key in dict.fromkeys(entry.key for entry in entries)]
        return _values_page(values, scan_range)

    def _entries(
        self, key_from: str | None, key_to: str | None, scan_range: ScanRange, *, backward: bool
    ) -> Sequence[WindowedValue]:
        read = self._windows.backward_fetch_range if backward else self._windows.fetch_range
        return read(key_from, key_to, scan_range.from_ms, scan_range.to_ms)


class SessionStoreOfDriver(WindowStoreOfDriver):
    """A session store of the driver as a ``ReadOnlySessionStore`` of the contracts."""

    def __init__(self, rows: StoreRows) -> None:
        super().__init__(rows)
        self._sessions = DriverSessionStore(rows)

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        page = self.fetch(WindowRange(key, window_start_ms, window_start_ms, 1))
        return page.windows[0] if page.windows and window_start_ms >= 0 else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        sessions = self._sessions.fetch(window_range.key)
        return _window_page(_starting(sessions, window_range), window_range)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        sessions = self._sessions.backward_fetch(window_range.key)
        return _window_page(_starting(sessions, window_range)[::-1], window_range)

    def current(self, key: str) -> bytes | None:
        # The driver orders sessions by end.
        return _value_or_none(next(iter(self._sessions.backward_fetch(key)), None))

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        return _value_or_none(self._sessions.fetch_session(key, window_start_ms, window_end_ms))

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        found = self._sessions.find_sessions(*session_range[:3])
        return _window_page(_by_start(found), session_range)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        found = self._sessions.backward_find_sessions(*session_range[:3])
        return _window_page(_by_start(found)[::-1], session_range)

    def _entries(
        self, key_from: str | None, key_to: str | None, scan_range: ScanRange, *, backward: bool
    ) -> Sequence[WindowedValue]:
        sessions = (
            self._sessions.backward_fetch_range(key_from, key_to)[::-1]
            if backward
            else self._sessions.fetch_range(key_from, key_to)
        )
        of_keys = groupby(sessions, lambda one: one.key)
        inside = [one for _, of_key in of_keys for one in _starting(of_key, scan_range)]
        return inside[::-1] if backward else inside


class KeyValueStoreOfDriver(StoreOfDriver):
    """A store of the driver without windows as a ``ReadOnlyKeyValueStore`` of the contracts."""

    def __init__(self, rows: StoreRows) -> None:
        super().__init__(rows)
        self._store = DriverKeyValueStore(rows)

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        return _value_or_none(self._store.get(key))

    def approximate_num_entries(self) -> int:
        """See ``ReadOnlyKeyValueStore``."""
        return self._store.approximate_num_entries()

    def _entries(
        self, key_from: str | None, key_to: str | None, scan_range: ScanRange, *, backward: bool
    ) -> Sequence[KeyValue]:
        if scan_range.prefix and key_from is None and key_to is None and not backward:
            return self._store.prefix_scan(scan_range.prefix)
        read = self._store.reverse_range if backward else self._store.range
        return read(key_from, key_to)


def make_store(kind: StoreKind, puts: Iterable[Put], retention_ms: int | None, keys: str) -> Any:
    """Return a store of a kind with these puts. ``keys`` is the name of the key type."""
    rows = StoreRows(retention_ms, type_of(keys))
    every = tuple(puts)
    rows.apply(map(_row, every))
    times_ms = [put.end_ms if kind.expires_by_end else put.start_ms for put in every]
    rows.observed_ms = max(times_ms, default=-1)
    if kind.is_session:
        return SessionStoreOfDriver(rows)
    return WindowStoreOfDriver(rows) if kind.is_windowed else KeyValueStoreOfDriver(rows)


def _by_start(sessions: Iterable[WindowedValue]) -> list[WindowedValue]:
    """Return sessions in the order of their starts, then ends."""
    return sorted(sessions, key=lambda one: (one.window_start_ms, one.window_end_ms))


def _starting(
    sessions: Iterable[WindowedValue], read_range: WindowRange | ScanRange
) -> list[WindowedValue]:
    """Return the sessions whose start is in a range, in the order of their starts."""
    from_ms, to_ms = read_range.from_ms, read_range.to_ms
    return [one for one in _by_start(sessions) if from_ms <= one.window_start_ms <= to_ms]


def _row(put: Put) -> dict[str, Any]:
    """Return a put as the engine returns rows, with its value in a column."""
    try:
        fields = orjson.loads(put.value)
    except orjson.JSONDecodeError:
        fields = {}
    return {
        "key": put.key, "window_start_ms": put.start_ms, "window_end_ms": put.end_ms,
        "json": put.value, "timestamp_ms": fields.get("timestamp_ms", 0),
        "final": fields.get("final", False), "deleted": False,
    }  # fmt: skip


def _value_or_none(entry: WindowedValue | KeyValue | None) -> bytes | None:
    return None if entry is None else bytes(entry.value["json"])


def _window_page(
    windows: Sequence[WindowedValue], read_range: WindowRange | SessionRange
) -> WindowPage:
    wanted = _of_final(windows, read_range.final)
    places = [WindowId(one.window_start_ms, one.window_end_ms) for one in wanted]
    done = 0 if read_range.after is None else places.index(read_range.after) + 1
    values = _fitting([one.value["json"] for one in wanted[done:]], read_range)
    end = done + len(values)
    return WindowPage(values, places[end - 1] if end < len(wanted) else None)


def _scan_page(entries: Sequence[WindowedValue | KeyValue], scan_range: ScanRange) -> ScanPage:
    return _values_page([e.value["json"] for e in _of_final(entries, scan_range.final)], scan_range)


def _values_page(values: list[bytes], scan_range: ScanRange) -> ScanPage:
    """Return a page. Its ``next_after`` is the number of values up to its end."""
    done = 0 if scan_range.after is None else int(scan_range.after)
    page = _fitting(values[done:], scan_range)
    end = done + len(page)
    return ScanPage(page, b"%d" % end if end < len(values) else None)


def _of_final(entries: Sequence[Any], final: bool | None) -> list[Any]:
    return [entry for entry in entries if final is None or entry.final == final]


def _fitting(values: Sequence[bytes], read_range: AnyRange) -> list[bytes]:
    """Return the first values, up to the limits of a page."""
    page: list[bytes] = []
    for value in values[: read_range.limit]:
        page.append(value)
        if sum(map(len, page)) >= read_range.bytes_max:
            break
    return page
