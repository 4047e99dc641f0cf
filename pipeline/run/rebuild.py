"""Compute a store again from the start of its topics, up to a batch of its application.

A rebuild is a separate run over the records that the log still has. It has its own data directory
(``DATA/rebuilds/<store>``), and uses batches of the usual size and the same stages. The newest row
of each window then becomes part of one revision of the store's table. These rows replace the old
rows, together with the state, in one step (``Replacement``). The pipeline then continues as if the
store had always had this definition.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.commit import (
    Checkpoint,
    Publish,
    Replacement,
    SinkDefinition,
    SinkTopic,
    StoreBatches,
    StoreTables,
    add_dead_letters,
    as_committed_batch,
    mark_published,
    remove_old_generations,
)
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.language import Source, of_topics
from oriel.pipeline.plan import PreparedBatch, StorePlans, WallClock
from oriel.pipeline.run.batches import Computation, final_rows_up_to, stream_ends
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import map_in_arrow, no_rows
from oriel.pipeline.tasks import Reports, StoreWork
from oriel.storage import DataLayout, Offsets, StoreDefinition, current_files, log_line, say
from oriel.storage.delta import (
    AddedFile,
    DeltaLog,
    TableSnapshot,
    run_name,
    store_schema,
    write_file,
)
from oriel.storage.index import table_batches

#: The approximate number of bytes per file of a rebuilt table.
_FILE_BYTES = 64 * 2**20
#: The number of rows of another store per batch.
_FINAL_ROWS = 1_000_000
#: The least time between two progress lines.
_LINE_SECONDS = 1

_REPORT = "report STRING"


@dataclass(frozen=True)
class Rebuild:
    """Computes stores again.

    Attributes:
        spark: The session.
        log: The log that has the records.
        computation: Runs the stages of a batch.
        layout: The data directory.
        checkpoint: The checkpoint of the pipeline.
        tasks: The number of tasks after each exchange.
        sync: Whether files are forced to disk.
        wall_clock: The wall-clock time of all batches, with its bounds on stream times.
    """

    spark: SparkSession
    log: Log
    computation: Computation
    layout: DataLayout
    checkpoint: Checkpoint
    tasks: int
    sync: bool
    wall_clock: WallClock

    def run(
        self, plans: StorePlans, defined: StoreDefinition, batch: int, prepared_ends: Offsets
    ) -> PreparedBatch:
        """Compute the store of ``plans`` up to the end of ``batch``, and replace the old store.

        Args:
            plans: The plans of the store.
            defined: The definition of the store in the topology.
            batch: The batch up to which the application has prepared its stores.
            prepared_ends: The offsets at which ``batch`` ends.

        Returns:
            The newest batch of the store.

        Raises:
            ForeignCheckpoint: the store's table belongs to another application.
            RecordCountMismatch: a record was lost or used twice.
            CheckpointError, EventLogError: the log has fewer records than the pipeline has read.
        """
        windowed = defined.window.has_window_columns
        types = plans.table_columns
        schema = store_schema(types, windowed=windowed)
        target = Replacement(self.layout, self.checkpoint, defined, schema, sync=self.sync)
        scratch = DataLayout(self.layout.rebuild(defined.name))
        current_files().delete_directory(scratch.root)
        with Checkpoint(scratch.checkpoint("rebuild"), sync=False) as checkpoint:
            versions = checkpoint.versions(defined.name)
            # The rebuild has its own table of the same store, in its first generation.
            definition = replace(target.definition, generation=0)
            tables = StoreTables(scratch, definition, types, sync=False)
            batches = StoreBatches(plans, tables, versions, tasks=self.tasks)
            computed = self._compute(batches, batch, prepared_ends)
            files = self._newest_rows(tables.table_directory, target.table_directory, schema, batch)
            prepared = as_committed_batch(computed, batch)
            target.add_state(versions.directory, prepared)
        target.add_dead_letters(scratch.dead_letters, batch)
        target.switch_to(files, prepared)
        remove_old_generations(self.layout, self.checkpoint, target.definition)
        say("rebuild", log_line("store rebuilt", store=defined.name, batch=batch))
        return prepared

    def publish_all(
        self,
        plans: StorePlans,
        defined: SinkDefinition,
        publish: Publish,
        batch: int,
        prepared_ends: Offsets,
    ) -> PreparedBatch:
        """Write all records of the sink of ``plans`` up to the end of ``batch``.

        Each batch is published when it is computed. The state after the last batch is the next
        generation of the sink, and is valid once its definition is written. After an earlier crash,
        the next rebuild starts from the beginning.

        Raises:
            RecordCountMismatch, CheckpointError, EventLogError: as from ``run``.
        """
        recorded = SinkDefinition.recorded(self.checkpoint.directory, defined.name)
        if recorded is not None:
            generation = recorded.generation + 1
            defined = replace(defined, generation=generation, key_groups=recorded.key_groups)
        scratch = DataLayout(self.layout.rebuild(defined.name))
        current_files().delete_directory(scratch.root)
        current_files().delete_directory(self.checkpoint.versions(defined.state_name).directory)
        target = self.checkpoint.versions(defined.state_name)
        with Checkpoint(scratch.checkpoint("rebuild"), sync=False) as checkpoint:
            first = replace(defined, generation=0)
            topic = SinkTopic(scratch, checkpoint, first, publish, sync=False)
            versions = checkpoint.versions(first.name)
            batches = StoreBatches(plans, topic, versions, tasks=self.tasks)
            computed = self._compute(batches, batch, prepared_ends)
            # The topic has the records of the last batch, so only the state of the joins is needed.
            prepared = replace(as_committed_batch(computed, batch), segments={}, changed=0)
            for name in prepared.state_files:
                current_files().copy(
                    versions.directory / name, target.directory / name, sync=self.sync
                )
        application = self.checkpoint.application
        add_dead_letters(
            self.layout, application, defined.name, scratch.dead_letters, batch, sync=self.sync
        )
        target.prepare(batch, prepared, [target.directory.parent])
        mark_published(target.directory, prepared, sync=self.sync)
        defined.write(target.directory, sync=self.sync)
        remove_old_generations(self.layout, self.checkpoint, defined)
        say("rebuild", log_line("output topic rebuilt", sink=defined.name, batch=batch))
        return prepared

    def _compute(self, batches: StoreBatches, batch: int, prepared_ends: Offsets) -> PreparedBatch:
        """Run batches from the log's start to ``prepared_ends``. Return the last prepared batch.

        The rows of other stores that the store reads follow in their own batches.
        """
        store = batches.plans.store
        # If a topic is new in the topology, the next batch reads it from its start.
        own = of_topics({topic: {} for topic in store.topics})
        ends = {topic: prepared_ends.get(topic, {}) for topic in own}
        final_rows = {source: self._final_rows(source, batch) for source in store.reads_stores}
        begins = self.log.begins(self.spark, ends) if ends else {}
        self._log_lost_records(store.name, begins)
        starts = {
            topic: {p: min(begins[topic][p], end) for p, end in partitions.items()}
            for topic, partitions in ends.items()
        }
        total_distance = max(1, _distance(starts, ends))
        number, logged_at = 0, time.monotonic()
        # The ends of topics that only the upstream stores read.
        read_to = {t: prepared_ends.get(t, {}) for t in batches.plans.topics if t not in own}
        for source in store.reads_stores:
            read_to |= stream_ends(source, 0)
        while True:
            until = self.log.next_ends(starts, ends) if ends else {}
            work = batches.begin(number, until | read_to, self.wall_clock)
            assert work is not None
            blocks, reports = self.log.read_blocks(starts, until), Reports()
            if until != ends and not _distance(starts, until):
                message = (
                    f"store {store.name!r}: the log ends at {starts}, but the pipeline has read up "
                    f"to {ends}. Restore the log"
                )
                raise CheckpointError(message)
            if _distance(starts, until):
                rows = self.log.between(self.spark, starts, until, store.sources)
                reports = self._reports(rows, (starts, until), work, {})
            prepared = batches.finish(number, until | read_to, (work, reports), blocks)
            if until == ends:
                break
            starts, number = until, number + 1
            if time.monotonic() - logged_at >= _LINE_SECONDS:
                logged_at = time.monotonic()
                read = f"{1 - _distance(starts, ends) / total_distance:.0%}"
                say("rebuild", log_line("rebuilding", store=store.name, log_read=read))
        nothing = no_rows(self.spark, "topic STRING")
        for source in store.reads_stores:
            for first in range(0, len(final_rows[source]), _FINAL_ROWS):
                some = final_rows[source].slice(first, _FINAL_ROWS)
                number, read_to = number + 1, read_to | stream_ends(source, first + len(some))
                work = batches.begin(number, ends | read_to, self.wall_clock)
                assert work is not None
                reports = self._reports(nothing, (ends, ends), work, {source: some})
                prepared = batches.finish(number, ends | read_to, (work, reports))
                read_rows = first + len(some)
                line = log_line(
                    "rebuilding", store=store.name, source=source.store_name, rows=read_rows
                )
                say("rebuild", line)
        return prepared

    def _reports(
        self,
        rows: DataFrame,
        bounds: tuple[Offsets, Offsets],
        work: StoreWork,
        final_rows: Mapping[Source, pa.Table],
    ) -> Reports:
        reports = self.computation.run(rows, bounds, [work], self.wall_clock, final_rows)
        return reports[work.plan.store]

    def _final_rows(self, source: Source, batch: int) -> pa.Table:
        """Return the final rows of another store that this store reads, up to a batch."""
        table = self.layout.table(source.store_name)
        definition = DeltaLog(table).snapshot().definition
        prepared = self.checkpoint.versions(definition.state_name).prepared(batch)
        return final_rows_up_to(table, batch, prepared)

    def _newest_rows(
        self, table: Path, target: Path, schema: pa.Schema, batch: int
    ) -> list[AddedFile]:
        """Write the newest row of each window to files for ``target``, with revision ``batch``.

        The revision must not be higher than the next batch's, because its rows override these rows.
        """
        snapshot = DeltaLog(table).snapshot()
        if not snapshot.files:
            return []
        window = [name for name in ("key", "window_start", "window_end") if name in schema.names]
        newest = Window.partitionBy(*window).orderBy(F.desc("revision"))
        # The dot avoids a conflict with columns of users.
        rank = "oriel.rank"
        rows = (
            self._table_rows(table, snapshot, schema)
            .withColumn(rank, F.row_number().over(newest))
            .filter(f"`{rank}` = 1 AND NOT deleted")
            .drop(rank)
            .withColumn("revision", F.lit(batch).cast("bigint"))
        )  # fmt: skip
        size = pc.sum(snapshot.adds["size_bytes"]).as_py()
        rows = rows.repartition(1 + size // _FILE_BYTES, "key").sortWithinPartitions(*window)
        name, sync = f"part-{batch:012d}-rebuilt", self.sync
        run = run_name(batch, batch)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            gathered = list(batches)
            if sum(one.num_rows for one in gathered):
                table = pa.Table.from_batches(gathered).cast(schema)
                added = write_file(target, table, name, sync=sync, run=run)
                report = orjson.dumps(added).decode()
                yield pa.RecordBatch.from_pydict({"report": [report]})

        reports = map_in_arrow(rows, write, _REPORT).toArrow()["report"].to_pylist()
        return [AddedFile(**orjson.loads(report)) for report in reports]

    def _table_rows(self, table: Path, snapshot: TableSnapshot, schema: pa.Schema) -> DataFrame:
        """Return the rows of files. Spark's reader does not check digests or read object stores."""
        definition, digests = snapshot.definition, snapshot.digests

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for name in (name for batch in batches for name in batch["name"].to_pylist()):
                for rows in table_batches(
                    table / name, definition, digest=digests.get(name), columns=schema.names
                ):
                    yield from rows.cast(schema).to_batches()

        names = self.spark.createDataFrame(pa.table({"name": list(snapshot.files)}))
        names = names.repartition(min(len(snapshot.files), self.tasks))
        return map_in_arrow(names, read, from_arrow_schema(schema))

    def _log_lost_records(self, store: str, begins: Offsets) -> None:
        for topic, partitions in begins.items():
            lost = [f"{p} below {offset}" for p, offset in partitions.items() if offset]
            if lost:
                line = log_line("first records lost", store=store, topic=topic)
                line += (
                    f" (partition {', '.join(lost)}). Their windows contain only the remaining "
                    "records"
                )
                say("rebuild", line)


def _distance(starts: Offsets, ends: Offsets) -> int:
    """Return the distance between two offsets, summed over all partitions."""
    return sum(
        end - starts.get(topic, {}).get(partition, 0)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )
