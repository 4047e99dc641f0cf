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
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.errors import ConnectorUnavailable, EventLogError
from oriel.pipeline.event_log import (
    DEFAULT_MAX_BATCH_BYTES,
    FORMAT,
    EventLogSource,
    partition_files,
)
from oriel.pipeline.language import check_topic
from oriel.pipeline.sources.spark_decoding import (
    SparkDecoder,
    spark_event_log_decoder,
    spark_kafka_decoder,
)
from oriel.pipeline.spark import build_session


class Log(Protocol):
    """Where the records come from."""

    #: Spark DDL of the raw rows.
    raw_schema: ClassVar[str]

    def decoder(self, value_schema: str) -> SparkDecoder:
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

    def decoder(self, value_schema: str) -> SparkDecoder:
        """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
        return spark_event_log_decoder(value_schema)

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

    ``max_batch_records`` is how much one batch reads at most, over all partitions of a topic.
    """

    bootstrap_servers: str
    max_batch_records: int = 500_000

    raw_schema: ClassVar[str] = (
        "key BINARY, raw BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    )

    def decoder(self, value_schema: str) -> SparkDecoder:
        """Decode messages: key as text, JSON value, the message's timestamp."""
        return spark_kafka_decoder(value_schema)

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
