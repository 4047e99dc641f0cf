"""Keep the index of one store at the newest version of its table.

    open ----------> follow: next log entry? apply it -----> (again)
      |  damaged,      |  entry replaced, gap in the log, other table, index damaged or deleted,
      |  other table   |  rows removed or with old revisions, file missing, stream time set back
      v                v
    rebuild: newest whole version -> new generation -> publish -> follow

Following and rebuilding lead to the same index. One rule decides which row of a window counts, and
it uses only the live rows (``oriel.storage.index.revisions``, docs/decisions/0030). If a version
can't be applied after the previous one, the index is built again. After a failure, readers keep the
last published version, ``status`` has the failure, and the step is retried after an increasing
pause.
"""

import logging
import time
from dataclasses import replace
from pathlib import Path

from oriel.storage.delta import (
    DeltaLog,
    LogEntry,
)
from oriel.storage.errors import CorruptLog, IndexDamaged, MissingDataFile, StorageError
from oriel.storage.files import FileIdentity, is_object
from oriel.storage.index import (
    IndexDirectory,
    IndexState,
    IndexWriter,
    are_reads_blocked,
    build_generation,
    clear_verification_request,
    damage,
    data_bytes,
    file_rows,
    is_verification_requested,
    open_indexes_max,
    release,
    revision_range,
    verify_existing,
    verify_in_subprocess,
)
from oriel.storage.shards import ALL_KEYS, Shard
from oriel.storage.tailer.continuity import (
    later_record,
    missing_files_error,
    why_not_applicable,
    why_other_table,
)
from oriel.storage.tailer.failures import Failures, problem_of
from oriel.storage.tailer.status import StoreStatus

logger = logging.getLogger(__name__)

#: Minimum seconds between two health checks, for rare events: a replaced table, a damaged index.
_HEALTH_CHECK_SECONDS = 0.25
#: Seconds of continuous work on a store, while others can wait.
_CONTINUOUS_WORK_SECONDS = 0.25
#: Seconds without a change after which the files of the index are closed until the next change.
_IDLE_SECONDS = 10.0
#: Seconds after the start in which indexes of killed writers are verified before they are read. If
#: there are very many, the scrub verifies the rest.
_VERIFY_SECONDS_MAX = 15.0
#: Seconds after which a torn entry does not count as an entry in progress any more.
_TORN_SECONDS = 2.0
#: The same for object stores, where each check needs requests, which cost money.
_OBJECTS_POLL_SECONDS, _OBJECTS_HEALTH_CHECK_SECONDS = 0.5, 10.0
#: Maximum number of snapshots that a rebuild tries, if files are vacuumed while it reads them.
_SNAPSHOTS_MAX = 5


class StoreTailer:
    """Follows one table. One thread at a time can use it.

    ``StorePool`` calls ``poll`` and ``advance``. Tests can call ``step``.

    Attributes:
        moved_at: When it last made progress, in monotonic seconds.
        changed_at: When the index last changed, in monotonic seconds.
        waiting_since: When the oldest version was written that the index does not have, in seconds
            since 1970. None if the index has the newest version.
    """

    def __init__(self, log: DeltaLog, directory: IndexDirectory, shard: Shard = ALL_KEYS) -> None:
        self.shard = shard
        self.log = log
        self.directory = directory
        self.status = StoreStatus()
        self._created_at = self.moved_at = self.changed_at = time.monotonic()
        self.waiting_since: float | None = None
        #: The writer is open while versions arrive. The state and the generation stay known when it
        #: is closed.
        self._writer: IndexWriter | None = None
        self._state: IndexState | None = None
        self._generation = directory.path
        self._bytes_seen = 0
        #: The directory of the log's entries, or None in an object store.
        self.local_log = None if is_object(log.table) else log.directory
        least = _HEALTH_CHECK_SECONDS if self.local_log else _OBJECTS_HEALTH_CHECK_SECONDS
        self._least_health_check_seconds = least
        self._health_check_seconds, self._idle_seconds = (
            self._least_health_check_seconds,
            _IDLE_SECONDS,
        )
        #: Identity of the last applied version's log file, and of the next one's if it was torn.
        self._applied_identity: FileIdentity | None = None
        self._torn_identity: FileIdentity | None = None
        self._torn_at = 0.0
        #: Identity of the newest Delta checkpoint at the last check of the log for a gap.
        self._checkpoint_identity: FileIdentity | None = None
        self._failures = Failures()
        #: Whether this process has checked or built the index, and whether each page and record was
        #: verified. If not, the scrub verifies it first.
        self._is_checked, self.is_verified = False, True
        self._health_checked_at = 0.0
        self._polled_at = 0.0
        #: Where the sweep resumes (None between sweeps), and the least visible time when the last
        #: one started.
        self._sweep_resume_key: bytes | None = None
        self._swept_ms = 0

    def spread(self, health_check_seconds: float, stores: int) -> None:
        """Adapt to the number of stores: check health less often, and close files sooner.

        Args:
            health_check_seconds: Seconds between two health checks.
            stores: The number of stores.
        """
        self._health_check_seconds = max(self._least_health_check_seconds, health_check_seconds)
        self._idle_seconds = _IDLE_SECONDS if stores <= open_indexes_max() // 2 else 0.0

    def poll(self) -> bool:
        """Poll the file of the next log entry. Return True if a step would find something to do.

        Raises:
            OSError: the table can't be polled.
        """
        if self._state is None:
            return True
        if self.local_log is None:
            now = time.monotonic()
            if now - self._polled_at < _OBJECTS_POLL_SECONDS:
                return False
            self._polled_at = now
        identity = self.log.identity(self._state.version + 1)
        self.waiting_since = None if identity is None else identity[1] / 1e9
        if identity is not None and identity != self._torn_identity:
            return True
        now = time.monotonic()
        return self._is_idle(now) or now - self._health_checked_at >= self._health_check_seconds

    def advance(self) -> float:
        """Run steps for a while, log a failure, and return the seconds until the next poll."""
        until = time.monotonic() + _CONTINUOUS_WORK_SECONDS
        try:
            while self.step():
                if time.monotonic() > until:
                    break
        except Exception as error:  # noqa: BLE001 - see the module docstring
            return self._failed(error)
        if self._is_idle(time.monotonic()):
            self._close_idle()
        return 0.0

    def step(self) -> bool:
        """Do one piece of work. Return False if there was nothing to do."""
        self._record_progress()
        try:
            return self._step()
        except IndexDamaged as error:
            self._rebuild_damaged(str(error))
            return True

    def _step(self) -> bool:
        if self._state is None:
            self._open()
            return True
        if self._follow(self._state):
            return True
        now = time.monotonic()
        if now - self._health_checked_at < self._health_check_seconds:
            return False
        self._health_checked_at = now
        return self._check_health(self._state)

    def _record_progress(self) -> None:
        self.moved_at = time.monotonic()

    def _is_idle(self, now: float) -> bool:
        return self._writer is not None and now - self.changed_at >= self._idle_seconds

    def _close_idle(self) -> None:
        """Close the files of the index until something changes."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def _writing(self) -> IndexWriter:
        """Return the writer of the current generation. Open it if it is closed.

        Raises:
            IndexDamaged: the generation differs from the one that was closed.
        """
        if self._writer is None:
            # LMDB would create a deleted file again.
            if data_bytes(self._generation) < max(1, self._bytes_seen):
                message = "the index was deleted or cut off"
                raise IndexDamaged(message)
            self._writer = IndexWriter(self._generation)
            if self._state is not None and self._writer.state() != self._state:
                message = "the index differs from the one that was closed"
                raise IndexDamaged(message)
        return self._writer

    def close(self) -> None:
        """Close the files of the index. The next step checks everything again."""
        self._close_idle()
        self._state = None

    def _open(self) -> None:
        """Open the existing index. If it can't be used, build a new one."""
        generation = self.directory.current()
        if generation is None:
            self._rebuild("the store has no index yet")
            return
        try:
            # Corrupt pages could crash LMDB at any later time.
            if not self._is_checked:
                may_wait = time.monotonic() - self._created_at < _VERIFY_SECONDS_MAX
                do_readers_wait = are_reads_blocked(generation) and may_wait
                self.is_verified = verify_existing(generation, do_readers_wait=do_readers_wait)
            self._generation, self._bytes_seen = generation, data_bytes(generation)
            state = self._writing().state()
        except IndexDamaged as error:
            self._rebuild_damaged(str(error))
            return
        try:
            reason = why_other_table(self.log, state)
        except (StorageError, OSError):
            # The index is sound, so readers can use it although its table can't be read.
            release(generation)
            raise
        if reason is None:
            self.directory.remove_others(generation)
            self._start_following(state)
        else:
            self._rebuild(reason)

    def _start_following(self, state: IndexState) -> None:
        self._is_checked = True
        self._state = state
        release(self._generation)
        self._applied_identity = self.log.identity(state.version)
        self._torn_identity = None
        self._bytes_seen = data_bytes(self._generation)
        self.changed_at = time.monotonic()
        # The state becomes `following` after the next health check, because a failure can repeat.
        self._health_checked_at = 0.0
        self.status = replace(self.status, version=state.version)

    def _rebuild_damaged(self, reason: str) -> None:
        self.status = replace(self.status, damaged=self.status.damaged + 1)
        self._rebuild(reason)

    def _rebuild(self, reason: str) -> None:
        """Build a new generation from the newest whole version, and use it."""
        self.close()
        self.status = replace(self.status, state="building")
        if self._failures.is_news(reason):
            logger.info(
                'building the index: store=%s reason="%s"', self.directory.path.name, reason
            )
        try:
            state, generation = self._build()
        finally:
            self.status = replace(self.status, builds=None)
        self.directory.publish(generation)
        self._generation, self.is_verified = generation, True
        self._start_following(state)
        logger.info("index built: store=%s version=%d", self.directory.path.name, state.version)

    def _build(self) -> tuple[IndexState, Path]:
        """Build an index of the newest version that can be read. The version can change meanwhile.

        Raises:
            CorruptLog: files that the newest version needs do not exist.
        """
        for _ in range(_SNAPSHOTS_MAX):
            snapshot = self.log.snapshot()
            generation = self.directory.new_generation()
            # Maintenance keeps the files of this version, and all later entries.
            self.status = replace(self.status, builds=snapshot.version)
            try:
                state = build_generation(
                    self.log.table, snapshot, generation, self._record_progress, self.shard
                )
            except MissingDataFile:
                self.directory.discard(generation)
                # A file is vacuumed only after a later version has removed it. Without a later
                # version, a retry would not help.
                newest = self.log.newest()
                if newest is None or newest.version <= snapshot.version:
                    break
            except BaseException:
                self.directory.discard(generation)
                raise
            else:
                return state, generation
        raise missing_files_error(self.log.table, snapshot)

    def _follow(self, state: IndexState) -> bool:
        """Apply the next version if its entry exists and is not torn."""
        identity = self.log.identity(state.version + 1)
        if identity is None or identity == self._torn_identity:
            return False
        entry = self.log.read(state.version + 1)
        if entry is None:
            # Torn or still being written: read it again when it changes.
            self._torn_identity, self._torn_at = identity, time.monotonic()
            return False
        if self.log.identity(state.version) != self._applied_identity:
            # The log can belong to another table, whose next version must not be applied. Check
            # first.
            self._check_health(state)
            return True
        reason = self._apply(state, entry)
        if reason is not None:
            self._rebuild(reason)
            return True
        self._applied_identity = identity
        self.changed_at = time.monotonic()
        self.status = replace(self.status, version=entry.version)
        return True

    def _apply(self, state: IndexState, entry: LogEntry) -> str | None:
        """Apply a version after the previous one.

        An entry that only rewrites files (compaction, OPTIMIZE) has the same cost for any size,
        because its files are not read.

        Returns:
            Why the version can't be applied, or None if it was applied.
        """
        reason = why_not_applicable(self.log.table, state, entry)
        if reason is not None:
            return reason
        try:
            batches = []
            for name in entry.added:
                path, digest = self.log.table / name, entry.digests.get(name)
                for rows in file_rows(path, state.definition, shard=self.shard, digest=digest):
                    batches.append(rows)
                    self._record_progress()
        except CorruptLog as error:
            # A later version may have removed the file.
            return str(error)
        batch = entry.batch_of(state.definition.application)
        lowest, highest = revision_range(batches)
        if lowest <= state.revisions.settled:
            return (
                f"version {entry.version} has rows of revision {lowest}, which can be older than "
                "the rows of their windows in the index"
            )
        next_state = replace(
            state,
            version=entry.version,
            digest=entry.digest,
            record=later_record(state.record, entry, batch),
            extent=state.extent.joined(rows.extent for rows in batches),
            revisions=state.revisions.after(highest, batch),
        )
        if next_state.earliest_ms < state.earliest_ms:
            # Expired windows are visible again, but a sweep can have deleted them.
            return f"version {entry.version} sets the store's stream time back"
        self._writing().follow(batches, state.revisions, next_state)
        self._state = next_state
        return None

    def _check_health(self, state: IndexState) -> bool:
        """Check for rare events. Return True if there was something to do."""
        if (reason := damage(self._generation)) is not None:
            raise IndexDamaged(reason)
        reason = self._why_index_lost() or self._why_log_replaced(state)
        if reason is not None:
            self._rebuild(reason)
            return True
        if is_verification_requested(self._generation) or are_reads_blocked(self._generation):
            verify_in_subprocess(self._generation)
            clear_verification_request(self._generation)
        if self._writer is not None:
            self._writer.forget_dead_readers()
        is_busy = self._sweep(state)
        problem = self._why_torn(state)
        self.status = replace(
            self.status, state="following", version=state.version, problem=problem
        )
        self._failures.over()
        return is_busy

    def _why_index_lost(self) -> str | None:
        if self.directory.current() != self._generation:
            return "the index was deleted"
        size = data_bytes(self._generation)
        if size < self._bytes_seen:
            return "the index was cut off"
        self._bytes_seen = size
        return None

    def _why_torn(self, state: IndexState) -> str | None:
        """Return the problem of a next entry that stays torn, or None."""
        number = state.version + 1
        if self._torn_identity is None or self.log.identity(number) != self._torn_identity:
            return None
        if time.monotonic() - self._torn_at < _TORN_SECONDS:
            return None
        return (
            f"version {number} of the table's log is cut off. Its writer ended while it wrote the "
            "entry, and writes it again at its next start"
        )

    def _why_log_replaced(self, state: IndexState) -> str | None:
        if self.log.identity(state.version) != self._applied_identity:
            reason = why_other_table(self.log, state)
            self._applied_identity = self.log.identity(state.version)
            if reason is not None:
                return reason
        # If the next version is missing or torn but the one after it exists, the next version will
        # not be written any more. A few stats cost far less than a listing of many thousand
        # entries.
        after_next = self.log.identity(state.version + 2)
        if after_next is not None and self.log.read(state.version + 1) is None:
            return (
                f"version {state.version + 1} is missing in the log, although the next version "
                "exists"
            )
        # Entries before a Delta checkpoint can have been deleted, including this version's and the
        # next.
        checkpoint = self.log.checkpoint_identity()
        if checkpoint != self._checkpoint_identity:
            later = [version for version in self.log.versions() if version > state.version]
            if later and later[0] > state.version + 1:
                return f"the log was cleaned up to version {later[0]}"
            self._checkpoint_identity = checkpoint
        return None

    def _sweep(self, state: IndexState) -> bool:
        """Delete some expired windows, if enough have expired since the last sweep.

        A sweep visits every key, so it starts only when a tenth of the retention has passed since
        the last one. So expired windows need about a tenth more space.
        """
        retention_ms = state.definition.retention_ms
        if retention_ms is None:
            return False
        if self._sweep_resume_key is None:
            if state.earliest_ms - self._swept_ms < max(1, retention_ms // 10):
                return False
            self._swept_ms = state.earliest_ms
            self._sweep_resume_key = b""
        self._sweep_resume_key = self._writing().sweep(self._sweep_resume_key)
        return self._sweep_resume_key is not None

    def _failed(self, error: Exception) -> float:
        """Log a failure, each problem once, and return the seconds until the next try."""
        problem = problem_of(error, self.directory.path)
        if self._failures.is_news(problem):
            expected = isinstance(error, StorageError | OSError)
            logger.error(
                "index failed: store=%s. %s",
                self.directory.path.name,
                problem,
                exc_info=None if expected else error,
            )
        self.status = replace(self.status, state="failed", problem=problem)
        self.close()
        return self._failures.pause_seconds(problem)
