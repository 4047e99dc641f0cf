"""The readable versions of a table, and their stores.

A version is readable while its data files exist, and its log entries from version 0 or from a
Delta checkpoint. One of the entries must have its position. Clean-up and VACUUM delete old entries
and files. The error of a deleted version names the versions that are still readable.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from oriel.storage.delta import DeltaLog, missing_file
from oriel.storage.errors import (
    CorruptLog,
    InvalidDefinition,
    StoreNotReady,
    VersionGone,
    VersionNotFound,
)
from oriel.storage.files import FileIdentity, current_files
from oriel.storage.index import Extent, IndexState
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import EVERYTHING
from oriel.storage.table_store.store import TableStore, table_store
from oriel.storage.table_store.version_rows import (
    VersionRows,
    version_rows,
    window_times_ms,
)

#: The number of versions that stay open, so that the pages of a read do not open one again.
_OPEN_MAX = 4
#: The most log entries that are examined to find the oldest version whose files all exist.
_ENTRIES_EXAMINED_MAX = 1000


class TableVersions:
    """The versions of one store's table. Instances are thread-safe."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self._log = DeltaLog(table)
        self._open: OrderedDict[tuple[int, FileIdentity], VersionRows] = OrderedDict()
        self._lock = threading.Lock()

    def newest(self) -> int:
        """Return the newest version.

        Raises:
            StoreNotReady: The table does not exist, or its log is empty.
        """
        entry = self._log.newest()
        if entry is None:
            message = f"the log of table {self.table.name!r} has no entry yet"
            raise StoreNotReady(message)
        return entry.version

    def at_time(self, time_ms: int) -> int:
        """Return the newest version that was committed at or before a wall-clock time.

        If the wall clock was set back, the result can be an adjacent version.

        Raises:
            VersionGone: The oldest version in the log is later.
        """
        first, last = self._logged()
        versions = [version for version in self._log.versions() if first <= version <= last]
        count = bisect_right(versions, time_ms, key=self._committed_ms)
        if count == 0:
            message = (
                f"{self.table.name!r} has no version as of {time_ms}. The oldest version with a "
                f"known time is {versions[0]}, committed at {self._committed_ms(versions[0])}"
                if versions
                else f"{self.table.name!r} has no version with a known time"
            )
            raise VersionGone(message)
        return versions[count - 1]

    def open(self, version: int, budget: ReadBudget) -> TableStore:
        """Return a version as a store. The budget limits its reads.

        Raises:
            Exception: The same exceptions as ``rows``.
        """
        return table_store(self.rows(version, budget), budget)

    def rows(self, version: int, budget: ReadBudget) -> VersionRows:
        """Return the rows of a version. All its files exist.

        Raises:
            VersionNotFound: The table has not reached the version.
            VersionGone: Required log entries or files are deleted, or the version is not a store.
            StoreNotReady: The table does not exist.
            CorruptLog: The log cannot be read, or a file of the table is missing.
        """
        first, last = self._logged()
        if version > last:
            message = f"{self.table.name!r} has no version {version} yet. It is at version {last}"
            raise VersionNotFound(message)
        identity = self._log.identity(version)
        if version < first:
            raise self.deleted_version_error(version)
        with self._lock:
            rows = None if identity is None else self._open.get((version, identity))
        if rows is None:
            rows = self._opened(version, budget)
            if identity is not None:
                with self._lock:
                    self._open[version, identity] = rows
                    while len(self._open) > _OPEN_MAX:
                        self._open.popitem(last=False)
        # Check the files before any read. Otherwise, reads of only some keys would fail.
        missing = next((file.path for file in rows.files if not self._exists(file.path)), None)
        if missing is not None:
            # Clean-up only removes files that a later version has removed from the table.
            is_cleaned_up = self._oldest_complete(first, last) > version
            raise (
                self.deleted_version_error(version)
                if is_cleaned_up
                else missing_file(self.table / missing)
            )
        return rows

    def _exists(self, path: str) -> bool:
        return current_files().exists(self.table / path)

    def deleted_version_error(self, version: int) -> VersionGone:
        """Return the error of a deleted version, with the range of the readable versions."""
        first, last = self._logged()
        oldest = self._oldest_complete(first, last)
        return VersionGone(
            f"version {version} of {self.table.name!r} was cleaned up. Request a version from "
            f"{oldest} to {last}"
        )

    def _opened(self, version: int, budget: ReadBudget) -> VersionRows:
        try:
            snapshot = self._log.snapshot(version)
        except InvalidDefinition as error:
            message = (
                f"version {version} of {self.table.name!r} does not belong to this store: {error}"
            )
            raise VersionGone(message) from error
        recorded = -1 if snapshot.record is None else snapshot.record.batch
        if recorded < snapshot.batch:
            # The position has the time that determines which windows had expired.
            message = (
                f"the log no longer has the position of version {version} of {self.table.name!r}. "
                "Request a later version"
            )
            raise VersionGone(message)
        state = IndexState(
            table_id=snapshot.table_id,
            version=snapshot.version,
            digest=snapshot.digest,
            definition=snapshot.definition,
            record=snapshot.record,
        )
        return _with_observed_time(version_rows(self.table, snapshot, state), budget)

    def _logged(self) -> tuple[int, int]:
        """Return the oldest version from which the log has all versions, and the newest version.

        Clean-up deletes the oldest entries and leaves no gap. If the log has a gap, the entries
        before it are not used.
        """
        last = self.newest()
        versions, checkpoints = self._log.versions(), self._log.checkpoints()
        first = last
        existing = set(versions)
        while first - 1 in existing:
            first -= 1
        if first == 0:
            return 0, last
        # The entries from ``first`` on need a checkpoint to start from.
        leading = [c for c in checkpoints if first - 1 <= c <= last]
        if not leading:
            message = (
                f"the log of {self.table} has neither all entries from version 0 nor a "
                "checkpoint. Restore the table from a backup"
            )
            raise CorruptLog(message)
        return leading[0], last

    def _oldest_complete(self, first: int, last: int) -> int:
        """Return the oldest version from which all files exist, or the oldest examined one."""
        version = last
        while version > max(first, last - _ENTRIES_EXAMINED_MAX):
            entry = self._log.read(version)
            if entry is None or not all(self._exists(name) for name in entry.removed):
                break
            version -= 1
        return version

    def _committed_ms(self, version: int) -> int:
        entry = self._log.read(version)
        if entry is not None and entry.committed_ms is not None:
            return entry.committed_ms
        identity = self._log.identity(version)
        # Delta uses the modification time of the file if the entry has no time.
        return -1 if identity is None else identity[1] // 1_000_000


def _with_observed_time(rows: VersionRows, budget: ReadBudget) -> VersionRows:
    """Set the greatest window time for the retention (semantics.md#7) if the record lacks it.

    As in a rebuilt index, it is the greatest time of all rows, including removed ones.
    """
    state, kind = rows.state, rows.state.definition.window.kind
    if state.definition.retention_ms is None or not kind.is_windowed or state.observed_ms >= 0:
        return rows
    time_column = "window_end" if kind.expires_by_end else "window_start"
    observed_ms = max(
        (
            int(window_times_ms(batch, time_column).max())
            for batch in rows.batches(EVERYTHING, budget, [time_column])
        ),
        default=state.observed_ms,
    )
    return replace(rows, state=replace(state, extent=Extent(observed_ms)))
