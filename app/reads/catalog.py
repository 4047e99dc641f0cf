"""The stores of one data directory, as this process reads them."""

import time
from bisect import bisect_left
from typing import NamedTuple
from urllib.parse import quote

import orjson

from oriel.app.contract import Limits, ReadValues
from oriel.app.guards import Gate
from oriel.app.reads.changes import ChangeReader
from oriel.app.reads.histories import StoreHistory
from oriel.app.reads.ranked import NewestColumnsOfStores
from oriel.app.reads.table_reads import TableReads
from oriel.app.reads.watcher import VersionWatcher
from oriel.storage import (
    STORE_PROPERTY,
    BehindPositionBound,
    DataLayout,
    InvalidDefinition,
    PositionBound,
    StoreNotReady,
    UnknownStore,
    check_store_name,
    errors,
    is_object,
)
from oriel.storage.delta import LOG_DIRECTORY, DeltaLog
from oriel.storage.files import FileIdentity
from oriel.storage.index import IndexDirectory, IndexReader, IndexSnapshot, IndexState
from oriel.storage.tailer import has_entries

#: Seconds for which a store's table is assumed to exist.
_TABLE_SECONDS = 1.0
#: Seconds for which a lag is assumed to be unchanged.
_LAG_SECONDS = 0.1
#: Bytes of offsets in a header field. Longer offsets are only in the body, because clients and
#: proxies reject headers of many kilobytes.
_POSITION_FIELD_BYTES_MAX = 2_000


class VersionFrame(NamedTuple):
    """The common parts of all responses from one version, as finished bytes.

    Attributes:
        state: The version.
        opening: The body up to its first window or row.
        place: The end of the entity tags of pages with a cursor.
        position: The position as header fields.
    """

    state: IndexState
    opening: bytes
    place: bytes
    position: list[tuple[bytes, bytes]]


class Lag(NamedTuple):
    """The lag of an index to its table.

    Attributes:
        versions: The number of versions that the index does not have.
        ms: The time since the first of these versions was committed, 0 without lag.
        field: The header field with both values.
    """

    versions: int
    ms: int
    field: tuple[bytes, bytes] = (b"oriel-lag", b"versions=0, ms=0")


class StoreView:
    """One store: its reader, and the frame of its newest version."""

    def __init__(self, layout: DataLayout, name: str, gate: Gate) -> None:
        """Create a view of a store that need not exist yet. Nothing is opened."""
        self.name = name
        self._gate = gate
        self.watcher = VersionWatcher(self._newest_state)
        #: Whether the table is in an object store. Then, each check would cost a request, so this
        #: process checks local files instead.
        self._is_remote = is_object(layout.root)
        self.log = DeltaLog(layout.table(name))
        self.history = StoreHistory(self.log)
        self._index_directory = IndexDirectory(layout.index(name))
        # The directory that shows that the store exists. The tailer creates one index per table.
        self._existence_directory = (
            self._index_directory.path if self._is_remote else self.log.table / LOG_DIRECTORY
        )
        self._reader = IndexReader(self._index_directory)
        self._frame: VersionFrame | None = None
        self._table_checked_at = 0.0
        self._lag = Lag(0, 0)
        self._lag_of = -1
        self._lag_checked_at = 0.0
        #: Identity of the first log entry when it was last read, and the result of the read.
        self._first_identity: FileIdentity | None = None
        self._is_foreign = False

    def is_known(self) -> bool:
        """Return whether the store has a table. The result is cached for a second."""
        now = time.monotonic()
        if now - self._table_checked_at < _TABLE_SECONDS:
            return True
        try:
            # A table can be unavailable for a while. Its index serves requests until the tailer
            # removes the index.
            exists = (
                self._existence_directory.is_dir()
                if self._is_remote
                else has_entries(self._existence_directory)
            )
            if not exists and not self._reader.exists():
                return False
        except OSError:
            # The table cannot be checked. If it has an index, it is a store, and its readers get
            # the error. Any other table must not fail requests for other stores.
            return self._index_directory.path.is_dir()
        self._table_checked_at = now
        return True

    def is_not_a_store(self) -> bool:
        """Return whether the table is not a store, because another program created it.

        Such a table has no definition. If its first log entry is damaged or deleted, a table counts
        as a store. The tailer reports damage, and other stores must not fail because of it.
        """
        if self._frame is not None or self._is_remote:
            return False
        identity = self.log.identity(0)
        if identity != self._first_identity:
            try:
                first = None if identity is None else self.log.read(0)
            except (errors.CorruptLog, IsADirectoryError):
                first = None
            metadata = None if first is None else first.metadata
            self._is_foreign = metadata is not None and metadata.definition_json is None
            self._first_identity = identity
        return self._is_foreign

    def snapshot(self) -> IndexSnapshot:
        """Open a snapshot of the newest version.

        Raises:
            StoreNotReady: The index cannot be read now.
        """
        return self._reader.snapshot()

    def frame(self, state: IndexState) -> VersionFrame:
        """Return the common parts of responses from a version. They are cached."""
        if self._frame is not None and self._frame.state is state:
            return self._frame
        opening = b'{"store":%b,"position":%b,"%b":[' % (
            orjson.dumps(self.name),
            orjson.dumps(position_of(state)),
            b"windows" if state.definition.window.is_windowed else b"rows",
        )
        place = f"+{state.version}-{state.place.history}".encode()
        self._frame = VersionFrame(state, opening, place, _position_fields(state))
        return self._frame

    def lag(self, version: int) -> Lag | None:
        """Return the lag of a version to the table. The result is cached for 100 ms.

        Returns:
            None if the table is in an object store.
        """
        if self._is_remote:
            return None
        now = time.monotonic()
        if self._lag_of != version or now - self._lag_checked_at >= _LAG_SECONDS:
            self._lag = _lag(self.log, version)
            self._lag_of, self._lag_checked_at = version, now
        return self._lag

    def committed_ms(self, version: int) -> int | None:
        """Return when a version was committed, in ms since the epoch.

        Returns:
            None if its log entry is deleted, or if the table is in an object store.
        """
        identity = None if self._is_remote else self.log.identity(version)
        return None if identity is None else identity[1] // 1_000_000

    async def snapshot_at(self, query: ReadValues) -> IndexSnapshot:
        """Open a snapshot of a version that has the position that a request requires.

        Args:
            query: The position parameters. ``wait_ms`` limits the wait for the position.

        Raises:
            BehindPositionBound: The position was not reached in time.
            StoreNotReady: The index could not be read in time.
            Overloaded: The limit of waiting requests is reached.
            ShuttingDown: The worker ends, and the position is not reached.
        """
        bound = PositionBound(query["min_version"], query["min_offset"])
        if not query["wait_ms"]:
            return self._snapshot_if(bound)
        deadline = time.monotonic() + query["wait_ms"] / 1000
        while True:
            try:
                return self._snapshot_if(bound)
            except (BehindPositionBound, StoreNotReady) as error:
                if isinstance(error, BehindPositionBound):
                    # A version of a lost history is never reached.
                    await self.history.refuse_lost(query, self._newest_state())
                left_seconds = deadline - time.monotonic()
                if left_seconds <= 0:
                    raise
            with self._gate.wait():
                await self.watcher.wait(
                    lambda state: not bound.missing(state.version, state.offsets), left_seconds
                )

    async def refuse_lost(self, query: ReadValues, state: IndexState | None = None) -> None:
        """Reject a request with a version or cursor of a lost history. See ``StoreHistory``.

        ``state`` is the version of the response. Default: the index's version, if it can be read.
        """
        if query.get("cursor") is None and query["history"] is None:
            return
        if state is None:
            try:
                state = self._newest_state()
            except StoreNotReady:
                return
        await self.history.refuse_lost(query, state)

    def close(self) -> None:
        """Close the index's files."""
        self._reader.close()

    def _newest_state(self) -> IndexState:
        with self._reader.snapshot() as snapshot:
            return snapshot.state

    def _snapshot_if(self, bound: PositionBound) -> IndexSnapshot:
        snapshot = self._reader.snapshot()
        missing = bound.missing(snapshot.state.version, snapshot.state.offsets)
        if not missing:
            return snapshot
        # An open read transaction would keep the pages of this version in the index file.
        snapshot.__exit__(None, None, None)
        message = (
            f"store {self.name!r}: it has not reached the position: {', '.join(missing)}. "
            "Send the request again later, or set wait_ms."
        )
        raise BehindPositionBound(message)


class StoreCatalog:
    """All stores of one data directory. It is not thread-safe: only the event loop uses it."""

    def __init__(self, layout: DataLayout, gate: Gate | None = None) -> None:
        """Create a catalog without file access. Requests that wait use a slot of the gate."""
        self.layout = layout
        self.gate = gate or Gate(Limits())
        self._views: dict[str, StoreView] = {}
        #: The changes of versions, for event streams and ranked reads.
        self.changes = ChangeReader()
        self.newest = NewestColumnsOfStores(self.changes)
        #: Reads of tables instead of indexes.
        self.table_reads = TableReads(layout)

    def view(self, name: str) -> StoreView:
        """Return a store by its name.

        Raises:
            UnknownStore: A store with this name does not exist.
        """
        view = self._views.get(name)
        if view is None or not view.is_known():
            view = self._find(name)
        if view is not None and view.is_not_a_store():
            message = (
                f"table {name!r} is not a store, because it has no table property {STORE_PROPERTY}."
            )
            raise UnknownStore(message)
        if view is None:
            known = ", ".join(self.names()) or "none yet"
            message = f"store {name[:128]!r} does not exist. The stores are: {known}."
            raise UnknownStore(message)
        return view

    def has(self, name: str) -> bool:
        """Return whether a store with this name exists."""
        view = self._find(name)
        return view is not None and not view.is_not_a_store()

    def names(self) -> list[str]:
        """Return the sorted names of all stores."""
        return [view.name for view in self._views_of_tables() if not view.is_not_a_store()]

    def names_of_other_tables(self) -> list[str]:
        """Return the sorted names of tables in the directory of stores that are not stores."""
        return [view.name for view in self._views_of_tables() if view.is_not_a_store()]

    def stop_waiting(self) -> None:
        """End all waits for a position. The gate rejects new waits."""
        self.gate.close()
        for view in self._views.values():
            view.watcher.wake_all()

    def close(self) -> None:
        """Close all files."""
        for view in self._views.values():
            view.close()
        self._views.clear()
        self.newest.clear()
        self.changes.clear()
        self.table_reads.close()

    def _views_of_tables(self) -> list[StoreView]:
        is_remote = is_object(self.layout.root)
        parent = self.layout.indexes if is_remote else self.layout.tables
        try:
            directories = sorted(directory.name for directory in parent.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [view for name in directories if (view := self._find(name)) is not None]

    def _find(self, name: str) -> StoreView | None:
        try:
            check_store_name(name)
        except InvalidDefinition:
            return None
        view = self._views.get(name) or StoreView(self.layout, name, self.gate)
        if view.is_known():
            return self._views.setdefault(name, view)
        view.close()
        self._views.pop(name, None)
        return None


def position_of(state: IndexState) -> dict[str, object]:
    """Return the position in the form of responses."""
    history = state.place.history
    return {"version": state.version, "offsets": state.offsets, "history": history}


def _position_fields(state: IndexState) -> list[tuple[bytes, bytes]]:
    """Return the position as header fields, with offsets in the format of ``min_offset``."""
    fields = [
        (b"oriel-version", b"%d" % state.version),
        (b"oriel-history", state.place.history.encode()),
    ]
    offsets = ", ".join(
        f"{quote(topic)}:{partition}:{offset}"
        for topic, of_topic in state.offsets.items()
        for partition, offset in of_topic.items()
    ).encode()
    if 0 < len(offsets) <= _POSITION_FIELD_BYTES_MAX:
        fields.append((b"oriel-offsets", offsets))
    return fields


def _lag(log: DeltaLog, version: int) -> Lag:
    """Return the lag of a version to its table. The number of checks is logarithmic in the lag."""
    first = log.identity(version + 1)
    if first is None:
        return Lag(0, 0)
    # Versions have no gaps, so double the step while the version exists, then bisect.
    versions = 1
    while log.identity(version + 2 * versions) is not None:
        versions *= 2
    span = range(versions, 2 * versions)
    versions += bisect_left(span, 1, key=lambda n: int(log.identity(version + n + 1) is None))
    _, modified_ns, _ = first
    # Negative if the wall clock of the pipeline is ahead. 0 would mean that the index has no lag.
    ms = (time.time_ns() - modified_ns) // 1_000_000
    return Lag(versions, ms, (b"oriel-lag", b"versions=%d, ms=%d" % (versions, ms)))
