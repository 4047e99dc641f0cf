"""One store's part of a micro-batch: compute, prepare, commit.

The order of effects, and what a crash between them means (docs/architecture.md):

    1. tasks write state segments and Parquet files      nothing refers to them
    2. ``state/<store>/<n>.json`` is written             batch n is decided
    3. the store's table is committed with batch id n    readers see it
    4. the dead letters are committed with batch id n
    5. Spark writes its commit log entry n               batch n is never offered again

A crash before 2 repeats the batch from state version n-1; after 2 only what is missing
of 3 and 4 is done. Each commit records the batch id, so none is done twice.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.checkpoint import PreparedBatch, StateVersions
from pipeline.grouping import RESULT_SCHEMA, group_report, group_with
from pipeline.plan import COUNTERS, KEY_GROUP, BatchPlan, GroupReport
from pipeline.row_steps import RowSteps
from pipeline.stamping import stamp_with
from pipeline.store_tables import StoreTables
from pipeline.topology import Store
from pipeline.windows import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    SlidingWindowEngine,
)
from storage.errors import ForeignCheckpoint
from storage.position import COMMIT_INFO_KEY, CommitRecord, Offsets
from storage.table import CHECKPOINT_INTERVAL, add_checkpoint


class StoreBatches:
    """Runs the batches of one store, in order."""

    def __init__(
        self,
        store: Store,
        tables: StoreTables,
        versions: StateVersions,
        *,
        tasks: int,
        tells_source_reasons: bool,
        sync: bool,
    ) -> None:
        """Run ``store`` with ``tasks`` engine tasks a batch."""
        self._store = store
        self._tables = tables
        self._versions = versions
        self._tasks = min(tasks, tables.definition.key_groups)
        self._tells_source_reasons = tells_source_reasons
        self._sync = sync
        self._steps: RowSteps | None = None
        self._last: tuple[int, PreparedBatch] | None = None
        self._maintenance = ThreadPoolExecutor(1, thread_name_prefix=f"maintain-{store.name}")

    def run(self, records: DataFrame, batch: int, ends: Offsets) -> PreparedBatch:
        """Bring batch ``batch`` into the tables, whatever of it is there already.

        Raises:
            ForeignCheckpoint: checkpoint and table are not at the same batch.
        """
        recorded = self._tables.recorded_batch()
        self._refuse_foreign(batch, recorded)
        prepared = self._versions.load(batch)
        if prepared is not None and not self._is_of(prepared, ends):
            if recorded == batch:
                message = (
                    f"store {self._store.name!r}: batch {batch} is committed up to "
                    f"{prepared.record.offsets}, but Spark's offset log now ends it at {ends}: "
                    "entries of it were lost. Going on would lose records; restore the checkpoint "
                    "from a backup, or start anew with an empty data folder"
                )
                raise ForeignCheckpoint(message)
            prepared = None
        if prepared is None:
            prepared = self._prepare(records, batch, ends)
            self._versions.save(batch, prepared)
        info = {COMMIT_INFO_KEY: prepared.record.to_json()}
        if recorded < batch:
            version = self._tables.commit(prepared.files, batch, info)
            if version % CHECKPOINT_INTERVAL == 0:
                self._maintenance.submit(add_checkpoint, self._tables.table_folder)
        self._tables.commit_dead_letters(prepared.dead_letters, batch)
        self._forget(batch, prepared)
        return prepared

    def close(self) -> None:
        """Wait for maintenance that is under way."""
        self._maintenance.shutdown()

    def _is_of(self, prepared: PreparedBatch, ends: Offsets) -> bool:
        """Whether a prepared batch holds the records that Spark offers as that batch."""
        topic = self._store.source.topic
        return prepared.record.offsets[topic] == ends.get(topic, {})

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
        if batch == 0:
            return None
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self._versions.load(batch - 1)

    def _prepare(self, records: DataFrame, batch: int, ends: Offsets) -> PreparedBatch:
        previous = self._previous(batch)
        if self._steps is None:
            self._steps = RowSteps(records, self._store, self._tables.definition.key_groups)
        plan = self._plan(batch, self._engine(self._steps), previous, ends)
        rows = self._steps.rows(records)
        stamped = rows.mapInArrow(stamp_with(plan), from_arrow_schema(plan.stamped_schema))
        grouped = stamped.repartitionById(self._tasks, "task").mapInArrow(
            group_with(plan), from_arrow_schema(RESULT_SCHEMA)
        )
        reports = [group_report(row.report) for row in grouped.collect()]
        return _prepared(plan, reports, previous, ends)

    def _engine(self, steps: RowSteps) -> SlidingWindowEngine:
        carried = pa.schema([KEY_GROUP])
        return SlidingWindowEngine(
            self._store.windows, self._store.aggregates, steps.values, carried
        )

    def _plan(
        self,
        batch: int,
        engine: SlidingWindowEngine,
        previous: PreparedBatch | None,
        ends: Offsets,
    ) -> BatchPlan:
        topic = self._store.source.topic
        return BatchPlan(
            store=self._store.name,
            topic=topic,
            batch=batch,
            tasks=self._tasks,
            engine=engine,
            grace_ms=self._store.windows.grace_ms,
            stream_time_ms=_clocks(previous, topic, ends),
            close_ms=previous.record.close_ms if previous else NEVER_CLOSED_MS,
            segments=previous.segments if previous else {},
            table=self._tables.table_folder,
            state=self._versions.folder,
            dead_letters=self._tables.dead_letters_folder,
            tells_source_reasons=self._tells_source_reasons,
            sync=self._sync,
        )

    def _forget(self, batch: int, prepared: PreparedBatch) -> None:
        """Drop what no replay can need: Spark may offer this batch again, never an older one."""
        previous = self._previous(batch)
        kept = [version for version in (previous, prepared) if version is not None]
        self._versions.forget_before(batch - 1, kept)
        self._last = (batch, prepared)


def _clocks(previous: PreparedBatch | None, topic: str, ends: Offsets) -> dict[int, int]:
    """Stream time of every partition that this batch knows.

    A partition that appears later starts at the slowest clock there is: windows that
    are final stay final.
    """
    known: dict[int, int] = {}
    if previous is not None:
        told = previous.record.stream_time_ms.get(topic, {})
        known = {int(partition): time for partition, time in told.items()}
    newcomer = min(known.values(), default=NO_STREAM_TIME_MS)
    return {int(p): known.get(int(p), newcomer) for p in ends.get(topic, {})}


def _prepared(
    plan: BatchPlan,
    reports: Sequence[GroupReport],
    previous: PreparedBatch | None,
    ends: Offsets,
) -> PreparedBatch:
    """Put the tasks' reports together; all of them carry the same stamps."""
    clocks = dict(plan.stream_time_ms)
    counters = dict(previous.record.counters) if previous else dict.fromkeys(COUNTERS, 0)
    stamps = reports[0].stamps if reports else []
    for stamp in stamps:
        clocks.update(stamp.stream_time_ms)
        for name, number in stamp.counters.items():
            counters[name] += number
    segments = {report.task: report.segments for report in reports} or plan.segments
    record = CommitRecord(
        batch=plan.batch,
        offsets={plan.topic: ends.get(plan.topic, {})},
        stream_time_ms={plan.topic: {str(p): time for p, time in sorted(clocks.items())}},
        close_ms=reports[0].close_ms if reports else plan.close_ms,
        counters=counters,
    )
    return PreparedBatch(
        record=record,
        segments=segments,
        files=[file for report in reports for file in report.files],
        dead_letters=[file for stamp in stamps for file in stamp.dead_letters],
        changed=sum(report.changed for report in reports),
        open_records=sum(report.open_records for report in reports),
    )
