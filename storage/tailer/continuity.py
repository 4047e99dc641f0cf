"""Follow a Delta log: the next version, whether it can be applied, and the position after it."""

from dataclasses import replace
from pathlib import Path

from oriel.storage.delta import DeltaLog, LogEntry, TableMetadata, TableSnapshot, read_definition
from oriel.storage.errors import CorruptLog
from oriel.storage.files import FileIdentity, current_files
from oriel.storage.index import IndexState
from oriel.storage.position import CommitRecord
from oriel.storage.timer import Timer

#: Seconds after which a torn entry does not count as an entry in progress any more.
_TORN_SECONDS = 2.0


class LogFollower:
    """Reads the entries of a Delta log one after the other, from a version on.

    Attributes:
        state: The state of the index at the last applied version.
        torn: The identity of the next version's log file when it was torn. None if it was not.
    """

    def __init__(self, log: DeltaLog, state: IndexState) -> None:
        self.state = state
        self.torn: FileIdentity | None = None
        self._torn_since = Timer()
        self._log = log
        self._applied = log.identity(state.version)
        #: Identity of the newest Delta checkpoint at the last check of the log for a gap.
        self._checkpoint: FileIdentity | None = None

    def next_identity(self) -> FileIdentity | None:
        """Return the identity of the next version's log file, or None if it does not exist."""
        return self._log.identity(self.state.version + 1)

    def next_entry(self) -> tuple[LogEntry, FileIdentity] | None:
        """Read the entry of the next version.

        Returns:
            The entry and the identity of its file. None if the entry does not exist or is torn.

        Raises:
            CorruptLog: the entry is damaged.
        """
        identity = self.next_identity()
        if identity is None or identity == self.torn:
            return None
        entry = self._log.read(self.state.version + 1)
        if entry is None:
            # Torn or still being written: read it again when it changes.
            self.torn = identity
            self._torn_since.restart()
            return None
        return entry, identity

    def is_applied_entry_unchanged(self) -> bool:
        """Return True if the log file of the applied version is the file that was applied."""
        return self._log.identity(self.state.version) == self._applied

    def advance(self, state: IndexState, identity: FileIdentity) -> None:
        """Continue after the next version, whose log file has this identity."""
        self.state, self._applied = state, identity

    def why_torn(self) -> str | None:
        """Return the problem of a next entry that stays torn, or None."""
        if self.torn is None or self.next_identity() != self.torn:
            return None
        if self._torn_since.seconds() < _TORN_SECONDS:
            return None
        return (
            f"version {self.state.version + 1} of the table's log is cut off. Its writer ended "
            "while it wrote the entry, and writes it again at its next start"
        )

    def why_replaced(self) -> str | None:
        """Return why the next version does not follow the applied one any more, or None."""
        version = self.state.version
        if not self.is_applied_entry_unchanged():
            reason = why_other_table(self._log, self.state)
            self._applied = self._log.identity(version)
            if reason is not None:
                return reason
        # If the next version is missing or torn but the one after it exists, the next version will
        # not be written any more. A few stats cost far less than a listing of many thousand
        # entries.
        after_next = self._log.identity(version + 2)
        if after_next is not None and self._log.read(version + 1) is None:
            return f"version {version + 1} is missing in the log, although the next version exists"
        # Entries before a Delta checkpoint can have been deleted, including this version's and the
        # next.
        checkpoint = self._log.checkpoint_identity()
        if checkpoint != self._checkpoint:
            later = [number for number in self._log.versions() if number > version]
            if later and later[0] > version + 1:
                return f"the log was cleaned up to version {later[0]}"
            self._checkpoint = checkpoint
        return None


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
