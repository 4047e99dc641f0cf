"""One store's part of a micro-batch: compute, prepare, commit.

The order of effects, and what a crash between them means (docs/contributing/architecture.md):

    1. tasks write state segments and Parquet files      nothing refers to them
    2. ``state/<store>/<n>.json`` is written             batch n is decided
    3. the store's table is committed with batch id n    readers see it
    4. the dead letters are committed with batch id n
    5. Spark writes its commit log entry n               batch n is never offered again

A sink has no table: 3 is that its records are published from the state segments, and noted
(``sink_topic``). After a crash between the two, a marker in Kafka shows what is published.

A crash before 2 repeats the batch from state version n-1, and what its tasks wrote before is
never read. A crash after 2 repeats nothing: only what is missing of 3 and 4 is done, with the
files that ``<n>.json`` names. Each commit records the batch id in its own transaction, so one
that a crash left unknown to us is found in the table and skipped. In another order a crash
could lose or repeat records: with 3 before 2, batch n would be in the table and then computed
again, and the state that batch n+1 starts from might not be the one that the table's rows are of.

Before each of these effects the process looks whether another has taken the pipeline over, and each
does no harm if it comes late all the same (decision 0031).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from oriel.pipeline.commit.resumption import Resumption
from oriel.pipeline.commit.sink_topic import SinkTopic
from oriel.pipeline.commit.store_tables import StoreTables
from oriel.pipeline.commit.versions import StateVersions
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.hops import ReadBlocks
from oriel.pipeline.language import of_topics
from oriel.pipeline.plan import (
    NO_CLOCK_NOTES,
    NO_WALL_CLOCK,
    BatchPlan,
    ClockNotes,
    JoinPlan,
    PreparedBatch,
    Segments,
    StorePlans,
    WallClock,
)
from oriel.pipeline.tasks import Counters, Reports, StoreWork, count_batch
from oriel.pipeline.windows import NOTHING_OBSERVED_MS
from oriel.storage import (
    CommitRecord,
    ForeignCheckpoint,
    Offsets,
    current_files,
)
from oriel.storage.delta import AddedFile


def prepared_batch(
    plan: BatchPlan,
    joins: Sequence[JoinPlan],
    reports: Reports,
    previous: PreparedBatch | None,
    ends: Offsets,
) -> PreparedBatch:
    """Return the prepared batch from the reports of all tasks of a store.

    A batch without any partition has no tasks: it leaves everything as it was.

    Raises:
        RecordsMiscounted: a record was lost or used twice on its way.
    """
    clocks = reports.clocks_after(plan.clocks)
    counted = count_batch(plan.store, plan.batch, reports.counters)
    totals = previous.record.counters if previous else {}
    has_results = any(plan.origins) and bool(reports.stores)
    record = CommitRecord(
        batch=plan.batch,
        offsets={
            topic: ends.get(topic, {})
            for topic in (*(clock.topic for clock in plan.clock_plans), *plan.topics_in_front)
        },
        stream_time_ms={
            name: {str(p): time_ms for p, time_ms in sorted(partitions.items())}
            for name, partitions in clocks.items()
        },
        close_ms=reports.stores[0].close_ms if reports.stores else plan.close_ms,
        counters=(Counters(**totals) + counted).as_dict(
            with_results=has_results or "late_results" in totals
        ),
        observed_ms=max(
            previous.record.observed_ms if previous else NOTHING_OBSERVED_MS,
            *(report.observed_ms for report in reports.stores),
            NOTHING_OBSERVED_MS,
        ),
    )
    stream_letters = [file for report in reports.streams for file in report.dead_letters]
    return PreparedBatch(
        record=record,
        segments={report.task: report.segments for report in reports.stores} or plan.segments,
        join_segments={join.number: _segments(join, reports) for join in joins},
        files=[file for report in reports.stores for file in report.files],
        dead_letters=[*stream_letters, *(file for r in reports.stores for file in r.dead_letters)],
        changed=sum(report.changed for report in reports.stores),
        open_records=sum(report.open_records for report in reports.stores)
        + sum(report.open_records for report in reports.joins),
        clock_notes=_clock_notes(plan, reports, previous),
    )


def _clock_notes(plan: BatchPlan, reports: Reports, previous: PreparedBatch | None) -> ClockNotes:
    """What the batch tells of its clocks."""
    before = previous.clock_notes if previous else NO_CLOCK_NOTES
    spoke = reports.spoke()
    idle = plan.idle(spoke)
    # Without windows nothing is held open.
    is_windowed = plan.windows.kind != "none"
    clocks = reports.clocks_after(plan.clocks)
    times_ms = plan.close_times(clocks, spoke) if is_windowed else {}
    return ClockNotes(
        now_ms=plan.wall_clock.now_ms,
        max_ahead_ms=plan.wall_clock.settings.max_ahead_ms,
        heard_ms={
            name: {
                str(p): plan.wall_clock.now_ms if p in spoke.get(name, ()) else heard_ms
                for p, heard_ms in sorted(partitions.items())
            }
            for name, partitions in plan.heard_ms.items()
        },
        idle=idle,
        idle_times=before.idle_times
        + sum(len(set(own).difference(before.idle.get(name, ()))) for name, own in idle.items()),
        held_by=min(times_ms, key=times_ms.__getitem__, default=None),
        mended=before.mended,
    )


def _segments(join: JoinPlan, reports: Reports) -> Segments:
    """The state files of a join's tasks after the batch."""
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
        """Run the store of ``plans`` with ``tasks`` tasks a stage, at most one a key group.

        ``on_cluster``: some of them run on other machines.
        """
        self.plans = plans
        self._store = plans.store
        self._tables = tables
        self._versions = versions
        key_groups = tables.definition.key_groups
        self._tasks = min(tasks, key_groups)
        self._files = tables.task_files(
            tables.table_folder,
            versions.folder,
            tables.dead_letters_folder,
            versions.sync,
            on_cluster,
        )
        plans.select_columns(key_groups)
        self._last: tuple[int, PreparedBatch] | None = None
        #: The batch that was begun, if an earlier run of the pipeline has decided it.
        self._decided: PreparedBatch | None = None

    def decided_notes(self, batch: int) -> ClockNotes | None:
        """By what batch ``batch`` was judged, if an earlier run of the pipeline has decided it."""
        decided = self._versions.decided(batch) if self._last is None else None
        return None if decided is None else decided.clock_notes

    def recover(self) -> Resumption | None:
        """The last batch that this store has decided or committed, None before the first.

        A version that a power loss has damaged is made anew: if the table doesn't have its batch,
        that is any batch again, and if it has, then one that ends where the table says, of which
        only the state is missing. For both the version before it is needed.

        Raises:
            CheckpointError: that one is damaged, too.
            ForeignCheckpoint: the table's batch is another one than the checkpoint's.
        """
        recorded, batch = self._tables.recorded_batch(), self._versions.newest()
        self._refuse_other_history(recorded)
        prepared = self._versions.decided(batch)
        if prepared is None and batch > 0:
            batch -= 1
            prepared = self._versions.decided(batch)
            if prepared is None:
                self._versions.load(batch + 1)
        elif prepared is None:
            batch = -1
        ends: Offsets = {} if prepared is None else prepared.record.offsets
        if recorded == batch + 1:
            record = self._tables.newest_record()
            if record is not None and record.batch == recorded:
                return Resumption(recorded, ends, record.offsets, is_done=False)
        if prepared is None:
            return None
        before = self._versions.decided(batch - 1)
        if before is not None and self._tables.dead_letters_batch() < batch - 1:
            # Their table, too, may have lost its newest entry, and no batch will look for it.
            self._versions.check_epoch()
            self._refuse_missing(before.dead_letters, self._tables.dead_letters_folder, batch - 1)
            self._tables.commit_dead_letters(before.dead_letters, batch - 1)
        is_done = recorded == batch and (
            not prepared.dead_letters or self._tables.dead_letters_batch() >= batch
        )
        starts = {} if before is None else before.record.offsets
        return Resumption(batch, starts, ends, is_done, prepared.clock_notes.now_ms)

    def begin(
        self, batch: int, ends: Offsets, wall_clock: WallClock = NO_WALL_CLOCK
    ) -> StoreWork | None:
        """What is to be computed for batch ``batch``; None if it is decided already.

        Raises:
            Fenced: another process has taken over.
            ForeignCheckpoint: checkpoint and table are not at the same batch.
            CheckpointError: somebody else has decided the batch, and it ends elsewhere.
            InvalidTopology: a partition's number is too large for a join of streams.
        """
        self._versions.check_epoch()
        recorded = self._tables.recorded_batch()
        self._decided = self._versions.decided(batch) if self._last is None else None
        self._refuse_foreign(batch, recorded)
        if self._decided is not None:
            self._refuse_taken(self._decided, ends)
            return None
        # Nothing refers to what the batch's tasks write.
        previous = self._previous(batch)
        plan, joins = self.plans.plan(batch, self._files, self._tasks, previous, ends, wall_clock)
        for join in joins:
            join.refuse_places(ends)
        return StoreWork(self.plans, plan, joins)

    def finish(
        self,
        batch: int,
        ends: Offsets,
        computed: tuple[StoreWork, Reports] | None,
        blocks: ReadBlocks | None = None,
    ) -> PreparedBatch:
        """Bring batch ``batch`` into the tables, whatever of it is there already.

        ``computed`` is what ``begin`` gave, and the reports of its tasks; ``blocks`` are the
        blocks of the log that the batch reads.

        Raises:
            RecordsMiscounted: a record was lost or used twice on its way; nothing is committed.
            Fenced: another process has taken over; nothing is committed any more.
        """
        previous = self._previous(batch)
        if computed is None:
            assert self._decided is not None
            prepared = self._decided
        else:
            work, reports = computed
            computed_batch = prepared_batch(work.plan, work.joins, reports, previous, ends)
            computed_batch = computed_batch.with_blocks(previous, blocks or {})
            # Decision 0003: from here on the batch is decided. After a crash it is committed as
            # the file says and not computed again, so that the table and the next batch's
            # state are of the same computation.
            tables = [self._tables.table_folder, self._tables.dead_letters_folder]
            folders = tables if computed_batch.dead_letters else tables[:1]
            prepared = self._versions.decide(batch, computed_batch, folders)
            if prepared is not computed_batch:
                self._refuse_taken(prepared, ends)
        # Each entry is created and never put over another, so after a look that came too early
        # the tables refuse a batch that a successor has committed (decision 0031).
        self._versions.check_epoch()
        if self._tables.recorded_batch() < batch:
            # Others may have vacuumed what no version names yet; nobody could read the table then.
            self._refuse_missing(prepared.files, self._tables.table_folder, batch)
            self._tables.commit(prepared, batch)
        # Whether it is there already, its own table says: a crash may lie between the commits.
        self._versions.check_epoch()
        self._tables.commit_dead_letters(prepared.dead_letters, batch)
        # Spark offers this batch again until its commit log has it, but never an older one.
        replayable = [version for version in (previous, prepared) if version is not None]
        self._versions.forget_before(batch - 1, replayable)
        self._last = (batch, prepared)
        return prepared

    def ends_before(self, batch: int) -> Offsets:
        """Where the batch before ``batch`` ended."""
        previous = self._previous(batch)
        return {} if previous is None else previous.record.offsets

    def decided(self, batch: int) -> PreparedBatch | None:
        """What batch ``batch`` was decided to be; None if it is not, or is forgotten."""
        return self._versions.decided(batch)

    def recorded_batch(self) -> int:
        """The last batch in the store's table, -1 before the first."""
        return self._tables.recorded_batch()

    def _refuse_taken(self, decided: PreparedBatch, ends: Offsets) -> None:
        """Go on with a batch that another process has decided only if it can be committed.

        It must hold the records that Spark offers as that batch. A start makes Spark's offset log
        out of what is decided, so it doesn't only if a process that was suspended has decided it
        since: its last effect, as it is fenced off. And its files must be there, which they are
        not where the table's folder is of a backup.
        """
        # Of stores' rows it holds those that these stores have decided.
        offered = {topic: ends.get(topic, {}) for topic in self.plans.topics}
        if of_topics(decided.record.offsets) != offered:
            message = (
                f"store {self._store.name!r}: another process has prepared batch "
                f"{decided.record.batch} up to the offsets {decided.record.offsets}, but this "
                f"process has read it up to {offered}. Nothing is lost. Start the pipeline again"
            )
            raise CheckpointError(message)
        batch = decided.record.batch
        if self._tables.recorded_batch() < batch:
            self._refuse_missing(decided.files, self._tables.table_folder, batch)
        if self._tables.dead_letters_batch() < batch:
            self._refuse_missing(decided.dead_letters, self._tables.dead_letters_folder, batch)

    def _refuse_missing(self, files: Sequence[AddedFile], folder: Path, batch: int) -> None:
        """Go on only if the files that a decided batch is to add to a table are there."""
        missing = [file.path for file in files if not current_files().exists(folder / file.path)]
        if missing:
            message = (
                f"store {self._store.name!r}: {folder} has no file {missing[0]}, but the "
                f"checkpoint needs it for batch {batch}. They do not belong together. Restore both "
                "from one backup, or start again with an empty data directory"
            )
            raise ForeignCheckpoint(message)

    def _refuse_other_history(self, recorded: int) -> None:
        """Go on only if the checkpoint and the table have the same batch of that number.

        If one of them was restored and the pipeline ran again, both can have a batch of a number
        with other records.
        """
        prepared, record = self._versions.decided(recorded), self._tables.newest_record()
        if prepared is None or record is None or record.batch != recorded:
            return
        # Not the clocks: `oriel clock --set` changes those of the checkpoint.
        if (prepared.record.offsets, prepared.record.counters) == (record.offsets, record.counters):
            return
        message = (
            f"store {self._store.name!r}: batch {recorded} of the checkpoint has other records "
            f"than batch {recorded} of the table. They do not belong together, because one of "
            "them was restored from a backup. Restore both from one backup, or compute the "
            f"store again from its topics with `oriel rebuild {quote(self._store.name)}`"
        )
        raise ForeignCheckpoint(message)

    def _refuse_foreign(self, batch: int, recorded: int) -> None:
        """Go on only if the table is exactly at the batch before, or has this one already."""
        if batch > 0 and self._decided is None and self._previous(batch) is None:
            # One that is damaged is told as such.
            self._versions.load(batch - 1)
            message = (
                f"store {self._store.name!r}: the checkpoint has no state version {batch - 1}. The "
                "topology did not have the store for a while, or its state was deleted. Compute "
                "the store again from its topics with `oriel rebuild "
                f"{quote(self._store.name)}`"
            )
            raise ForeignCheckpoint(message)
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
        """The batch before, None before the first or if it is damaged; read only after a start."""
        if batch == 0:
            return None
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self._versions.decided(batch - 1)


def last_batch(stores: Iterable[StoreBatches]) -> Resumption | None:
    """Where a topology goes on: at the last batch of any of its stores, None before the first.

    A topic of stores that are a batch behind has its end of then: it gets no records in it.
    """
    recovered = [store.recover() for store in stores]
    known = [resumption for resumption in recovered if resumption is not None]
    if not known:
        return None
    batch = max(resumption.batch for resumption in known)
    starts: Offsets = {}
    ends: Offsets = {}
    for resumption in sorted(known, key=lambda resumption: resumption.batch):
        is_last = resumption.batch == batch
        starts |= resumption.starts if is_last else resumption.ends
        ends |= resumption.ends
    is_done = all(
        resumption is not None and resumption.batch == batch and resumption.is_done
        for resumption in recovered
    )
    # A start is not known where a version is damaged that only stores need which have decided the
    # batch: they don't read it again.
    time_ms = max(resumption.time_ms for resumption in known if resumption.batch == batch)
    return Resumption(batch, ends | starts if batch else {}, ends, is_done, time_ms)
