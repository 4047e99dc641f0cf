"""Kafka as a source, read by Spark's own connector."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.decoding import kafka_decoder
from oriel.pipeline.sources.log import Batches, Decoder, distance
from oriel.pipeline.sources.spark_decoding import spark_kafka_decoder
from oriel.storage import Offsets

#: Up to so many records a batch runs in the driver: see ``event_log_source.SMALL_BATCH_BYTES``.
SMALL_BATCH_RECORDS = 30_000
#: How much Kafka's messages are decoded at a time.
_BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Kafka:
    """A Kafka cluster (``host:port``), read by Spark's own connector.

    ``max_batch_records`` is how much one batch reads at most, over all partitions of a topic;
    up to ``small_batch_records`` it is computed by the driver.
    """

    bootstrap_servers: str
    max_batch_records: int = 500_000
    small_batch_records: int = SMALL_BATCH_RECORDS

    raw_schema: ClassVar[str] = (
        "key BINARY, raw BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    )

    def decoder(self, value_schema: str) -> Decoder:
        """Decode messages: key as text, JSON value, the message's timestamp."""
        return kafka_decoder(value_schema) or spark_kafka_decoder(value_schema)

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """The topic's messages from its beginning."""
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            # Records that Kafka has deleted before they were read would be missing for ever.
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", str(self.max_batch_records))
            # Kafka's defaults (1 MiB and 500 records a poll) are for programs that take one
            # record at a time: with these a topic is read half as fast again.
            .option("kafka.max.poll.records", "20000")
            .option("kafka.max.partition.fetch.bytes", str(16 * 2**20))
            .option("kafka.fetch.max.bytes", str(64 * 2**20))
            .load()
            .selectExpr("topic", *self._raw_columns)
        )

    def open_rows(self, rows: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
        """See ``Log``: a partition of Spark's has the messages of one of Kafka's."""
        for topic, batches in groupby(rows, key=lambda batch: batch["topic"][0].as_py()):
            for batch in _larger(batches):
                yield topic, batch.drop_columns(["topic"])

    def raw_rows(self, rows: DataFrame) -> DataFrame:
        """See ``Log``."""
        return rows.drop("topic")

    def is_small(self, starts: Offsets, ends: Offsets) -> bool:
        """See ``Log``."""
        return distance(starts, ends) <= self.small_batch_records

    def read(
        self, rows: DataFrame, _starts: Offsets, _ends: Offsets
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        """See ``Log``: fetched by Spark, in whose rows a partition's messages are in order."""
        messages = rows.toArrow()
        partitions = messages.group_by(["topic", "partition"], use_threads=False).aggregate([])
        raw = []
        for topic, partition in zip(*partitions.to_pydict().values(), strict=True):
            of_partition = messages.filter(
                pc.and_(
                    pc.equal(messages["topic"], topic), pc.equal(messages["partition"], partition)
                )
            )
            raw.append((topic, of_partition.drop_columns(["topic"]).combine_chunks().to_batches()))
        return raw

    def share_behind(self, _ends: Offsets) -> float | None:
        """See ``Log``: only the brokers know."""
        return None

    @property
    def _raw_columns(self) -> list[str]:
        return ["key", "value AS raw", "partition", "offset", "timestamp"]


def _larger(batches: Batches) -> Batches:
    """Rows in batches of about ``_BLOCK_BYTES``: Spark's are of 10,000 rows, however short."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(block.nbytes for block in gathered) >= _BLOCK_BYTES:
            yield from pa.Table.from_batches(gathered).combine_chunks().to_batches()
            gathered = []
    if gathered:
        yield from pa.Table.from_batches(gathered).combine_chunks().to_batches()
