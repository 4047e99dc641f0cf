"""Run a topology: one streaming query that brings every store forward batch by batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from oriel.pipeline.commit import (
    Checkpoint,
    Maintenance,
    StoreBatches,
    StoreTables,
    define,
)
from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Input, Side, Source, Topology
from oriel.pipeline.plan import PreparedBatch, StorePlans, reasons_by_store
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.run.spark_runner import (
    SPARK_ERRORS,
    SparkRunner,
    refuse_failing,
    steps_of,
)
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import first_line
from oriel.pipeline.tasks import LocalRunner, StoreWork, WindowsReport, run_stages
from oriel.storage import DataLayout, Offsets
from oriel.storage.delta import TableUpkeep, UpkeepSettings

OnBatch = Callable[[int, dict[str, PreparedBatch]], None]


@dataclass(frozen=True)
class RunSettings:
    """How to run: where the data goes, how often, how wide.

    ``data`` is the folder of tables and checkpoints, ``application`` the name of the pipeline in
    it. ``trigger_ms`` is the least time between two batches, None for ``--once``: process what
    is there and stop. ``tasks`` is the number of tasks behind each shuffle; it may change with
    every start. ``key_groups`` is fixed when a store is made. ``sync``: files are forced to disk
    before anything refers to them. ``upkeep``: how the tables are kept small (its ``sync`` is
    this one).
    """

    data: Path
    application: str
    trigger_ms: int | None
    tasks: int
    key_groups: int = 64
    sync: bool = True
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)


class PipelineRun:
    """One run of a topology, from ``start`` until its query ends."""

    def __init__(
        self, spark: SparkSession, topology: Topology, log: Log, settings: RunSettings
    ) -> None:
        """Open the checkpoint and the tables.

        Raises:
            InvalidTopology: a step does not fit the schema.
            AlreadyRunning, CheckpointError, ForeignCheckpoint, IncompatibleStore: what is
                in the data folder can't be gone on with.
        """
        self._spark = spark
        self._log = log
        self._settings = settings
        self._topology = topology
        self._decoders = {source: log.decoder(source.schema) for source in topology.sources}
        self.failure: BaseException | None = None
        plans = self._plans()
        #: Whether a batch can run in this process: Arrow decodes all and runs all steps.
        self._runs_here = _all_by_arrow(plans) and all(
            isinstance(decoder, BlockDecoder) for decoder in self._decoders.values()
        )
        #: The last batch that ran, and where it ended.
        self._last_ends: tuple[int, Offsets] | None = None
        self._layout = DataLayout(settings.data)
        folder = self._layout.checkpoint(settings.application)
        self._checkpoint = Checkpoint(folder, sync=settings.sync)
        try:
            self._stores = {plan.store.name: self._open(plan) for plan in plans}
        except BaseException:
            self._checkpoint.close()
            raise
        self._maintenance = self._maintained()

    def start(self, on_batch: OnBatch) -> StreamingQuery:
        """Start the streaming query; ``on_batch`` is told of every batch that is committed."""

        def each_batch(rows: DataFrame, batch: int) -> None:
            try:
                on_batch(batch, self._run_batch(rows, batch))
            except BaseException as error:
                # Spark would show it as text inside a Java error; keep the real one.
                self.failure = error
                raise

        streams = [
            self._log.stream(self._spark, topic)
            # Spark knows its sources by their order, which must not follow that of the stores.
            for topic in sorted(self._topology.topics)
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
            for store in self._topology.stores
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

    def _open(self, plans: StorePlans) -> StoreBatches:
        """Open one store's tables and state."""
        settings = self._settings
        types = plans.assembly.engine.aggregate_types
        application = self._checkpoint.application
        definition = define(plans.store, types, application, settings.key_groups)
        return StoreBatches(
            plans,
            StoreTables(self._layout, definition, types, sync=settings.sync),
            self._checkpoint.versions(plans.store.name),
            tasks=settings.tasks,
        )

    def _maintained(self) -> Maintenance:
        """What keeps the tables of all stores small."""
        settings = replace(self._settings.upkeep, sync=self._settings.sync)
        return Maintenance(
            {name: TableUpkeep(self._layout.table(name), settings) for name in self._stores},
            TableUpkeep(self._layout.dead_letters, settings),
            {name: store.recorded_batch() for name, store in self._stores.items()},
        )

    def _run_batch(self, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        ends = self._checkpoint.end_offsets(batch)
        begun = {name: store.begin(batch, ends) for name, store in self._stores.items()}
        stores = [work for work in begun.values() if work is not None]
        reports = self._computed(rows, batch, ends, stores) if stores else {}
        self._last_ends = batch, ends
        prepared = {}
        for name, work in begun.items():
            computed = None if work is None else (work, reports[name])
            prepared[name] = self._stores[name].finish(batch, ends, computed)
        self._maintenance.batch_committed(batch)
        return prepared

    def _computed(
        self, rows: DataFrame, batch: int, ends: Offsets, stores: Sequence[StoreWork]
    ) -> dict[str, list[WindowsReport]]:
        """What the tasks of all stores report, here if the batch is small, else as a Spark job."""
        starts = self._starts(batch)
        if self._runs_here and self._log.is_small(starts, ends):
            return run_stages(LocalRunner(self._read(rows, starts, ends)), stores)
        runner = SparkRunner(rows, self._log, self._decoders)
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
        self, rows: DataFrame, starts: Offsets, ends: Offsets
    ) -> dict[Source, list[pa.Table]]:
        """A batch's decoded records in this process, a table for each partition."""
        records: dict[Source, list[pa.Table]] = {source: [] for source in self._decoders}
        for topic, raw in self._log.read(rows, starts, ends):
            for source, decoder in self._decoders.items():
                if source.topic == topic:
                    assert isinstance(decoder, BlockDecoder)
                    blocks = [decoder.decode(block) for block in raw]
                    records[source].append(pa.concat_tables(blocks))
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


def _all_by_arrow(plans: Iterable[StorePlans]) -> bool:
    """Whether no step of these stores needs Spark."""
    return all(
        steps.arrow is not None
        for store in plans
        for input_plan in store.inputs
        for steps in (
            input_plan.steps,
            *((input_plan.join.left.steps, input_plan.join.right.steps) if input_plan.join else ()),
        )
    )
