"""Compute a store again from the start of its topics, in its own data directory.

A replay is a separate run over the records that the log still has. Its directory is
``DATA/rebuilds/<store>``, and it uses batches of the usual size and the same stages. It can
continue after its last batch while the log grows, so ``oriel rebuild --live`` computes a store next
to the process that runs the pipeline.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.commit import Checkpoint, StoreBatches
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.language import Source, of_topics
from oriel.pipeline.plan import PreparedBatch, StorePlans, WallClock
from oriel.pipeline.run.batches import Computation, final_rows_up_to, stream_ends
from oriel.pipeline.sources import Log
from oriel.pipeline.spark import map_in_arrow, no_rows
from oriel.pipeline.tasks import Reports, StoreWork
from oriel.storage import DataLayout, Offsets, log_line, say
from oriel.storage.delta import (
    AddedFile,
    DeltaLog,
    TableSnapshot,
    run_name,
    window_columns,
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
class Replaying:
    """What the replays of all stores share.

    Attributes:
        spark: The session.
        log: The log that has the records.
        computation: Runs the stages of a batch.
        layout: The data directory of the pipeline.
        checkpoint: The checkpoint of the pipeline. Another process can hold it.
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


class Replay:
    """The batches of one store from the start of its topics."""

    def __init__(self, common: Replaying, batches: StoreBatches) -> None:
        """Compute ``batches``, which have their own data directory."""
        self._common = common
        self._batches = batches
        self._plans: StorePlans = batches.plans
        self._store = batches.plans.store
        #: The offsets at which the last batch ended. None before the first one.
        self._read_to: Offsets | None = None
        #: Where each partition began, for the progress.
        self._begins: Offsets = {}
        self._number = -1
        self._logged_at = time.monotonic()
        #: The last batch.
        self.prepared: PreparedBatch | None = None

    def up_to(self, batch: int, prepared_ends: Offsets) -> PreparedBatch:
        """Compute all batches up to the end of ``batch`` of the pipeline. Return the last one.

        The rows of other stores that the store reads follow in their own batches. So a store that
        reads other stores can be replayed once.

        Args:
            batch: The batch up to which the application has prepared its stores.
            prepared_ends: The offsets at which ``batch`` ends.

        Raises:
            RecordCountMismatch: a record was lost or used twice.
            CheckpointError, EventLogError: the log has fewer records than the pipeline has read.
        """
        while self.step(prepared_ends):
            pass
        assert self.prepared is not None
        return self._with_final_rows(batch, prepared_ends) or self.prepared

    def step(self, prepared_ends: Offsets) -> bool:
        """Compute the next batch of the log. Return whether ``prepared_ends`` is not reached yet.

        The first batch is computed even if it has no records.

        Raises:
            RecordCountMismatch, CheckpointError, EventLogError: as from ``up_to``.
        """
        common = self._common
        # If a topic is new in the topology, the next batch of the pipeline reads it from its start.
        own = of_topics({topic: {} for topic in self._store.topics})
        known = self._read_to or {}
        # Another process can have prepared a batch for some stores only. Then the ends of the other
        # topics are those of an earlier batch.
        ends = {
            topic: {
                p: max(end, known.get(topic, {}).get(p, 0))
                for p, end in prepared_ends.get(topic, {}).items()
            }
            for topic in own
        }
        starts = self._starts(ends)
        if self.prepared is not None and not _distance(starts, ends):
            return False
        until = common.log.next_ends(starts, ends) if ends else {}
        self._number += 1
        # The ends of topics that only the upstream stores read.
        read_to = until | self._upstream_ends(prepared_ends, own)
        work = self._batches.begin(self._number, read_to, common.wall_clock)
        assert work is not None
        blocks, reports = common.log.read_blocks(starts, until), Reports()
        distance = _distance(starts, until)
        if until != ends and not distance:
            message = (
                f"store {self._store.name!r}: the log ends at {starts}, but the pipeline has read "
                f"up to {ends}. Restore the log"
            )
            raise CheckpointError(message)
        if distance:
            rows = common.log.between(common.spark, starts, until, self._store.sources)
            reports = self._reports(rows, (starts, until), work, {})
        self.prepared = self._batches.finish(self._number, read_to, (work, reports), blocks)
        self._read_to = until
        left = _distance(until, ends)
        if left and time.monotonic() - self._logged_at >= _LINE_SECONDS:
            self._logged_at = time.monotonic()
            read = f"{1 - left / max(1, _distance(self._begins, ends)):.0%}"
            say("rebuild", log_line("rebuilding", store=self._store.name, log_read=read))
        return left > 0

    def _starts(self, ends: Offsets) -> Offsets:
        """Return where the next batch starts. A new partition starts where its records begin."""
        known = self._read_to or {}
        new = {
            topic: {p: end for p, end in partitions.items() if p not in known.get(topic, {})}
            for topic, partitions in ends.items()
        }
        if any(new.values()) or (ends and self._read_to is None):
            begins = self._common.log.begins(self._common.spark, new)
            _log_lost_records(self._store.name, begins)
            first = {t: {p: min(begins[t][p], end) for p, end in new[t].items()} for t in new}
            known = {topic: {**known.get(topic, {}), **first[topic]} for topic in ends}
            self._begins = {t: {**first[t], **self._begins.get(t, {})} for t in ends}
        return known

    def _with_final_rows(self, batch: int, prepared_ends: Offsets) -> PreparedBatch | None:
        """Compute batches of the rows of other stores. Return the last one, None without rows."""
        prepared, common = None, self._common
        own = self._read_to or {}
        read_to = own | self._upstream_ends(prepared_ends, own)
        nothing = no_rows(common.spark, "topic STRING")
        for source in self._store.reads_stores:
            table = common.layout.table(source.store_name)
            state_name = DeltaLog(table).snapshot().definition.state_name
            final_rows = final_rows_up_to(
                table, batch, common.checkpoint.versions(state_name).prepared(batch)
            )
            for first in range(0, len(final_rows), _FINAL_ROWS):
                some = final_rows.slice(first, _FINAL_ROWS)
                read_rows = first + len(some)
                read_to = read_to | stream_ends(source, read_rows)
                self._number += 1
                work = self._batches.begin(self._number, read_to, common.wall_clock)
                assert work is not None
                reports = self._reports(nothing, (own, own), work, {source: some})
                prepared = self._batches.finish(self._number, read_to, (work, reports))
                line = log_line(
                    "rebuilding", store=self._store.name, source=source.store_name, rows=read_rows
                )
                say("rebuild", line)
        return prepared

    def _upstream_ends(self, prepared_ends: Offsets, own: Mapping[str, object]) -> Offsets:
        """Return the ends of topics that only upstream stores read, and 0 for their rows."""
        ends = {t: prepared_ends.get(t, {}) for t in self._plans.topics if t not in own}
        for source in self._store.reads_stores:
            ends |= stream_ends(source, 0)
        return ends

    def _reports(
        self,
        rows: DataFrame,
        bounds: tuple[Offsets, Offsets],
        work: StoreWork,
        final_rows: Mapping[Source, pa.Table],
    ) -> Reports:
        common = self._common
        reports = common.computation.run(rows, bounds, [work], common.wall_clock, final_rows)
        return reports[work.plan.store]


class ReplayedRows:
    """The newest row of each window of a replay, as files for the table that it replaces."""

    def __init__(self, common: Replaying, table: Path, directory: Path, schema: pa.Schema) -> None:
        """Read the rows of ``table``, and write files of ``schema`` into ``directory``."""
        self._common = common
        self._table = table
        self._directory = directory
        self._schema = schema
        #: The files of ``table`` that are read already.
        self._read: set[str] = set()
        self.files: list[AddedFile] = []

    def add(self, revision: int) -> None:
        """Write the newest rows of the files that ``table`` has since the last call.

        Args:
            revision: The revision of all these rows. It is greater than that of the last call, and
                not greater than the last batch of the pipeline, because rows of the next batch
                override these rows.
        """
        snapshot = DeltaLog(self._table).snapshot()
        new = set(snapshot.files) - self._read
        if new:
            self.files += self._newest_rows(snapshot, new, revision)
        self._read |= new

    def _newest_rows(
        self, snapshot: TableSnapshot, new: set[str], revision: int
    ) -> list[AddedFile]:
        window = window_columns(self._schema.names)
        newest = Window.partitionBy(*window).orderBy(F.desc("revision"))
        # The dot avoids a conflict with columns of users.
        rank = "oriel.rank"
        rows = (
            self._rows(snapshot, sorted(new))
            .withColumn(rank, F.row_number().over(newest))
            .filter(f"`{rank}` = 1")
            .drop(rank)
            .withColumn("revision", F.lit(revision).cast("bigint"))
        )  # fmt: skip
        if not self._read:
            # A later removal removes a row of an earlier file, so only the first files lack them.
            rows = rows.filter("NOT deleted")
        sizes = snapshot.adds.select(["path", "size_bytes"]).to_pylist()
        size = sum(file["size_bytes"] for file in sizes if file["path"] in new)
        rows = rows.repartition(1 + size // _FILE_BYTES, "key").sortWithinPartitions(*window)
        schema, directory, sync = self._schema, self._directory, self._common.sync
        name, run = f"part-{revision:012d}-rebuilt", run_name(revision, revision)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            gathered = list(batches)
            if sum(one.num_rows for one in gathered):
                table = pa.Table.from_batches(gathered).cast(schema)
                added = write_file(directory, table, name, sync=sync, run=run)
                report = orjson.dumps(added).decode()
                yield pa.RecordBatch.from_pydict({"report": [report]})

        reports = map_in_arrow(rows, write, _REPORT).toArrow()["report"].to_pylist()
        return [AddedFile(**orjson.loads(report)) for report in reports]

    def _rows(self, snapshot: TableSnapshot, names: list[str]) -> DataFrame:
        """Return the rows of files. Spark's reader does not check digests or read object stores."""
        spark, definition, digests = self._common.spark, snapshot.definition, snapshot.digests
        table, schema = self._table, self._schema

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for name in (name for batch in batches for name in batch["name"].to_pylist()):
                for rows in table_batches(
                    table / name, definition, digest=digests.get(name), columns=schema.names
                ):
                    yield from rows.cast(schema).to_batches()

        frame = spark.createDataFrame(pa.table({"name": names}))
        frame = frame.repartition(min(len(names), self._common.tasks))
        return map_in_arrow(frame, read, from_arrow_schema(schema))


def _log_lost_records(store: str, begins: Offsets) -> None:
    for topic, partitions in begins.items():
        lost = [f"{p} below {offset}" for p, offset in partitions.items() if offset]
        if lost:
            line = log_line("first records lost", store=store, topic=topic)
            line += (
                f" (partition {', '.join(lost)}). Their windows contain only the remaining records"
            )
            say("rebuild", line)


def _distance(starts: Offsets, ends: Offsets) -> int:
    """Return the distance between two offsets, summed over all partitions."""
    return sum(
        end - starts.get(topic, {}).get(partition, 0)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )
