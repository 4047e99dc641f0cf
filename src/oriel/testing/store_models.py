"""The models of stores: plain lists, searched from end to end.

Shares no code with the index, so that what they agree on is right. Keys are compared as the values
that they are texts of.
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
from oriel.storage.contracts import KEY_BYTES_MAX, UNBOUNDED, KeyPage
from oriel.storage.errors import UnfitKey


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

    #: The name of the type that the keys are of.
    key_type = "text"

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``."""
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
        """See ``ReadOnlyStore``."""
        return _scan_page(self._scanned(scan_range), scan_range)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
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
        """Whether a range has a key, by its value."""
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
        """Everything that was put and has not expired."""


class ModelWindowStore(ModelStore):
    """A ``ReadOnlyWindowStore`` over everything that was put, the last put of a window winning."""

    def __init__(
        self,
        puts: Iterable[Put],
        retention_ms: int | None = None,
        window: WindowSpec | None = None,
        key_type: str = "text",
    ) -> None:
        """Put them all; the store clock is the greatest start ever put."""
        self.key_type = key_type
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
        times_ms = [orjson.loads(put.value)["timestamp_ms"] for put in windows]
        # A window that was closed when the record came covers its time and does not contain it.
        holding = [put for put, ms in zip(windows, times_ms, strict=True) if ms == max(times_ms)]
        return min(holding, key=lambda put: put.end_ms).value

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        return self._of_each_key(scan_range, self.latest)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
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
        """The key's windows that have not expired, by start and end."""
        self._value(key)
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

    def __init__(self, puts: Iterable[Put], key_type: str = "text") -> None:
        """Put them all."""
        self.key_type = key_type
        self._rows = {put.key: put for put in puts}

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        self._value(key)
        return self._rows[key].value if key in self._rows else None

    def approximate_num_entries(self) -> int:
        """See ``ReadOnlyKeyValueStore``."""
        return len(self._rows)

    def _all_visible(self) -> list[Put]:
        return list(self._rows.values())


def key_value(key: str, key_type: str) -> Any:
    """What the text of a key stands for: bytes, an integer, or a tuple of these.

    Raises:
        UnfitKey: it is no key of a type of this name.
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
        raise UnfitKey(message)
    values = tuple(each.encode() if isinstance(each, str) else each for each in components)
    return values if isinstance(parsed, list) else parsed


def check_prefix(prefix: str, key_type: str) -> None:
    """Refuse a prefix of which the keys don't lie together.

    Raises:
        UnfitKey: it is one.
    """
    if key_type == "text" or not prefix:
        return
    names = key_type.strip("[]").split(", ")
    count = len(json.loads(f"{prefix[:-1]}]")) if prefix[0] == "[" and prefix[-1] == "," else 0
    if not 0 < count < len(names):
        message = f"{prefix!r} is not a prefix of keys of the type {key_type}"
        raise UnfitKey(message)
    key_value(f"{prefix[:-1]}]", f"[{', '.join(names[:count])}]")


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
