"""The contract of a log: topics as streams of raw rows, and the function that decodes them.

For each log, one task per batch reads a partition in the order of its offsets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.language import Source
from oriel.pipeline.sources.spark_decoding import SparkDecoder
from oriel.pipeline.stage_columns import ReadBlocks
from oriel.storage import Offsets

#: Rows as Arrow batches.
Batches = Iterator[pa.RecordBatch]
#: Turns rows of a log's stream into the topic and raw rows, by partition in the order of offsets.
RawRows = Callable[[Batches], Iterator[tuple[str, pa.RecordBatch]]]
#: Decodes raw rows, as Arrow batches or as rows of Spark.
Decoder = BlockDecoder | SparkDecoder


class Log(Protocol):
    """The source of the records.

    ``stream`` returns rows with a column ``topic`` and other columns that only the log knows.
    ``row_opener`` returns a function for tasks and the driver, which turns them into raw rows.
    """

    #: Spark DDL of raw rows.
    raw_schema: ClassVar[str]
    #: The unit of offsets: ``records`` or ``bytes``.
    offset_unit: ClassVar[str] = "records"

    @property
    def plans_slices(self) -> bool:
        """Return whether rows of the stream are slices, so that planning can wait for records."""
        return True

    def decoder(self, source: Source) -> Decoder:
        """Return the decoder of a source: with Spark only if Arrow's reader lacks a type.

        Raises:
            InvalidTopology: This log cannot have records as the source describes them.
        """

    def no_response(self, _spark: SparkSession, _topics: Sequence[str]) -> str | None:
        """Return why the topics are unavailable for now, or None if they are available.

        Raises:
            PipelineError: The topics cannot be read, and waiting does not help.
        """
        return None

    def open(
        self, _spark: SparkSession, _topics: Sequence[str], _read: Offsets, _directory: Path
    ) -> None:
        """Check, before a query begins, that the log has all records after the offsets ``_read``.

        ``_directory`` is the directory of the checkpoint, where a log can keep facts.

        Raises:
            PipelineError: Records are missing, or the topics cannot be read.
        """
        return

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        sources: Sequence[Source] = (),
        wait_for: Sequence[str] = (),
    ) -> DataFrame:
        """Return the topic as a streaming DataFrame, from its beginning.

        Args:
            spark: The session.
            topic: The topic.
            sources: All sources of the run. If a source needs a column, every topic has it.
            wait_for: All topics of the query, if planning a batch waits for a record of any topic.
                Empty if batches start at fixed times.
        """

    def row_opener(self) -> RawRows:
        """Return the function that tasks of Spark call with rows of ``stream``.

        It is pickled for other processes.
        """

    def raw_rows(self, rows: DataFrame) -> DataFrame:
        """Return the raw rows of the ``rows`` of a batch, in Spark."""

    def is_small(self, starts: Offsets, ends: Offsets) -> bool:
        """Return whether the driver computes a batch faster than a Spark job would."""

    def read(
        self, rows: DataFrame, starts: Offsets, ends: Offsets
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        """Return the topic and the raw rows of each partition of a batch, in the driver."""

    def read_share(self, ends: Offsets) -> float | None:
        """Return the share of the topics before the offsets (0 to 1), or None if unknown."""

    def ends(self, _spark: SparkSession, _topics: Sequence[str]) -> Offsets:
        """Return the present end of each partition. Topics with an unknown end are left out.

        Another thread calls this while batches run.

        Raises:
            PipelineError, OSError: The ends are unknown.
        """
        return {}

    def identity(self, spark: SparkSession) -> dict[str, str]:
        """Return the log that the offsets of a checkpoint belong to."""

    def begins(self, spark: SparkSession, ends: Offsets) -> Offsets:
        """Return the first offset that exists in each partition of ``ends``."""

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return the end of a batch of the usual size from ``starts``, at most ``ends``."""

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source] = ()
    ) -> DataFrame:
        """Return at least one row between two offsets, as ``stream`` returns them."""

    def look_for_losses(self, _starts: Offsets, _ends: Offsets) -> None:
        """Check, before a batch is computed, that the log has all of its records.

        Raises:
            RecordsLost: Records are missing, and the run does not skip them.
        """
        return

    def read_blocks(self, _starts: Offsets, _ends: Offsets) -> ReadBlocks:
        """Return the digest of the last block of each partition that a batch reads.

        A log returns no blocks if a record cannot change at its offset.
        """
        return {}

    def refuse_changed(self, _store: str, _blocks: ReadBlocks) -> None:
        """Compare the log with the blocks that a store has read.

        Raises:
            EventLogError: A block differs.
        """
        return

    def may_pass(self, _error: BaseException) -> bool:
        """Return whether another query can help after an error that ended a query."""
        return False

    def lost_records(self) -> Mapping[str, int]:
        """Return how many offsets of each topic were skipped because they were deleted."""
        return {}


def total_distance(starts: Offsets, ends: Offsets) -> int:
    """Return the sum of the distances of all partitions, in bytes or records."""
    return sum(
        end - starts.get(topic, {}).get(partition, 0)
        for topic, topic_ends in ends.items()
        for partition, end in topic_ends.items()
    )
