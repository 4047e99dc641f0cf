"""The sources: a topic as a stream of raw rows, and the function that decodes them.

Both give the same contract: a partition is read in offset order, by one task a batch. Kafka is
read by Spark's own connector, which Spark fetches through Ivy. Some copies of the public
repository lack its part ``spark-token-provider-kafka`` above 4.0.0. That part only renews
delegation tokens and 4.0.0 is verified against this Spark, so it is excluded and 4.0.0 is put
beside it (docs/decisions/0008).
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.errors import ConnectorUnavailable, EventLogError
from oriel.pipeline.event_log import (
    DEFAULT_MAX_BATCH_BYTES,
    FORMAT,
    RAW_SCHEMA,
    EventLogSource,
    next_ends,
    opened_slices,
    partition_files,
    read_lines,
    slices,
)
from oriel.pipeline.language import check_topic
from oriel.pipeline.sources.kafka_admin import KafkaAdmin
from oriel.pipeline.sources.spark_decoding import (
    SparkDecoder,
    spark_event_log_decoder,
    spark_kafka_decoder,
)
from oriel.pipeline.spark import build_session
from oriel.storage import Offsets

#: Rows as Arrow batches.
Batches = Iterator[pa.RecordBatch]
#: Decodes raw rows: Arrow batches of them, or Spark's.
Decoder = BlockDecoder | SparkDecoder


class Log(Protocol):
    """Where the records come from.

    ``stream`` gives rows of a log's own kind, a column ``topic`` among them. ``open_rows`` makes
    raw rows of them, in a task of Spark's or here.
    """

    #: Spark DDL of raw rows.
    raw_schema: ClassVar[str]

    def decoder(self, value_schema: str) -> Decoder:
        """What turns raw rows into records: Spark only where Arrow's reader lacks a type."""

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """The topic as a streaming DataFrame, from its beginning."""

    def open_rows(self, rows: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The topic and the raw rows of ``rows``, by partition in the order of offsets."""

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

    def identity(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, str]:
        """What the offsets of a checkpoint belong to: the log, and topics where they have an id."""

    def begins(self, spark: SparkSession, ends: Offsets) -> Offsets:
        """The first offset that is still there in each partition of ``ends``."""

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Where a batch of the usual size ends that begins at ``starts``, at ``ends`` at most."""

    def between(self, spark: SparkSession, starts: Offsets, ends: Offsets) -> DataFrame:
        """The rows between two offsets, as ``stream`` gives them; there is at least one."""


#: Up to this size a batch runs in the driver: a Spark job costs 0.2 to 0.3 s, however little it
#: has to do, and in that time the driver alone takes so much through decoder and engine.
SMALL_BATCH_BYTES = 4 * 2**20
SMALL_BATCH_RECORDS = 30_000
#: How much Kafka's messages are decoded at a time.
_BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class EventLog:
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

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        """The slices of the topic's files, as lines are appended to them.

        Raises:
            EventLogError: the topic's folder holds a file that is no partition.
        """
        # Looked at here for the sake of the message: in the source it is inside a Java error.
        partition_files(ensure_topic_folder(self.root, topic))
        _register(spark)
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
        return _size(starts, ends) <= self.small_batch_bytes

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
        return _size({}, ends) / sum(sizes) if any(sizes) else None

    def identity(self, _spark: SparkSession, _topics: Sequence[str]) -> dict[str, str]:
        """See ``Log``: the folder may be moved, and a file that is not the same one shows."""
        return {"log": "an event log"}

    def begins(self, _spark: SparkSession, ends: Offsets) -> Offsets:
        """See ``Log``: nothing is ever removed."""
        return {topic: dict.fromkeys(of_topic, 0) for topic, of_topic in ends.items()}

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        """See ``Log``."""
        return {
            topic: next_ends(
                ensure_topic_folder(self.root, topic),
                starts.get(topic, {}),
                of_topic,
                self.max_batch_bytes,
            )
            for topic, of_topic in ends.items()
        }

    def between(self, spark: SparkSession, starts: Offsets, ends: Offsets) -> DataFrame:
        """See ``Log``."""
        _register(spark)
        frames = [
            spark.read.format(FORMAT)
            .option("root", str(self.root.resolve()))
            .option("topic", topic)
            .option("starts", orjson.dumps(starts.get(topic, {})).decode())
            .option("ends", orjson.dumps(of_topic).decode())
            .load()
            for topic, of_topic in ends.items()
            if _size({topic: starts.get(topic, {})}, {topic: of_topic})
        ]
        return reduce(DataFrame.union, frames)


@cache
def _register(spark: SparkSession) -> None:
    """Let a session know the event log's source; it warns when it is told twice."""
    spark.dataSource.register(EventLogSource)


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
        return _size(starts, ends) <= self.small_batch_records

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

    def identity(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, str]:
        """See ``Log``: addresses of a cluster may change, a topic made anew has another id."""
        with KafkaAdmin(spark, self.bootstrap_servers) as admin:
            ids = {f"topic {name}": f"id {one}" for name, one in admin.topic_ids(topics).items()}
            return {"log": f"Kafka cluster {admin.cluster_id()}", **ids}

    def begins(self, spark: SparkSession, ends: Offsets) -> Offsets:
        """See ``Log``: retention may have removed the first ones."""
        with KafkaAdmin(spark, self.bootstrap_servers) as admin:
            return admin.earliest(ends)

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        """See ``Log``."""
        behind = sum(
            end > starts.get(topic, {}).get(p, 0)
            for topic, of_topic in ends.items()
            for p, end in of_topic.items()
        )
        share = max(1, self.max_batch_records // max(1, behind))
        return {
            topic: {
                p: min(end, starts.get(topic, {}).get(p, 0) + share) for p, end in of_topic.items()
            }
            for topic, of_topic in ends.items()
        }

    def between(self, spark: SparkSession, starts: Offsets, ends: Offsets) -> DataFrame:
        """See ``Log``."""
        ends = {topic: of_topic for topic, of_topic in ends.items() if of_topic}
        assigned = {topic: [int(p) for p in of_topic] for topic, of_topic in ends.items()}
        begins = {
            topic: {p: starts[topic][p] for p in of_topic} for topic, of_topic in ends.items()
        }
        return (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("assign", orjson.dumps(assigned).decode())
            .option("startingOffsets", orjson.dumps(begins).decode())
            .option("endingOffsets", orjson.dumps(ends).decode())
            .load()
            .selectExpr("topic", *self._raw_columns)
        )

    @property
    def _raw_columns(self) -> list[str]:
        return ["key", "value AS raw", "partition", "offset", "timestamp"]


def _size(starts: Offsets, ends: Offsets) -> int:
    """How far all partitions together go between two offsets, in bytes or records."""
    return sum(
        end - starts.get(topic, {}).get(partition, 0)
        for topic, topic_ends in ends.items()
        for partition, end in topic_ends.items()
    )


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


_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
_TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"  # noqa: S105 - a name
_TOKEN_PROVIDER_VERSION = "4.0.0"  # noqa: S105


def kafka_settings(ivy: Path | None = None) -> dict[str, str]:
    """Return the Spark settings that put the Kafka connector on the class path.

    ``ivy`` is Ivy's cache folder, by default the one that Spark uses.

    Raises:
        ConnectorUnavailable: no repository could be reached that has the connector.
    """
    # Spark's own cache, see build_session.
    jars = (ivy or Path.home() / ".ivy2.5.2") / "jars"
    group, artifact = _TOKEN_PROVIDER.split(":")
    token_provider = jars / f"{group}_{artifact}-{_TOKEN_PROVIDER_VERSION}.jar"
    if not token_provider.is_file():
        _fetch_token_provider()
    if not token_provider.is_file():
        message = (
            f"Spark's Kafka connector could not be fetched ({token_provider.name}): check that "
            "this machine reaches a Maven repository, or copy the file into the Ivy cache by hand"
        )
        raise ConnectorUnavailable(message)
    return {
        "spark.jars.packages": _CONNECTOR,
        "spark.jars.excludes": _TOKEN_PROVIDER,
        "spark.jars": str(token_provider),
    }


def _fetch_token_provider() -> None:
    """Let a Spark of its own resolve the jar: packages of a running JVM can't be changed."""
    subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", __spec__.name],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )


if __name__ == "__main__":
    build_session(
        "fetch", cores=1, packages=[f"{_TOKEN_PROVIDER}:{_TOKEN_PROVIDER_VERSION}"]
    ).stop()
