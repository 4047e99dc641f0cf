"""The stores of one data folder, as this process reads them."""

import asyncio
import time
from typing import NamedTuple

import orjson

from oriel.app.reads.read_kinds import READS_OF_KIND
from oriel.storage import (
    BehindPositionBound,
    DataLayout,
    InvalidDefinition,
    PositionBound,
    StoreNotReady,
    UnknownStore,
    check_store_name,
)
from oriel.storage.index import IndexFolder, IndexReader, IndexSnapshot, IndexState

#: Seconds between two looks while a request waits for a position; the tailer's own pace.
_WAIT_POLL_SECONDS = 0.01
#: Seconds for which a store's table is taken as still there.
_TABLE_SECONDS = 1.0


class Frame(NamedTuple):
    """What all answers of one version have in common, as finished bytes, and which reads fit."""

    state: IndexState
    opening: bytes
    etag: bytes
    reads: tuple[bytes, ...]


class StoreView:
    """One store: its reader, and the frame of its newest version."""

    def __init__(self, layout: DataLayout, name: str) -> None:
        """View a store that need not be there yet; nothing is opened."""
        self.name = name
        self._table = layout.table(name)
        self._reader = IndexReader(IndexFolder(layout.index(name)))
        self._frame: Frame | None = None
        self._table_seen_at = 0.0

    def is_known(self) -> bool:
        """Whether the store has a table; looked up at most once a second."""
        now = time.monotonic()
        if now - self._table_seen_at < _TABLE_SECONDS:
            return True
        if not (self._table / "_delta_log").is_dir():
            return False
        self._table_seen_at = now
        return True

    def snapshot(self) -> IndexSnapshot:
        """Begin reading the newest version.

        Raises:
            StoreNotReady: the index can't answer now.
        """
        return self._reader.snapshot()

    def frame(self, state: IndexState) -> Frame:
        """The frame of a version; made once per version."""
        if self._frame is None or self._frame.state is not state:
            self._frame = _make_frame(self.name, state)
        return self._frame

    async def snapshot_at(self, bound: PositionBound, wait_ms: int) -> IndexSnapshot:
        """Begin reading a version that satisfies ``bound``, waiting up to ``wait_ms`` for it.

        Raises:
            BehindPositionBound: it was not reached in time.
            StoreNotReady: the index could not answer in time.
        """
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            try:
                return self._snapshot_if(bound)
            except (BehindPositionBound, StoreNotReady):
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_WAIT_POLL_SECONDS)

    def close(self) -> None:
        """Close the index's files."""
        self._reader.close()

    def _snapshot_if(self, bound: PositionBound) -> IndexSnapshot:
        snapshot = self._reader.snapshot()
        lacks = bound.missing(snapshot.state.version, snapshot.state.offsets)
        if not lacks:
            return snapshot
        snapshot.__exit__(None, None, None)
        message = f"store {self.name!r} has not reached the position: {', '.join(lacks)}"
        raise BehindPositionBound(message)


class StoreCatalog:
    """All stores below one data folder. Not for several threads: used on the event loop only."""

    def __init__(self, layout: DataLayout) -> None:
        """Look at nothing yet."""
        self.layout = layout
        self._views: dict[str, StoreView] = {}

    def view(self, name: str) -> StoreView:
        """Find a store by name.

        Raises:
            UnknownStore: there is none of that name.
        """
        view = self._views.get(name)
        if view is not None and view.is_known():
            return view
        return self._look_up(name)

    def names(self) -> list[str]:
        """The names of all stores, in order."""
        try:
            found = sorted(folder.name for folder in self.layout.tables.iterdir())
        except FileNotFoundError:
            return []
        return [name for name in found if self._find(name) is not None]

    def close(self) -> None:
        """Close all files."""
        for view in self._views.values():
            view.close()
        self._views.clear()

    def _look_up(self, name: str) -> StoreView:
        view = self._find(name)
        if view is None:
            known = ", ".join(self.names()) or "none yet"
            message = f"there is no store {name[:128]!r}; the stores are: {known}"
            raise UnknownStore(message)
        return view

    def _find(self, name: str) -> StoreView | None:
        try:
            check_store_name(name)
        except InvalidDefinition:
            return None
        view = self._views.get(name) or StoreView(self.layout, name)
        if view.is_known():
            return self._views.setdefault(name, view)
        view.close()
        self._views.pop(name, None)
        return None


def require_version(store: str, state: IndexState, version: int) -> None:
    """Refuse to go on from a page of a newer version than this.

    Raises:
        BehindPositionBound: the index is behind that version.
    """
    lacks = PositionBound(version).missing(state.version, state.offsets)
    if lacks:
        message = f"store {store!r} is behind the page before: {', '.join(lacks)}"
        raise BehindPositionBound(message)


def position_of(state: IndexState) -> dict[str, object]:
    """The position as answers show it."""
    return {"version": state.version, "offsets": state.offsets}


def _make_frame(name: str, state: IndexState) -> Frame:
    window = state.definition.window
    opening = b'{"store":%b,"position":%b,"%b":[' % (
        orjson.dumps(name),
        orjson.dumps(position_of(state)),
        b"windows" if window.is_windowed else b"rows",
    )
    # The table id tells versions of different tables of one name apart, the digest rewritten ones.
    etag = f"{state.version}-{state.table_id[:8]}{state.digest[:8]}".encode()
    return Frame(state, opening, etag, READS_OF_KIND[window.kind])
