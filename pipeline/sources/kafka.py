"""Kafka as a source.

A ``KafkaReader`` reads the records. If brokers are down or records are deleted, the errors of a
query are slow and hard to read. So the pipeline checks the brokers itself (``Brokers``) before a
query begins and after a query has failed.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.arguments import ReaderName, Start
from oriel.pipeline.decoding import SchemaRegistry, kafka_decoder
from oriel.pipeline.errors import InvalidKafkaOption, InvalidTopology
from oriel.pipeline.event_log import DEFAULT_MAX_BATCH_BYTES
from oriel.pipeline.language import Source
from oriel.pipeline.sources.brokers import Brokers, BrokersUnavailable
from oriel.pipeline.sources.kafka_reader import KafkaReader, TopicRead
from oriel.pipeline.sources.kafka_readers import choose_reader
from oriel.pipeline.sources.log import Decoder, Log, RawRows, total_distance
from oriel.pipeline.sources.losses import (
    KAFKA_CHECKPOINT_FILE,
    KafkaCheckpoint,
    gaps,
    reject_another_log,
)
from oriel.pipeline.sources.spark_decoding import spark_kafka_decoder
from oriel.storage import Offsets, say

#: The driver computes a batch with at most this many records (``SMALL_BATCH_BYTES``).
SMALL_BATCH_RECORDS = 30_000

OnDataLoss = Literal["fail", "continue"]

#: Errors of Spark and librdkafka after which another query can succeed: a broker did not respond
#: in time, or a topic, partition or offset was missing.
_TRANSIENT = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|NotLeaderOrFollower|LeaderNotAvailable|Network|"
    r"UnknownTopicOrPartition|UnknownTopicId|OffsetOutOfRange|OffsetNotAvailable|KafkaStorage|"
    r"FencedLeaderEpoch|UnknownLeaderEpoch)Exception"
    r"|kafka\.clients\.consumer\.(?:OffsetOutOfRange|NoOffsetForPartition)Exception"
    r"|KAFKA_DATA_LOSS|LOST_TOPIC_PARTITIONS|failOnDataLoss"
    r"|No resolvable bootstrap urls"
    # Any error of librdkafka, with its name: the check of the brokers finds the cause.
    r"|Kafka: topic .* cannot be read: .*\(\w+\)"
    r"|Kafka deleted records before they were read \(\w+\)"
)


@dataclass
class _OpenTopics:
    """Facts about the topics, which ``open`` keeps.

    Attributes:
        brokers: The brokers.
        record: The facts about topics that the checkpoint keeps.
        batch_records: Topic -> the most offsets of a batch.
    """

    brokers: Brokers
    record: KafkaCheckpoint
    batch_records: Mapping[str, int]


@dataclass
class Kafka(Log):
    """A Kafka cluster.

    Attributes:
        bootstrap_servers: ``host:port``, separated by commas.
        max_batch_records: One batch reads at most this many records of a topic.
        small_batch_records: The driver computes a batch with at most this many records.
        options: Options of the Java client, which override ``DEFAULT_OPTIONS``.
        max_batch_bytes: One batch reads about this many bytes of a topic at most. A sample at the
            start of a query shows the size of records.
        start: The start of a new checkpoint. Default: earliest.
        on_data_loss: ``fail`` or ``continue`` if Kafka deleted records before they were read.
        warn: Called with a message for the user, one line.
        schema_registry: The schemas that values reference by id.
        topic_starts: Topic -> its start.
        reader: The reader of the records.
    """

    bootstrap_servers: str
    max_batch_records: int = 500_000
    small_batch_records: int = SMALL_BATCH_RECORDS
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    start: Start | None = None
    on_data_loss: OnDataLoss = "fail"
    warn: Callable[[str], None] = field(default=partial(say, "kafka", level="warning"), repr=False)
    schema_registry: SchemaRegistry | None = None
    topic_starts: Mapping[str, Start] = field(default_factory=dict)
    reader: ReaderName = "auto"
    _sources: Sequence[Source] = field(default=(), init=False, repr=False)
    _opened: _OpenTopics | None = field(default=None, init=False, repr=False)

    raw_schema: ClassVar[str] = (
        "key BINARY, raw BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    )

    def decoder(self, source: Source) -> Decoder:
        """Return the decoder for the source's ``Consumed``."""
        try:
            decoder = kafka_decoder(source.schema, source.consumed, self.schema_registry)
        except InvalidTopology as error:
            message = f"{source}: {error}"
            raise InvalidTopology(message) from error
        return decoder or spark_kafka_decoder(source.schema)

    def no_response(self, spark: SparkSession, topics: Sequence[str]) -> str | None:
        """See ``Log``. A broker that is down can start again."""
        try:
            self._reader.brokers(spark).topics(topics)
        except BrokersUnavailable as reason:
            return str(reason)
        return None

    def open(
        self, spark: SparkSession, topics: Sequence[str], read: Offsets, directory: Path
    ) -> None:
        """See ``Log``. For new topics, write their ids and their start to the checkpoint.

        Raises:
            InvalidKafkaOption: ``topic_starts`` has a topic that is not read.
            KafkaUnavailable: The brokers do not respond, reject the client or lack a topic.
            RecordsLost: Records after ``read`` were deleted, or a topic was re-created.
            CheckpointError: The file with these facts is damaged.
        """
        for topic in self.topic_starts.keys() - set(topics):
            message = (
                f"--start {topic}=...: the topology reads {', '.join(topics)}, not {topic!r}. "
                "Name one of its topics"
            )
            raise InvalidKafkaOption(message)
        path = directory / KAFKA_CHECKPOINT_FILE
        brokers = self._reader.brokers(spark)
        logs = brokers.topics(topics)
        batch_records = {
            topic: self._max_batch_records(brokers.record_bytes(topic, read.get(topic, {}), log))
            for topic, log in logs.items()
        }
        starts = {topic: str(start) for topic, start in self.topic_starts.items()}
        start = "earliest" if self.start is None else str(self.start)
        record = KafkaCheckpoint.opened(path, start, starts)
        requested_starts = {} if self.start is None else dict.fromkeys(topics, start)
        for topic, start in {**requested_starts, **starts}.items():
            if start != record.start_of(topic):
                self.warn(
                    f"--start {start} has no effect on topic {topic!r}: this checkpoint began at "
                    f"{record.start_of(topic)} and continues at its offsets"
                )
        for topic, log in logs.items():
            reject_another_log(topic, log, read.get(topic, {}), record.topic_ids.get(topic))
        if self.on_data_loss == "fail":
            record.refuse(gaps(read, {topic: dict(log.earliest) for topic, log in logs.items()}))
        record.record_topic_ids({topic: log.id for topic, log in logs.items()})
        first_offsets: Offsets = {}
        for topic in (each for each in topics if each not in read):
            offsets = record.firsts.get(topic)
            if offsets is None:
                offsets = brokers.starts_of(topic, record.start_of(topic), logs)
            # No batch of the topic is committed yet, so records deleted since then are not losses.
            earliest = logs[topic].earliest
            first_offsets[topic] = {p: max(at, earliest.get(p, 0)) for p, at in offsets.items()}
        record.record_first_offsets(first_offsets)
        self._opened = _OpenTopics(brokers, record, batch_records)

    @property
    def plans_slices(self) -> bool:
        return self._reader.plans_slices

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        sources: Sequence[Source] = (),
        wait_for: Sequence[str] = (),
    ) -> DataFrame:
        """Return the topic's messages from the start of the checkpoint."""
        assert self._opened is not None
        self._sources = sources
        record = self._opened.record
        read = TopicRead(
            topic,
            record.start_of(topic),
            record.firsts.get(topic, {}),
            self._opened.batch_records[topic],
            wait_for,
        )
        return self._reader.stream(spark, read, sources)

    def row_opener(self) -> RawRows:
        return self._reader.row_opener(self._sources)

    def raw_rows(self, rows: DataFrame) -> DataFrame:
        return self._reader.raw_rows(rows, self._sources)

    def is_small(self, starts: Offsets, ends: Offsets) -> bool:
        return (
            total_distance(self._with_first_offsets(starts, ends), ends) <= self.small_batch_records
        )

    def read(
        self, rows: DataFrame, starts: Offsets, ends: Offsets
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        return self._reader.read(rows, self._with_first_offsets(starts, ends), ends, self._sources)

    def read_share(self, _ends: Offsets) -> float | None:
        """See ``Log``. Only the brokers know the share."""
        return None

    def look_for_losses(self, starts: Offsets, ends: Offsets) -> None:
        """See ``Log``. With ``on_data_loss="continue"``, losses are counted and reported once."""
        assert self._opened is not None
        for topic, topic_ends in ends.items():
            reject_another_log(topic, topic_ends, starts.get(topic, {}))
        if self.on_data_loss == "continue":
            logs = self._opened.brokers.topics(list(ends))
            # Deleted offsets after the end of this batch are counted with a later batch.
            first_offsets = {
                topic: {p: min(log.earliest.get(p, 0), ends[topic].get(p, 0)) for p in ends[topic]}
                for topic, log in logs.items()
            }
            for gap in self._opened.record.record_gaps(gaps(starts, first_offsets)):
                self.warn(f"{gap}. The pipeline continues after them")

    def may_pass(self, error: BaseException) -> bool:
        """See ``Log``. Brokers without a response and missing records are such errors."""
        # The stack trace of Java contains the classes of all causes.
        text = f"{error}\n{getattr(error, '_stackTrace', '')}"
        return isinstance(error, BrokersUnavailable) or bool(_TRANSIENT.search(text))

    def lost_records(self) -> Mapping[str, int]:
        """See ``Log``. The count begins with the checkpoint."""
        return self._opened.record.lost_records() if self._opened else {}

    def ends(self, spark: SparkSession, topics: Sequence[str]) -> Offsets:
        """See ``Log``. The brokers return the ends."""
        return self._reader.brokers(spark).ends(topics)

    def identity(self, spark: SparkSession) -> dict[str, str]:
        """See ``Log``. The addresses of a cluster can change. ``open`` compares topic ids."""
        return {"log": f"Kafka cluster {self._reader.brokers(spark).cluster_id()}"}

    def begins(self, spark: SparkSession, ends: Offsets) -> Offsets:
        """See ``Log``. Retention can have removed the first records."""
        logs = self._reader.brokers(spark).topics(list(ends))
        return {
            topic: {p: logs[topic].earliest.get(p, 0) for p in topic_ends}
            for topic, topic_ends in ends.items()
        }

    def next_ends(self, starts: Offsets, ends: Offsets) -> Offsets:
        unread = sum(
            end > starts.get(topic, {}).get(p, 0)
            for topic, topic_ends in ends.items()
            for p, end in topic_ends.items()
        )
        share = max(1, self.max_batch_records // max(1, unread))
        return {
            topic: {
                p: min(end, starts.get(topic, {}).get(p, 0) + share)
                for p, end in topic_ends.items()
            }
            for topic, topic_ends in ends.items()
        }

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source] = ()
    ) -> DataFrame:
        self._sources = sources
        return self._reader.between(spark, starts, ends, sources)

    @property
    def needs_connector(self) -> bool:
        """Return whether the session needs Spark's Kafka connector."""
        return self._reader.needs_connector

    @cached_property
    def _reader(self) -> KafkaReader:
        return choose_reader(
            self.reader,
            self.bootstrap_servers,
            self.options,
            partial(say, "kafka-reader", level="warning"),
            skips_lost=self.on_data_loss == "continue",
        )

    def _with_first_offsets(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return ``starts``, and for partitions without one the first offset of the checkpoint."""
        first_offsets = self._opened.record.firsts if self._opened is not None else {}
        return {topic: {**first_offsets.get(topic, {}), **starts.get(topic, {})} for topic in ends}

    def _max_batch_records(self, record_bytes: float) -> int:
        """Return the most offsets of a batch. A size of 0 is unknown."""
        by_bytes = int(self.max_batch_bytes / record_bytes) if record_bytes else sys.maxsize
        return max(1, min(by_bytes, self.max_batch_records))
