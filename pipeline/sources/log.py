"""The sources: a topic as a stream of raw rows, and the function that decodes them.

Both give the same contract: a partition is read in offset order, by one task a batch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.sources.decoding import Decoder, event_log_decoder, kafka_decoder
from oriel.pipeline.sources.event_log import (
    DEFAULT_MAX_BATCH_BYTES,
    FORMAT,
    EventLogSource,
    ensure_topic_folder,
    partition_files,
)


class Log(Protocol):
    """Where the records come from."""

    #: Spark DDL of the raw rows.
    raw_schema: ClassVar[str]

    def decoder(self, value_schema: str) -> Decoder:
        """Return what turns raw rows into records with ``value_schema``."""

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """Return the topic as a streaming DataFrame of raw rows, from its beginning."""


@dataclass(frozen=True)
class EventLog:
    """A folder of JSON Lines files, ``root/<topic>/<partition>.jsonl``.

    ``max_batch_bytes`` is how much one batch reads at most, over all partitions of a topic.
    """

    root: Path
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    raw_schema: ClassVar[str] = "partition INT, offset BIGINT, raw BINARY"

    def decoder(self, value_schema: str) -> Decoder:
        """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
        return event_log_decoder(value_schema)

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """Return the topic's lines as they are appended.

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


@dataclass(frozen=True)
class Kafka:
    """A Kafka cluster (``host:port``), read by Spark's own connector.

    ``max_batch_records`` is how much one batch reads at most, over all partitions of a topic.
    """

    bootstrap_servers: str
    max_batch_records: int = 500_000

    raw_schema: ClassVar[str] = (
        "key BINARY, raw BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    )

    def decoder(self, value_schema: str) -> Decoder:
        """Decode messages: key as text, JSON value, the message's timestamp."""
        return kafka_decoder(value_schema)

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """Return the topic's messages from its beginning."""
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            # Records that Kafka has deleted before they were read would be missing for ever.
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", str(self.max_batch_records))
            .load()
            .selectExpr("key", "value AS raw", "partition", "offset", "timestamp")
        )
