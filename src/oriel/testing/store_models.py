"""The models of stores: plain lists, searched from end to end.

Shares no code with the index, so that what they agree on is right.
"""

from collections.abc import Iterable
from typing import NamedTuple

from oriel.storage import SessionRange, WindowId, WindowPage, WindowRange
from oriel.storage.contracts import KeyPage


class Put(NamedTuple):
    """One window put into a store; ``value`` is its JSON."""

    key: str
    start_ms: int
    end_ms: int
    value: bytes


class ModelWindowStore:
    """A ``ReadOnlyWindowStore`` over everything that was put, the last put of a window winning."""

    def __init__(self, puts: Iterable[Put], retention_ms: int | None = None) -> None:
        """Put them all; the store clock is the greatest start ever put."""
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
        ]
        return _page(inside, window_range.limit)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        inside = [
            put
            for put in reversed(self._visible(window_range.key))
            if window_range.from_ms <= put.start_ms <= window_range.to_ms
            and (window_range.after is None or (put.start_ms, put.end_ms) < window_range.after)
        ]
        return _page(inside, window_range.limit)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        visible = self._visible(key)
        return visible[-1].value if visible else None

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """See ``ReadOnlyWindowStore``."""
        candidates = {put.key for put in self._windows.values() if self._visible(put.key)}
        matching = sorted(
            (
                key
                for key in candidates
                if key.startswith(prefix) and (after is None or key.encode() > after.encode())
            ),
            key=str.encode,
        )
        page = matching[:limit]
        return KeyPage(page, page[-1] if len(matching) > limit else None)

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

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        inside = [
            put
            for put in self._overlapping(session_range)
            if session_range.after is None or (put.start_ms, put.end_ms) > session_range.after
        ]
        return _page(inside, session_range.limit)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        inside = [
            put
            for put in reversed(self._overlapping(session_range))
            if session_range.after is None or (put.start_ms, put.end_ms) < session_range.after
        ]
        return _page(inside, session_range.limit)

    def _overlapping(self, session_range: SessionRange) -> list[Put]:
        return [
            put
            for put in self._visible(session_range.key)
            if put.end_ms >= session_range.earliest_end_ms
            and put.start_ms <= session_range.latest_start_ms
        ]

    def _clock_ms(self, put: Put) -> int:
        return put.end_ms


class ModelKeyValueStore:
    """A ``ReadOnlyKeyValueStore`` over everything that was put, the last put of a key winning."""

    def __init__(self, puts: Iterable[Put]) -> None:
        """Put them all."""
        self._rows = {put.key: put.value for put in puts}

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        return self._rows.get(key)

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """See ``ReadOnlyKeyValueStore``."""
        matching = sorted((key for key in self._rows if key.startswith(prefix)), key=str.encode)
        if after is not None:
            matching = [key for key in matching if key.encode() > after.encode()]
        return KeyPage(matching[:limit], matching[limit - 1] if len(matching) > limit else None)


def _page(inside: list[Put], limit: int) -> WindowPage:
    page = inside[:limit]
    more = len(inside) > limit
    after = WindowId(page[-1].start_ms, page[-1].end_ms) if more else None
    return WindowPage([put.value for put in page], after)
