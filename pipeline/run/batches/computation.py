"""Compute a batch in the process of the driver if it is small, otherwise as one Spark job."""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from oriel.pipeline.decoding import BlockDecoder, reject_ahead
from oriel.pipeline.language import Source
from oriel.pipeline.plan import StorePlans, WallClock
from oriel.pipeline.run.batches.spark_runner import (
    SPARK_ERRORS,
    SparkRunner,
    raise_failing_step,
    steps_of,
)
from oriel.pipeline.sources import SMALL_BATCH_RECORDS, Decoder, Log
from oriel.pipeline.tasks import LocalRunner, Reports, StoreWork, run_stages
from oriel.storage import Offsets

#: Final rows of other stores, which already exist as records. Each source has one partition.
Records = Mapping[Source, pa.Table]


class Computation:
    """Runs the stages of batches."""

    def __init__(
        self, log: Log, decoders: Mapping[Source, Decoder], plans: Sequence[StorePlans]
    ) -> None:
        """Read ``log`` with ``decoders``, for the stores of ``plans``."""
        self._log = log
        self._decoders = decoders
        plans = list(plans)
        #: The stores that read the log. The others read only final rows of stores.
        self._stores_of_log = {
            plan.store.name for plan in plans if not decoders.keys().isdisjoint(plan.store.sources)
        }
        #: The stores without Spark: Arrow decodes the records that they read, and runs their steps.
        self._stores_without_spark = {
            plan.store.name
            for plan in plans
            if not plan.needs_spark
            and all(isinstance(decoders.get(s), BlockDecoder | None) for s in plan.store.sources)
        }
        #: Whether a store has steps or decoders in Spark.
        self.needs_spark = len(self._stores_without_spark) < len(plans)

        #: How the functions of each store run, for stores with functions.
        self.functions = {plan.store.name: plan.functions for plan in plans if plan.functions}

    def is_local(
        self, bounds: tuple[Offsets, Offsets], stores: Collection[str], final_rows: Records
    ) -> bool:
        """Whether a batch of ``stores`` runs in this process. See ``run`` for the arguments."""
        reads_log = not self._stores_of_log.isdisjoint(stores)
        final = sum(map(len, final_rows.values()))
        if not reads_log and not final:
            # In most batches, no row becomes final. Stores that only read final rows have no work.
            return True
        is_small = final <= SMALL_BATCH_RECORDS and (not reads_log or self._log.is_small(*bounds))
        return is_small and self._stores_without_spark.issuperset(stores)

    def run(
        self,
        rows: DataFrame,
        bounds: tuple[Offsets, Offsets],
        stores: Sequence[StoreWork],
        wall_clock: WallClock,
        final_rows: Records,
    ) -> dict[str, Reports]:
        """Compute a batch of stores, and return the reports of their tasks by store.

        Args:
            rows: The rows of the log.
            bounds: The offsets at which the batch starts and ends.
            stores: The work of each store.
            wall_clock: The wall-clock time of the batch.
            final_rows: The records of other stores that these stores read.
        """
        if not stores:
            return {}
        starts, ends = bounds
        latest_ms = wall_clock.latest_ms
        sources = dict.fromkeys(s for work in stores for s in work.plans.store.sources)
        log_sources = [source for source in sources if source in self._decoders]
        if self.is_local(bounds, [work.plans.store.name for work in stores], final_rows):
            records = {source: [table] for source, table in final_rows.items()}
            records |= self._read(rows, starts, ends, latest_ms, log_sources) if log_sources else {}
            return run_stages(LocalRunner(records), stores)
        runner = SparkRunner(rows, self._log, self._decoders, latest_ms, final_rows)
        try:
            return run_stages(runner, stores)
        except SPARK_ERRORS as error:
            # Name the store and the step if an expression fails on a record.
            steps = (each for work in stores for each in steps_of(work.plans, runner))
            raise_failing_step(error, steps)
            raise

    def _read(
        self,
        rows: DataFrame,
        starts: Offsets,
        ends: Offsets,
        latest_ms: int | None,
        sources: Sequence[Source],
    ) -> dict[Source, list[pa.Table]]:
        """Return the decoded records of a batch, one table for all partitions of a topic.

        The records of a partition are in the order of their offsets. A call of the decoder costs
        the same for few records as for many, so it decodes all partitions together.
        """
        raw_of: dict[str, list[pa.RecordBatch]] = {}
        for topic, raw in self._log.read(rows, starts, ends):
            raw_of.setdefault(topic, []).extend(raw)
        records: dict[Source, list[pa.Table]] = {source: [] for source in sources}
        for source in sources:
            if source.topic in raw_of:
                decoder = self._decoders[source]
                assert isinstance(decoder, BlockDecoder)
                blocks = pa.Table.from_batches(raw_of[source.topic]).combine_chunks().to_batches()
                decoded = pa.concat_tables(
                    [decoder.schema.empty_table(), *map(decoder.decode, blocks)]
                )
                records[source].append(reject_ahead(decoded, latest_ms))
        return records
