"""One store's part of a micro-batch: compute, prepare, commit.

The order of effects, and what a crash between them means (docs/architecture.md):

    1. tasks write state segments and Parquet files      nothing refers to them
    2. ``state/<store>/<n>.json`` is written             batch n is decided
    3. the store's table is committed with batch id n    readers see it
    4. the dead letters are committed with batch id n
    5. Spark writes its commit log entry n               batch n is never offered again

A crash before 2 repeats the batch from state version n-1, and what its tasks wrote before is
never read. A crash after 2 repeats nothing: only what is missing of 3 and 4 is done, with the
files that ``<n>.json`` names. Each commit records the batch id in its own transaction, so one
that a crash left unknown to us is found in the table and skipped. In another order a crash
could lose or repeat records: with 3 before 2, batch n would be in the table and then computed
again, and the state that batch n+1 starts from might not be the one that the table's rows are of.
"""

from collections.abc import Sequence

from oriel.pipeline.commit.checkpoint import StateVersions
from oriel.pipeline.commit.store_tables import StoreTables
from oriel.pipeline.plan import BatchPlan, JoinPlan, PreparedBatch, Segments, StorePlans
from oriel.pipeline.tasks import (
    Counters,
    FolderFiles,
    Reports,
    StoreWork,
    WindowsReport,
    count_batch,
)
from oriel.storage import COMMIT_INFO_KEY, CommitRecord, ForeignCheckpoint, Offsets


def prepared_batch(
    plan: BatchPlan,
    joins: Sequence[JoinPlan],
    reports: Sequence[WindowsReport],
    previous: PreparedBatch | None,
    ends: Offsets,
) -> PreparedBatch:
    """Put together what the window engine's tasks report of one batch.

    A batch without any partition has no tasks: it leaves everything as it was.

    Raises:
        RecordsMiscounted: a record was lost or used twice on its way.
    """
    # Each of them was sent all reports of the tasks in front, so all have the same ones.
    upstream = reports[0].upstream if reports else Reports()
    clocks = upstream.clocks_after(plan.clocks)
    counted = count_batch(
        plan.store,
        plan.batch,
        [
            *(report.counters for report in upstream.stamps),
            *(report.counters for report in upstream.joins),
            *(report.counters for report in reports),
        ],
    )
    totals = previous.record.counters if previous else {}
    has_results = any(plan.origins) and bool(reports)
    record = CommitRecord(
        batch=plan.batch,
        offsets={clock.topic: ends.get(clock.topic, {}) for clock in plan.clock_plans},
        stream_time_ms={
            name: {str(p): time_ms for p, time_ms in sorted(partitions.items())}
            for name, partitions in clocks.items()
        },
        close_ms=reports[0].close_ms if reports else plan.close_ms,
        counters=(Counters(**totals) + counted).as_dict(
            with_results=has_results or "late_results" in totals
        ),
    )
    stamp_letters = [file for stamp in upstream.stamps for file in stamp.dead_letters]
    return PreparedBatch(
        record=record,
        segments={report.task: report.segments for report in reports} or plan.segments,
        join_segments={join.input_number: _segments(join, upstream) for join in joins},
        files=[file for report in reports for file in report.files],
        dead_letters=[*stamp_letters, *(file for r in reports for file in r.dead_letters)],
        changed=sum(report.changed for report in reports),
        open_records=sum(report.open_records for report in reports)
        + sum(report.open_records for report in upstream.joins),
    )


def _segments(join: JoinPlan, upstream: Reports) -> Segments:
    """The state files of a join's tasks after the batch."""
    by_task = {
        report.task: report.segments
        for report in upstream.joins
        if report.input_number == join.input_number
    }
    return by_task or join.segments


class StoreBatches:
    """Runs the batches of one store, in order."""

    def __init__(
        self, plans: StorePlans, tables: StoreTables, versions: StateVersions, *, tasks: int
    ) -> None:
        """Run the store of ``plans`` with ``tasks`` tasks a stage, at most one a key group."""
        self.plans = plans
        self._store = plans.store
        self._tables = tables
        self._versions = versions
        key_groups = tables.definition.key_groups
        self._tasks = min(tasks, key_groups)
        self._files = FolderFiles(
            tables.table_folder, versions.folder, tables.dead_letters_folder, versions.sync
        )
        plans.select_columns(key_groups)
        self._last: tuple[int, PreparedBatch] | None = None
        #: The batch that was begun, if an earlier run of the pipeline has decided it.
        self._decided: PreparedBatch | None = None

    def begin(self, batch: int, ends: Offsets) -> StoreWork | None:
        """What is to be computed for batch ``batch``; None if it is decided already.

        Raises:
            ForeignCheckpoint: checkpoint and table are not at the same batch.
            InvalidTopology: a partition's number is too large for a join of streams.
        """
        recorded = self._tables.recorded_batch()
        self._refuse_foreign(batch, recorded)
        self._decided = self._versions.load(batch) if self._last is None else None
        if self._decided is not None and not self._is_of(self._decided, ends):
            # Spark forgot where the batch ends (its offset log entry was lost before it was on
            # disk) and ended it anew. While nothing is committed, it is simply another batch.
            if recorded == batch:
                message = (
                    f"store {self._store.name!r}: batch {batch} is committed up to "
                    f"{self._decided.record.offsets}, but Spark's offset log now ends it at "
                    f"{ends}: entries of it were lost. Going on would lose records; restore the "
                    "checkpoint from a backup, or start anew with an empty data folder"
                )
                raise ForeignCheckpoint(message)
            self._decided = None
        if self._decided is not None:
            return None
        # Nothing refers to what the batch's tasks write.
        previous = self._previous(batch)
        plan, joins = self.plans.plan(batch, self._files, self._tasks, previous, ends)
        for join in joins:
            join.refuse_places(ends)
        return StoreWork(self.plans, plan, joins)

    def finish(
        self,
        batch: int,
        ends: Offsets,
        computed: tuple[StoreWork, Sequence[WindowsReport]] | None,
    ) -> PreparedBatch:
        """Bring batch ``batch`` into the tables, whatever of it is there already.

        ``computed`` is what ``begin`` gave, and the reports of its tasks.

        Raises:
            RecordsMiscounted: a record was lost or used twice on its way; nothing is committed.
        """
        previous = self._previous(batch)
        if computed is None:
            assert self._decided is not None
            prepared = self._decided
        else:
            work, reports = computed
            prepared = prepared_batch(work.plan, work.joins, reports, previous, ends)
            # Decision 0003: from here on the batch is decided. After a crash it is committed as
            # the file says and never computed again, so that the table and the next batch's
            # state are of the same computation.
            tables = [self._tables.table_folder, self._tables.dead_letters_folder]
            self._versions.save(batch, prepared, tables if prepared.dead_letters else tables[:1])
        if self._tables.recorded_batch() < batch:
            info = {COMMIT_INFO_KEY: prepared.record.to_json()}
            self._tables.commit(prepared.files, batch, info)
        # Whether it is there already, its own table says: a crash may lie between the commits.
        self._tables.commit_dead_letters(prepared.dead_letters, batch)
        # Spark offers this batch again until its commit log has it, but never an older one.
        replayable = [version for version in (previous, prepared) if version is not None]
        self._versions.forget_before(batch - 1, replayable)
        self._last = (batch, prepared)
        return prepared

    def recorded_batch(self) -> int:
        """The last batch in the store's table, -1 before the first."""
        return self._tables.recorded_batch()

    def _is_of(self, prepared: PreparedBatch, ends: Offsets) -> bool:
        """Whether a prepared batch holds the records that Spark offers as that batch."""
        return prepared.record.offsets == {t: ends.get(t, {}) for t in self._store.topics}

    def _refuse_foreign(self, batch: int, recorded: int) -> None:
        """Go on only if the table is exactly at the batch before, or has this one already."""
        if batch > 0 and self._previous(batch) is None:
            message = (
                f"store {self._store.name!r}: the checkpoint has no state version {batch - 1}. The "
                "store is new in a topology that has run before, or its state was removed; start "
                "the topology anew with an empty data folder"
            )
            raise ForeignCheckpoint(message)
        if recorded in {batch - 1, batch}:
            return
        message = (
            f"store {self._store.name!r}: the checkpoint is at batch {batch}, the table at batch "
            f"{recorded}. They do not belong together, so going on would lose or repeat records. "
            "Restore the one that is older from a backup, or start anew with an empty data folder"
        )
        raise ForeignCheckpoint(message)

    def _previous(self, batch: int) -> PreparedBatch | None:
        """The batch before, None before the first; read from its file only after a start."""
        if batch == 0:
            return None
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self._versions.load(batch - 1)
