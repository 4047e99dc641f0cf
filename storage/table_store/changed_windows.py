"""The windows that changed between two versions, from the Delta log.

    since           first             reached            newest
      |---------------|------------------|------------------|
       earlier pages   this page          later pages

Each log entry adds files with the rows that its batch changed. A page reads a limited number of
entries, and the columns that identify a window from the added files. A window that changed several
times is listed once, at its last change in the page. The service reads its current row from the
index, which determines the row that counts (docs/decisions/0043).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.delta import DeltaLog, LogEntry, read_definition
from oriel.storage.errors import BehindPositionBound, MissingDataFile, VersionGone
from oriel.storage.index import IndexState
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import EVERYTHING
from oriel.storage.table_store.order import is_after
from oriel.storage.table_store.version_rows import added_rows, window_times_ms

#: The most log entries that one page reads, and the most bytes of added files on disk.
_ENTRIES_MAX = 1000
_ADDED_BYTES_MAX = 64 << 20

_WINDOW = pa.schema([
    pa.field("key", pa.string()), pa.field("start_ms", pa.int64()), pa.field("end_ms", pa.int64()),
])  # fmt: skip
_SCHEMA = pa.schema([pa.field("version", pa.int64()), *_WINDOW])
#: The same with the escaped bytes of the key, which are in the order of the key type.
_ORDER = pa.schema([
    _SCHEMA.field("version"), pa.field("ordered_key", pa.binary()),
    _SCHEMA.field("start_ms"), _SCHEMA.field("end_ms"),
])  # fmt: skip


class Change(NamedTuple):
    """A window that changed, and the version of its last change.

    Changes are in the order of the fields. In a store without windows, both times are 0.
    """

    version: int
    key: str
    start_ms: int
    end_ms: int


class ChangePage(NamedTuple):
    """A page of the windows that changed.

    Attributes:
        changes: The windows.
        reached: The last version that the page covers.
        has_more: True if more windows changed up to ``reached``. Otherwise, the next page starts
            after ``reached``.
    """

    changes: list[Change]
    reached: int
    has_more: bool


class ChangeRange(NamedTuple):
    """The changes to read.

    Attributes:
        since: The page has changes of later versions.
        limit: The most changes of the page.
        reached: For a further page, ``reached`` of the previous page.
        after: For a further page, the last change of the previous page.
    """

    since: int
    limit: int
    reached: int | None = None
    after: Change | None = None


def changes(
    log: DeltaLog, state: IndexState, wanted: ChangeRange, budget: ReadBudget
) -> ChangePage:
    """Read a page of the windows that changed, without windows that have expired.

    Args:
        log: The log of the store's table.
        state: The state of the newest version to read.
        wanted: The changes to read.
        budget: The limits of this read.

    Raises:
        BehindPositionBound: ``since`` or ``reached`` is newer than the version of ``state``.
        VersionGone: A log entry or a data file is deleted, or an entry has unknown changes.
        TableReadTooLarge, TableReadTimeout: The read exceeds the budget.
    """
    newest = state.version if wanted.reached is None else wanted.reached
    if wanted.since > state.version or newest > state.version:
        message = (
            f"store {log.table.name!r}: it has not reached the position: version {state.version} "
            f"is less than {max(wanted.since, newest)}. Send the request again later"
        )
        raise BehindPositionBound(message)
    # Windows after ``after`` changed last in its version or in a later one.
    first = wanted.since + 1 if wanted.after is None else wanted.after.version
    reached = wanted.since
    found: list[Any] = []
    found_bytes = 0
    for entry in _entries(log, state, first, newest):
        reached = entry.version
        found.append(_windows(log, state, entry, budget))
        found_bytes += found[-1].nbytes
        budget.check_size(found_bytes)
    last = pa.concat_tables([_SCHEMA.empty_table(), *found])
    last = last.group_by(_WINDOW.names, use_threads=False).aggregate([("version", "max")])
    last = last.rename_columns([*_WINDOW.names, "version"])
    key_type = state.definition.keys
    ordered_keys = key_type.escaped_column(last["key"].combine_chunks())
    last = last.append_column("ordered_key", ordered_keys)
    if state.earliest_ms > 0:
        time_column = "end_ms" if state.definition.window.kind.expires_by_end else "start_ms"
        last = last.filter(pc.field(time_column) >= state.earliest_ms)
    if wanted.after is not None:
        version, key, start_ms, end_ms = wanted.after
        after = (version, key_type.escaped(key), start_ms, end_ms)
        last = last.filter(is_after(_ORDER, after))
    last = last.sort_by([(name, "ascending") for name in _ORDER.names]).select(_SCHEMA.names)
    page = [Change(**row) for row in last.slice(0, wanted.limit).to_pylist()]
    return ChangePage(page, reached, has_more=len(last) > len(page))


def _entries(log: DeltaLog, state: IndexState, first: int, newest: int) -> Iterator[LogEntry]:
    """Yield the log entries from ``first`` to ``newest``, within the limits of one page.

    Raises:
        VersionGone: An entry is deleted, or its changes are unknown.
    """
    added_bytes = 0
    for version in range(first, min(newest + 1, first + _ENTRIES_MAX)):
        entry = log.read(version)
        if entry is None:
            reason = f"version {version} is no longer in the log"
            raise _deleted_version_error(reason, state)
        if (unknown := _why_unknown(log, state, entry)) is not None:
            reason = f"version {version} {unknown}"
            raise _deleted_version_error(reason, state)
        added_bytes += entry.added_bytes
        if added_bytes > _ADDED_BYTES_MAX and version > first:
            return
        yield entry


def _why_unknown(log: DeltaLog, state: IndexState, entry: LogEntry) -> str | None:
    """Return why the changes of an entry are unknown, None if they are known."""
    if entry.removes_rows or entry.restored is not None:
        return "removed rows (DELETE, MERGE, RESTORE or a rebuild)"
    if entry.table_id not in {None, state.table_id}:
        return "belongs to another table"
    if entry.metadata is None:
        return None
    if entry.metadata.table_id != state.table_id:
        return "belongs to another table"
    definition = read_definition(log.table, entry.metadata.definition_json)
    return None if definition == state.definition else "changed the store's definition"


def _windows(log: DeltaLog, state: IndexState, entry: LogEntry, budget: ReadBudget) -> Any:
    """Return the windows for which an entry added rows, with the version of the entry."""
    names = ["key"]
    if state.definition.window.kind.is_windowed:
        names += ["window_start", "window_end"]
    try:
        rows = added_rows(log.table, state, entry).read(EVERYTHING, budget, names)
    except MissingDataFile as error:
        reason = f"the files of version {entry.version} were cleaned up"
        raise _deleted_version_error(reason, state) from error
    columns = [
        pa.repeat(pa.scalar(entry.version, pa.int64()), len(rows)),
        rows["key"],
        pa.array(window_times_ms(rows, "window_start")),
        pa.array(window_times_ms(rows, "window_end")),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _deleted_version_error(reason: str, state: IndexState) -> VersionGone:
    return VersionGone(
        f"{reason}, so its changes are not known. Read the store again, and continue from the "
        f"position of that response (the store is at version {state.version})"
    )
