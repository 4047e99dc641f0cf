"""An event log as a source: slices of whole lines of its files, and the lines of a slice."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from shlex import quote
from typing import ClassVar

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.decoding import event_log_decoder
from oriel.pipeline.errors import EventLogError, InvalidTopology
from oriel.pipeline.event_log import (
    DEFAULT_MAX_BATCH_BYTES,
    FORMAT,
    RAW_SCHEMA,
    EventLogSource,
    block_before,
    next_ends,
    partition_files,
    read_lines,
    slice_lines,
    slices,
)
from oriel.pipeline.language import Source, check_topic
from oriel.pipeline.sources.log import Batches, Decoder, Log, RawRows, total_distance
from oriel.pipeline.sources.spark_decoding import spark_event_log_decoder
from oriel.pipeline.spark import map_in_arrow
from oriel.pipeline.stage_columns import ReadBlocks
from oriel.storage import Offsets, say
from oriel.storage.files import digest

#: The driver computes a batch of at most this size without a Spark job. A job needs 0.2 to 0.3 s
#: even for little work. In this time, the driver decodes and aggregates about this many bytes.
SMALL_BATCH_BYTES = 4 * 2**20

#: Each batch computes a digest of this many bytes before its end in a partition. A run compares the
#: digests when it starts, because it cannot compare all bytes that were read.
_BLOCK_BYTES = 65_536


@dataclass(frozen=True)
class EventLog(Log):
    """A directory of JSON Lines files, ``root/<topic>/<partition>.jsonl``.

    Attributes:
        root: The directory.
        max_batch_bytes: One batch reads at most about this many bytes of all partitions of a topic.
        small_batch_bytes: The driver computes a batch with at most this many bytes.
    """

    root: Path
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    small_batch_bytes: int = SMALL_BATCH_BYTES

    raw_schema: ClassVar[str] = "partition INT, offset BIGINT, raw BINARY"
    offset_unit: ClassVar[str] = "bytes"

    def decoder(self, source: Source) -> Decoder:
        """Return the decoder of lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
        consumed = source.consumed
        if not consumed.is_json or consumed.timestamp == "ingestion":
            message = (
                f"{source}: an event log has string keys, JSON values and its own times. Leave "
                "out the serdes (and the time 'ingestion'), or read the topic from Kafka"
            )
            raise InvalidTopology(message)
        decoder = event_log_decoder(source.schema, consumed)
        return decoder or spark_event_log_decoder(source.schema)

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        _sources: Sequence[Source] = (),
        wait_for: Sequence[str] = (),
    ) -> DataFrame:
        """Return the slices of the topic's files, as lines are appended to them.

        Raises:
            EventLogError: The directory of the topic has a ``.jsonl`` file that is not a partition.
        """
        # The source checks this also, but its message is inside a Java error.
        partition_files(ensure_topic_directory(self.root, topic))
        _register(spark)
        return (
            spark.readStream.format(FORMAT)
            .option("root", str(self.root.resolve()))
            .option("topic", topic)
            .option("max_batch_bytes", str(self.max_batch_bytes))
            .option("wait_for", orjson.dumps(wait_for).decode())
            .load()
        )

    def open(
        self, _spark: SparkSession, topics: Sequence[str], _read: Offsets, _directory: Path
    ) -> None:
        """See ``Log``. Warn about empty topics, because a misspelled topic is always empty."""
        empty = [
            topic
            for topic in topics
            if not partition_files(ensure_topic_directory(self.root, topic))
        ]
        other_topics = sorted(
            directory.name
            for directory in self.root.iterdir()
            if directory.name not in topics and any(directory.glob("*.jsonl"))
        )
        # If no other topic has files, the log is new.
        for topic in empty if other_topics else ():
            line = (
                f"topic {topic!r} has no records: {self.root / topic} has no file. Topics "
                f"that the topology does not read: {', '.join(other_topics)}. Is its name misspelt?"
            )
            say("empty-topic", line, level="warning", topic=topic)

    def row_opener(self) -> RawRows:
        return slice_lines

    def raw_rows(self, rows: DataFrame) -> DataFrame:
        def lines(batches: Batches) -> Batches:
            return (block for _, block in slice_lines(batches))

        return map_in_arrow(rows, lines, from_arrow_schema(RAW_SCHEMA))

    def is_small(self, starts: Offsets, ends: Offsets) -> bool:
        return total_distance(starts, ends) <= self.small_batch_bytes

    def read(
        self, _rows: DataFrame, starts: Offsets, ends: Offsets
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        """See ``Log``. The driver reads the files as a task of Spark does."""
        return [
            (topic, list(read_lines(part)))
            for topic, topic_ends in ends.items()
            for part in slices(
                topic, self.root.resolve() / topic, starts.get(topic, {}), topic_ends
            )
        ]

    def read_share(self, ends: Offsets) -> float | None:
        size = total_distance({}, self.ends(None, list(ends)))
        return total_distance({}, ends) / size if size else None

    def ends(self, _spark: SparkSession | None, topics: Sequence[str]) -> Offsets:
        """See ``Log``. The ends are the sizes of the files."""
        return {
            topic: {
                str(partition): path.stat().st_size
                for partition, path in partition_files(self.root / topic).items()
            }
            for topic in topics
        }

    def identity(self, _spark: SparkSession) -> dict[str, str]:
        """See ``Log``. The directory can be moved. ``refuse_changed`` detects other files."""
        return {"log": "an event log"}

    def begins(self, _spark: SparkSession, ends: Offsets) -> Offsets:
        """See ``Log``. Lines are never removed."""
        return {topic: dict.fromkeys(topic_ends, 0) for topic, topic_ends in ends.items()}

    def read_blocks(self, starts: Offsets, ends: Offsets) -> ReadBlocks:
        """See ``Log``. A block is the last 64 KiB before the end of the batch."""
        root = self.root.resolve()
        found: ReadBlocks = {}
        for topic, topic_ends in ends.items():
            for part in slices(topic, root / topic, starts.get(topic, {}), topic_ends):
                block = block_before(part.path, part.end, _BLOCK_BYTES)
                found.setdefault(topic, {})[str(part.partition)] = (part.end, digest(block))
        return found

    def refuse_changed(self, store: str, blocks: ReadBlocks) -> None:
        """See ``Log``. The reader itself reports a file that is missing or shorter."""
        for topic, partitions in blocks.items():
            for partition, (end, read) in partitions.items():
                path = self.root / topic / f"{partition}.jsonl"
                if not path.is_file() or path.stat().st_size < end:
                    continue
                if digest(block_before(str(path), end, _BLOCK_BYTES)) != read:
                    start = max(0, end - _BLOCK_BYTES)
                    message = (
                        f"event log {path}: bytes {start} to {end} are not the bytes that store "
                        f"{store!r} has read, because their digest differs. The log is "
                        "append-only: restore the file from a backup. If its content is correct, "
                        "compute each store that reads the topic again, for example with `oriel "
                        f"rebuild {quote(store)}`"
                    )
                    raise EventLogError(message)

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        return {
            topic: next_ends(
                ensure_topic_directory(self.root, topic),
                starts.get(topic, {}),
                topic_ends,
                self.max_batch_bytes,
            )
            for topic, topic_ends in ends.items()
        }

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, _sources: Sequence[Source] = ()
    ) -> DataFrame:
        _register(spark)
        frames = [
            spark.read.format(FORMAT)
            .option("root", str(self.root.resolve()))
            .option("topic", topic)
            .option("starts", orjson.dumps(starts.get(topic, {})).decode())
            .option("ends", orjson.dumps(topic_ends).decode())
            .load()
            for topic, topic_ends in ends.items()
            if total_distance({topic: starts.get(topic, {})}, {topic: topic_ends})
        ]
        return reduce(DataFrame.union, frames)


@cache
def _register(spark: SparkSession) -> None:
    """Register the source once, because Spark warns if it is registered twice."""
    spark.dataSource.register(EventLogSource)


def ensure_topic_directory(root: Path, topic: str) -> Path:
    """Return the directory of ``topic``. Create it if it is missing, so that a producer can begin.

    Raises:
        InvalidTopology: The name of the topic is not valid.
        EventLogError: A file has the path of the directory.
    """
    directory = root / check_topic(topic)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        message = f"event log {directory}: it is a file and not a directory. Move the file"
        raise EventLogError(message) from error
    return directory
