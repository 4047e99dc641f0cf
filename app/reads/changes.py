"""The changes of each version of a store, read from its table's log once for all streams.

The index has only the newest row of each window. The log entry of a version names the files that
the version added, and these contain exactly the changed rows (docs/decisions/0044).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.reads.columns import without_columns
from oriel.app.reads.histories import LogDigests
from oriel.storage import CommitRecord, StorageError, StoreDefinition, StoreKind, is_object
from oriel.storage.delta import DeltaLog, LogEntry
from oriel.storage.files import FileIdentity
from oriel.storage.index import IndexState, row_json, table_batches

#: Bytes of rows that are cached for all stores of a worker.
CACHE_BYTES = 64 * 1024 * 1024
#: Seconds for which an entry in an object store is assumed to be unchanged.
_OBJECT_SECONDS = 1.0
#: With more versions to follow, columns are built again.
VERSIONS_MAX = 500
#: The most rows of one event, so that its creation is short even if the rows are small.
_PIECE_ROWS = 4_096


#: The id of a table, a version, and the aggregates that are removed from its rows.
_CacheKey = tuple[str, int, frozenset[str]]
#: Indexes of rows of a version, ascending.
Rows = range | npt.NDArray[np.int64]


class ResetNeeded(Exception):
    """The changes of a version cannot be sent as single events. The message says why."""


class Changes(NamedTuple):
    """The rows that one version changed, in the order of its files.

    Attributes:
        version: The version.
        digest: The digest of its log entry.
        before: The digest of the previous log entry, "" if the log does not have it.
        identity: The identity of the file from which the entry was read.
        record: The commit record of the version, None if the entry does not have one.
        windows: The rows as JSON of the API.
        deleted: Whether each row is a removed window.
        starts: The start of each window in ms, empty in a store without windows.
        codes: The code of each key.
        code_of_row: The code of each row's key.
        ends: The cumulative sizes of the rows in bytes.
    """

    version: int
    digest: str
    before: str
    identity: FileIdentity
    record: CommitRecord | None
    windows: list[bytes]
    deleted: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]
    codes: Mapping[str, int]
    code_of_row: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def rows_of(self, keys: Collection[str], from_row: int) -> Rows:
        """Return the ascending indexes of the rows of ``keys``. Without keys, return all."""
        if not keys:
            return range(from_row, len(self.windows))
        changed = [self.codes[key] for key in self.keys_of(keys)]
        if not changed:
            return range(0)
        is_watched = np.zeros(len(self.codes), np.bool_)
        is_watched[changed] = True
        return np.flatnonzero(is_watched[self.code_of_row[from_row:]]) + from_row

    def keys_of(self, keys: Collection[str]) -> Collection[str]:
        """Return the keys that the version changed, only from ``keys`` unless it is empty."""
        if not keys:
            return self.codes.keys()
        if len(keys) > len(self.codes):
            return [key for key in self.codes if key in keys]
        return [key for key in keys if key in self.codes]

    def least_start(self, keys: Collection[str]) -> int:
        """Return the least start in ms of the changed windows of ``keys``, or of all keys."""
        rows = self.rows_of(keys, 0)
        return int((self.starts if isinstance(rows, range) else self.starts[rows]).min())

    def next_piece(self, rows: Rows, begin: int, bytes_max: int) -> Rows:
        """Return rows from ``begin`` on, up to ``bytes_max`` bytes or ``_PIECE_ROWS`` rows."""
        piece = rows[begin : begin + _PIECE_ROWS]
        if isinstance(piece, range):
            low = self.ends[piece[0] - 1] if piece[0] else 0
            last = int(np.searchsorted(self.ends[piece[0] : piece[-1] + 1], low + bytes_max))
        else:
            sizes = self.ends[piece] - np.where(piece == 0, 0, self.ends[piece - 1])
            last = int(np.searchsorted(np.cumsum(sizes), bytes_max))
        return piece[: last + 1]

    def size_bytes(self) -> int:
        """Return the approximate memory of the rows in bytes."""
        return int(self.ends[-1] if self.windows else 0) + 200 * len(self.windows)


class ChangeReader:
    """Reads the changes of versions in its own thread, with a cache."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._kept: OrderedDict[_CacheKey, Changes] = OrderedDict()
        self._kept_bytes = 0
        self._reading: dict[_CacheKey, asyncio.Task[Changes]] = {}
        self._digests = LogDigests()
        #: When an entry in an object store was last checked.
        self._checked_at: dict[_CacheKey, float] = {}
        #: How many versions were read from a log.
        self.reads = 0

    async def changes(
        self,
        log: DeltaLog,
        table_id: str,
        definition: StoreDefinition,
        version: int,
        left_out: frozenset[str] = frozenset(),
    ) -> Changes:
        """Return the changes of a version, in rows without the aggregates in ``left_out``.

        Streams that need the same rows at the same time share one read.

        Raises:
            ResetNeeded: The log entry is deleted, or does more than add rows of the pipeline.
        """
        cache_key = (table_id, version, left_out)
        kept = await self._unchanged(cache_key, log)
        if kept is not None:
            return kept
        reading = self._reading.get(cache_key)
        if reading is None:
            reading = asyncio.ensure_future(self._read(cache_key, log, definition))
            self._reading[cache_key] = reading
            reading.add_done_callback(lambda done: self._read_is_done(cache_key, done))
        # A stream that ends must not cancel a read that other streams wait for.
        return await asyncio.shield(reading)

    async def between(
        self, log: DeltaLog, before: IndexState, after: IndexState
    ) -> list[Changes] | None:
        """Return the changes of the versions after ``before`` up to ``after``.

        Returns:
            One element per version. None: the versions do not follow each other in the log, or are
            too many.
        """
        is_later = before.version < after.version <= before.version + VERSIONS_MAX
        if not is_later or before.table_id != after.table_id:
            return None
        found: list[Changes] = []
        digest = before.digest
        try:
            for version in range(before.version + 1, after.version + 1):
                changes = await self.changes(log, after.table_id, after.definition, version)
                # After a restore of a backup, versions with the same numbers can be different.
                if not digest or changes.before != digest:
                    return None
                digest = changes.digest
                found.append(changes)
        except ResetNeeded:
            return None
        return found if digest == after.digest else None

    async def _unchanged(self, cache_key: _CacheKey, log: DeltaLog) -> Changes | None:
        """Return cached changes if the log still has the entry from which they were read.

        After a restore of an older backup, another version can have the same number.
        """
        kept = self._kept.get(cache_key)
        if kept is None:
            return None
        if is_object(log.table):
            # A check of an object needs a request.
            now = time.monotonic()
            if now - self._checked_at.get(cache_key, -_OBJECT_SECONDS) < _OBJECT_SECONDS:
                return kept
            loop = asyncio.get_running_loop()
            identity = await loop.run_in_executor(self._thread, log.identity, kept.version)
            self._checked_at[cache_key] = now
        else:
            identity = log.identity(kept.version)
        if self._kept.get(cache_key) is not kept:
            return None
        if identity != kept.identity:
            self._forget(cache_key)
            return None
        self._kept.move_to_end(cache_key)
        return kept

    def _forget(self, cache_key: _CacheKey) -> None:
        self._kept_bytes -= self._kept.pop(cache_key).size_bytes()
        self._checked_at.pop(cache_key, None)

    def kept(self, table_id: str, version: int, left_out: frozenset[str]) -> Changes | None:
        """Return the changes of a version if they are in memory."""
        return self._kept.get((table_id, version, left_out))

    def clear(self) -> None:
        """Free the memory of all changes."""
        self._kept.clear()
        self._checked_at.clear()
        self._kept_bytes = 0

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(
        self, cache_key: _CacheKey, log: DeltaLog, definition: StoreDefinition
    ) -> Changes:
        loop = asyncio.get_running_loop()
        table_id, version, left_out = cache_key
        if left_out:
            whole = await self.changes(log, table_id, definition, version)
            windows = await loop.run_in_executor(
                self._thread, without_columns, whole.windows, left_out
            )
            changes = whole._replace(windows=windows, ends=_ends(windows))
        else:
            self.reads += 1
            changes = await loop.run_in_executor(
                self._thread, read_changes, log, definition, version, self._digests
            )
        self._kept[cache_key] = changes
        self._kept_bytes += changes.size_bytes()
        while self._kept_bytes > CACHE_BYTES and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))
        return changes

    def _read_is_done(self, cache_key: _CacheKey, done: "asyncio.Task[Changes]") -> None:
        del self._reading[cache_key]
        if not done.cancelled():
            # If all waiting streams have ended, the error would stay unretrieved.
            done.exception()


def read_changes(
    log: DeltaLog, definition: StoreDefinition, version: int, digests: LogDigests
) -> Changes:
    """Read the changes of one version. See ``ChangeReader.changes``."""
    try:
        entry, identity, before = _read_entry(log, version, digests)
    except StorageError as error:
        message = f"the log entry of version {version} cannot be read: {error}"
        raise ResetNeeded(message) from error
    _require_only_rows(entry, definition)
    tables: list[pa.Table] = []
    try:
        for name in entry.added:
            digest = entry.digests.get(name)
            tables += table_batches(log.table / name, definition, digest=digest)
    except StorageError as error:
        message = f"a file of version {version} is deleted or cannot be read"
        raise ResetNeeded(message) from error
    if not tables:
        return Changes(
            version, entry.digest, before, identity, entry.record, [], np.zeros(0, np.bool_),
            np.zeros(0, np.int64), {}, np.zeros(0, np.int64), _ends([]),
        )  # fmt: skip
    rows = pa.concat_tables(tables).combine_chunks()
    if definition.window.kind is StoreKind.VERSIONED:
        rows = _newest_versions(rows)
    keys = rows["key"].combine_chunks().dictionary_encode()
    starts = np.zeros(0, np.int64)
    if definition.window.is_windowed:
        starts = rows["window_start"].to_numpy().astype("datetime64[ms]").astype(np.int64)
    windows = row_json(rows, definition).to_pylist()
    return Changes(
        version=version,
        digest=entry.digest,
        before=before,
        identity=identity,
        record=entry.record,
        windows=windows,
        deleted=rows["deleted"].to_numpy(),
        starts=starts,
        codes={key: code for code, key in enumerate(keys.dictionary.to_pylist())},
        code_of_row=keys.indices.to_numpy().astype(np.int64),
        ends=_ends(windows),
    )


def _newest_versions(rows: pa.Table) -> pa.Table:
    """Return the rows that became the newest version of their key.

    A tombstone removes the row of its key. A version that has ended, or that left the history, does
    not change the row.
    """
    rows = rows.filter(pc.invert(pc.or_(rows["final"], rows["deleted"])))
    deletes = pc.equal(rows["window_start"], rows["window_end"])
    return rows.set_column(rows.column_names.index("deleted"), "deleted", deletes)


def _read_entry(
    log: DeltaLog, version: int, digests: LogDigests
) -> tuple[LogEntry, FileIdentity, str]:
    """Read the log entry of a version, its file identity, and the previous entry's digest."""
    identity = log.identity(version)
    entry = log.read(version)
    if entry is None or identity is None:
        message = f"version {version} is not in the log of the table"
        raise ResetNeeded(message)
    before = digests.digest(log, version - 1)
    # Only entries that are in the log at the same time belong to one history.
    if log.identity(version) != identity:
        message = f"version {version} was replaced by another"
        raise ResetNeeded(message)
    digests.keep(log, version, identity, entry.digest)
    return entry, identity, before


def _ends(windows: list[bytes]) -> npt.NDArray[np.int64]:
    return np.cumsum(np.fromiter(map(len, windows), np.int64, len(windows)))


def _require_only_rows(entry: LogEntry, definition: StoreDefinition) -> None:
    """Raise ``ResetNeeded`` unless the entry only adds rows of a pipeline's batch.

    Only these rows are each the newest row of their window.
    """
    what = None
    if entry.metadata is not None:
        what = "changed the table's definition"
    elif entry.removes_rows:
        what = "removed rows"
    elif entry.added and entry.batch_of(definition.application) is None:
        what = "added rows that the pipeline did not write"
    if what is not None:
        message = f"version {entry.version} {what}"
        raise ResetNeeded(message)
