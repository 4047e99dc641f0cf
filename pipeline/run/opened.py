"""A pipeline that is open: its plans, its checkpoint and its data directory."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.commit import (
    Checkpoint,
    NewestPrepared,
    Publish,
    SinkDefinition,
    SinkTopic,
    StoreTables,
    newest_prepared,
    store_definition,
)
from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Source, Topology, arrow_schema
from oriel.pipeline.lowered import AggregatedRows, Input, LoweredTopology, lower
from oriel.pipeline.plan import StorePlans, WallClock, reasons_by_store
from oriel.pipeline.rows import RowSteps, row_steps
from oriel.pipeline.run.batches import Computation
from oriel.pipeline.run.publishing import Publisher
from oriel.pipeline.run.settings import RunSettings
from oriel.pipeline.sources import Decoder, Log
from oriel.pipeline.spark import first_line, no_rows, scratch_directory
from oriel.pipeline.stage_columns import decoded_schema
from oriel.storage import DataLayout, StoreDefinition, is_sink_name


@dataclass(frozen=True)
class OpenPipeline:
    """What all parts of a run share. Nothing in it changes from batch to batch.

    Attributes:
        spark: The session.
        topology: The topology.
        log: The log that the pipeline reads.
        settings: The settings of the run.
        plans: The checked plans of each store, in the order of the topology. So a store follows the
            stores whose rows it reads.
        computation: Runs the stages of a batch.
        layout: The data directory.
        checkpoint: The checkpoint. Only this run holds it, except during a live rebuild.
        publisher: Writes to output topics.
        since_ms: The wall-clock time at which the run began, in ms since 1970.
    """

    spark: SparkSession
    topology: LoweredTopology
    log: Log
    settings: RunSettings
    plans: Mapping[str, StorePlans]
    computation: Computation
    layout: DataLayout
    checkpoint: Checkpoint
    publisher: Publisher
    since_ms: int

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        topology: Topology,
        log: Log,
        settings: RunSettings,
        *,
        is_held: bool = True,
    ) -> "OpenPipeline":
        """Check all steps and aggregates of a topology, and then open its checkpoint.

        With ``is_held=False``, the checkpoint is only read, because another process can hold it.

        Raises:
            InvalidTopology: A step does not fit the schema.
            AlreadyRunning, CheckpointError: The checkpoint cannot be opened.
        """
        lowered = lower(topology)
        decoders = {source: log.decoder(source) for source in lowered.sources}
        plans = _plans(spark, lowered, log, decoders)
        layout = DataLayout(settings.data)
        directory = layout.checkpoint(settings.application)
        return cls(
            spark=spark,
            topology=lowered,
            log=log,
            settings=settings,
            plans=plans,
            computation=Computation(log, decoders, list(plans.values())),
            layout=layout,
            checkpoint=_checkpoint(directory, settings, is_held=is_held),
            publisher=Publisher(settings.publish_options or {}, directory, sync=settings.sync),
            since_ms=wall_clock_ms(),
        )

    def held(self) -> "OpenPipeline":
        """Return this pipeline with a checkpoint that this process holds.

        Raises:
            AlreadyRunning: another process of this machine holds the checkpoint.
        """
        checkpoint = _checkpoint(self.checkpoint.directory, self.settings, is_held=True)
        return replace(self, checkpoint=checkpoint)

    def close(self) -> None:
        """Close connections, and release the lock of the checkpoint."""
        try:
            self.publisher.close()
        finally:
            self.checkpoint.close()

    @property
    def topics(self) -> list[str]:
        """The topics in sorted order, because Spark identifies its sources by their order."""
        return sorted(self.topology.topics)

    def wall_clock(self, now_ms: int) -> WallClock:
        """Return a wall-clock time of this run, with its bounds on stream times."""
        return WallClock(now_ms, self.since_ms, self.settings.wall_clock_limits)

    def definition(self, store: str) -> StoreDefinition | SinkDefinition:
        """Return the definition of a store or a sink by the topology."""
        plans, key_groups = self.plans[store], self.settings.key_groups
        if is_sink_name(store):
            return SinkDefinition.of(plans.store, key_groups)
        return store_definition(
            plans.store, plans.columns, self.checkpoint.application, key_groups,
            kept=plans.assembly.engine.kept,
        )  # fmt: skip

    def publish_of(self, sink: str) -> Publish:
        """Return the function that writes the batches of a sink to its topic."""
        return partial(self.publisher.publish_records, self.plans[sink])

    def tables(self, store: str) -> StoreTables | SinkTopic:
        """Open the tables of a store, or the topic of a sink. Create missing tables.

        Raises:
            ForeignCheckpoint, IncompatibleStore: The table does not belong to this store.
        """
        definition, sync = self.definition(store), self.settings.sync
        if isinstance(definition, SinkDefinition):
            publish = self.publish_of(store)
            return SinkTopic(self.layout, self.checkpoint, definition, publish, sync=sync)
        plans = self.plans[store]
        return StoreTables(
            self.layout, definition, plans.table_columns, sync=sync,
            has_final_table=plans.store.final_table,
        )  # fmt: skip

    def last_prepared(self) -> NewestPrepared | None:
        """Return the last batch that all stores of the checkpoint have prepared."""
        names = [unit.name for unit in self.topology.units]
        return newest_prepared(self.checkpoint.directory, names)


def _checkpoint(directory: Path, settings: RunSettings, *, is_held: bool) -> Checkpoint:
    return Checkpoint(directory, sync=settings.sync, scratch=scratch_directory(), is_held=is_held)


def wall_clock_ms() -> int:
    """Return the wall-clock time in ms since 1970."""
    return time.time_ns() // 1_000_000


def _plans(
    spark: SparkSession, topology: LoweredTopology, log: Log, decoders: Mapping[Source, Decoder]
) -> dict[str, StorePlans]:
    """Return the plans of all stores. Nothing is written before all are checked."""
    # An empty frame with the decoded columns of each source. It checks the schema of the source.
    empty: dict[Source, DataFrame] = {}
    for source, decoder in decoders.items():
        if isinstance(decoder, BlockDecoder):
            empty[source] = no_rows(spark, from_arrow_schema(decoder.schema))
            continue
        try:
            empty[source] = decoder.decode(no_rows(spark, log.raw_schema))
        except PySparkException as error:
            message = f"{source}: the schema {source.schema!r} is not valid: {first_line(error)}"
            raise InvalidTopology(message) from error

    def steps(store: str, origin: Input | AggregatedRows, read: Source | pa.Schema) -> RowSteps:
        if isinstance(read, pa.Schema):
            records = no_rows(spark, from_arrow_schema(read))
        elif read.store_name:
            values = pa.struct(list(arrow_schema(read.schema)))
            records = no_rows(spark, from_arrow_schema(decoded_schema(values)))
        else:
            records = empty[read]
        return row_steps(records, origin, store)

    reasons = reasons_by_store(topology)
    plans: dict[str, StorePlans] = {}
    for store in topology.units:
        steps_of = partial(steps, store.name)
        plans[store.name] = StorePlans(store, steps_of, reasons[store.name], plans)
    return plans
