"""Run a topology: one streaming query that brings every store forward batch by batch."""

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
    Publish,
    Resumption,
    SinkDefinition,
    SinkTopic,
    StoreBatches,
    StoreTables,
    decided_up_to,
    define,
    last_batch,
    remove_left,
    settle_log,
    stores_left,
)
from oriel.pipeline.decoding import BlockDecoder, refuse_ahead
from oriel.pipeline.errors import CheckpointError, Fenced, InvalidTopology
from oriel.pipeline.language import Input, Side, Source, Topology
from oriel.pipeline.plan import (
    UNPROTECTED,
    ClockSettings,
    PreparedBatch,
    StorePlans,
    WallClock,
    reasons_by_store,
)
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.run.disk_errors import in_words
from oriel.pipeline.run.publishing import Publisher, refuse_publications
from oriel.pipeline.run.rebuild import Rebuild
from oriel.pipeline.run.spark_runner import (
    SPARK_ERRORS,
    SparkRunner,
    refuse_failing,
    steps_of,
)
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import first_line, scratch_folder
from oriel.pipeline.tasks import LocalRunner, StoreWork, WindowsReport, run_stages
from oriel.storage import DataLayout, Offsets, StoreDefinition, is_sink_name, say
from oriel.storage.delta import TableUpkeep, UpkeepSettings

OnBatch = Callable[[int, dict[str, PreparedBatch]], None]


@dataclass(frozen=True)
class RunSettings:
    """How to run: where the data goes, how often, how wide.

    ``data`` is the folder of tables and checkpoints, ``application`` the name of the pipeline in
    it. ``trigger_ms`` is the least time between two batches, None for ``--once``: process what
    is there and stop. ``tasks`` is the number of tasks behind each shuffle; it may change with
    every start. ``key_groups`` is fixed when a store is made. ``sync``: files are forced to disk
    before anything refers to them. ``publish_options`` say to which Kafka cluster rows are
    written back, as Spark names its options (``kafka.*``); None: to none. ``clocks`` says how wall
    clock protects those of partitions. ``on_cluster``: tasks run on other machines, which have
    ``data`` and an event log under the same paths. ``upkeep``: how tables are kept small.
    """

    data: Path
    application: str
    trigger_ms: int | None
    tasks: int
    key_groups: int = 64
    sync: bool = True
    publish_options: Mapping[str, str] | None = None
    clocks: ClockSettings = UNPROTECTED
    on_cluster: bool = False
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)


class PipelineRun:
    """One run of a topology, from ``start`` until its query ends."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        log: Log,
        settings: RunSettings,
        rebuild: str | None = None,
    ) -> None:
        """Open the checkpoint and the tables; a store that is new is computed up to the others.

        With ``rebuild`` that store, and no other, is opened and computed anew; then there is
        nothing to ``start``.

        Raises:
            KafkaUnavailable: the brokers don't answer.
            InvalidTopology: a step does not fit the schema, or there is no store ``rebuild``.
            AlreadyRunning, CheckpointError, ForeignCheckpoint, IncompatibleStore: what is
                in the data folder can't be gone on with.
        """
        self._spark = spark
        self._log = log
        self._settings = settings
        self._topology = topology
        if settings.publish_options is None:
            writing = topology.units if rebuild is None else topology.sinks
            refuse_publications(u for u in writing if rebuild in {None, u.name})
        self._opened: dict[str, StoreTables] = {}
        names = [unit.name for unit in topology.units]
        if rebuild is not None and rebuild not in names:
            message = f"the topology has no store {rebuild!r}; it has {', '.join(names)}"
            raise InvalidTopology(message)
        self._decoders = {source: log.decoder(source) for source in topology.sources}
        self._failure: BaseException | None = None
        #: Seconds that the last batch took, by phase.
        self.phase_seconds: dict[str, float] = {}
        self._since_ms = wall_clock_ms()
        plans = self._plans()
        #: Whether a batch can run in this process: Arrow decodes all and runs all steps.
        self._runs_here = not any(plan.needs_spark for plan in plans) and all(
            isinstance(decoder, BlockDecoder) for decoder in self._decoders.values()
        )
        #: The last batch that ran, and where it ended.
        self._last_ends: tuple[int, Offsets] | None = None
        #: Where the first query goes on.
        self._resumption: Resumption | None = None
        self._layout = DataLayout(settings.data)
        folder = self._layout.checkpoint(settings.application)
        self._publisher = Publisher(
            spark, settings.publish_options or {}, folder, sync=settings.sync
        )
        self._checkpoint = Checkpoint(folder, sync=settings.sync, scratch=scratch_folder())
        try:
            identity = log.identity(spark)
            settle_log(folder, identity, sync=settings.sync)
            wanted = [plan for plan in plans if rebuild in {None, plan.store.name}]
            if rebuild is not None:
                self._rebuild(wanted[0])
            # All are looked at before one is computed, which may take long.
            tables = [self._tables(plan) for plan in wanted]
            self._stores = {
                plan.store.name: self._open(plan, of_store)
                for plan, of_store in zip(wanted, tables, strict=True)
            }
            if rebuild is None:
                self._leave_others()
                self._resumption = last_batch(self._stores.values())
                self._checkpoint.prepare_spark(self._topics, self._resumption)
        except BaseException:
            self._checkpoint.close()
            raise
        self._maintenance = self._maintained()

    def start(self, on_batch: OnBatch) -> StreamingQuery:
        """Start the streaming query; ``on_batch`` is told of every batch that is committed.

        Raises:
            PipelineError: the log can't be read on from where the last batch ended.
        """
        at = self._resumption
        read = {} if at is None else at.ends if at.is_done else at.starts
        self._log.open(self._spark, self._topics, read, self._checkpoint.folder)
        self._publish_again()

        def each_batch(rows: DataFrame, batch: int) -> None:
            try:
                on_batch(batch, self._run_batch(rows, batch))
            except BaseException as error:
                # Spark would show it as text inside a Java error; keep the real one.
                self._failure = in_words(error)
                raise

        streams = [
            self._log.stream(self._spark, topic, self._topology.sources) for topic in self._topics
        ]
        writer = (
            reduce(DataFrame.union, streams)
            .writeStream.foreachBatch(each_batch)
            .queryName(self._settings.application)
            .option("checkpointLocation", str(self._checkpoint.spark))
        )
        self._maintenance.start()
        if self._settings.trigger_ms is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._settings.trigger_ms} milliseconds").start()

    def note_first_offsets(self) -> None:
        """See ``Checkpoint``."""
        self._checkpoint.note_first_offsets()

    @property
    def maintenance_failures(self) -> int:
        """How often a table could not be compacted or cleaned up."""
        return self._maintenance.failures

    @property
    def failure(self) -> BaseException | None:
        """Why a batch failed, None if none did.

        Where another process has taken over, that is the reason, whatever was seen of it: a batch
        that is committed already, a file of Spark's that is there or is gone.
        """
        try:
            self._checkpoint.check_epoch()
        except Fenced as fenced:
            return fenced
        return self._failure

    @property
    def _topics(self) -> list[str]:
        """Spark knows its sources by their order, which must not follow that of the stores."""
        return sorted(self._topology.topics)

    def close(self) -> None:
        """End maintenance and give the checkpoint's lock back."""
        try:
            # A run that goes on tends the tables all the time; one that is done, at its end.
            is_done = self._settings.trigger_ms is None and self.failure is None
            self._maintenance.close(finish=is_done)
        finally:
            self._checkpoint.close()

    def _plans(self) -> list[StorePlans]:
        """Check every store's steps and aggregates, before anything is made."""
        empty = {source: self._no_records(source) for source in self._topology.sources}
        reasons = reasons_by_store(self._topology)
        return [
            StorePlans(store, partial(self._steps, empty, store.name), reasons[store.name])
            for store in self._topology.units
        ]

    def _steps(
        self,
        empty: Mapping[Source, DataFrame],
        store: str,
        origin: Input | Side,
        read: Source | pa.Schema,
    ) -> RowSteps:
        """Steps that Spark runs, over a source's records or a join's results."""
        if isinstance(read, Source):
            records = empty[read]
        else:
            records = self._spark.createDataFrame([], from_arrow_schema(read))
        return RowSteps(records, origin, store)

    def _defined(self, plans: StorePlans) -> StoreDefinition:
        """What the topology says of a store."""
        types = plans.assembly.engine.aggregate_types
        key_groups = self._settings.key_groups
        return define(plans.store, types, self._checkpoint.application, key_groups)

    def _sink(self, plans: StorePlans) -> tuple[SinkDefinition, Publish]:
        """What the topology says of a sink, and what publishes its batches."""
        defined = SinkDefinition.of(plans.store, self._settings.key_groups)
        return defined, partial(self._publisher.publish_records, plans)

    def _tables(self, plans: StorePlans) -> StoreTables | SinkTopic:
        """Open one store's tables, or a sink's topic, making what isn't there."""
        if plans.store.is_sink:
            sink, sync = self._sink(plans), self._settings.sync
            return SinkTopic(self._layout, self._checkpoint, *sink, sync=sync)
        types = plans.assembly.engine.aggregate_types
        return StoreTables(self._layout, self._defined(plans), types, sync=self._settings.sync)

    def _open(self, plans: StorePlans, tables: StoreTables | SinkTopic) -> StoreBatches:
        """Open one store's state; a store that is new in a topology that has run is computed."""
        versions = self._checkpoint.versions(tables.definition.state_name)
        is_empty = tables.recorded_batch() < 0 and versions.newest() < 0
        at = self._decided_up_to()
        if is_empty and at is not None and at[0] > 0:
            # Batches in front of the last one are not offered again.
            self._rebuild(plans)
            tables = self._tables(plans)
            versions = self._checkpoint.versions(tables.definition.state_name)
        remove_left(self._layout, self._checkpoint, tables.definition)
        if isinstance(tables, StoreTables):
            self._opened[plans.store.name] = tables
        settings = self._settings
        return StoreBatches(
            plans, tables, versions, tasks=settings.tasks, on_cluster=settings.on_cluster
        )

    def _rebuild(self, plans: StorePlans) -> None:
        """Compute one store up to the newest batch of the checkpoint."""
        at = self._decided_up_to()
        if at is None:
            message = f"store {plans.store.name!r}: nothing has run yet, begin with `oriel run`"
            raise CheckpointError(message)
        rebuild = Rebuild(
            self._spark, self._log, self._compute, self._layout, self._checkpoint,
            self._settings.tasks, self._settings.sync,
            # A partition may be silent from here on, but never was before.
            WallClock(self._since_ms, self._since_ms, self._settings.clocks),
        )  # fmt: skip
        if plans.store.is_sink:
            rebuild.publish_all(plans, *self._sink(plans), *at)
        else:
            rebuild.run(plans, self._defined(plans), *at)

    def _decided_up_to(self) -> tuple[int, Offsets] | None:
        return decided_up_to(self._checkpoint.folder, [s.name for s in self._topology.units])

    def _leave_others(self) -> None:
        """Say which stores are not in the topology any more."""
        for store in stores_left(self._checkpoint, self._stores):
            line = f"store {store} is not in the topology: its table stays as it is"
            if is_sink_name(store):
                line = f"{store} is not in the topology: nothing more is written to the topic"
            say("store-left", line, level="warning", store=store)

    def _maintained(self) -> Maintenance:
        """What keeps the tables of all stores small."""
        settings = replace(self._settings.upkeep, sync=self._settings.sync)
        return Maintenance(
            {name: TableUpkeep(self._layout.table(name), settings) for name in self._opened},
            TableUpkeep(self._layout.dead_letters, settings),
            {name: tables.recorded_batch() for name, tables in self._opened.items()},
            self._checkpoint.check_epoch,
        )

    def _run_batch(self, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        times = [time.perf_counter()]
        ends = self._checkpoint.end_offsets(batch)
        # Decision 0032: a batch has one wall clock and one bound. If a crash left it decided for
        # some stores, the others judge as they did.
        # It is Spark's, which is that of `current_timestamp()` as well.
        now_ms = self._checkpoint.batch_time_ms(batch) or wall_clock_ms()
        wall_clock = WallClock(now_ms, self._since_ms, self._settings.clocks)
        notes = (store.decided_notes(batch) for store in self._stores.values())
        decided = next((each for each in notes if each is not None), None)
        if decided is not None:
            wall_clock = wall_clock.as_decided(decided)
        begun = {name: store.begin(batch, ends, wall_clock) for name, store in self._stores.items()}
        times.append(time.perf_counter())
        stores = [work for work in begun.values() if work is not None]
        starts = self._starts(batch)
        self._log.look_for_losses(starts, ends)
        reports = self._compute(rows, starts, ends, stores, wall_clock) if stores else {}
        times.append(time.perf_counter())
        self._last_ends = batch, ends
        prepared = {}
        for name, work in begun.items():
            computed = None if work is None else (work, reports[name])
            prepared[name] = self._stores[name].finish(batch, ends, computed)
        self._publish(batch, prepared)
        self._maintenance.batch_committed(batch)
        times.append(time.perf_counter())
        spans = (end - start for start, end in pairwise(times))
        self.phase_seconds = dict(zip(("plan", "compute", "commit"), spans, strict=True))
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
        self._publisher.remember(batch)

    def _publish_again(self) -> None:
        """Write the last batch's rows again, if the process ended before all of them were written.

        Spark doesn't offer a batch again that all tables have.
        """
        at = self._resumption
        if at is None or not at.is_done or self._publisher.published_batch() >= at.batch:
            return
        prepared = {name: store.decided(at.batch) for name, store in self._stores.items()}
        decided = {name: each for name, each in prepared.items() if each is not None}
        self._publish(at.batch, decided)

    def _compute(
        self,
        rows: DataFrame,
        starts: Offsets,
        ends: Offsets,
        stores: Sequence[StoreWork],
        wall_clock: WallClock,
    ) -> dict[str, list[WindowsReport]]:
        """What the tasks of all stores report, here if the batch is small, else as a Spark job."""
        latest_ms = wall_clock.latest_ms
        if self._runs_here and self._log.is_small(starts, ends):
            return run_stages(LocalRunner(self._read(rows, starts, ends, latest_ms)), stores)
        runner = SparkRunner(rows, self._log, self._decoders, latest_ms)
        try:
            return run_stages(runner, stores)
        except SPARK_ERRORS as error:
            # Say so if it is an expression that fails on a record.
            steps = (each for work in stores for each in steps_of(work.plans, runner))
            refuse_failing(error, steps)
            raise

    def _starts(self, batch: int) -> Offsets:
        """Where a batch begins: where the one before it ended."""
        if batch == 0:
            return {}
        if self._last_ends is not None and self._last_ends[0] == batch - 1:
            return self._last_ends[1]
        return self._checkpoint.end_offsets(batch - 1)

    def _read(
        self, rows: DataFrame, starts: Offsets, ends: Offsets, latest_ms: int | None
    ) -> dict[Source, list[pa.Table]]:
        """A batch's decoded records in this process, a table for each partition."""
        records: dict[Source, list[pa.Table]] = {source: [] for source in self._decoders}
        for topic, raw in self._log.read(rows, starts, ends):
            for source, decoder in self._decoders.items():
                if source.topic == topic:
                    assert isinstance(decoder, BlockDecoder)
                    blocks = [decoder.decode(block) for block in raw]
                    records[source].append(refuse_ahead(pa.concat_tables(blocks), latest_ms))
        return records

    def _no_records(self, source: Source) -> DataFrame:
        """No record of a source, decoded: its schema is checked."""
        decoder = self._decoders[source]
        if isinstance(decoder, BlockDecoder):
            return self._spark.createDataFrame([], from_arrow_schema(decoder.schema))
        raw = self._spark.createDataFrame([], self._log.raw_schema)
        try:
            return decoder.decode(raw)
        except PySparkException as error:
            message = f"{source}: the schema {source.schema!r} can't be read: {first_line(error)}"
            raise InvalidTopology(message) from error


def wall_clock_ms() -> int:
    """Wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000
