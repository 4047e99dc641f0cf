"""Which windows changed between two versions, by the log: each batch adds the rows that changed.

    since           from              reached            newest
      |---------------|------------------|------------------|
       told before     what a page reads  a later page

A page reads the entries up to a bound, and of the files that they added the columns that name a
window. A window that changed several times comes once, at its last change. What it came to be is
not read here but from the index, whose rule says which row counts (docs/decisions/0043).
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
from oriel.storage.table_store.order import is_behind
from oriel.storage.table_store.version_rows import added_rows, window_times_ms

#: Entries that one page reads at most, and bytes of added files, as they are on disk.
_ENTRIES_MAX = 1000
_ADDED_BYTES_MAX = 64 << 20

_WINDOW = pa.schema([
    pa.field("key", pa.string()), pa.field("start_ms", pa.int64()), pa.field("end_ms", pa.int64()),
])  # fmt: skip
_SCHEMA = pa.schema([pa.field("version", pa.int64()), *_WINDOW])
#: In the place of the key, its bytes that are in the order of its type.
_ORDER = pa.schema([
    _SCHEMA.field("version"), pa.field("ordered_key", pa.binary()),
    _SCHEMA.field("start_ms"), _SCHEMA.field("end_ms"),
])  # fmt: skip


class Change(NamedTuple):
    """A window that changed, and the version in which it did last; in this order they come.

    Both times are 0 in a store without windows.
    """

    version: int
    key: str
    start_ms: int
    end_ms: int


class ChangePage(NamedTuple):
    """Windows that changed up to the version ``reached``; ``has_more`` of them come behind these.

    Without more of them ``reached`` is where to go on.
    """

    changes: list[Change]
    reached: int
    has_more: bool


class ChangeRange(NamedTuple):
    """Which changes to read: of the versions after ``since``, ``limit`` at most.

    A further page has the ``reached`` of the one before and its last change, ``after``.
    """

    since: int
    limit: int
    reached: int | None = None
    after: Change | None = None


def changes(
    log: DeltaLog, state: IndexState, wanted: ChangeRange, budget: ReadBudget
) -> ChangePage:
    """Read a page of the windows that changed; what has expired by ``state`` is left out.

    ``state`` is that of the newest version to read.

    Raises:
        BehindPositionBound: ``since`` is newer than that.
        VersionGone: entries or files that say what changed are gone, or an entry does not say it.
        TableReadTooLarge, TableReadTimeout: it is more than the budget allows.
    """
    newest = state.version if wanted.reached is None else wanted.reached
    if wanted.since > state.version or newest > state.version:
        message = (
            f"store {log.table.name!r}: it has not reached the position: version {state.version} "
            f"is less than {max(wanted.since, newest)}. Send the request again later"
        )
        raise BehindPositionBound(message)
    # Windows that come behind ``after`` changed last in its version or a later one.
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
        clock = "end_ms" if state.definition.window.kind.expires_by_end else "start_ms"
        last = last.filter(pc.field(clock) >= state.earliest_ms)
    if wanted.after is not None:
        version, key, start_ms, end_ms = wanted.after
        after = (version, key_type.escaped(key), start_ms, end_ms)
        last = last.filter(is_behind(_ORDER, after))
    last = last.sort_by([(name, "ascending") for name in _ORDER.names]).select(_SCHEMA.names)
    page = [Change(**row) for row in last.slice(0, wanted.limit).to_pylist()]
    return ChangePage(page, reached, has_more=len(last) > len(page))


def _entries(log: DeltaLog, state: IndexState, first: int, newest: int) -> Iterator[LogEntry]:
    """The entries of these versions, as many as one page reads.

    Raises:
        VersionGone: one is not there any more, or does not say what changed.
    """
    added_bytes = 0
    for version in range(first, min(newest + 1, first + _ENTRIES_MAX)):
        entry = log.read(version)
        if entry is None:
            reason = f"version {version} is no longer in the log"
            raise _start_again(reason, state)
        if (untold := _why_untold(log, state, entry)) is not None:
            reason = f"version {version} {untold}"
            raise _start_again(reason, state)
        added_bytes += entry.added_bytes
        if added_bytes > _ADDED_BYTES_MAX and version > first:
            return
        yield entry


def _why_untold(log: DeltaLog, state: IndexState, entry: LogEntry) -> str | None:
    """Why an entry does not say which windows it changed; None when it does."""
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
    """The windows of which an entry added rows, with its version."""
    names = ["key"]
    if state.definition.window.kind.is_windowed:
        names += ["window_start", "window_end"]
    try:
        rows = added_rows(log.table, state, entry).read(EVERYTHING, budget, names)
    except MissingDataFile as error:
        reason = f"the files of version {entry.version} were cleaned up"
        raise _start_again(reason, state) from error
    columns = [
        pa.repeat(pa.scalar(entry.version, pa.int64()), len(rows)),
        rows["key"],
        pa.array(window_times_ms(rows, "window_start")),
        pa.array(window_times_ms(rows, "window_end")),
    ]
    return pa.table(columns, schema=_SCHEMA)


def _start_again(reason: str, state: IndexState) -> VersionGone:
    return VersionGone(
        f"{reason}, so its changes are not known. Read the store again, and continue from the "
        f"position of that response (the store is at version {state.version})"
    )
