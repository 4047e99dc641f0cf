"""What a log is to the pipeline: topics as streams of raw rows, and the function that decodes them.

Every log gives the same contract: a partition is read in offset order, by one task a batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.hops import ReadBlocks
from oriel.pipeline.language import Source
from oriel.pipeline.sources.spark_decoding import SparkDecoder
from oriel.storage import Offsets

#: Rows as Arrow batches.
Batches = Iterator[pa.RecordBatch]
#: Turns rows of a log's stream into the topic and raw rows, by partition in the order of offsets.
RawRows = Callable[[Batches], Iterator[tuple[str, pa.RecordBatch]]]
#: Decodes raw rows: Arrow batches of them, or Spark's.
Decoder = BlockDecoder | SparkDecoder


class Log(Protocol):
    """Where the records come from.

    ``stream`` returns rows of a kind of its own, with a column ``topic``. ``row_opener`` returns
    the function that turns them into raw rows, in a task of Spark or in the driver.
    """

    #: Spark DDL of raw rows.
    raw_schema: ClassVar[str]
    #: What offsets count: ``records`` or ``bytes``.
    offset_unit: ClassVar[str] = "records"

    def decoder(self, source: Source) -> Decoder:
        """What turns raw rows into records: Spark only where Arrow's reader lacks a type.

        Raises:
            InvalidTopology: the source's records can't be in this log as it says.
        """

    def no_answer(self, _spark: SparkSession, _topics: Sequence[str]) -> str | None:
        """Why the topics can't be read, if that may pass by itself; None: they can.

        Raises:
            PipelineError: they can't, and it won't pass.
        """
        return None

    def open(
        self, _spark: SparkSession, _topics: Sequence[str], _read: Offsets, _folder: Path
    ) -> None:
        """Look, before a query begins, whether all behind the offsets ``read`` is still there.

        ``folder`` is the checkpoint's, for what a log has to remember.

        Raises:
            PipelineError: it is not, or the topics can't be read.
        """
        return

    def stream(self, spark: SparkSession, topic: str, sources: Sequence[Source] = ()) -> DataFrame:
        """The topic as a streaming DataFrame, from its beginning.

        ``sources`` are all that the run reads: what one of them needs has a column in each topic.
        """

    def row_opener(self) -> RawRows:
        """Return the function that tasks of Spark call with rows of ``stream``.

        It is pickled for other processes.
        """

    def raw_rows(self, rows: DataFrame) -> DataFrame:
        """The raw rows of a batch's ``rows``, in Spark."""

    def is_small(self, starts: Offsets, ends: Offsets) -> bool:
        """Whether a batch between two offsets takes less time here than a Spark job takes."""

    def read(
        self, rows: DataFrame, starts: Offsets, ends: Offsets
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        """A batch's raw rows, here: the topic and the rows of each partition that has some."""

    def share_behind(self, ends: Offsets) -> float | None:
        """How much of the topics' logs lies behind offsets, from 0 to 1; None: it can't tell."""

    def ends(self, _spark: SparkSession, _topics: Sequence[str]) -> Offsets:
        """Where each partition ends by now; a topic of which that is not known is left out.

        Asked beside the batches, by a thread of its own.

        Raises:
            PipelineError, OSError: it can't be told.
        """
        return {}

    def identity(self, spark: SparkSession) -> dict[str, str]:
        """Which log the offsets of a checkpoint belong to."""

    def begins(self, spark: SparkSession, ends: Offsets) -> Offsets:
        """The first offset that is still there in each partition of ``ends``."""

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Where a batch of the usual size ends that begins at ``starts``, at ``ends`` at most."""

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source] = ()
    ) -> DataFrame:
        """The rows between two offsets, as ``stream`` gives them; there is at least one."""

    def look_for_losses(self, _starts: Offsets, _ends: Offsets) -> None:
        """Look, before a batch is computed, whether the log still has all of its records.

        Raises:
            RecordsLost: it has not, and the run is not to go on without them.
        """
        return

    def read_blocks(self, _starts: Offsets, _ends: Offsets) -> ReadBlocks:
        """Return the digest of the last block of each partition that a batch reads.

        A log whose records can't change under their offsets has none.
        """
        return {}

    def refuse_changed(self, _store: str, _blocks: ReadBlocks) -> None:
        """Compare the log with the blocks that a store has read.

        Raises:
            EventLogError: A block differs.
        """
        return

    def may_pass(self, _error: BaseException) -> bool:
        """Whether an error that ended a query is worth a look at the log and another query."""
        return False

    def lost_records(self) -> Mapping[str, int]:
        """How many offsets of each topic were skipped, as they were gone before they were read."""
        return {}


def distance(starts: Offsets, ends: Offsets) -> int:
    """How far all partitions together go between two offsets, in bytes or records."""
    return sum(
        end - starts.get(topic, {}).get(partition, 0)
        for topic, topic_ends in ends.items()
        for partition, end in topic_ends.items()
    )
