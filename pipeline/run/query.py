"""Run a topology: one streaming query that brings every store forward batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from oriel.pipeline.commit import Checkpoint, StoreBatches, StoreTables, define
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Input, Side, Source, Topology
from oriel.pipeline.plan import PreparedBatch, StorePlans, reasons_by_store
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.run.spark_runner import (
    SPARK_ERRORS,
    Records,
    SparkRunner,
    refuse_failing,
    steps_of,
)
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import first_line
from oriel.storage import DataLayout, Offsets

OnBatch = Callable[[int, dict[str, PreparedBatch]], None]


@dataclass(frozen=True)
class RunSettings:
    """How to run: where the data goes, how often, how wide.

    ``data`` is the folder of tables and checkpoints, ``application`` the name of the pipeline in
    it. ``trigger_ms`` is the least time between two batches, None for ``--once``: process what
    is there and stop. ``tasks`` is the number of tasks behind each shuffle; it may change with
    every start. ``key_groups`` is fixed when a store is made. ``sync``: files are forced to disk
    before anything refers to them.
    """

    data: Path
    application: str
    trigger_ms: int | None
    tasks: int
    key_groups: int = 64
    sync: bool = True


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
        self._read_often = _read_often(topology)
        self.failure: BaseException | None = None
        plans = self._plans()
        self._layout = DataLayout(settings.data)
        folder = self._layout.checkpoint(settings.application)
        self._checkpoint = Checkpoint(folder, sync=settings.sync)
        try:
            self._stores = {plan.store.name: self._open(plan) for plan in plans}
        except BaseException:
            self._checkpoint.close()
            raise

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
            self._log.stream(self._spark, topic).withColumn("topic", F.lit(topic))
            # Spark knows its sources by their order, which must not follow that of the stores.
            for topic in sorted(self._topology.topics)
        ]
        writer = (
            reduce(DataFrame.union, streams)
            .writeStream.foreachBatch(each_batch)
            .queryName(self._settings.application)
            .option("checkpointLocation", str(self._checkpoint.spark))
        )
        if self._settings.trigger_ms is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._settings.trigger_ms} milliseconds").start()

    def close(self) -> None:
        """Finish maintenance and give the checkpoint's lock back."""
        for store in self._stores.values():
            store.close()
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
        empty: Records,
        store: str,
        origin: Input | Side,
        read: Source | pa.Schema,
    ) -> RowSteps:
        """Steps that Spark runs, over a source's records or a join's results."""
        if isinstance(read, Source):
            return RowSteps(empty[read], origin, store)
        results = self._spark.createDataFrame([], from_arrow_schema(read))
        return RowSteps(results, origin, store)

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

    def _run_batch(self, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        ends = self._checkpoint.end_offsets(batch)
        records = {
            source: decoder.decode(rows.filter(F.col("topic") == source.topic))
            for source, decoder in self._decoders.items()
        }
        # One read and one parse, however many stores and sides of joins read a source.
        shared = [records[source] for source in self._read_often]
        for frame in shared:
            frame.persist()
        try:
            return {name: self._run_store(name, records, batch, ends) for name in self._stores}
        finally:
            for frame in shared:
                frame.unpersist()

    def _run_store(self, name: str, records: Records, batch: int, ends: Offsets) -> PreparedBatch:
        """Bring one store forward; say so if an expression of it fails."""
        try:
            return self._stores[name].run(SparkRunner(records), batch, ends)
        except SPARK_ERRORS as error:
            refuse_failing(error, name, steps_of(self._stores[name].plans, records))
            raise

    def _no_records(self, source: Source) -> DataFrame:
        """No record of a source, decoded: its schema is checked."""
        raw = self._spark.createDataFrame([], self._log.raw_schema)
        try:
            return self._decoders[source].decode(raw)
        except PySparkException as error:
            message = f"{source}: the schema {source.schema!r} can't be read: {first_line(error)}"
            raise InvalidTopology(message) from error


def _read_often(topology: Topology) -> list[Source]:
    """The sources that more than one store or side of a join reads."""
    readings = [
        source
        for store in topology.stores
        for definition in store.inputs
        for source in definition.sources
    ]
    return [source for source in topology.sources if readings.count(source) > 1]
