"""The stores of one data folder, as this process reads them."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from oriel.storage import (
    BehindPositionBound,
    DataLayout,
    InvalidDefinition,
    PositionBound,
    StoreNotReady,
    UnknownStore,
    check_store_name,
    is_object,
)
from oriel.storage.index import IndexFolder, IndexReader, IndexSnapshot, IndexState

#: Seconds between two looks while a request waits for a position; the tailer's own pace.
_WAIT_POLL_SECONDS = 0.01
#: Seconds for which a store's table is taken as still there.
_TABLE_SECONDS = 1.0


class VersionFrame(NamedTuple):
    """What all answers of one version have in common, as finished bytes.

    ``opening`` is the answer up to its first window or row.
    """

    state: IndexState
    opening: bytes
    etag: bytes


class StoreView:
    """One store: its reader, and the frame of its newest version."""

    def __init__(self, layout: DataLayout, name: str) -> None:
        """View a store that need not be there yet; nothing is opened."""
        self.name = name
        # Only the tailer asks for objects: with a store's table comes the folder of its index.
        self._sign = layout.table(name) / "_delta_log"
        if is_object(layout.root):
            self._sign = layout.index(name)
        self._reader = IndexReader(IndexFolder(layout.index(name)))
        self._frame: VersionFrame | None = None
        self._table_seen_at = 0.0

    def is_known(self) -> bool:
        """Whether the store has a table; looked up at most once a second."""
        now = time.monotonic()
        if now - self._table_seen_at < _TABLE_SECONDS:
            return True
        if not self._sign.is_dir():
            return False
        self._table_seen_at = now
        return True

    def snapshot(self) -> IndexSnapshot:
        """Begin reading the newest version.

        Raises:
            StoreNotReady: the index can't answer now.
        """
        return self._reader.snapshot()

    def frame(self, state: IndexState) -> VersionFrame:
        """The frame of a version; made once per version."""
        if self._frame is not None and self._frame.state is state:
            return self._frame
        opening = b'{"store":%b,"position":%b,"%b":[' % (
            orjson.dumps(self.name),
            orjson.dumps(position_of(state)),
            b"windows" if state.definition.window.is_windowed else b"rows",
        )
        # The table id tells versions of different tables of one name apart, the digest rewritten
        # ones.
        etag = f"{state.version}-{state.table_id[:8]}{state.digest[:8]}".encode()
        self._frame = VersionFrame(state, opening, etag)
        return self._frame

    async def snapshot_at(self, query: Mapping[str, Any]) -> IndexSnapshot:
        """Begin reading a version that has the position which a request demands.

        ``query`` has the position parameters; ``wait_ms`` is how long to wait for the position.

        Raises:
            BehindPositionBound: it was not reached in time.
            StoreNotReady: the index could not answer in time.
        """
        bound = PositionBound(query["min_version"], query["min_offset"])
        deadline = time.monotonic() + query["wait_ms"] / 1000
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
        missing = bound.missing(snapshot.state.version, snapshot.state.offsets)
        if not missing:
            return snapshot
        # An open read transaction would keep the pages of this version in the index's file.
        snapshot.__exit__(None, None, None)
        message = f"store {self.name!r} has not reached the position: {', '.join(missing)}"
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
        view = self._find(name)
        if view is None:
            known = ", ".join(self.names()) or "none yet"
            message = f"there is no store {name[:128]!r}; the stores are: {known}"
            raise UnknownStore(message)
        return view

    def names(self) -> list[str]:
        """The names of all stores, in order."""
        try:
            layout = self.layout
            parent = layout.indexes if is_object(layout.root) else layout.tables
            folders = sorted(folder.name for folder in parent.iterdir())
        except FileNotFoundError:
            return []
        return [name for name in folders if self._find(name) is not None]

    def close(self) -> None:
        """Close all files."""
        for view in self._views.values():
            view.close()
        self._views.clear()

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


def position_of(state: IndexState) -> dict[str, object]:
    """The position as answers show it."""
    return {"version": state.version, "offsets": state.offsets}
