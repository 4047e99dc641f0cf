"""Models of stores: plain lists that each read searches completely.

The models share no code with the index, so tests can compare both. Keys are compared as values of
their type.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

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
from oriel.storage.contracts import (
    KEY_BYTES_MAX,
    UNBOUNDED,
    KeyPage,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyStore,
    ReadOnlyWindowStore,
)
from oriel.storage.errors import KeyTypeMismatch


class Put(NamedTuple):
    """One window, or one row, of a model store.

    Attributes:
        key: The key as a string.
        start_ms: The start of the window. 0 for a row without a window.
        end_ms: The end of the window. 0 for a row without a window.
        value: The window as JSON, with the fields that the HTTP API returns.

    Example:
        >>> Put("EWR", 0, 10, b'{"count":1}').end_ms
        10
    """

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
    """Return a window whose value has its key and times."""
    end_ms = start_ms + size_ms
    fields = {
        "key": key,
        "window_start_ms": start_ms,
        "window_end_ms": end_ms,
        "timestamp_ms": start_ms + 5 if timestamp_ms is None else timestamp_ms,
        "final": final,
    }
    return Put(key, start_ms, end_ms, orjson.dumps(fields))


class ModelStore(ReadOnlyStore, ABC):
    """The base of the models: lists of puts, divided into pages."""

    #: The name of the type of the keys.
    key_type = "text"

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        del records_max
        check_prefix(prefix, self.key_type)
        listed = {put.key for put in self._all_visible()}
        matching = sorted(
            (
                key
                for key in listed
                if key.startswith(prefix)
                and len(key.encode()) <= KEY_BYTES_MAX
                and (after is None or self._value(key) > self._value(after))
            ),
            key=self._value,
        )
        page = matching[:limit]
        return KeyPage(page, page[-1] if len(matching) > limit else None)

    def scan(self, scan_range: ScanRange) -> ScanPage:
        return _scan_page(self._scanned(scan_range), scan_range)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        return _scan_page(self._scanned(scan_range)[::-1], scan_range)

    def _scanned(self, scan_range: ScanRange) -> list[Put]:
        inside = [
            put
            for put in self._all_visible()
            if self._has_key(scan_range, put.key)
            and scan_range.from_ms <= put.start_ms <= scan_range.to_ms
            and put.end_ms >= scan_range.earliest_end_ms
            and _is_final(put, scan_range.final)
        ]
        return sorted(inside, key=lambda put: (self._value(put.key), put.start_ms, put.end_ms))

    def _has_key(self, scan_range: ScanRange, key: str) -> bool:
        """Return True if a range has the value of a key."""
        check_prefix(scan_range.prefix, self.key_type)
        value, (key_from, key_to) = self._value(key), scan_range[:2]
        return (
            key.startswith(scan_range.prefix)
            and (key_from is None or value >= self._value(key_from))
            and (key_to is None or value <= self._value(key_to))
        )

    def _value(self, key: str) -> Any:
        return key_value(key, self.key_type)

    @abstractmethod
    def _all_visible(self) -> list[Put]:
        """Return all puts that retention has not expired."""


class ModelWindowStore(ModelStore, ReadOnlyWindowStore):
    """A window store over a list of puts. The last put of a window replaces the others.

    Compare the results of your own window store with this model.

    Example:
        >>> store = ModelWindowStore([Put("EWR", 0, 10, b'{"count":1}')])
        >>> store.fetch_window("EWR", 0)
        b'{"count":1}'
        >>> store.fetch_window("EWR", 5) is None
        True
    """

    def __init__(
        self,
        puts: Iterable[Put],
        retention_ms: int | None = None,
        window: WindowSpec | None = None,
        key_type: str = "text",
    ) -> None:
        """Create a store with these windows. Retention counts from the greatest start of all.

        Args:
            puts: The windows.
            retention_ms: How long windows are visible, in ms. None: always.
            window: The kind of the windows. Default: sliding windows of 10 ms.
            key_type: The name of the type of the keys, for example ``"[text, long]"``.
        """
        self.key_type = key_type
        self._window = window or WindowSpec(StoreKind.SLIDING, 10, 0)
        self._windows = {(put.key, put.start_ms, put.end_ms): put for put in puts}
        observed_ms = max((self._clock_ms(put) for put in self._windows.values()), default=-1)
        self._earliest_ms = 0 if retention_ms is None else max(0, observed_ms - retention_ms + 1)

    @property
    def earliest_ms(self) -> int:
        return self._earliest_ms

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        matching = [put.value for put in self._visible(key) if put.start_ms == window_start_ms]
        return matching[0] if matching else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        inside = [
            put
            for put in self._visible(window_range.key)
            if window_range.from_ms <= put.start_ms <= window_range.to_ms
            and (window_range.after is None or (put.start_ms, put.end_ms) > window_range.after)
            and _is_final(put, window_range.final)
        ]
        return _page(inside, window_range)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        inside = [
            put
            for put in reversed(self._visible(window_range.key))
            if window_range.from_ms <= put.start_ms <= window_range.to_ms
            and (window_range.after is None or (put.start_ms, put.end_ms) < window_range.after)
            and _is_final(put, window_range.final)
        ]
        return _page(inside, window_range)

    def latest(self, key: str) -> bytes | None:
        visible = self._visible(key)
        return visible[-1].value if visible else None

    def current(self, key: str) -> bytes | None:
        windows = self._visible(key)
        if not windows:
            return None
        times_ms = [orjson.loads(put.value)["timestamp_ms"] for put in windows]
        # A window that was closed when the record arrived does not contain the record.
        holding = [put for put, ms in zip(windows, times_ms, strict=True) if ms == max(times_ms)]
        return min(holding, key=lambda put: put.end_ms).value

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        return self._of_each_key(scan_range, self.latest)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        return self._of_each_key(scan_range, self.current)

    def _of_each_key(self, scan_range: ScanRange, read: Callable[[str], bytes | None]) -> ScanPage:
        keys = sorted({put.key for put in self._all_visible()}, key=self._value)
        inside = [key for key in keys if self._has_key(scan_range, key)]
        values = [Put(key, 0, 0, read(key) or b"") for key in inside]
        return _scan_page(values, scan_range)

    def _all_visible(self) -> list[Put]:
        windows = self._windows.values()
        return [put for put in windows if self._clock_ms(put) >= self.earliest_ms]

    def _visible(self, key: str) -> list[Put]:
        """Return the windows of a key that have not expired, by start and end."""
        self._value(key)
        matching = [
            put
            for put in self._windows.values()
            if put.key == key and self._clock_ms(put) >= self.earliest_ms
        ]
        return sorted(matching, key=lambda put: (put.start_ms, put.end_ms))

    def _clock_ms(self, put: Put) -> int:
        """Return the time that retention uses."""
        return put.start_ms


class ModelSessionStore(ModelWindowStore, ReadOnlySessionStore):
    """A session store over a list of puts. The last put of a session replaces the others.

    Compare the results of your own session store with this model. The arguments are the same as for
    ``ModelWindowStore``. Retention counts from the greatest end of all sessions.

    Example:
        >>> store = ModelSessionStore([Put("EWR", 0, 20, b'{"count":3}')])
        >>> store.fetch_session("EWR", 0, 20)
        b'{"count":3}'
    """

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        times = (window_start_ms, window_end_ms)
        matching = [put.value for put in self._visible(key) if (put.start_ms, put.end_ms) == times]
        return matching[0] if matching else None

    def current(self, key: str) -> bytes | None:
        sessions = self._visible(key)
        last = max(sessions, key=lambda put: (put.end_ms, put.start_ms), default=None)
        return None if last is None else last.value

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        inside = [
            put
            for put in self._overlapping(session_range)
            if session_range.after is None or (put.start_ms, put.end_ms) > session_range.after
        ]
        return _page(inside, session_range)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
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


class ModelKeyValueStore(ModelStore, ReadOnlyKeyValueStore):
    """A store without windows over a list of puts. The last put of a key replaces the others.

    Compare the results of your own store with this model.

    Example:
        >>> store = ModelKeyValueStore([Put("EWR", 0, 0, b'{"count":7}')])
        >>> store.get("EWR")
        b'{"count":7}'
        >>> store.approximate_num_entries()
        1
    """

    def __init__(self, puts: Iterable[Put], key_type: str = "text") -> None:
        """Create a store with these rows.

        Args:
            puts: The rows.
            key_type: The name of the type of the keys, for example ``"[text, long]"``.
        """
        self.key_type = key_type
        self._rows = {put.key: put for put in puts}

    def get(self, key: str) -> bytes | None:
        self._value(key)
        return self._rows[key].value if key in self._rows else None

    def approximate_num_entries(self) -> int:
        return len(self._rows)

    def _all_visible(self) -> list[Put]:
        return list(self._rows.values())


def key_value(key: str, key_type: str) -> Any:
    """Return the value of a key: bytes, an integer, or a tuple of these.

    Raises:
        KeyTypeMismatch: the key does not fit the type.
    """
    if key_type == "text":
        return key.encode()
    try:
        parsed = json.loads(key)
    except ValueError:
        parsed = None
    written = json.dumps(parsed, ensure_ascii=False, separators=(",", ":"))
    components = parsed if isinstance(parsed, list) else [parsed]
    wanted = key_type.strip("[]").split(", ")
    is_fitting = len(components) == len(wanted) and all(
        isinstance(value, str)
        if name == "text"
        else type(value) is int and -(2**63) <= value < 2**63
        for value, name in zip(components, wanted, strict=True)
    )
    if written != key or not is_fitting or isinstance(parsed, list) != (key_type[0] == "["):
        message = f"{key!r} is not a key of the type {key_type}"
        raise KeyTypeMismatch(message)
    values = tuple(each.encode() if isinstance(each, str) else each for each in components)
    return values if isinstance(parsed, list) else parsed


def check_prefix(prefix: str, key_type: str) -> None:
    """Reject a prefix if its keys are not next to each other.

    Raises:
        KeyTypeMismatch: the prefix is such a prefix.
    """
    if key_type == "text" or not prefix:
        return
    names = key_type.strip("[]").split(", ")
    count = len(json.loads(f"{prefix[:-1]}]")) if prefix[0] == "[" and prefix[-1] == "," else 0
    if not 0 < count < len(names):
        message = f"{prefix!r} is not a prefix of keys of the type {key_type}"
        raise KeyTypeMismatch(message)
    key_value(f"{prefix[:-1]}]", f"[{', '.join(names[:count])}]")


def _is_final(put: Put, wanted: bool | None) -> bool:  # noqa: FBT001 - None is no choice
    return wanted is None or orjson.loads(put.value)["final"] is wanted


def _page(inside: list[Put], read_range: WindowRange | SessionRange) -> WindowPage:
    fitting = _fitting(inside, read_range)
    page = inside[:fitting]
    after = WindowId(page[-1].start_ms, page[-1].end_ms) if len(inside) > fitting else None
    return WindowPage([put.value for put in page], after)


def _scan_page(inside: list[Put], scan_range: ScanRange) -> ScanPage:
    """Return a page of puts. Its ``next_after`` is the identity of the last put as JSON."""
    identities = [orjson.dumps(put[:3]) for put in inside]
    if scan_range.after is not None:
        first = identities.index(scan_range.after) + 1
        inside, identities = inside[first:], identities[first:]
    fitting = _fitting(inside, scan_range)
    after = identities[fitting - 1] if len(inside) > fitting else None
    return ScanPage([put.value for put in inside[:fitting]], after)


def _fitting(inside: Sequence[Put], read_range: WindowRange | SessionRange | ScanRange) -> int:
    """Return how many of the first puts a page has."""
    size = 0
    for count, put in enumerate(inside[: read_range.limit], 1):
        size += len(put.value)
        if size >= read_range.bytes_max:
            return count
    return min(len(inside), read_range.limit)
