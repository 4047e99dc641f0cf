"""The contract of a reader of Kafka's records, and the reader that uses Spark's connector."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.language import Source
from oriel.pipeline.sources.brokers import Brokers
from oriel.pipeline.sources.jvm_brokers import JvmBrokers
from oriel.pipeline.sources.log import Batches, RawRows
from oriel.storage import Offsets

#: The column of headers for a topic whose sources read no headers. Spark does not read them then.
_NO_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
#: About this many bytes of messages are decoded at a time.
_BLOCK_BYTES = 4 * 2**20
#: A query waits at most this long for a broker. Then the run checks the brokers.
_POLL_TIMEOUT_MS = 30_000
_TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}


@dataclass(frozen=True)
class TopicRead:
    """Describes how a streaming query reads a topic.

    Attributes:
        topic: The topic.
        start: The start of a new checkpoint: ``earliest``, ``latest`` or ms since 1970.
        firsts: Partition -> the offset of that start.
        batch_records: One batch has at most this many offsets of the topic.
        wait_for: All topics of the query, if planning a batch waits for a record.
    """

    topic: str
    start: str
    firsts: Mapping[str, int]
    batch_records: int
    wait_for: Sequence[str] = ()


class KafkaReader(Protocol):
    """Reads the records of topics for Spark's query, for its tasks and for the driver.

    ``needs_connector`` is True if Spark's Kafka connector has to be loaded. ``sources`` are all
    sources of the run. If a source needs a column, every topic has it.
    """

    #: See ``Log``.
    plans_slices: ClassVar[bool]
    needs_connector: ClassVar[bool]

    def brokers(self, spark: SparkSession) -> Brokers:
        """Return the brokers, as the client of this reader reaches them."""

    def stream(self, spark: SparkSession, read: TopicRead, sources: Sequence[Source]) -> DataFrame:
        """Return a topic as a streaming DataFrame."""

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source]
    ) -> DataFrame:
        """Return the records between two offsets as ``stream`` returns them."""

    def row_opener(self, sources: Sequence[Source]) -> RawRows:
        """Return the function that turns rows of ``stream`` into raw rows, for tasks."""

    def raw_rows(self, rows: DataFrame, sources: Sequence[Source]) -> DataFrame:
        """Return raw rows for rows of ``stream``, in Spark."""

    def read(
        self, rows: DataFrame, starts: Offsets, ends: Offsets, sources: Sequence[Source]
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        """Return the topic and the raw rows of each partition of a batch, in the driver."""


def reads_headers(sources: Sequence[Source], topic: str | None = None) -> bool:
    """Return whether a source of the topic, or of any topic, reads headers."""
    return any(source.consumed.headers and topic in (None, source.topic) for source in sources)


def reads_ingestion_time(sources: Sequence[Source]) -> bool:
    """Return whether the time of a record is the time of its batch for a source."""
    return any(source.consumed.timestamp == "ingestion" for source in sources)


@dataclass(frozen=True)
class ConnectorReader:
    """Reads with Spark's Kafka connector, whose Java client fetches the records.

    Attributes:
        servers: The bootstrap servers.
        options: Options of the Java client.
        skips_lost: If False, a query ends if Kafka has deleted records that it has not read.
    """

    servers: str
    options: Mapping[str, str] = field(repr=False)
    skips_lost: bool

    plans_slices: ClassVar[bool] = False
    needs_connector: ClassVar[bool] = True

    def brokers(self, spark: SparkSession) -> Brokers:
        return JvmBrokers(spark, self.servers, self.options)

    def stream(self, spark: SparkSession, read: TopicRead, sources: Sequence[Source]) -> DataFrame:
        reader = (
            spark.readStream.format("kafka")
            .option("subscribe", read.topic)
            .option("maxOffsetsPerTrigger", str(read.batch_records))
            # The next query repeats the request, after the run has checked the brokers.
            .option("fetchOffset.numRetries", "2")
            .option("kafkaConsumer.pollTimeoutMs", str(_POLL_TIMEOUT_MS))
            .option("failOnDataLoss", str(not self.skips_lost).lower())
        )
        if read.start.isdecimal():
            # A partition without a record at or after the time begins at its end.
            reader = reader.option("startingTimestamp", read.start)
            reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
        else:
            reader = reader.option("startingOffsets", read.start)
        reader = reader.option("includeHeaders", str(reads_headers(sources, read.topic)).lower())
        reader = reader.options(**self._client_options())
        return reader.load().selectExpr("topic", *_raw_columns(sources, read.topic))

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source]
    ) -> DataFrame:
        ends = {topic: of_topic for topic, of_topic in ends.items() if of_topic}
        assigned = {topic: [int(p) for p in of_topic] for topic, of_topic in ends.items()}
        start_offsets = {
            topic: {p: starts[topic][p] for p in of_topic} for topic, of_topic in ends.items()
        }
        return (
            spark.read.format("kafka")
            .options(**self._client_options())
            .option("assign", orjson.dumps(assigned).decode())
            .option("startingOffsets", orjson.dumps(start_offsets).decode())
            .option("endingOffsets", orjson.dumps(ends).decode())
            .option("includeHeaders", str(reads_headers(sources)).lower())
            .load()
            .selectExpr("topic", *_raw_columns(sources))
        )

    def row_opener(self, _sources: Sequence[Source]) -> RawRows:
        return _raw_rows

    def raw_rows(self, rows: DataFrame, _sources: Sequence[Source]) -> DataFrame:
        return rows.drop("topic")

    def read(
        self, rows: DataFrame, _starts: Offsets, _ends: Offsets, _sources: Sequence[Source]
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        # The rows of a partition are in the order of their offsets.
        messages = rows.toArrow()
        partitions = messages.group_by(["topic", "partition"], use_threads=False).aggregate([])
        raw = []
        for topic, partition in zip(*partitions.to_pydict().values(), strict=True):
            partition_messages = messages.filter(
                pc.and_(
                    pc.equal(messages["topic"], topic), pc.equal(messages["partition"], partition)
                )
            )
            raw.append(
                (topic, partition_messages.drop_columns(["topic"]).combine_chunks().to_batches())
            )
        return raw

    def _client_options(self) -> dict[str, str]:
        """Return the options of Spark's source that are options of its client."""
        options = {**_TIMEOUTS, **self.options, "bootstrap.servers": self.servers}
        return {f"kafka.{name}": value for name, value in options.items()}


def _raw_rows(rows: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield raw rows. A partition of Spark has the messages of one partition of Kafka."""
    for topic, batches in groupby(rows, key=lambda batch: batch["topic"][0].as_py()):
        for batch in _merged_batches(batches):
            yield topic, batch.drop_columns(["topic"])


def _raw_columns(sources: Sequence[Source], topic: str | None = None) -> list[str]:
    """Return the columns of raw rows, which all topics of a run share."""
    columns = ["key", "value AS raw", "partition", "offset", "timestamp"]
    if reads_headers(sources):
        columns.append("headers" if reads_headers(sources, topic) else f"{_NO_HEADERS} AS headers")
    if reads_ingestion_time(sources):
        # The time of the batch in the offset log, so that a repeated batch has the same time.
        columns.append("current_timestamp() AS ingested")
    return columns


def _merged_batches(batches: Batches) -> Batches:
    """Yield rows in batches of about ``_BLOCK_BYTES``. Batches of Spark have 10,000 rows."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(block.nbytes for block in gathered) >= _BLOCK_BYTES:
            yield from pa.Table.from_batches(gathered).combine_chunks().to_batches()
            gathered = []
    if gathered:
        yield from pa.Table.from_batches(gathered).combine_chunks().to_batches()
