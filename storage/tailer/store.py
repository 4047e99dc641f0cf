"""Keeping one store's index at the newest version of its table.

    open ----------> follow: next log entry? apply it -----> (again)
      |  damaged,      |  entry replaced, gap in the log, other table, index damaged or deleted,
      |  other table   |  rows removed, batch going backwards
      v                v
    rebuild: newest whole version -> new generation -> publish -> follow

Whatever fails, readers keep the last published version, the failure is in ``status``, and
the step is tried again after a pause.
"""

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

from oriel.storage.delta import DeltaLog, LogEntry, Stamp, read_definition
from oriel.storage.errors import IndexDamaged, StorageError
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
)
from oriel.storage.position import CommitRecord
from oriel.storage.tailer.status import StoreStatus

logger = logging.getLogger(__name__)

#: Seconds between two looks for the next log entry.
POLL_SECONDS = 0.01
#: Seconds between two looks around at what changes rarely: a replaced table, a damaged index.
_LOOK_AROUND_SECONDS = 0.25
#: Seconds until a failed step is tried again.
_RETRY_SECONDS = 1.0


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
        #: Whether this process has looked through the index that it found, or built it.
        self._is_checked = False
        self._looked_around_at = 0.0
        #: Where the sweep goes on, None between sweeps, and the clock at which the last one began.
        self._sweep_from: bytes | None = None
        self._swept_ms = 0

    def run(self, stop: threading.Event) -> None:
        """Step until ``stop``; a failing store never takes the process down."""
        while not stop.is_set():
            try:
                pause = 0.0 if self.step() else POLL_SECONDS
            except Exception as error:  # noqa: BLE001 - see the module docstring
                self._failed(error)
                pause = _RETRY_SECONDS
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
        if now - self._looked_around_at < _LOOK_AROUND_SECONDS:
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
        logger.info("%s: building the index: %s", self.folder.path.name, reason)
        snapshot = self.log.snapshot()
        generation = self.folder.new_generation()
        try:
            state = build_generation(self.log.table, snapshot, generation)
        except BaseException:
            self.folder.discard(generation)
            raise
        self.folder.publish(generation)
        self._writer = IndexWriter(generation)
        self._use(state)
        logger.info("%s: index built at version %d", self.folder.path.name, state.version)

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
            return self._look_around(writer, state)
        reason = _why_not_applicable(self.log.table, state, entry)
        if reason is not None:
            self._rebuild(reason)
            return True
        files = [self.log.table / name for name in entry.added]
        batches = [rows for path in files for rows in file_rows(path, state.definition)]
        following = replace(
            state,
            version=entry.version,
            digest=entry.digest,
            # A commit of others (compaction) says no position: that of the batch before holds.
            record=entry.record or state.record,
            extent=state.extent.joined(rows.extent for rows in batches),
        )
        writer.apply(batches, following)
        self._state = following
        self._stamp = stamp
        self.status = replace(self.status, version=following.version)
        return True

    def _look_around(self, writer: IndexWriter, state: IndexState) -> bool:
        """Look for what happens rarely; True when there was something to do about it."""
        reason = self._why_index_is_lost(writer) or self._why_log_is_another(state)
        if reason is not None:
            self._rebuild(reason)
            return True
        self.status = StoreStatus("following", state.version)
        if is_suspect(writer.generation):
            check_in_own_process(writer.generation)
            clear_suspicion(writer.generation)
        writer.forget_dead_readers()
        return self._sweep(writer, state)

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
        # (Two stats; listing a log of many thousand entries each time would cost far more.)
        beyond = self.log.stamp(state.version + 2)
        if beyond is not None and self.log.read(state.version + 1) is None:
            return f"version {state.version + 1} is missing in the log, the next one is there"
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

    def _failed(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        if self.status.problem != problem:
            expected = isinstance(error, StorageError)
            logger.error(
                "%s: %s", self.folder.path.name, problem, exc_info=None if expected else error
            )
        self.status = replace(self.status, state="failed", problem=problem)
        self.close()


def _why_not_applicable(table: Path, state: IndexState, entry: LogEntry) -> str | None:
    """Why a version can't simply be put on top of the one before it; None when it can.

    It can if its rows win over all rows before: rows of the pipeline, of a later batch, which is
    a higher revision. Everything else is left to a rebuild, which compares revisions.
    """
    metadata = entry.metadata
    if metadata is not None:
        if metadata.table_id != state.table_id:
            return "the table was replaced by another"
        if read_definition(table, metadata.definition_json) != state.definition:
            return "the store's definition changed"
    if entry.removes_rows:
        # The entry names the files that went, not the windows: which are left, all files say.
        return f"version {entry.version} removes rows"
    if entry.record is None:
        foreign = f"version {entry.version} has rows that the pipeline did not write"
        return foreign if entry.added else None
    return _why_not_after(state, entry.record)


def _why_not_after(state: IndexState, record: CommitRecord) -> str | None:
    """Why a commit of the pipeline can't be put on top of the index."""
    if state.record is not None and record.batch <= state.record.batch:
        return f"batch {record.batch} is not after batch {state.record.batch}"
    if replace(state, record=record).earliest_ms < state.earliest_ms:
        # Decision 0032: `oriel clock --set`. What retention took from the index is visible again.
        return "the store's clock was set back"
    return None
