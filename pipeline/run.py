"""Run a topology: one streaming query that brings every store forward batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pipeline.checkpoint import Checkpoint, PreparedBatch
from pipeline.errors import InvalidTopology
from pipeline.row_steps import RowSteps
from pipeline.sources import Log
from pipeline.store_batch import StoreBatches
from pipeline.store_tables import StoreTables, define
from pipeline.topology import Source, Store, Topology
from pipeline.windows import IllegalArgument, SlidingWindowEngine
from storage.layout import DataLayout

OnBatch = Callable[[int, dict[str, PreparedBatch]], None]


@dataclass(frozen=True)
class RunSettings:
    """How to run: where the data goes, how often, how wide.

    ``trigger_ms`` is the least time between two batches, None for ``--once``: process
    what is there and stop. ``key_groups`` is fixed when a store is made.
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
            InvalidTopology: a step does not fit the schema, or several topics are read.
            AlreadyRunning, CheckpointError, ForeignCheckpoint, IncompatibleStore: what is
                in the data folder can't be gone on with.
        """
        self._spark = spark
        self._log = log
        self._settings = settings
        self._source = _only_source(topology)
        self._decoder = log.decoder(self._source.schema)
        self.failure: BaseException | None = None
        types = {store.name: self._aggregate_types(store) for store in topology.stores}
        self._layout = DataLayout(settings.data)
        folder = self._layout.checkpoint(settings.application)
        self._checkpoint = Checkpoint(folder, sync=settings.sync)
        try:
            self._stores = {
                store.name: self._open(store, types[store.name], first=store is topology.stores[0])
                for store in topology.stores
            }
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

        stream = self._log.stream(self._spark, self._source.topic)
        writer = (
            stream.writeStream.foreachBatch(each_batch)
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

    def _open(self, store: Store, types: dict[str, pa.DataType], *, first: bool) -> StoreBatches:
        """Open one store's tables and state; the first writes what is bad for all of them."""
        settings = self._settings
        definition = define(store, types, self._checkpoint.application, settings.key_groups)
        return StoreBatches(
            store,
            StoreTables(self._layout, definition, types, sync=settings.sync),
            self._checkpoint.versions(store.name),
            tasks=settings.tasks,
            tells_source_reasons=first,
            sync=settings.sync,
        )

    def _run_batch(self, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        ends = self._checkpoint.end_offsets(batch)
        records = self._decoder.decode(rows)
        if len(self._stores) == 1:
            return {name: store.run(records, batch, ends) for name, store in self._stores.items()}
        # One read and one parse for all stores.
        records.persist()
        try:
            return {name: store.run(records, batch, ends) for name, store in self._stores.items()}
        finally:
            records.unpersist()

    def _aggregate_types(self, store: Store) -> dict[str, pa.DataType]:
        """Check the store's steps and aggregates against the schema, before anything is made."""
        raw = self._spark.createDataFrame([], self._log.raw_schema)
        try:
            records = self._decoder.decode(raw)
        except PySparkException as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            message = (
                f"stream({store.source.topic!r}): the schema {store.source.schema!r} can't be "
                f"read: {reason}"
            )
            raise InvalidTopology(message) from error
        values = RowSteps(records, store, 1).values
        try:
            engine = SlidingWindowEngine(store.windows, store.aggregates, values)
        except IllegalArgument as error:
            message = f"store {store.name!r}, aggregate: {error}"
            raise InvalidTopology(message) from error
        return engine.aggregate_types


def _only_source(topology: Topology) -> Source:
    sources = topology.sources
    if len(sources) > 1:
        told = ", ".join(f"{source.topic!r} ({source.schema})" for source in sources)
        message = (
            f"the stores of one topology must read one topic with one schema, these read {told}: "
            "run a topology per topic"
        )
        raise InvalidTopology(message)
    return sources[0]
