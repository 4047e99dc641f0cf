"""Keep the index of one store at the newest version of its table.

    Opening --------> Following: next log entry? apply it -----> (again)
      |  damaged,      |  entry replaced, gap in the log, other table, index damaged or deleted,
      |  other table   |  rows removed or with old revisions, file missing, stream time set back
      v                v
    Rebuilding: newest whole version -> new generation -> publish -> Following

    any state -- failure, close --> Opening

Following and rebuilding lead to the same index. One rule decides which row of a window counts, and
it uses only the live rows (``oriel.storage.index.revisions``, docs/decisions/0030). If a version
can't be applied after the previous one, the index is built again. After a failure, readers keep the
last published version, ``status`` has the failure, and the step is retried after an increasing
pause. A store whose table is unavailable has no tailer (``oriel.storage.tailer.tables``).
"""

import logging
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from oriel.storage.delta import (
    DeltaLog,
    LogEntry,
)
from oriel.storage.errors import CorruptLog, IndexDamaged, MissingDataFile, StorageError
from oriel.storage.files import is_object
from oriel.storage.index import (
    IndexDirectory,
    IndexState,
    are_reads_blocked,
    build_generation,
    clear_verification_request,
    damage,
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
    LogFollower,
    later_record,
    missing_files_error,
    why_not_applicable,
    why_other_table,
)
from oriel.storage.tailer.failures import Failures, problem_of
from oriel.storage.tailer.index_files import IndexFiles, Sweep
from oriel.storage.tailer.status import StoreStatus
from oriel.storage.timer import NEVER, Timer

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
#: The same for object stores, where each check needs requests, which cost money.
_OBJECTS_POLL_SECONDS, _OBJECTS_HEALTH_CHECK_SECONDS = 0.5, 10.0
#: Maximum number of snapshots that a rebuild tries, if files are vacuumed while it reads them.
_SNAPSHOTS_MAX = 5


@dataclass
class Pace:
    """The seconds between two polls of a store, between two health checks, and until it is idle."""

    poll_seconds: float = 0.0
    health_check_seconds: float = _HEALTH_CHECK_SECONDS
    idle_seconds: float = _IDLE_SECONDS


class StoreTailer:
    """Follows one table. One thread at a time can use it.

    ``StorePool`` calls ``poll`` and ``advance``. Tests can call ``step``.

    Attributes:
        log: The log of the table.
        directory: The directory of the index.
        shard: The keys to index.
        status: The state of the store for the status file.
        moved_at: When it last made progress, in monotonic seconds.
        is_verified: False if an index of a killed writer is in use before the scrub verifies it.
        pace: The intervals of the store.
        failures: The failures since the last health check without a problem.
        sweep: The deletion of expired windows, which continues after a failure.
    """

    def __init__(self, log: DeltaLog, directory: IndexDirectory, shard: Shard = ALL_KEYS) -> None:
        self.log = log
        self.directory = directory
        self.shard = shard
        self.status = StoreStatus()
        self.moved_at = time.monotonic()
        self.is_verified = True
        self.pace = Pace()
        if is_object(log.table):
            self.pace = Pace(_OBJECTS_POLL_SECONDS, _OBJECTS_HEALTH_CHECK_SECONDS)
        self.failures = Failures()
        self.sweep = Sweep()
        self._state: State = Opening(self, Timer())

    @property
    def local_log(self) -> Path | None:
        """The directory of the log's entries, or None in an object store."""
        return None if is_object(self.log.table) else self.log.directory

    @property
    def changed_at(self) -> float:
        """When the index last changed, in monotonic seconds. ``-inf`` while it is not followed."""
        return self._state.changed_at

    @property
    def waiting_since(self) -> float | None:
        """When the oldest version was written that the index does not have.

        In seconds since 1970. None if the index has the newest version, or is not followed.
        """
        return self._state.waiting_since

    def spread(self, health_check_seconds: float, stores: int) -> None:
        """Adapt to the number of stores: check health less often, and close files sooner.

        Args:
            health_check_seconds: Seconds between two health checks.
            stores: The number of stores.
        """
        least = _HEALTH_CHECK_SECONDS if self.local_log else _OBJECTS_HEALTH_CHECK_SECONDS
        self.pace.health_check_seconds = max(least, health_check_seconds)
        self.pace.idle_seconds = _IDLE_SECONDS if stores <= open_indexes_max() // 2 else 0.0

    def poll(self) -> bool:
        """Poll the file of the next log entry. Return True if a step would find something to do.

        Raises:
            OSError: the table can't be polled.
        """
        return self._state.poll()

    def advance(self) -> float:
        """Run steps for a while, log a failure, and return the seconds until the next poll."""
        work = Timer()
        try:
            while self.step():
                if work.seconds() > _CONTINUOUS_WORK_SECONDS:
                    break
        except Exception as error:  # noqa: BLE001 - see the module docstring
            return self._failed(error)
        self._state.close_idle()
        return 0.0

    def step(self) -> bool:
        """Do one piece of work. Return False if there was nothing to do."""
        self.record_progress()
        next_state = self._state.step()
        if next_state is not None:
            self._state = next_state
        return next_state is not None

    def record_progress(self) -> None:
        """Record that the tailer is not blocked."""
        self.moved_at = time.monotonic()

    def close(self) -> None:
        """Close the files of the index. The next step checks everything again."""
        self._state = self._state.close()

    def _failed(self, error: Exception) -> float:
        """Log a failure, each problem once, and return the seconds until the next try."""
        problem = problem_of(error, self.directory.path)
        if self.failures.is_news(problem):
            expected = isinstance(error, StorageError | OSError)
            logger.error(
                "index failed: store=%s. %s",
                self.directory.path.name,
                problem,
                exc_info=None if expected else error,
            )
        self.status = replace(self.status, state="failed", problem=problem)
        self.close()
        return self.failures.pause_seconds(problem)


class State:
    """A state of a store's tailer, with the values that only this state needs.

    Attributes:
        changed_at: See ``StoreTailer``.
        waiting_since: See ``StoreTailer``.
    """

    def __init__(self, tailer: StoreTailer) -> None:
        self._tailer = tailer
        self.changed_at = NEVER
        self.waiting_since: float | None = None

    def poll(self) -> bool:
        """Return True if a step would find something to do."""
        return True

    def step(self) -> "State | None":
        """Do one piece of work. Return the next state, or None if there was nothing to do."""
        raise NotImplementedError

    def close(self) -> "Opening":
        """Close the files of the index. Return the state that opens the index again."""
        raise NotImplementedError

    def close_idle(self) -> None:
        """Close the files of the index if nothing has changed for some time."""


class Opening(State):
    """The index is not open. Open the existing index. If it can't be used, build a new one."""

    def __init__(self, tailer: StoreTailer, started: Timer | None = None) -> None:
        """Open nothing yet.

        Args:
            tailer: The tailer of the store.
            started: The start of the tailer. None if this process has checked or built the index.
        """
        super().__init__(tailer)
        self._started = started

    def step(self) -> State:
        """Open, verify and check the existing index."""
        tailer = self._tailer
        generation = tailer.directory.current()
        if generation is None:
            return Rebuilding(tailer, "the store has no index yet", self)
        with ExitStack() as opened:
            try:
                # Corrupt pages could crash LMDB at any later time.
                if self._started is not None:
                    may_wait = self._started.seconds() < _VERIFY_SECONDS_MAX
                    tailer.is_verified = verify_existing(
                        generation, do_readers_wait=are_reads_blocked(generation) and may_wait
                    )
                files = opened.enter_context(closing(IndexFiles(generation)))
                state = files.writer().state()
            except IndexDamaged as error:
                return Rebuilding.damaged_index(tailer, error, self)
            try:
                reason = why_other_table(tailer.log, state)
            except (StorageError, OSError):
                # The index is sound, so readers can use it although its table can't be read.
                release(generation)
                raise
            if reason is not None:
                return Rebuilding(tailer, reason, self)
            tailer.directory.remove_others(generation)
            following = Following(tailer, files, state)
            opened.pop_all()
        return following

    def close(self) -> "Opening":
        """Return this state."""
        return self


class Rebuilding(State):
    """The index can't be followed. Build a new generation from the newest whole version."""

    def __init__(self, tailer: StoreTailer, reason: str, opening: Opening) -> None:
        """Build nothing yet.

        Args:
            tailer: The tailer of the store.
            reason: Why the existing index can't be used.
            opening: The state after a failure.
        """
        super().__init__(tailer)
        self._reason = reason
        self._opening = opening

    @classmethod
    def damaged_index(
        cls, tailer: StoreTailer, error: IndexDamaged, opening: Opening
    ) -> "Rebuilding":
        """Return the state after damage of the index, which ``status`` counts."""
        tailer.status = replace(tailer.status, damaged=tailer.status.damaged + 1)
        return cls(tailer, str(error), opening)

    def step(self) -> State:
        """Build a new generation, and publish it."""
        tailer, name = self._tailer, self._tailer.directory.path.name
        tailer.status = replace(tailer.status, state="building")
        if tailer.failures.is_news(self._reason):
            logger.info('building the index: store=%s reason="%s"', name, self._reason)
        try:
            state, generation = self._build()
        finally:
            tailer.status = replace(tailer.status, builds=None)
        tailer.directory.publish(generation)
        tailer.is_verified = True
        following = Following(tailer, IndexFiles(generation), state)
        logger.info("index built: store=%s version=%d", name, state.version)
        return following

    def _build(self) -> tuple[IndexState, Path]:
        """Build an index of the newest version that can be read. The version can change meanwhile.

        Raises:
            CorruptLog: files that the newest version needs do not exist.
        """
        tailer = self._tailer
        for _ in range(_SNAPSHOTS_MAX):
            snapshot = tailer.log.snapshot()
            generation = tailer.directory.new_generation()
            # Maintenance keeps the files of this version, and all later entries.
            tailer.status = replace(tailer.status, builds=snapshot.version)
            try:
                state = build_generation(
                    tailer.log.table, snapshot, generation, tailer.record_progress, tailer.shard
                )
            except MissingDataFile:
                tailer.directory.discard(generation)
                # A file is vacuumed only after a later version has removed it. Without a later
                # version, a retry would not help.
                newest = tailer.log.newest()
                if newest is None or newest.version <= snapshot.version:
                    break
            except BaseException:
                tailer.directory.discard(generation)
                raise
            else:
                return state, generation
        raise missing_files_error(tailer.log.table, snapshot)

    def close(self) -> Opening:
        """Return the state that checks everything again."""
        return self._opening


class Following(State):
    """The index has a version of the table. Apply the next version, and check for rare events."""

    def __init__(self, tailer: StoreTailer, files: IndexFiles, state: IndexState) -> None:
        """Let readers use the index, and follow the log after the version of the index."""
        super().__init__(tailer)
        self._files = files
        release(files.generation)
        self._follower = LogFollower(tailer.log, state)
        self._polled, self._health_checked = Timer(NEVER), Timer(NEVER)
        self.changed_at = time.monotonic()
        # The state becomes `following` after the next health check, because a failure can repeat.
        tailer.status = replace(tailer.status, version=state.version)

    def poll(self) -> bool:
        """Return True if the next version exists, or if it is time for other work."""
        if self._polled.seconds() < self._tailer.pace.poll_seconds:
            return False
        self._polled.restart()
        identity = self._follower.next_identity()
        self.waiting_since = None if identity is None else identity[1] / 1e9
        has_next = identity is not None and identity != self._follower.torn
        return has_next or self._is_idle() or self._is_health_check_due()

    def step(self) -> State | None:
        """Apply the next version. Without one, check the health if it is time."""
        try:
            if (found := self._follower.next_entry()) is None:
                if not self._is_health_check_due():
                    return None
                self._health_checked.restart()
                return self._check_health()
            if not self._follower.is_applied_entry_unchanged():
                # The log can belong to another table, whose next version must not be applied.
                # Check first.
                return self._check_health() or self
            entry, identity = found
            next_state = self._apply(entry)
        except IndexDamaged as error:
            return Rebuilding.damaged_index(self._tailer, error, self.close())
        if isinstance(next_state, str):
            return Rebuilding(self._tailer, next_state, self.close())
        self._follower.advance(next_state, identity)
        self.changed_at = time.monotonic()
        self._tailer.status = replace(self._tailer.status, version=entry.version)
        return self

    def close(self) -> Opening:
        """Close the files of the index, and return the state that checks everything again."""
        self._files.close()
        return Opening(self._tailer)

    def close_idle(self) -> None:
        """Close the files of the index until something changes."""
        if self._is_idle():
            self._files.close()

    def _is_idle(self) -> bool:
        unchanged_seconds = time.monotonic() - self.changed_at
        return self._files.is_open and unchanged_seconds >= self._tailer.pace.idle_seconds

    def _is_health_check_due(self) -> bool:
        return self._health_checked.seconds() >= self._tailer.pace.health_check_seconds

    def _apply(self, entry: LogEntry) -> IndexState | str:
        """Apply a version after the previous one.

        An entry that only rewrites files (compaction, OPTIMIZE) has the same cost for any size,
        because its files are not read.

        Returns:
            The state after the version, or why it can't be applied.
        """
        tailer, state = self._tailer, self._follower.state
        reason = why_not_applicable(tailer.log.table, state, entry)
        if reason is not None:
            return reason
        try:
            batches = []
            for name in entry.added:
                path, digest = tailer.log.table / name, entry.digests.get(name)
                for rows in file_rows(path, state.definition, shard=tailer.shard, digest=digest):
                    batches.append(rows)
                    tailer.record_progress()
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
        self._files.writer(state).follow(batches, state.revisions, next_state)
        return next_state

    def _check_health(self) -> State | None:
        """Check for rare events. Return the next state, or None if there was nothing to do."""
        tailer, generation = self._tailer, self._files.generation
        if (reason := damage(generation)) is not None:
            raise IndexDamaged(reason)
        reason = self._files.why_lost(tailer.directory) or self._follower.why_replaced()
        if reason is not None:
            return Rebuilding(tailer, reason, self.close())
        if is_verification_requested(generation) or are_reads_blocked(generation):
            verify_in_subprocess(generation)
            clear_verification_request(generation)
        self._files.forget_dead_readers()
        state = self._follower.state
        is_busy = tailer.sweep.step(self._files, state)
        problem = self._follower.why_torn()
        tailer.status = replace(
            tailer.status, state="following", version=state.version, problem=problem
        )
        tailer.failures.over()
        return self if is_busy else None
