"""Compute, prepare and commit the batches of one store.

The order of effects, and the result of a crash between them (docs/contributing/architecture.md):

    1. Spark plans batch n
    2. tasks write state segments and Parquet files      nothing refers to them
    3. ``state/<store>/<n>.json`` is written             batch n is prepared
    4. the store's table is committed with batch id n    readers see it
    5. the dead letters are committed with batch id n
    6. state versions that no restart needs are deleted
    7. Spark plans batch n+1                             batch n is never offered again

A sink does not have a table. In step 4, its records are published from the state segments, and this
is noted (``sink_topic``). After a crash between the two, a marker in Kafka shows which records are
published.

After a crash before step 3, the batch starts again from state version n-1, and nothing reads the
files of its earlier tasks. After a crash after step 3, nothing is repeated. Only the missing parts
of steps 4 and 5 are done, with the files that ``<n>.json`` names. Each commit records the batch id
in its own transaction. So after a crash, the table shows whether a commit succeeded. If it did, the
commit is skipped.

In another order, a crash could lose or repeat records. With step 4 before step 3, batch n would be
in the table and then computed again. The state for batch n+1 could then be from another computation
than the rows of the table.

Before each effect, the process checks that no other process has taken over the pipeline. Each
effect is also harmless if it is late (decision 0031).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from oriel.pipeline.commit.checkpoint import RecoveryPoint, StateVersions
from oriel.pipeline.commit.sink_topic import SinkTopic
from oriel.pipeline.commit.store_tables import StoreTables
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.language import of_topics
from oriel.pipeline.plan import (
    NO_STREAM_TIME_NOTES,
    NO_WALL_CLOCK,
    BatchPlan,
    JoinPlan,
    PreparedBatch,
    Segments,
    StorePlans,
    StreamTimeNotes,
    WallClock,
)
from oriel.pipeline.stage_columns import ReadBlocks
from oriel.pipeline.tasks import Counters, Reports, StoreWork, count_batch
from oriel.pipeline.windows import NOTHING_OBSERVED_MS
from oriel.storage import CommitRecord, ForeignCheckpoint, Offsets, current_files
from oriel.storage.delta import AddedFile

#: The greatest number of state rows of a store that runs in one task.
#: A change of the number of tasks reads and writes the whole state, so this bounds its cost
#: (decision 0098).
ONE_TASK_ROWS = 1 << 17
#: A store with several tasks changes to one task after this many batches in this process.
#: With a lower number, a pipeline that alternates between large and small batches would write its
#: whole state again more often.
ONE_TASK_BATCHES = 64


def prepared_batch(
    plan: BatchPlan,
    joins: Sequence[JoinPlan],
    reports: Reports,
    previous: PreparedBatch | None,
    ends: Offsets,
) -> PreparedBatch:
    """Return the prepared batch from the reports of all tasks of a store.

    A batch without a partition does not have tasks, and leaves the state unchanged.

    Raises:
        RecordCountMismatch: a record was lost or used twice in the tasks.
    """
    stream_times = reports.stream_times_after(plan.stream_times)
    # The check precedes step 3. If a record is lost or used twice, nothing refers to the files of
    # the batch, and a restart computes it again from version n-1.
    counted = count_batch(plan.store, plan.batch, reports.counters)
    # Counters are totals since the store began. A batch that is computed again adds to the same
    # totals of version n-1, so it counts no record twice.
    totals = previous.record.counters if previous else {}
    has_results = any(plan.origins) and bool(reports.stores)
    record = CommitRecord(
        batch=plan.batch,
        # If Spark has no offsets of a source yet, ``ends`` lacks its topic.
        offsets={
            topic: ends.get(topic, {})
            for topic in (*(each.topic for each in plan.stream_time_plans), *plan.upstream_topics)
        },
        # Names in JSON are strings, so partitions are strings in versions and in commits.
        stream_time_ms={
            name: {str(p): time_ms for p, time_ms in sorted(partitions.items())}
            for name, partitions in stream_times.items()
        },
        # All tasks have the same reports, so all compute the same close time. Without a task, no
        # record arrived, and the close time stays.
        close_ms=reports.stores[0].close_ms if reports.stores else plan.close_ms,
        counters=(Counters(**totals) + counted).as_dict(
            # If an earlier commit has the numbers of results, all later commits have them, also for
            # a batch without a task.
            with_results=has_results or "late_results" in totals
        ),
        # The time of the store for retention (semantics.md#7) never decreases. After a batch of
        # late records or without a record, it is the value of version n-1. Without reports, ``max``
        # would have one integer as its only argument, which is an error, so a constant follows.
        observed_ms=max(
            previous.record.observed_ms if previous else NOTHING_OBSERVED_MS,
            *(report.observed_ms for report in reports.stores),
            NOTHING_OBSERVED_MS,
        ),
    )
    stream_dead_letters = [file for report in reports.streams for file in report.dead_letters]
    own_rows, join_rows = _open_records(joins, reports, previous)
    return PreparedBatch(
        record=record,
        # Without a task, the version names the files of version n-1, so both have the same state.
        segments={report.task: report.segments for report in reports.stores} or plan.segments,
        join_segments={join.number: _segments(join, reports) for join in joins},
        files=[file for report in reports.stores for file in report.files],
        dead_letters=[
            *stream_dead_letters,
            *(file for r in reports.stores for file in r.dead_letters),
        ],
        changed=sum(report.changed for report in reports.stores),
        open_records=own_rows + sum(join_rows.values()),
        clock_notes=_time_notes(plan, reports, previous),
        join_open_records=join_rows,
    )


def _time_notes(
    plan: BatchPlan, reports: Reports, previous: PreparedBatch | None
) -> StreamTimeNotes:
    """Return the notes of the batch about stream times."""
    before = previous.clock_notes if previous else NO_STREAM_TIME_NOTES
    # A record that is older than the stream time of its partition also counts. It shows that the
    # partition is not idle, although it does not advance its stream time.
    active_partitions = reports.partitions_with_records()
    idle = plan.idle(active_partitions)
    # Without windows, no partition keeps a window from becoming final.
    is_windowed = plan.windows.kind != "none"
    stream_times = reports.stream_times_after(plan.stream_times)
    times_ms = plan.close_times(stream_times, active_partitions) if is_windowed else {}
    return StreamTimeNotes(
        now_ms=plan.wall_clock.now_ms,
        max_ahead_ms=plan.wall_clock.settings.max_ahead_ms,
        # A partition without a record keeps the time of its last record, so its idle time continues
        # over batches.
        heard_ms={
            name: {
                str(p): plan.wall_clock.now_ms if p in active_partitions.get(name, ()) else last_ms
                for p, last_ms in sorted(partitions.items())
            }
            for name, partitions in plan.last_records_ms.items()
        },
        idle=idle,
        # Only partitions that were not idle after version n-1 count. So a partition that stays idle
        # for 1,000 batches counts once.
        idle_times=before.idle_times
        + sum(len(set(own).difference(before.idle.get(name, ()))) for name, own in idle.items()),
        # A window is final when the slowest partition has passed it, so the partition with the
        # least close time keeps windows from becoming final.
        held_by=min(times_ms, key=times_ms.__getitem__, default=None),
        mended=before.mended,
    )


def _open_records(
    joins: Sequence[JoinPlan], reports: Reports, previous: PreparedBatch | None
) -> tuple[int, dict[int, int]]:
    """Return the rows in the state of the store, and in the state of each join by its index.

    If no task ran, the state and its rows are those of the previous batch.
    """
    join_rows = dict(previous.join_open_records) if previous else {}
    own_rows = previous.open_records - sum(join_rows.values()) if previous else 0
    if reports.stores:
        own_rows = sum(report.open_records for report in reports.stores)
    for join in joins:
        of_join = [each.open_records for each in reports.joins if each.number == join.number]
        if of_join:
            join_rows[join.number] = sum(of_join)
    return own_rows, join_rows


def _segments(join: JoinPlan, reports: Reports) -> Segments:
    """Return the state files of a join's tasks after the batch."""
    by_task = {
        report.task: report.segments for report in reports.joins if report.number == join.number
    }
    return by_task or join.segments


class StoreBatches:
    """Runs the batches of one store, in order."""

    def __init__(
        self,
        plans: StorePlans,
        tables: StoreTables | SinkTopic,
        versions: StateVersions,
        *,
        tasks: int,
        on_cluster: bool = False,
    ) -> None:
        """Run the store of ``plans``.

        Args:
            plans: The plans of the store.
            tables: The tables of the store, or the topic of a sink.
            versions: The prepared batches of the store.
            tasks: The number of tasks per stage. At most one task per key group runs.
            on_cluster: Whether tasks run on other machines.
        """
        self.plans = plans
        self._store = plans.store
        self._tables = tables
        self._versions = versions
        key_groups = tables.definition.key_groups
        # A task has whole key groups, so further tasks would never have a key.
        self._tasks = min(tasks, key_groups)
        self._files = tables.task_files(
            tables.table_directory,
            versions.directory,
            tables.dead_letters_directory,
            versions.sync,
            on_cluster,
        )
        # The key groups are from the table and not from the command line, because the state is
        # divided by them. With another number, a task would not find the state of its keys.
        plans.select_columns(key_groups)
        #: The last batch that this process has committed. None: the next batch is the first one
        #: after a start, and an earlier run can have prepared it.
        self._last: tuple[int, PreparedBatch] | None = None
        #: The number of batches in this process since the last other batch.
        self._local_batches = 0
        #: The current batch, if an earlier run of the pipeline has prepared it.
        self._prepared: PreparedBatch | None = None

    def prepared_notes(self, batch: int) -> StreamTimeNotes | None:
        """Return the notes of batch ``batch`` if an earlier run has prepared it, otherwise None.

        The other stores use its wall-clock time and bound for this batch.
        """
        prepared = self._versions.prepared(batch) if self._last is None else None
        return None if prepared is None else prepared.clock_notes

    def recover(self) -> RecoveryPoint | None:
        """Return the last batch that this store has prepared or committed, None before the first.

        A version that a power loss has damaged is written again, from the version before it. If the
        table does not have the batch, the batch can end anywhere. If the table has it, the batch
        must end where the table says, because only its state is missing.

        Raises:
            CheckpointError: the version before it is also damaged.
            ForeignCheckpoint: the batch of the table is not the batch of the checkpoint.
        """
        # The two differ after a crash. After a crash between the steps 3 and 4, the table lacks the
        # batch of the newest version. If the newest version is lost, the table is one batch ahead.
        recorded, batch = self._tables.recorded_batch(), self._versions.newest()
        self._check_history(recorded)
        prepared = self._versions.prepared(batch)
        if prepared is None and batch > 0:
            # A version is created as a whole. So only a power loss without syncs or a damaged disk
            # leaves a version that cannot be read. The state of the version before it is complete,
            # because no batch changes its files.
            batch -= 1
            prepared = self._versions.prepared(batch)
            if prepared is None:
                # Without two intact versions in a row, no state exists to start from. This call
                # raises the error of the newest version.
                self._versions.load(batch + 1)
        elif prepared is None:
            # Batch 0 starts from an empty state, so it needs no version before it.
            batch = -1
        ends: Offsets = {} if prepared is None else prepared.record.offsets
        # Here, the table has the rows of a batch whose version is lost. The batch is computed again
        # up to the offsets in the commit, not up to the newest records. With other records, its
        # state would not fit its rows. The rows are the same, so they are not committed again.
        if recorded == batch + 1:
            record = self._tables.newest_record()
            if record is not None and record.batch == recorded:
                return RecoveryPoint(recorded, ends, record.offsets, is_done=False)
        if prepared is None:
            return None
        before = self._versions.prepared(batch - 1)
        if before is not None and self._tables.dead_letters_batch() < batch - 1:
            # The dead-letter table can also have lost its newest entry, and no later batch checks
            # it.
            self._versions.check_epoch()
            self._check_files(before.dead_letters, self._tables.dead_letters_directory, batch - 1)
            self._tables.commit_dead_letters(before.dead_letters, batch - 1)
        # The number in the table is not enough. After a crash between the steps 4 and 5, the table
        # has the batch, but its dead letters are missing. Then Spark must offer the batch again. A
        # batch without dead letters never has an entry in their table.
        is_done = recorded == batch and (
            not prepared.dead_letters or self._tables.dead_letters_batch() >= batch
        )
        starts = {} if before is None else before.record.offsets
        return RecoveryPoint(batch, starts, ends, is_done, prepared.clock_notes.now_ms)

    def begin(
        self,
        batch: int,
        ends: Offsets,
        wall_clock: WallClock = NO_WALL_CLOCK,
        *,
        is_local: bool = False,
    ) -> StoreWork | None:
        """Return the work of batch ``batch``, None if the batch is already prepared.

        Args:
            batch: The number of the batch.
            ends: The offsets at which it ends.
            wall_clock: The wall-clock time of the batch.
            is_local: Whether the batch runs in this process.

        Raises:
            Fenced: another process has taken over.
            ForeignCheckpoint: the checkpoint and the table are not at the same batch.
            CheckpointError: another process has prepared the batch, with other end offsets.
            InvalidTopology: a partition number is too large for a join of streams.
        """
        # A fenced process stops before it starts tasks. Their files would do no harm, but a
        # successor computes the same batch.
        self._versions.check_epoch()
        recorded = self._tables.recorded_batch()
        # Only the first batch after a start can be prepared already. Later batches do not read a
        # file for this.
        self._prepared = self._versions.prepared(batch) if self._last is None else None
        self._check_table_batch(batch, recorded)
        if self._prepared is not None:
            # Step 3 is done. The batch is not computed again, because the topology or its functions
            # can have changed since then. The rows of the table would be from another computation
            # than the state (decision 0003).
            self._check_prepared(self._prepared, ends)
            return None
        # Until the batch is prepared, nothing refers to the files of its tasks.
        previous = self._previous(batch)
        tasks = self._tasks_of_batch(previous, is_local=is_local)
        plan, joins = self.plans.plan(batch, self._files, tasks, previous, ends, wall_clock)
        return StoreWork(self.plans, plan, joins)

    def finish(
        self,
        batch: int,
        ends: Offsets,
        computed: tuple[StoreWork, Reports] | None,
        blocks: ReadBlocks | None = None,
    ) -> PreparedBatch:
        """Prepare and commit batch ``batch``, except the parts that are already committed.

        Args:
            batch: The number of the batch.
            ends: The offsets at which it ends.
            computed: The work that ``begin`` returned, and the reports of its tasks. None if the
                batch is already prepared.
            blocks: The blocks of the log that the batch reads.

        Raises:
            RecordCountMismatch: a record was lost or used twice in the tasks. Nothing is committed.
            Fenced: another process has taken over. Nothing more is committed.
        """
        previous = self._previous(batch)
        if computed is None:
            assert self._prepared is not None
            prepared = self._prepared
        else:
            work, reports = computed
            computed_batch = prepared_batch(work.plan, work.joins, reports, previous, ends)
            computed_batch = computed_batch.with_blocks(previous, blocks or {})
            # Decision 0003: from here on, the batch is prepared. After a crash, it is committed as
            # the file says and not computed again. So the rows of the table and the state of the
            # next batch are from the same computation.
            # A sync of a directory costs milliseconds. So the directory of the dead letters is
            # synced only for a batch that has a file in it.
            tables = [self._tables.table_directory, self._tables.dead_letters_directory]
            directories = tables if computed_batch.dead_letters else tables[:1]
            prepared = self._versions.prepare(batch, computed_batch, directories)
            if prepared is not computed_batch:
                # Another process has created the file of this batch meanwhile. The file that exists
                # counts, and nothing refers to the files of this process.
                self._check_prepared(prepared, ends)
        # An entry is created and never replaced. If the process is suspended after this check, the
        # tables reject a batch that a successor has committed (decision 0031).
        self._versions.check_epoch()
        # After a crash between the steps 4 and 5, the table already has the batch. Delta's ``txn``
        # action (application, n) is in the same log entry as the ``add`` actions, so either both
        # are committed or nothing is.
        if self._tables.recorded_batch() < batch:
            # A vacuum of another program can have deleted files that no version of the table names
            # yet. Nobody could read the table after the commit.
            self._check_files(prepared.files, self._tables.table_directory, batch)
            # A crash before this line leaves a batch that no reader sees. A crash after it leaves a
            # batch that readers see, without its dead letters. The next start finishes both. Until
            # then, the counters of the commit include dead letters that their table lacks.
            self._tables.commit(prepared, batch)
        # A crash can occur between the commits, so the dead-letter table shows whether it has the
        # batch.
        self._versions.check_epoch()
        self._tables.commit_dead_letters(prepared.dead_letters, batch)
        # Spark can offer this batch again until it plans the next one, but never an older batch.
        # Version n-1 stays also for another reason: if version n is damaged, batch n is computed
        # again from n-1. The removal is the last step, so a crash before it leaves more files than
        # necessary and never fewer. The first removal after a start lists the directory and finds
        # them.
        replayable = [version for version in (previous, prepared) if version is not None]
        self._versions.remove_before(batch - 1, replayable)
        self._last = (batch, prepared)
        return prepared

    def ends_before(self, batch: int) -> Offsets:
        """Return the offsets at which the batch before ``batch`` ended."""
        previous = self._previous(batch)
        return {} if previous is None else previous.record.offsets

    def prepared(self, batch: int) -> PreparedBatch | None:
        """Return batch ``batch`` as prepared, None if it is not prepared or already removed."""
        return self._versions.prepared(batch)

    def recorded_batch(self) -> int:
        """Return the last batch in the store's table, -1 before the first."""
        return self._tables.recorded_batch()

    def _tasks_of_batch(self, previous: PreparedBatch | None, *, is_local: bool) -> int:
        """Return the number of tasks of a batch: one for a small state in this process.

        A task costs the same for few rows as for many (decision 0098). If the number of tasks
        changes, a batch reads and writes the whole state. So only a small state changes it, and to
        one task only after many local batches.
        """
        self._local_batches = self._local_batches + 1 if is_local else 0
        # Each task reports its files, also a task without files. So the number of entries is the
        # number of tasks of the last batch.
        has_one_task = previous is None or len(previous.segments) <= 1
        rows = 0 if previous is None else previous.open_records
        if is_local and has_one_task and rows <= ONE_TASK_ROWS:
            return 1
        # With half of the limit, a state can double in one task before it changes back to several
        # tasks.
        if self._local_batches > ONE_TASK_BATCHES and rows <= ONE_TASK_ROWS // 2:
            return 1
        return self._tasks

    def _check_prepared(self, prepared: PreparedBatch, ends: Offsets) -> None:
        """Check that a batch that another process or an earlier run has prepared can be committed.

        It must have the records that Spark offers as this batch. A start writes Spark's offset log
        from the prepared batches. So the records differ only if a suspended process has prepared
        the batch after that, as its last effect before it was fenced. The files of the batch must
        also exist. They are missing if the directory of the table is from a backup.
        """
        # Rows of other stores are not compared: they are the rows that these stores have prepared.
        offered = {topic: ends.get(topic, {}) for topic in self.plans.topics}
        if of_topics(prepared.record.offsets) != offered:
            message = (
                f"store {self._store.name!r}: another process has prepared batch "
                f"{prepared.record.batch} up to the offsets {prepared.record.offsets}, but this "
                f"process has read it up to {offered}. Nothing is lost. Start the pipeline again"
            )
            raise CheckpointError(message)
        batch = prepared.record.batch
        # After its commit, a compaction can replace the files of the batch. So only files that are
        # not committed yet must exist.
        if self._tables.recorded_batch() < batch:
            self._check_files(prepared.files, self._tables.table_directory, batch)
        if self._tables.dead_letters_batch() < batch:
            self._check_files(prepared.dead_letters, self._tables.dead_letters_directory, batch)

    def _check_files(self, files: Sequence[AddedFile], directory: Path, batch: int) -> None:
        """Check that the files exist that a prepared batch adds to a table."""
        missing = [file.path for file in files if not current_files().exists(directory / file.path)]
        if missing:
            message = (
                f"store {self._store.name!r}: {directory} has no file {missing[0]}, but the "
                f"checkpoint needs it for batch {batch}. They do not belong together. Restore both "
                "from one backup, or start again with an empty data directory"
            )
            raise ForeignCheckpoint(message)

    def _check_history(self, recorded: int) -> None:
        """Check that batch ``recorded`` has the same records in the checkpoint and in the table.

        If one of the two was restored and the pipeline ran again, their batches can have the same
        number and different records.
        """
        prepared, record = self._versions.prepared(recorded), self._tables.newest_record()
        if prepared is None or record is None or record.batch != recorded:
            return
        # Stream times are not compared, because `oriel clock --set` changes them in the checkpoint.
        if (prepared.record.offsets, prepared.record.counters) == (record.offsets, record.counters):
            return
        message = (
            f"store {self._store.name!r}: batch {recorded} of the checkpoint has other records "
            f"than batch {recorded} of the table. They do not belong together, because one of "
            "them was restored from a backup. Restore both from one backup, or compute the "
            f"store again from its topics with `oriel rebuild {quote(self._store.name)}`"
        )
        raise ForeignCheckpoint(message)

    def _check_table_batch(self, batch: int, recorded: int) -> None:
        """Check that the table is at the previous batch, or already has this batch."""
        # Without version n-1, the batch would start from an empty state. Its rows would lack all
        # earlier records, and replace complete rows in the table.
        if batch > 0 and self._prepared is None and self._previous(batch) is None:
            # A damaged version has its own message.
            self._versions.load(batch - 1)
            message = (
                f"store {self._store.name!r}: the checkpoint has no state version {batch - 1}. The "
                "topology did not have the store for a while, or its state was deleted. Compute "
                "the store again from its topics with `oriel rebuild "
                f"{quote(self._store.name)}`"
            )
            raise ForeignCheckpoint(message)
        # Batch n-1 is committed before Spark plans batch n. So the table is at n-1, or already at n
        # after a crash after step 4.
        if recorded in {batch - 1, batch}:
            return
        message = (
            f"store {self._store.name!r}: the checkpoint is at batch {batch}, but the table "
            f"is at batch {recorded}. They do not belong together, so a run would lose or repeat "
            "records. Restore both from one backup, or compute the store again from its topics "
            f"with `oriel rebuild {quote(self._store.name)}`"
        )
        raise ForeignCheckpoint(message)

    def _previous(self, batch: int) -> PreparedBatch | None:
        """Return the previous batch, None before the first or if its version is damaged.

        Its file is read only for the first batch after a start.
        """
        if batch == 0:
            return None
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self._versions.prepared(batch - 1)


def topology_recovery_point(stores: Iterable[StoreBatches]) -> RecoveryPoint | None:
    """Return the recovery point of a topology, None before the first batch.

    It is at the last batch of any store. If the stores of a topic do not have this batch yet, the
    topic has no records in it: it starts and ends where their last batch ended.
    """
    recovered = [store.recover() for store in stores]
    known = [point for point in recovered if point is not None]
    if not known:
        return None
    # Spark offers one batch to all stores. A crash can leave it prepared for some stores only.
    # Their versions have its end, so the other stores must compute it up to the same end.
    batch = max(point.batch for point in known)
    starts: Offsets = {}
    ends: Offsets = {}
    # In ascending order, so the ends of the last batch replace those of earlier batches. A store
    # without the last batch ends where this batch starts.
    for point in sorted(known, key=lambda point: point.batch):
        is_last = point.batch == batch
        starts |= point.starts if is_last else point.ends
        ends |= point.ends
    # If one store lacks the batch, Spark offers it again to all stores. The stores that have
    # prepared it do not compute it again.
    is_done = all(
        point is not None and point.batch == batch and point.is_done for point in recovered
    )
    time_ms = max(point.time_ms for point in known if point.batch == batch)
    # A start is unknown if the version before the batch is damaged. It is then replaced by the end,
    # because a store that has prepared the batch does not read its records again. Batch 0 has no
    # earlier entry in Spark's log, so nothing needs its starts.
    return RecoveryPoint(batch, ends | starts if batch else {}, ends, is_done, time_ms)
