"""Run a topology with one streaming query that computes all stores batch by batch."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from oriel.pipeline.commit import (
    Checkpoint,
    Maintenance,
    NewestPrepared,
    Publish,
    RecoveryPoint,
    SinkDefinition,
    SinkTopic,
    StoreBatches,
    StoreTables,
    check_log,
    newest_prepared,
    remove_old_generations,
    removed_stores,
    store_definition,
    topology_recovery_point,
)
from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.disk_errors import user_error
from oriel.pipeline.errors import CheckpointError, Fenced, InvalidTopology
from oriel.pipeline.hops import decoded_schema
from oriel.pipeline.language import (
    AggregatedRows,
    Input,
    Source,
    StoreSource,
    Topology,
    arrow_schema,
    of_topics,
)
from oriel.pipeline.plan import (
    NO_LIMITS,
    PreparedBatch,
    StorePlans,
    WallClock,
    WallClockLimits,
    reasons_by_store,
)
from oriel.pipeline.rows import RowSteps, row_steps
from oriel.pipeline.run.changes import Defined, check_changes, check_topology
from oriel.pipeline.run.computation import Computation
from oriel.pipeline.run.final_rows import FinalRows, check_readers
from oriel.pipeline.run.planned_batch import RARE_LOGS, planned_batch
from oriel.pipeline.run.publishing import Publisher
from oriel.pipeline.run.rebuild import Rebuild
from oriel.pipeline.run.run_report import note_rebuilt
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import first_line, generated_code, no_rows, scratch_directory
from oriel.storage import DataLayout, Offsets, StoreDefinition, is_sink_name, say
from oriel.storage.delta import MaintenanceSettings, TableMaintenance

OnBatch = Callable[[int, dict[str, PreparedBatch]], None]


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run.

    Args:
        data: the directory of tables and checkpoints.
        application: the name of the pipeline in it.
        trigger_ms: the least ms between the starts of two batches. With 0, a batch starts as soon
            as records exist. None to process all records and stop.
        tasks: the number of tasks after each shuffle. It can change with every start.
        key_groups: the key groups of new stores.
        sync: whether files are forced to disk before another file refers to them.
        publish_options: options of Kafka's Java client for the output cluster, or None.
        clocks: how wall-clock time limits the stream times of partitions.
        on_cluster: whether tasks run on other machines, with the same paths to all files.
        upkeep: the settings of the maintenance of tables.
    """

    data: Path
    application: str
    trigger_ms: int | None
    tasks: int
    key_groups: int = 64
    sync: bool = True
    publish_options: Mapping[str, str] | None = None
    clocks: WallClockLimits = NO_LIMITS
    on_cluster: bool = False
    upkeep: MaintenanceSettings = field(default_factory=MaintenanceSettings)


class PipelineRun:
    """One run of a topology, from ``start`` until its query ends."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        log: Log,
        settings: RunSettings,
        rebuild: Sequence[str] = (),
    ) -> None:
        """Open the checkpoint and the tables, and compute new stores up to the batch of the others.

        With ``rebuild``, only open and compute these stores again, without a ``start``.

        Raises:
            KafkaUnavailable: the brokers do not respond.
            InvalidTopology: a step does not fit the schema, or a store of ``rebuild`` does not
                exist.
            AlreadyRunning, CheckpointError, ForeignCheckpoint, IncompatibleStore: the pipeline
                cannot continue with the content of the data directory.
        """
        self._spark = spark
        self._log = log
        self._settings = settings
        self._topology = topology
        self._waves = topology.levels
        check_topology(topology, settings.publish_options, rebuild)
        self._opened: dict[str, StoreTables] = {}
        self._decoders = {source: log.decoder(source) for source in topology.sources}
        self._failure: BaseException | None = None
        #: Duration of the last batch in seconds, by phase.
        self.phase_seconds: dict[str, float] = {}
        self._since_ms = wall_clock_ms()
        plans = self._plans()
        self.computation = Computation(log, self._decoders, plans)
        #: The last batch that ran, and the offsets at which it ended.
        self._last_ends: tuple[int, Offsets] | None = None
        #: Where the first query continues.
        self._recovery_point: RecoveryPoint | None = None
        self._layout = DataLayout(settings.data)
        folder = self._layout.checkpoint(settings.application)
        self._publisher = Publisher(settings.publish_options or {}, folder, sync=settings.sync)
        self._checkpoint = Checkpoint(folder, sync=settings.sync, scratch=scratch_directory())
        try:
            identity = log.identity(spark)
            check_log(folder, identity, sync=settings.sync)
            wanted = [plan for plan in plans if not rebuild or plan.store.name in rebuild]
            # In the order of the topology, a store follows the stores whose rows it reads.
            for plan in wanted if rebuild else ():
                note_rebuilt(folder, plan.store.name, self._rebuild(plan, rebuild))
            # All stores are checked before the first is computed, which can be slow.
            defined = map(self._with_definition, plans)
            check_changes(self._layout, self._checkpoint, topology, defined, rebuild)
            tables = [self._tables(plan) for plan in wanted]
            # A rebuild reads the whole log again, and is a solution if the log has changed.
            for store_tables in () if rebuild else tables:
                last = self._checkpoint.versions(store_tables.definition.state_name).last_prepared()
                log.refuse_changed(store_tables.definition.name, last.blocks if last else {})
            self._stores: dict[str, StoreBatches] = {}
            for plan, store_tables in zip(wanted, tables, strict=True):
                self._stores[plan.store.name] = self._open(plan, store_tables)
            self._final_rows = FinalRows(self._opened, self._stores)
            if not rebuild:
                self._log_removed_stores()
                self._recovery_point = topology_recovery_point(self._stores.values())
                self._checkpoint.prepare_spark(self._topics, self._recovery_point)
        except BaseException:
            self._checkpoint.close()
            raise
        self._maintenance = self._new_maintenance()

    def start(self, on_batch: OnBatch) -> StreamingQuery:
        """Start the streaming query, and call ``on_batch`` for every committed batch.

        Raises:
            PipelineError: the log cannot be read from the end of the last batch.
        """
        at = self._recovery_point
        read = {} if at is None else of_topics(at.ends if at.is_done else at.starts)
        self._log.open(self._spark, self._topics, read, self._checkpoint.folder)
        self._publish_again()

        def each_batch(rows: DataFrame, batch: int) -> None:
            try:
                on_batch(batch, self._run_batch(rows, batch))
            except BaseException as error:
                # Spark would show it as text inside a Java error, so keep the original error.
                self._failure = user_error(error)
                raise

        sources, topics = self._topology.sources, self._topics
        wait_for = topics if self._settings.trigger_ms == 0 else ()
        streams = [self._log.stream(self._spark, topic, sources, wait_for) for topic in topics]
        writer = (
            reduce(DataFrame.union, streams)
            .writeStream.foreachBatch(each_batch)
            .queryName(self._settings.application)
            .option("checkpointLocation", str(self._checkpoint.spark))
        )
        self._maintenance.start()
        # For rows that only name slices, Spark would generate code in each batch (decision 0091).
        generates = self.computation.needs_spark or not self._log.plans_slices
        with generated_code(self._spark, wanted=generates):
            pause_ms = self._settings.trigger_ms
            if pause_ms is None:
                return writer.trigger(availableNow=True).start()
            live = writer.options(**RARE_LOGS)
            return live.trigger(processingTime=f"{pause_ms} milliseconds").start()

    def note_first_offsets(self) -> None:
        """Keep the first offsets of the first query, once Spark has written them."""
        self._checkpoint.note_first_offsets()

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Return the counters of each store before the first batch of this run."""
        at = self._recovery_point
        if at is None:
            return {}
        batch = at.batch if at.is_done else at.batch - 1
        before = {name: store.decided(batch) for name, store in self._stores.items()}
        return {name: dict(b.record.counters) for name, b in before.items() if b is not None}

    @property
    def maintenance_failures(self) -> int:
        """Failed attempts to compact or clean up a table."""
        return self._maintenance.failures

    @property
    def failure(self) -> BaseException | None:
        """Why a batch failed, or None. If another process has taken over, this is the reason."""
        try:
            self._checkpoint.check_epoch()
        except Fenced as fenced:
            return fenced
        return self._failure

    @property
    def _topics(self) -> list[str]:
        """The topics in sorted order, because Spark identifies its sources by their order."""
        return sorted(self._topology.topics)

    def close(self) -> None:
        """End maintenance and release the lock of the checkpoint."""
        try:
            # A live run maintains the tables all the time, and other runs at their end.
            is_done = self._settings.trigger_ms is None and self.failure is None
            self._maintenance.close(finish=is_done)
        finally:
            self._publisher.close()
            self._checkpoint.close()

    def _plans(self) -> list[StorePlans]:
        """Check the steps and aggregates of every store before the first write."""
        empty = {source: self._no_records(source) for source in self._topology.sources}
        reasons = reasons_by_store(self._topology)
        plans: dict[str, StorePlans] = {}
        for store in self._topology.units:
            steps_of = partial(self._steps, empty, store.name)
            plans[store.name] = StorePlans(store, steps_of, reasons[store.name], plans)
        return list(plans.values())

    def _steps(
        self,
        empty: Mapping[Source, DataFrame],
        store: str,
        input_: Input | AggregatedRows,
        read: Source | pa.Schema,
    ) -> RowSteps:
        """Return Spark's steps for records of a source, results of a join, or aggregates."""
        if isinstance(read, StoreSource):
            read_schema = decoded_schema(pa.struct(list(arrow_schema(read.schema))))
            records = no_rows(self._spark, from_arrow_schema(read_schema))
        elif isinstance(read, Source):
            records = empty[read]
        else:
            records = no_rows(self._spark, from_arrow_schema(read))
        return row_steps(records, input_, store)

    def _defined(self, plans: StorePlans) -> StoreDefinition:
        """Return the definition of a store from the topology."""
        types = plans.columns
        key_groups = self._settings.key_groups
        return store_definition(plans.store, types, self._checkpoint.application, key_groups)

    def _with_definition(self, plans: StorePlans) -> Defined:
        return plans.store, self._sink(plans)[0] if is_sink_name(
            plans.store.name
        ) else self._defined(plans)

    def _sink(self, plans: StorePlans) -> tuple[SinkDefinition, Publish]:
        """Return the definition of a sink, and the function that publishes its batches."""
        defined = SinkDefinition.of(plans.store, self._settings.key_groups)
        return defined, partial(self._publisher.publish_records, plans)

    def _tables(self, plans: StorePlans) -> StoreTables | SinkTopic:
        """Open the tables of a store, or the topic of a sink. Create missing tables."""
        if is_sink_name(plans.store.name):
            sink, sync = self._sink(plans), self._settings.sync
            return SinkTopic(self._layout, self._checkpoint, *sink, sync=sync)
        types = plans.columns
        return StoreTables(self._layout, self._defined(plans), types, sync=self._settings.sync)

    def _open(self, plans: StorePlans, tables: StoreTables | SinkTopic) -> StoreBatches:
        """Open the state of a store. Compute a new store of a topology that has run."""
        versions = self._checkpoint.versions(tables.definition.state_name)
        is_empty = tables.recorded_batch() < 0 and versions.newest() < 0
        at = self._newest_prepared()
        if is_empty and at is not None and at.batch > 0:
            # Spark does not repeat batches before the last one.
            self._rebuild(plans)
            tables = self._tables(plans)
            versions = self._checkpoint.versions(tables.definition.state_name)
        remove_old_generations(self._layout, self._checkpoint, tables.definition)
        if isinstance(tables, StoreTables):
            self._opened[plans.store.name] = tables
        settings = self._settings
        return StoreBatches(
            plans, tables, versions, tasks=settings.tasks, on_cluster=settings.on_cluster
        )

    def _rebuild(self, plans: StorePlans, rebuilt: Sequence[str] = ()) -> PreparedBatch:
        """Compute one of the ``rebuilt`` stores, or a new one, up to the checkpoint's batch."""
        at = self._newest_prepared()
        if at is None:
            message = f"store {plans.store.name!r}: the pipeline has not run. Use `oriel run` first"
            raise CheckpointError(message)
        readers = self._topology.readers_of(plans.store.name)
        check_readers(self._layout, self._checkpoint, plans.store.name, readers, at.batch)
        rebuild = Rebuild(
            self._spark, self._log, self.computation, self._layout, self._checkpoint,
            self._settings.tasks, self._settings.sync,
            # A partition can become idle from now on, and was not idle before.
            WallClock(self._since_ms, self._since_ms, self._settings.clocks),
        )  # fmt: skip
        if is_sink_name(plans.store.name):
            prepared = rebuild.publish_all(plans, *self._sink(plans), at.batch, at.ends)
        else:
            prepared = rebuild.run(plans, self._defined(plans), at.batch, at.ends)
        if others := [reader for reader in readers if reader not in rebuilt]:
            line = (
                f"rebuild {plans.store.name}: stores {', '.join(others)} still use the rows from "
                "before the rebuild. If the rows changed, rebuild these stores also"
            )
            say("rebuild", line)
        return prepared

    def _newest_prepared(self) -> NewestPrepared | None:
        return newest_prepared(self._checkpoint.folder, [s.name for s in self._topology.units])

    def _log_removed_stores(self) -> None:
        """Log the stores that the topology does not have any more."""
        for store in removed_stores(self._checkpoint, self._stores):
            line = f"store {store} is not in the topology: its table stays as it is"
            if is_sink_name(store):
                line = f"{store} is not in the topology: no more records are written to the topic"
            say("store-left", line, level="warning", store=store)

    def _new_maintenance(self) -> Maintenance:
        """Return the maintenance of all tables."""
        settings = replace(self._settings.upkeep, sync=self._settings.sync)
        return Maintenance(
            {name: TableMaintenance(self._layout.table(name), settings) for name in self._opened},
            TableMaintenance(self._layout.dead_letters, settings),
            {name: tables.recorded_batch() for name, tables in self._opened.items()},
            self._checkpoint.check_epoch,
        )

    def _run_batch(self, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        began = time.perf_counter()
        ends, time_ms = planned_batch(self._spark, self._checkpoint.application)
        # Decision 0032: a batch has one wall-clock time (`current_timestamp()`) and one bound. If a
        # crash left the batch prepared for some stores, the other stores use the same values.
        wall_clock = WallClock(time_ms or wall_clock_ms(), self._since_ms, self._settings.clocks)
        notes = (store.prepared_notes(batch) for store in self._stores.values())
        decided = next((each for each in notes if each is not None), None)
        if decided is not None:
            wall_clock = wall_clock.as_prepared(decided)
        starts = self._starts(batch)
        self._log.look_for_losses(starts, ends)
        # Before the tasks read: bytes that change later then differ at the next start.
        blocks = self._log.read_blocks(starts, ends)
        seconds = {"plan": time.perf_counter() - began, "compute": 0.0, "commit": 0.0}
        prepared: dict[str, PreparedBatch] = {}
        for wave in self._waves:
            times = [time.perf_counter()]
            # The final rows of the stores of earlier waves are in their tables.
            final_rows, ends_of_rows = self._final_rows.of_batch(batch, prepared, wave)
            read_to = ends | ends_of_rows
            works_by_store = {
                name: self._stores[name].begin(batch, read_to, wall_clock) for name in wave
            }
            times.append(time.perf_counter())
            works = [work for work in works_by_store.values() if work is not None]
            reports = self.computation.run(rows, (starts, ends), works, wall_clock, final_rows)
            times.append(time.perf_counter())
            for name, work in works_by_store.items():
                computed = None if work is None else (work, reports[name])
                prepared[name] = self._stores[name].finish(batch, read_to, computed, blocks)
            times.append(time.perf_counter())
            for phase, (start, end) in zip(seconds, pairwise(times), strict=True):
                seconds[phase] += end - start
        self._last_ends = batch, ends
        committed = time.perf_counter()
        self._publish(batch, prepared)
        self._maintenance.batch_committed(batch)
        seconds["commit"] += time.perf_counter() - committed
        self.phase_seconds = seconds
        return prepared

    def _publish(self, batch: int, prepared: Mapping[str, PreparedBatch]) -> None:
        """Write the rows of a committed batch to the Kafka topics of its stores."""
        if not any(store.publications for store in self._topology.stores):
            return
        for store in self._topology.stores:
            tables = self._opened[store.name]
            self._publisher.publish(
                store.publications, tables.definition, tables.table_folder, prepared[store.name]
            )
        self._publisher.mark_published(batch)

    def _publish_again(self) -> None:
        """Write the rows of an unfinished last batch, because Spark does not repeat the batch."""
        at = self._recovery_point
        if at is None or not at.is_done or self._publisher.published_batch() >= at.batch:
            return
        prepared = {name: store.decided(at.batch) for name, store in self._stores.items()}
        decided = {name: each for name, each in prepared.items() if each is not None}
        self._publish(at.batch, decided)

    def _starts(self, batch: int) -> Offsets:
        """Return the offsets at which the previous batch ended."""
        if batch == 0:
            return {}
        if self._last_ends is not None and self._last_ends[0] == batch - 1:
            return self._last_ends[1]
        return self._checkpoint.end_offsets(batch - 1)

    def _no_records(self, source: Source) -> DataFrame:
        """Return an empty frame with the decoded columns of a source. This checks its schema."""
        decoder = self._decoders[source]
        if isinstance(decoder, BlockDecoder):
            return no_rows(self._spark, from_arrow_schema(decoder.schema))
        raw = no_rows(self._spark, self._log.raw_schema)
        try:
            return decoder.decode(raw)
        except PySparkException as error:
            message = f"{source}: the schema {source.schema!r} is not valid: {first_line(error)}"
            raise InvalidTopology(message) from error


def wall_clock_ms() -> int:
    """Return the wall-clock time in ms since 1970."""
    return time.time_ns() // 1_000_000
