"""The batch loop: each batch of the query is computed, prepared and committed for all stores.

The steps of a batch are those of docs/contributing/architecture.md:

    plan       read the offsets and the wall-clock time of the batch from Spark
    compute    run the stages of a level of stores
    prepare    write the prepared batch of each store. After this, a crash cannot change it
    commit     append to the Delta logs, then publish to output topics
"""

import time
from collections.abc import Mapping
from itertools import pairwise

from pyspark.sql import DataFrame

from oriel.pipeline.commit import Maintenance
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.batches import FinalRows, planned_batch
from oriel.pipeline.run.opened import OpenPipeline, wall_clock_ms
from oriel.pipeline.run.recovery import RecoveredStores
from oriel.storage import Offsets


class BatchLoop:
    """Runs the batches of one query, in order."""

    def __init__(
        self, pipeline: OpenPipeline, stores: RecoveredStores, maintenance: Maintenance
    ) -> None:
        """Continue ``stores`` after their last batch."""
        self._pipeline = pipeline
        self._recovered = stores
        self._stores = stores.batches
        self._maintenance = maintenance
        self._final_rows = FinalRows(stores.tables, stores.batches)
        #: The last batch of this loop, and the offsets at which it ended.
        self._last: tuple[int, Offsets] | None = None
        #: The duration of the last batch in seconds, by phase.
        self.phase_seconds: dict[str, float] = {}

    def run(self, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        """Run a batch for all stores, and return it as prepared, by store.

        Raises:
            Fenced: Another process has taken over.
            RecordCountMismatch: A record was lost or used twice. Nothing is committed.
        """
        pipeline, began = self._pipeline, time.perf_counter()
        ends, time_ms = planned_batch(pipeline.spark, pipeline.checkpoint.application)
        # Decision 0032: a batch has one wall-clock time (`current_timestamp()`) and one bound. If a
        # crash left the batch prepared for some stores, the other stores use the same values.
        wall_clock = pipeline.wall_clock(time_ms or wall_clock_ms())
        notes = (store.prepared_notes(batch) for store in self._stores.values())
        prepared_notes = next((each for each in notes if each is not None), None)
        if prepared_notes is not None:
            wall_clock = wall_clock.as_prepared(prepared_notes)
        starts = self._starts(batch)
        pipeline.log.look_for_losses(starts, ends)
        # Before the tasks read: bytes that change later then differ at the next start.
        blocks = pipeline.log.read_blocks(starts, ends)
        seconds = {"plan": time.perf_counter() - began, "compute": 0.0, "commit": 0.0}
        prepared: dict[str, PreparedBatch] = {}
        for level in pipeline.topology.levels:
            times = [time.perf_counter()]
            # The final rows of the stores of earlier levels are in their tables.
            final_rows, ends_of_rows = self._final_rows.of_batch(batch, prepared, level)
            read_to = ends | ends_of_rows
            is_local = pipeline.computation.is_local((starts, ends), level, final_rows)
            works_of = {
                name: self._stores[name].begin(batch, read_to, wall_clock, is_local=is_local)
                for name in level
            }
            times.append(time.perf_counter())
            works = [work for work in works_of.values() if work is not None]
            reports = pipeline.computation.run(rows, (starts, ends), works, wall_clock, final_rows)
            times.append(time.perf_counter())
            for name, work in works_of.items():
                computed = None if work is None else (work, reports[name])
                prepared[name] = self._stores[name].finish(batch, read_to, computed, blocks)
            times.append(time.perf_counter())
            for phase, (start, end) in zip(seconds, pairwise(times), strict=True):
                seconds[phase] += end - start
        self._last = batch, ends
        committed = time.perf_counter()
        self._publish(batch, prepared)
        self._maintenance.batch_committed(batch)
        seconds["commit"] += time.perf_counter() - committed
        self.phase_seconds = seconds
        return prepared

    def publish_again(self) -> None:
        """Write the rows of an unfinished last batch, because Spark does not repeat the batch."""
        last = self._recovered.last
        if last is None or not last.is_done:
            return
        if self._pipeline.publisher.published_batch() < last.batch:
            found = {name: store.prepared(last.batch) for name, store in self._stores.items()}
            self._publish(last.batch, {n: each for n, each in found.items() if each is not None})

    def _publish(self, batch: int, prepared: Mapping[str, PreparedBatch]) -> None:
        """Write the rows of a committed batch to the Kafka topics of its stores."""
        stores, publisher = self._pipeline.topology.stores, self._pipeline.publisher
        if not any(store.publications for store in stores):
            return
        for store in stores:
            tables = self._recovered.tables[store.name]
            publisher.publish(
                store.publications, tables.definition, tables.table_directory, prepared[store.name]
            )
        publisher.mark_published(batch)

    def _starts(self, batch: int) -> Offsets:
        """Return the offsets at which the previous batch ended."""
        if batch == 0:
            return {}
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self._pipeline.checkpoint.end_offsets(batch - 1)
