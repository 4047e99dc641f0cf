"""Keeping one store's index at the newest version of its table.

    open ----------> follow: next log entry? apply it -----> (again)
      |  damaged,      |  entry replaced, gap in the log, other table, index damaged or deleted,
      |  other table   |  rows removed or of old revisions, a file gone, clock set back
      v                v
    rebuild: newest whole version -> new generation -> publish -> follow

Both ways end in the same index: which row of a window counts is one rule, of the live rows
alone (``oriel.storage.index.revisions``, docs/decisions/0030). What can be put on top is followed,
the rest is built anew. Whatever fails, readers keep the last published version, the failure is in
``status``, and the step is tried again after a pause that grows.
"""

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

from oriel.storage.delta import (
    DeltaLog,
    LogEntry,
    TableMetadata,
    TableSnapshot,
    read_definition,
)
from oriel.storage.errors import CorruptLog, IndexDamaged, MissingDataFile, StorageError
from oriel.storage.files import Stamp, current_files, is_object
from oriel.storage.index import (
    IndexFolder,
    IndexState,
    IndexWriter,
    build_generation,
    check_in_own_process,
    clear_suspicion,
    damage,
    file_rows,
    is_suspect,
    revision_range,
)
from oriel.storage.position import CommitRecord
from oriel.storage.tailer.failures import Failures
from oriel.storage.tailer.status import StoreStatus

logger = logging.getLogger(__name__)

#: Seconds between two looks for the next log entry.
POLL_SECONDS = 0.01
#: Seconds between two looks around at what changes rarely: a replaced table, a damaged index.
_LOOK_AROUND_SECONDS = 0.25
#: The same where a look is a request, or a few, which cost money.
_OBJECTS_POLL_SECONDS, _OBJECTS_LOOK_AROUND_SECONDS = 0.5, 10.0
#: Snapshots that a rebuild tries, each time that files of one were vacuumed while it was read.
_SNAPSHOTS_MAX = 5


class StoreTailer:
    """Follows one table. Call ``run`` in a thread of its own, or ``step`` in tests."""

    def __init__(self, log: DeltaLog, folder: IndexFolder) -> None:
        """Nothing is opened before the first step."""
        self.log = log
        self.folder = folder
        self.status = StoreStatus()
        self._writer: IndexWriter | None = None
        self._state: IndexState | None = None
        #: Identity of the last applied version's log file, and of the next one's if it was torn.
        self._stamp: Stamp | None = None
        self._torn_stamp: Stamp | None = None
        #: Identity of the newest Delta checkpoint when the log was last looked at for a gap.
        self._checkpoint_stamp: Stamp | None = None
        self._failures = Failures()
        #: Whether this process has looked through the index that it found, or built it.
        self._is_checked = False
        self._looked_around_at = 0.0
        self._poll_seconds, self._look_around_seconds = POLL_SECONDS, _LOOK_AROUND_SECONDS
        if is_object(log.table):
            self._poll_seconds = _OBJECTS_POLL_SECONDS
            self._look_around_seconds = _OBJECTS_LOOK_AROUND_SECONDS
        #: Where the sweep goes on, None between sweeps, and the clock at which the last one began.
        self._sweep_from: bytes | None = None
        self._swept_ms = 0

    def run(self, stop: threading.Event) -> None:
        """Step until ``stop``; a failing store never takes the process down."""
        while not stop.is_set():
            try:
                pause = 0.0 if self.step() else self._poll_seconds
            except Exception as error:  # noqa: BLE001 - see the module docstring
                pause = self._failed(error)
            stop.wait(pause)
        self.close()

    def step(self) -> bool:
        """Do one piece of work; False when there was nothing to do."""
        try:
            return self._step()
        except IndexDamaged as error:
            self._rebuild(str(error))
            return True

    def _step(self) -> bool:
        if self._writer is None or self._state is None:
            self._open()
            return True
        if self._follow(self._writer, self._state):
            return True
        now = time.monotonic()
        if now - self._looked_around_at < self._look_around_seconds:
            return False
        self._looked_around_at = now
        return self._look_around(self._writer, self._state)

    def close(self) -> None:
        """Close the index's files."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self._state = None

    def _open(self) -> None:
        """Open the index that is there, or build one where it can't be used."""
        generation = self.folder.current()
        if generation is None:
            self._rebuild("there is no index yet")
            return
        try:
            # Once a process: a crash of the machine may have garbled pages, which LMDB would trip
            # over at any later time.
            if not self._is_checked:
                check_in_own_process(generation)
            self._writer = IndexWriter(generation)
            state = self._writer.state()
        except IndexDamaged as error:
            self._rebuild(str(error))
            return
        reason = self._why_not_this_table(state)
        if reason is None:
            self.folder.remove_others(generation)
            self._use(state)
        else:
            self._rebuild(reason)

    def _use(self, state: IndexState) -> None:
        self._is_checked = True
        self._state = state
        self._stamp = self.log.stamp(state.version)
        self._torn_stamp = None
        # Only after a look around is it said to be following: what failed may fail again.
        self._looked_around_at = 0.0
        self.status = replace(self.status, version=state.version)

    def _rebuild(self, reason: str) -> None:
        """Build a new generation from the newest whole version and go over to it."""
        self.close()
        self.status = replace(self.status, state="building")
        if self._failures.is_news(reason):
            logger.info("%s: building the index: %s", self.folder.path.name, reason)
        state, generation = self._build()
        self.folder.publish(generation)
        self._writer = IndexWriter(generation)
        self._use(state)
        logger.info("%s: index built at version %d", self.folder.path.name, state.version)

    def _build(self) -> tuple[IndexState, Path]:
        """Build the newest version that can be read, which may change while it is read.

        Raises:
            CorruptLog: files that the newest version needs are not there.
        """
        for _ in range(_SNAPSHOTS_MAX):
            snapshot = self.log.snapshot()
            generation = self.folder.new_generation()
            try:
                return build_generation(self.log.table, snapshot, generation), generation
            except MissingDataFile:
                self.folder.discard(generation)
                # A file is vacuumed only after a later version has removed it. With none there,
                # trying again would not help.
                newest = self.log.newest()
                if newest is None or newest.version <= snapshot.version:
                    break
            except BaseException:
                self.folder.discard(generation)
                raise
        raise _files_are_gone(self.log.table, snapshot)

    def _why_not_this_table(self, state: IndexState) -> str | None:
        """What shows that the index is not of this log's versions up to its own; None if nothing.

        The digest of the version's entry tells: another table, a restored backup or a batch that
        was committed again after a power loss has other content there (ids, times, file names).
        """
        entry = self.log.read(state.version)
        if entry is not None:
            same = entry.digest == state.digest
            return None if same else f"version {state.version} of the table was replaced"
        versions = self.log.versions()
        if versions and state.version + 1 in versions and state.version not in versions:
            # Cleaned up by Delta's log retention, and the log goes on right after it.
            return None
        return f"version {state.version} is not in the table's log any more"

    def _follow(self, writer: IndexWriter, state: IndexState) -> bool:
        """Apply the next version if it is there and whole."""
        stamp = self.log.stamp(state.version + 1)
        if stamp is None or stamp == self._torn_stamp:
            return False
        entry = self.log.read(state.version + 1)
        if entry is None:
            # Torn or still being written: look again when it changes.
            self._torn_stamp = stamp
            return False
        if self.log.stamp(state.version) != self._stamp:
            # Perhaps another table, whose next version is not to be put on ours: look first.
            self._look_around(writer, state)
            return True
        reason = self._apply(writer, state, entry)
        if reason is not None:
            self._rebuild(reason)
            return True
        self._stamp = stamp
        self.status = replace(self.status, version=entry.version)
        return True

    def _apply(self, writer: IndexWriter, state: IndexState, entry: LogEntry) -> str | None:
        """Put a version on top of the one before; returns why that can't be, None when it is done.

        An entry that only rewrites files (compaction, OPTIMIZE) costs the same whatever it holds:
        of its files none is read.
        """
        reason = _why_not_applicable(self.log.table, state, entry)
        if reason is not None:
            return reason
        try:
            files = [self.log.table / name for name in entry.added]
            batches = [rows for path in files for rows in file_rows(path, state.definition)]
        except CorruptLog as error:
            # Perhaps a later version did away with the file.
            return str(error)
        batch = entry.batch_of(state.definition.application)
        lowest, highest = revision_range(batches)
        if lowest <= state.revisions.settled:
            return (
                f"version {entry.version} has rows of revision {lowest}, which may be older than "
                "what the index has of their windows"
            )
        following = replace(
            state,
            version=entry.version,
            digest=entry.digest,
            record=_later_record(state.record, entry, batch),
            extent=state.extent.joined(rows.extent for rows in batches),
            revisions=state.revisions.after(highest, batch),
        )
        if following.earliest_ms < state.earliest_ms:
            # Windows that had expired are visible again, and the sweep took them.
            return f"version {entry.version} sets the store's clock back"
        writer.follow(batches, state.revisions, following)
        self._state = following
        return None

    def _look_around(self, writer: IndexWriter, state: IndexState) -> bool:
        """Look for what happens rarely; True when there was something to do about it."""
        reason = self._why_index_is_lost(writer) or self._why_log_is_another(state)
        if reason is not None:
            self._rebuild(reason)
            return True
        if is_suspect(writer.generation):
            check_in_own_process(writer.generation)
            clear_suspicion(writer.generation)
        writer.forget_dead_readers()
        is_busy = self._sweep(writer, state)
        self.status = StoreStatus("following", state.version)
        self._failures.over()
        return is_busy

    def _why_index_is_lost(self, writer: IndexWriter) -> str | None:
        if self.folder.current() != writer.generation:
            return "the index was deleted"
        try:
            writer.check_size()
        except IndexDamaged as error:
            return str(error)
        return damage(writer.generation)

    def _why_log_is_another(self, state: IndexState) -> str | None:
        if self.log.stamp(state.version) != self._stamp:
            reason = self._why_not_this_table(state)
            self._stamp = self.log.stamp(state.version)
            if reason is not None:
                return reason
        # The next version is not there or torn, yet the one after it is: it won't come any more.
        # (A few stats; listing a log of many thousand entries each time would cost far more.)
        beyond = self.log.stamp(state.version + 2)
        if beyond is not None and self.log.read(state.version + 1) is None:
            return f"version {state.version + 1} is missing in the log, the next one is there"
        # Entries behind a Delta checkpoint may have been cleaned up, ours and the next among them.
        checkpoint = self.log.checkpoint_stamp()
        if checkpoint != self._checkpoint_stamp:
            later = [version for version in self.log.versions() if version > state.version]
            if later and later[0] > state.version + 1:
                return f"the log was cleaned up to version {later[0]}"
            self._checkpoint_stamp = checkpoint
        return None

    def _sweep(self, writer: IndexWriter, state: IndexState) -> bool:
        """Delete some expired windows, if enough have expired since the last sweep.

        A sweep meets every key, so it begins only when a tenth of the retention has passed since
        the last one: expired windows then take about a tenth more space.
        """
        retention_ms = state.definition.retention_ms
        if retention_ms is None:
            return False
        if self._sweep_from is None:
            if state.earliest_ms - self._swept_ms < max(1, retention_ms // 10):
                return False
            self._swept_ms = state.earliest_ms
            self._sweep_from = b""
        self._sweep_from = writer.sweep(self._sweep_from)
        return self._sweep_from is not None

    def _failed(self, error: Exception) -> float:
        """Say what failed, each problem once; returns the seconds to wait before the next try."""
        problem = f"{type(error).__name__}: {error}"
        if self._failures.is_news(problem):
            expected = isinstance(error, StorageError | OSError)
            logger.error(
                "%s: %s", self.folder.path.name, problem, exc_info=None if expected else error
            )
        self.status = replace(self.status, state="failed", problem=problem)
        self.close()
        return self._failures.pause_seconds(problem)


def _why_not_applicable(table: Path, state: IndexState, entry: LogEntry) -> str | None:
    """Why a version can't simply be put on top of the one before it; None when it can.

    What its rows say is still to be looked at.
    """
    if (reason := _why_another_table(table, state, entry.metadata)) is not None:
        return reason
    if entry.removes_rows:
        # The entry names the files that went, not the windows: which are left, all files say.
        return f"version {entry.version} removes rows"
    batch = entry.batch_of(state.definition.application)
    if batch is not None and batch <= state.revisions.settled:
        return f"batch {batch} is not after batch {state.revisions.settled}"
    following = replace(state, record=_later_record(state.record, entry, batch))
    if following.earliest_ms < state.earliest_ms:
        # Decision 0032: `oriel clock --set`. What retention took from the index is visible again.
        return "the store's clock was set back"
    return None


def _why_another_table(
    table: Path, state: IndexState, metadata: TableMetadata | None
) -> str | None:
    """What an entry's metadata says of the table that the index doesn't know; None if nothing."""
    if metadata is None:
        return None
    if metadata.table_id != state.table_id:
        return "the table was replaced by another"
    if read_definition(table, metadata.definition_json) != state.definition:
        return "the store's definition changed"
    return "column mapping was turned on" if metadata.column_mapping else None


def _later_record(
    record: CommitRecord | None, entry: LogEntry, batch: int | None
) -> CommitRecord | None:
    """The position after an entry: its own if it commits a batch, else the later of the two.

    A commit of others (OPTIMIZE) says none, and the pipeline's maintenance, which repeats it so
    that it outlives the entries of batches, may be late with it.
    """
    if entry.record is None or record is None or batch is not None:
        return entry.record or record
    return max(record, entry.record, key=lambda one: one.batch)


def _files_are_gone(table: Path, snapshot: TableSnapshot) -> CorruptLog:
    gone = [name for name in snapshot.files if not current_files().exists(table / name)]
    return CorruptLog(
        f"version {snapshot.version} of {table} names {len(gone)} data files that are not there "
        f"({gone[0] if gone else 'which is back now'}): they were deleted by hand, or by a VACUUM "
        "that kept too little. Put them back from a backup, or rebuild the store from its source; "
        "or give their windows up, with DeltaTable(...).repair() of delta-rs"
    )
