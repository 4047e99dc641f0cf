"""The current windows of keys, read once for all streams that send them."""

from collections.abc import Sequence
from typing import NamedTuple

from oriel.app.reads import without_columns
from oriel.storage.index import IndexState, WindowSnapshot

#: Bytes of windows that are cached for the streams of a worker.
CACHE_BYTES = 16 * 1024 * 1024
#: The most keys that one piece reads. Meanwhile, the worker serves no other request.
_KEYS_MAX = 256


class CurrentPiece(NamedTuple):
    """The current windows of some keys.

    Attributes:
        state: The version of the index.
        windows: The windows as JSON.
        removed: The keys without a window.
    """

    state: IndexState
    windows: list[bytes]
    removed: list[str]


class CurrentWindows:
    """Reads the current windows of keys, with a cache."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str, str, frozenset[str]], bytes | None] = {}
        self._kept_bytes = 0
        #: How many windows were read from an index.
        self.reads = 0

    def piece(
        self,
        snapshot: WindowSnapshot,
        keys: Sequence[str],
        left_out: frozenset[str],
        bytes_max: int,
    ) -> CurrentPiece:
        """Read the windows of the first keys, up to ``bytes_max`` bytes."""
        windows: list[bytes] = []
        removed: list[str] = []
        size = 0
        for key in keys[:_KEYS_MAX]:
            window = self._current(snapshot, key, left_out)
            if window is None:
                removed.append(key)
            else:
                windows.append(window)
            size += len(key if window is None else window)
            if size >= bytes_max:
                break
        return CurrentPiece(snapshot.state, windows, removed)

    def _current(
        self, snapshot: WindowSnapshot, key: str, left_out: frozenset[str]
    ) -> bytes | None:
        state = snapshot.state
        cache_key = state.table_id, state.version, state.digest, key, left_out
        if cache_key not in self._kept:
            self.reads += 1
            window = snapshot.current(key)
            if window is not None:
                (window,) = without_columns([window], left_out)
            if self._kept_bytes >= CACHE_BYTES:
                self._kept.clear()
                self._kept_bytes = 0
            self._kept[cache_key] = window
            self._kept_bytes += 300 + len(key) + len(window or b"")
        return self._kept[cache_key]
