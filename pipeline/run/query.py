"""Run a topology with one streaming query that computes all stores batch by batch."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from oriel.pipeline.commit import Maintenance
from oriel.pipeline.disk_errors import user_error
from oriel.pipeline.errors import Fenced
from oriel.pipeline.language import Topology, of_topics
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.batch_loop import BatchLoop
from oriel.pipeline.run.batches import RARE_LOGS
from oriel.pipeline.run.changes import check_topology
from oriel.pipeline.run.opened import OpenPipeline
from oriel.pipeline.run.recovery import RecoveredStores, rebuild, recover
from oriel.pipeline.run.settings import RunSettings
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import generated_code
from oriel.storage import is_object
from oriel.storage.delta import TableMaintenance
from oriel.storage.tailer import versions_in_use

OnBatch = Callable[[int, dict[str, PreparedBatch]], None]


class PipelineRun:
    """One run of a topology: recovered stores, and a query that runs their batches."""

    def __init__(self, pipeline: OpenPipeline, stores: RecoveredStores) -> None:
        """Continue ``stores``. Use ``PipelineRun.recover`` to open a pipeline."""
        self._pipeline = pipeline
        self._stores = stores
        self._maintenance = _maintenance(pipeline, stores)
        self._batches = BatchLoop(pipeline, stores, self._maintenance)
        self._failure: BaseException | None = None

    @classmethod
    def recover(
        cls,
        spark: SparkSession,
        topology: Topology,
        log: Log,
        settings: RunSettings,
        while_open: AbstractContextManager[None] | None = None,
    ) -> "PipelineRun":
        """Open the checkpoint and the tables. Compute new stores up to the batch of the others.

        ``while_open`` is entered when the checkpoint is open, and left when the stores are ready.

        Raises:
            KafkaUnavailable: The brokers do not respond.
            InvalidTopology: A step does not fit the schema.
            AlreadyRunning, CheckpointError, ForeignCheckpoint, IncompatibleStore: The pipeline
                cannot continue with the content of the data directory.
        """
        check_topology(topology, settings.publish_options, ())
        pipeline = OpenPipeline.open(spark, topology, log, settings)
        try:
            with while_open or nullcontext():
                return cls(pipeline, recover(pipeline))
        except BaseException:
            pipeline.close()
            raise

    @staticmethod
    def rebuild(
        spark: SparkSession,
        topology: Topology,
        log: Log,
        settings: RunSettings,
        stores: Sequence[str],
    ) -> None:
        """Compute ``stores`` again, up to the last batch of the pipeline.

        Raises:
            InvalidTopology: A step does not fit the schema, or a store does not exist.
            KafkaUnavailable, AlreadyRunning, CheckpointError, ForeignCheckpoint, IncompatibleStore:
                As from ``recover``.
        """
        check_topology(topology, settings.publish_options, stores)
        pipeline = OpenPipeline.open(spark, topology, log, settings)
        try:
            rebuild(pipeline, stores)
        finally:
            pipeline.close()

    def start(self, on_batch: OnBatch) -> StreamingQuery:
        """Start the streaming query, and call ``on_batch`` for every committed batch.

        Raises:
            PipelineError: The log cannot be read from the end of the last batch.
        """
        pipeline, last = self._pipeline, self._stores.last
        spark, log, topics = pipeline.spark, pipeline.log, pipeline.topics
        read = {} if last is None else of_topics(last.ends if last.is_done else last.starts)
        log.open(spark, topics, read, pipeline.checkpoint.directory)
        self._batches.publish_again()

        def each_batch(rows: DataFrame, batch: int) -> None:
            try:
                on_batch(batch, self._batches.run(rows, batch))
            except BaseException as error:
                # Spark would show it as text inside a Java error, so keep the original error.
                self._failure = user_error(error)
                raise

        pause_ms, sources = pipeline.settings.trigger_ms, pipeline.topology.sources
        wait_for = topics if pause_ms == 0 else ()
        streams = [log.stream(spark, topic, sources, wait_for) for topic in topics]
        writer = (
            reduce(DataFrame.union, streams)
            .writeStream.foreachBatch(each_batch)
            .queryName(pipeline.settings.application)
            .option("checkpointLocation", str(pipeline.checkpoint.spark))
        )
        self._maintenance.start()
        # For rows that only name slices, Spark would generate code in each batch (decision 0091).
        generates = pipeline.computation.needs_spark or not log.plans_slices
        with generated_code(spark, wanted=generates):
            if pause_ms is None:
                return writer.trigger(availableNow=True).start()
            live = writer.options(**RARE_LOGS)
            return live.trigger(processingTime=f"{pause_ms} milliseconds").start()

    def note_first_offsets(self) -> None:
        """Keep the first offsets of the first query, once Spark has written them."""
        self._pipeline.checkpoint.note_first_offsets()

    @property
    def functions(self) -> dict[str, str]:
        """How the functions of each store run, for stores with functions."""
        return self._pipeline.computation.functions

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """The counters of each store before the first batch of this run."""
        return self._stores.counters

    @property
    def phase_seconds(self) -> dict[str, float]:
        """The duration of the last batch in seconds, by phase."""
        return self._batches.phase_seconds

    @property
    def maintenance_failures(self) -> int:
        """The number of failed attempts to compact or clean up a table."""
        return self._maintenance.failures

    def check_epoch(self) -> None:
        """Check that no other process has taken over.

        Raises:
            Fenced: Another process runs the pipeline.
        """
        self._pipeline.checkpoint.check_epoch()

    @property
    def failure(self) -> BaseException | None:
        """Why a batch failed, or None. If another process has taken over, this is the reason."""
        try:
            self._pipeline.checkpoint.check_epoch()
        except Fenced as fenced:
            return fenced
        return self._failure

    def close(self) -> None:
        """End maintenance and release the lock of the checkpoint."""
        try:
            # A live run maintains the tables all the time, and other runs at their end.
            is_done = self._pipeline.settings.trigger_ms is None and self.failure is None
            self._maintenance.close(finish=is_done)
        finally:
            self._pipeline.close()


def _maintenance(pipeline: OpenPipeline, stores: RecoveredStores) -> Maintenance:
    """Return the maintenance of all tables."""
    layout, tables = pipeline.layout, stores.tables
    settings = replace(pipeline.settings.maintenance, sync=pipeline.settings.sync)
    if is_object(layout.root):
        # The indexes are on the machines of services, so the versions that they read are not known.
        settings = replace(settings, files_max=None)
    # Oriel does not know which versions the readers of final rows need, so their files stay longer.
    of_final = replace(settings, files_max=None)
    maintained = {name: [TableMaintenance(layout.table(name), settings)] for name in tables}
    for name in tables:
        if pipeline.plans[name].store.final_table:
            maintained[name].append(TableMaintenance(layout.final_table(name), of_final))
    return Maintenance(
        maintained,
        TableMaintenance(layout.dead_letters, settings),
        # Sinks have no table of their own, but their dead letters are in the common table.
        {name: each.recorded_batch() for name, each in stores.batches.items()},
        pipeline.checkpoint.check_epoch,
        partial(versions_in_use, layout),
    )
