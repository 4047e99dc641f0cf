"""The versions of a table that can still be read, and one of them opened.

A version can be read while its log entries lead to it, from version 0 or from a Delta checkpoint,
the entry that says its position among them, and its data files are there. Clean-up and VACUUM
take them away in time; what is left is told.
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
from oriel.storage.files import Stamp, current_files
from oriel.storage.index import Extent, IndexState
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import EVERYTHING
from oriel.storage.table_store.store import TableStore, table_store
from oriel.storage.table_store.version_rows import (
    VersionRows,
    version_rows,
    window_times_ms,
)

#: Versions that stay open: what a reader pages through is not opened for each page.
_OPEN_MAX = 4
#: Entries that are looked at for the oldest version whose files are all there.
_ENTRIES_LOOKED_AT = 1000


class TableVersions:
    """The versions of one store's table. For any number of threads."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self._log = DeltaLog(table)
        self._open: OrderedDict[tuple[int, Stamp], VersionRows] = OrderedDict()
        self._lock = threading.Lock()

    def newest(self) -> int:
        """The newest version.

        Raises:
            StoreNotReady: there is no table, or its log has no entry.
        """
        entry = self._log.newest()
        if entry is None:
            message = f"the log of table {self.table.name!r} has no entry yet"
            raise StoreNotReady(message)
        return entry.version

    def at_time(self, time_ms: int) -> int:
        """The newest version that was committed at or before a time of wall clock.

        Reads a few entries of the log. Of clocks that were set back the answer is that of one of
        the versions around.

        Raises:
            VersionGone: the oldest version of which the log has the entry is later.
        """
        first, last = self._logged()
        versions = [version for version in self._log.versions() if first <= version <= last]
        place = bisect_right(versions, time_ms, key=self._committed_ms)
        if place == 0:
            message = (
                f"{self.table.name!r} has no version as of {time_ms}. The oldest version with a "
                f"known time is {versions[0]}, committed at {self._committed_ms(versions[0])}"
                if versions
                else f"{self.table.name!r} has no version with a known time"
            )
            raise VersionGone(message)
        return versions[place - 1]

    def open(self, version: int, budget: ReadBudget) -> TableStore:
        """One version as a store; its reads are within the budget.

        Raises:
            VersionNotFound: the table is not there yet.
            VersionGone: entries or files that it needs are not there any more, or it is no store.
            StoreNotReady: there is no table.
            CorruptLog: the log can't be read, or a file of the table is missing.
        """
        first, last = self._logged()
        if version > last:
            message = f"{self.table.name!r} has no version {version} yet. It is at version {last}"
            raise VersionNotFound(message)
        stamp = self._log.stamp(version)
        if version < first:
            raise self.gone(version)
        with self._lock:
            rows = None if stamp is None else self._open.get((version, stamp))
        if rows is None:
            rows = self._opened(version, budget)
            if stamp is not None:
                with self._lock:
                    self._open[version, stamp] = rows
                    while len(self._open) > _OPEN_MAX:
                        self._open.popitem(last=False)
        # Looked at before anything is read: else some keys would answer and others not.
        missing = next((file.path for file in rows.files if not self._is_there(file.path)), None)
        if missing is not None:
            # Clean-up only removes files that a later version has removed from the table.
            is_cleaned_up = self._oldest_whole(first, last) > version
            raise self.gone(version) if is_cleaned_up else missing_file(self.table / missing)
        return table_store(rows, budget)

    def _is_there(self, path: str) -> bool:
        return current_files().exists(self.table / path)

    def gone(self, version: int) -> VersionGone:
        """The error that a version can't be read any more, which says which can."""
        first, last = self._logged()
        oldest = self._oldest_whole(first, last)
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
            # Its clock is that of the batch, so what had expired by then can't be told.
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
        return _with_clock(version_rows(self.table, snapshot, state), budget)

    def _logged(self) -> tuple[int, int]:
        """The oldest version from which on the log leads to each, and the newest.

        A log that was cleaned up has no gap behind the oldest entry that is left; entries before a
        gap (the newest that says a position stays) lead nowhere.
        """
        last = self.newest()
        versions, checkpoints = self._log.versions(), self._log.checkpoints()
        first = last
        there = set(versions)
        while first - 1 in there:
            first -= 1
        if first == 0:
            return 0, last
        # The entries from ``first`` on need a checkpoint that they go on from.
        leading = [c for c in checkpoints if first - 1 <= c <= last]
        if not leading:
            message = (
                f"the log of {self.table} has neither all entries from version 0 nor a "
                "checkpoint. Restore the table from a backup"
            )
            raise CorruptLog(message)
        return leading[0], last

    def _oldest_whole(self, first: int, last: int) -> int:
        """The oldest version from which on all files are there, or the oldest looked at."""
        version = last
        while version > max(first, last - _ENTRIES_LOOKED_AT):
            entry = self._log.read(version)
            if entry is None or not all(self._is_there(name) for name in entry.removed):
                break
            version -= 1
        return version

    def _committed_ms(self, version: int) -> int:
        entry = self._log.read(version)
        if entry is not None and entry.committed_ms is not None:
            return entry.committed_ms
        stamp = self._log.stamp(version)
        # Delta goes by the file's own time where the entry does not say it.
        return -1 if stamp is None else stamp[1] // 1_000_000


def _with_clock(rows: VersionRows, budget: ReadBudget) -> VersionRows:
    """With the store clock (semantics.md#7) of the rows, if the pipeline does not name one.

    As in an index that is built again, that is the greatest time of any row, removed ones too.
    """
    state, kind = rows.state, rows.state.definition.window.kind
    if state.definition.retention_ms is None or not kind.is_windowed or state.observed_ms >= 0:
        return rows
    clock = "window_end" if kind.expires_by_end else "window_start"
    observed_ms = max(
        (
            int(window_times_ms(batch, clock).max())
            for batch in rows.batches(EVERYTHING, budget, [clock])
        ),
        default=state.observed_ms,
    )
    return replace(rows, state=replace(state, extent=Extent(observed_ms)))
