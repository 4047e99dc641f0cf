"""Whether the next version of a table can be applied to an index, and the position after it."""

from dataclasses import replace
from pathlib import Path

from oriel.storage.delta import DeltaLog, LogEntry, TableMetadata, TableSnapshot, read_definition
from oriel.storage.errors import CorruptLog
from oriel.storage.files import current_files
from oriel.storage.index import IndexState
from oriel.storage.position import CommitRecord


def why_other_table(log: DeltaLog, state: IndexState) -> str | None:
    """Return why an index does not belong to the log of its table, or None if it does.

    The digest of the version's log entry decides. Another table, a restored backup, or a batch that
    was committed again after a power loss has another entry (ids, times, file names).
    """
    entry = log.read(state.version)
    if entry is not None:
        same = entry.digest == state.digest
        return None if same else f"version {state.version} of the table was replaced"
    versions = log.versions()
    if versions and state.version + 1 in versions and state.version not in versions:
        # The entry was deleted by the log retention, and the log continues directly after it.
        is_own = log.snapshot().table_id == state.table_id
        return None if is_own else "the index belongs to another table"
    return f"version {state.version} is no longer in the table's log"


def why_not_applicable(table: Path, state: IndexState, entry: LogEntry) -> str | None:
    """Return why a version cannot be applied after the previous one, or None if it can.

    Its rows are checked later.
    """
    if entry.table_id not in {None, state.table_id}:
        return f"entry {entry.version} of the log belongs to another table"
    if (reason := _why_metadata_differs(table, state, entry.metadata)) is not None:
        return reason
    if entry.removes_rows:
        # The entry names the removed files, not the windows. Only all files show the remaining
        # windows.
        return f"version {entry.version} removes rows"
    batch = entry.batch_of(state.definition.application)
    if batch is not None and batch <= state.revisions.settled:
        return f"batch {batch} is not after batch {state.revisions.settled}"
    next_state = replace(state, record=later_record(state.record, entry, batch))
    if next_state.earliest_ms < state.earliest_ms:
        # Decision 0032: `oriel clock --set`. Windows that were deleted from the index are visible
        # again.
        return "the store's stream time was set back"
    return None


def _why_metadata_differs(
    table: Path, state: IndexState, metadata: TableMetadata | None
) -> str | None:
    """Return why the metadata of an entry does not match the index, or None."""
    if metadata is None:
        return None
    if metadata.table_id != state.table_id:
        return "the table was replaced by another"
    if read_definition(table, metadata.definition_json) != state.definition:
        return "the store's definition changed"
    return "column mapping was turned on" if metadata.column_mapping else None


def later_record(
    record: CommitRecord | None, entry: LogEntry, batch: int | None
) -> CommitRecord | None:
    """Return the commit record after an entry: the record of its batch, or the later record.

    A commit of another program (OPTIMIZE) does not have a record. The pipeline's maintenance
    repeats the record, so that it outlives the entries of batches. It can repeat an older one.
    """
    if entry.record is None or record is None or batch is not None:
        return entry.record or record
    return max(record, entry.record, key=lambda one: one.batch)


def missing_files_error(table: Path, snapshot: TableSnapshot) -> CorruptLog:
    """Return the error for a version with missing files, which names a file and the solutions."""
    missing = [name for name in snapshot.files if not current_files().exists(table / name)]
    return CorruptLog(
        f"version {snapshot.version} of {table} names {len(missing)} data files that do not exist "
        f"({missing[0] if missing else 'all of them exist again'}). They were deleted by hand, or "
        "by a VACUUM with a retention that is too short. Put them back from a backup, or rebuild "
        f"the store from its topics with `oriel rebuild {table.name}`. If you can lose their "
        "windows, use DeltaTable(...).repair() of delta-rs"
    )
