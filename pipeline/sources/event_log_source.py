"""An event log as a source: its files in slices of whole lines, and the lines of a slice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.decoding import event_log_decoder
from oriel.pipeline.errors import CheckpointError, EventLogError
from oriel.pipeline.event_log import (
    DEFAULT_MAX_BATCH_BYTES,
    FORMAT,
    RAW_SCHEMA,
    EventLogSource,
    opened_slices,
    partition_files,
    read_lines,
    slices,
)
from oriel.pipeline.language import check_topic
from oriel.pipeline.sources.log import Batches, Decoder, Log, distance
from oriel.pipeline.sources.losses import KAFKA_RECORD
from oriel.pipeline.sources.spark_decoding import spark_event_log_decoder
from oriel.storage import Offsets

#: Up to this size a batch runs in the driver: a Spark job costs 0.2 to 0.3 s, however little it
#: has to do, and in that time the driver alone takes so much through decoder and engine.
SMALL_BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True)
class EventLog(Log):
    """A folder of JSON Lines files, ``root/<topic>/<partition>.jsonl``.

    ``max_batch_bytes`` is how much one batch reads at most, over all partitions of a topic; up
    to ``small_batch_bytes`` it is read by the driver.
    """

    root: Path
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    small_batch_bytes: int = SMALL_BATCH_BYTES

    raw_schema: ClassVar[str] = "partition INT, offset BIGINT, raw BINARY"

    def decoder(self, value_schema: str) -> Decoder:
        """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
        return event_log_decoder(value_schema) or spark_event_log_decoder(value_schema)

    def open(
        self, _spark: SparkSession, _topics: Sequence[str], _read: Offsets, folder: Path
    ) -> None:
        """See ``Log``.

        Raises:
            CheckpointError: the checkpoint has read Kafka.
        """
        if (folder / KAFKA_RECORD).exists():
            message = (
                f"{folder} has read Kafka ({KAFKA_RECORD} is there), whose offsets mean nothing in "
                "an event log: start anew with another data folder"
            )
            raise CheckpointError(message)

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """The slices of the topic's files, as lines are appended to them.

        Raises:
            EventLogError: the topic's folder holds a file that is no partition.
        """
        # Looked at here for the sake of the message: in the source it is inside a Java error.
        partition_files(ensure_topic_folder(self.root, topic))
        spark.dataSource.register(EventLogSource)
        return (
            spark.readStream.format(FORMAT)
            .option("root", str(self.root.resolve()))
            .option("topic", topic)
            .option("max_batch_bytes", str(self.max_batch_bytes))
            .load()
        )

    def open_rows(self, rows: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
        """See ``Log``."""
        return opened_slices(rows)

    def raw_rows(self, rows: DataFrame) -> DataFrame:
        """See ``Log``."""

        def lines(batches: Batches) -> Batches:
            return (block for _, block in opened_slices(batches))

        return rows.mapInArrow(lines, from_arrow_schema(RAW_SCHEMA))

    def is_small(self, starts: Offsets, ends: Offsets) -> bool:
        """See ``Log``."""
        return distance(starts, ends) <= self.small_batch_bytes

    def read(
        self, _rows: DataFrame, starts: Offsets, ends: Offsets
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        """See ``Log``: read from the files, as a task of Spark's would."""
        return [
            (topic, list(read_lines(part)))
            for topic, topic_ends in ends.items()
            for part in slices(
                topic, self.root.resolve() / topic, starts.get(topic, {}), topic_ends
            )
        ]

    def share_behind(self, ends: Offsets) -> float | None:
        """See ``Log``."""
        sizes = [
            path.stat().st_size
            for topic in ends
            for path in partition_files(self.root / topic).values()
        ]
        return distance({}, ends) / sum(sizes) if any(sizes) else None


def ensure_topic_folder(root: Path, topic: str) -> Path:
    """Make the folder of ``topic`` if it isn't there, so that a producer can begin.

    Raises:
        InvalidTopology: the topic's name is not valid.
        EventLogError: there is a file where a folder is to be.
    """
    folder = root / check_topic(topic)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        message = f"no event log at {folder}: there is a file in the place of a folder"
        raise EventLogError(message) from error
    return folder
