"""Kafka as a source, read by Spark's own connector.

Spark asks the brokers and reads from them by itself. What it does when they are down or records
are gone is slow and hard to read, so they are asked by ``Brokers`` too: before a query begins,
and when one has failed.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.decoding import SchemaRegistry, kafka_decoder
from oriel.pipeline.errors import InvalidKafkaOption, InvalidTopology
from oriel.pipeline.event_log import DEFAULT_MAX_BATCH_BYTES
from oriel.pipeline.language import Source
from oriel.pipeline.sources.brokers import Brokers, NoAnswer
from oriel.pipeline.sources.kafka_options import DEFAULT_OPTIONS
from oriel.pipeline.sources.log import Batches, Decoder, Log, distance
from oriel.pipeline.sources.losses import KAFKA_RECORD, KafkaRecord, gaps, refuse_another_log
from oriel.pipeline.sources.spark_decoding import spark_kafka_decoder
from oriel.storage import Offsets, say

#: Up to so many records a batch runs in the driver: see ``event_log_source.SMALL_BATCH_BYTES``.
SMALL_BATCH_RECORDS = 30_000
#: In the place of a topic's headers that no source reads: Spark leaves them out unless asked.
_NO_HEADERS = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
#: How much Kafka's messages are decoded at a time.
_BLOCK_BYTES = 4 * 2**20

#: Where a new checkpoint begins: at the first records that are there, behind the last, or at
#: the first of a time (ms since 1970).
Start = Literal["earliest", "latest"] | int
OnDataLoss = Literal["fail", "continue"]

#: What Spark's errors say where a broker did not answer in time, or did not have what was asked
#: for: another query may go on, or a look at the brokers says what is wrong.
_MAY_PASS = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|NotLeaderOrFollower|LeaderNotAvailable|Network|"
    r"UnknownTopicOrPartition|UnknownTopicId|OffsetOutOfRange|OffsetNotAvailable|KafkaStorage|"
    r"FencedLeaderEpoch|UnknownLeaderEpoch)Exception"
    r"|kafka\.clients\.consumer\.(?:OffsetOutOfRange|NoOffsetForPartition)Exception"
    r"|KAFKA_DATA_LOSS|LOST_TOPIC_PARTITIONS|failOnDataLoss"
    r"|No resolvable bootstrap urls"
)

#: How long a query waits for a broker, before the run asks the brokers itself.
_POLL_TIMEOUT_MS = 30_000
_TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}


def _tell(line: str) -> None:
    say("kafka", line, level="warning")


@dataclass
class _Opened:
    """What is known of the topics since the log was opened."""

    brokers: Brokers
    record: KafkaRecord
    #: Topic -> how many offsets a batch has at most.
    batch_records: Mapping[str, int]


@dataclass
class Kafka(Log):
    """A Kafka cluster (``host:port``), read by Spark's own connector.

    One batch reads at most ``max_batch_records`` over all partitions of a topic, and no more than
    about ``max_batch_bytes`` by the size of records that are looked at when a query begins; up to
    ``small_batch_records`` it is computed by the driver. ``options`` are the client's, over
    ``DEFAULT_OPTIONS``. ``start`` is where a new checkpoint begins, None: with the earliest;
    ``topic_starts`` is the same for single topics.
    ``on_data_loss`` says what becomes of a run whose records are gone before they were read;
    ``tell`` gets a line for people. ``schema_registry`` has the schemas that values name by their
    ids.
    """

    bootstrap_servers: str
    max_batch_records: int = 500_000
    small_batch_records: int = SMALL_BATCH_RECORDS
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    start: Start | None = None
    on_data_loss: OnDataLoss = "fail"
    tell: Callable[[str], None] = field(default=_tell, repr=False)
    schema_registry: SchemaRegistry | None = None
    topic_starts: Mapping[str, Start] = field(default_factory=dict)
    _opened: _Opened | None = field(default=None, init=False, repr=False)

    raw_schema: ClassVar[str] = (
        "key BINARY, raw BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
    )

    def decoder(self, source: Source) -> Decoder:
        """Decode messages as the source's ``Consumed`` says."""
        try:
            decoder = kafka_decoder(source.schema, source.consumed, self.schema_registry)
        except InvalidTopology as error:
            message = f"{source}: {error}"
            raise InvalidTopology(message) from error
        return decoder or spark_kafka_decoder(source.schema)

    def no_answer(self, spark: SparkSession, topics: Sequence[str]) -> str | None:
        """See ``Log``: a broker that is down may come back."""
        try:
            self._brokers(spark).topics(topics)
        except NoAnswer as reason:
            return str(reason)
        return None

    def open(self, spark: SparkSession, topics: Sequence[str], read: Offsets, folder: Path) -> None:
        """See ``Log``. The first time it writes down where the checkpoint begins, and topics' ids.

        Raises:
            InvalidKafkaOption: there is a start for a topic that is not read.
            KafkaUnavailable: the brokers don't answer, refuse the client or lack a topic.
            RecordsLost: records behind ``read`` are gone, or a topic was made anew.
            CheckpointError: what was written down is damaged.
        """
        for topic in self.topic_starts.keys() - set(topics):
            message = f"--start {topic}=...: the topology reads {', '.join(topics)}, not {topic!r}"
            raise InvalidKafkaOption(message)
        path = folder / KAFKA_RECORD
        brokers = self._brokers(spark)
        logs = brokers.topics(topics)
        batch_records = {
            topic: self._most_records(brokers.record_bytes(topic, read.get(topic, {}), log))
            for topic, log in logs.items()
        }
        starts = {topic: str(start) for topic, start in self.topic_starts.items()}
        start = "earliest" if self.start is None else str(self.start)
        record = KafkaRecord.opened(path, start, starts)
        asked = {} if self.start is None else dict.fromkeys(topics, start)
        for topic, start in {**asked, **starts}.items():
            if start != record.start_of(topic):
                self.tell(
                    f"--start {start} has no effect on topic {topic!r}: this checkpoint began at "
                    f"{record.start_of(topic)} and continues at its offsets"
                )
        for topic, log in logs.items():
            refuse_another_log(topic, log, read.get(topic, {}), record.topic_ids.get(topic))
        if self.on_data_loss == "fail":
            record.refuse(gaps(read, {topic: dict(log.earliest) for topic, log in logs.items()}))
        record.note_topics({topic: log.id for topic, log in logs.items()})
        self._opened = _Opened(brokers, record, batch_records)

    def stream(self, spark: SparkSession, topic: str, sources: Sequence[Source] = ()) -> DataFrame:
        """The topic's messages from where the checkpoint began."""
        assert self._opened is not None
        reader = (
            spark.readStream.format("kafka")
            .option("subscribe", topic)
            .option("maxOffsetsPerTrigger", str(self._opened.batch_records[topic]))
            # Asked again by another query, after a look at the brokers.
            .option("fetchOffset.numRetries", "2")
            .option("kafkaConsumer.pollTimeoutMs", str(_POLL_TIMEOUT_MS))
            # By default records that Kafka has deleted before they were read end the query.
            .option("failOnDataLoss", str(self.on_data_loss == "fail").lower())
        )
        start = self._opened.record.start_of(topic)
        if start.isdecimal():
            # Where no record is so late, a partition begins behind its last.
            reader = reader.option("startingTimestamp", start)
            reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
        else:
            reader = reader.option("startingOffsets", start)
        reader = reader.option("includeHeaders", str(_reads_headers(sources, topic)).lower())
        reader = reader.options(**self._client_options())
        return reader.load().selectExpr("topic", *_raw_columns(sources, topic))

    # Static, as it goes to Spark's workers: the options, which may be secrets, stay here.
    @staticmethod
    def open_rows(rows: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
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

    def look_for_losses(self, starts: Offsets, ends: Offsets) -> None:
        """See ``Log``: with ``on_data_loss="continue"`` they are counted, and told once."""
        assert self._opened is not None
        for topic, topic_ends in ends.items():
            refuse_another_log(topic, topic_ends, starts.get(topic, {}))
        if self.on_data_loss == "continue":
            logs = self._opened.brokers.topics(list(ends))
            # What is gone of this batch; the rest is counted with the next.
            firsts = {
                topic: {p: min(log.earliest.get(p, 0), ends[topic].get(p, 0)) for p in ends[topic]}
                for topic, log in logs.items()
            }
            for gap in self._opened.record.note_gaps(gaps(starts, firsts)):
                self.tell(f"{gap}. The pipeline continues after them")

    def may_pass(self, error: BaseException) -> bool:
        """See ``Log``: whether it tells of a broker that did not answer, or of missing records."""
        # With Java's trace, which has the classes of all causes.
        text = f"{error}\n{getattr(error, '_stackTrace', '')}"
        return isinstance(error, NoAnswer) or bool(_MAY_PASS.search(text))

    def lost_records(self) -> Mapping[str, int]:
        """See ``Log``: since the checkpoint was made."""
        return self._opened.record.lost_records() if self._opened else {}

    def ends(self, spark: SparkSession, topics: Sequence[str]) -> Offsets:
        """See ``Log``: as the brokers say."""
        return self._brokers(spark).ends(topics)

    def identity(self, spark: SparkSession) -> dict[str, str]:
        """See ``Log``: addresses of a cluster may change; topics' ids are looked at by ``open``."""
        return {"log": f"Kafka cluster {self._brokers(spark).cluster_id()}"}

    def begins(self, spark: SparkSession, ends: Offsets) -> Offsets:
        """See ``Log``: retention may have removed the first ones."""
        logs = self._brokers(spark).topics(list(ends))
        return {
            topic: {p: logs[topic].earliest.get(p, 0) for p in of_topic}
            for topic, of_topic in ends.items()
        }

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

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source] = ()
    ) -> DataFrame:
        """See ``Log``."""
        ends = {topic: of_topic for topic, of_topic in ends.items() if of_topic}
        assigned = {topic: [int(p) for p in of_topic] for topic, of_topic in ends.items()}
        begins = {
            topic: {p: starts[topic][p] for p in of_topic} for topic, of_topic in ends.items()
        }
        return (
            spark.read.format("kafka")
            .options(**self._client_options())
            .option("assign", orjson.dumps(assigned).decode())
            .option("startingOffsets", orjson.dumps(begins).decode())
            .option("endingOffsets", orjson.dumps(ends).decode())
            .option("includeHeaders", str(_reads_headers(sources)).lower())
            .load()
            .selectExpr("topic", *_raw_columns(sources))
        )

    @property
    def _options(self) -> dict[str, str]:
        return {**DEFAULT_OPTIONS, **self.options}

    def _client_options(self) -> dict[str, str]:
        """The options of Spark's source that are its client's."""
        options = {**_TIMEOUTS, **self._options, "bootstrap.servers": self.bootstrap_servers}
        return {f"kafka.{name}": value for name, value in options.items()}

    def _brokers(self, spark: SparkSession) -> Brokers:
        return Brokers(spark, self.bootstrap_servers, self._options)

    def _most_records(self, record_bytes: float) -> int:
        """How many offsets a batch has at most, given how large records are; 0: unknown."""
        by_bytes = int(self.max_batch_bytes / record_bytes) if record_bytes else sys.maxsize
        return max(1, min(by_bytes, self.max_batch_records))


def _raw_columns(sources: Sequence[Source], topic: str | None = None) -> list[str]:
    """The columns of a topic's raw rows; the topics of a run have the same ones."""
    columns = ["key", "value AS raw", "partition", "offset", "timestamp"]
    if _reads_headers(sources):
        columns.append("headers" if _reads_headers(sources, topic) else f"{_NO_HEADERS} AS headers")
    if any(source.consumed.timestamp == "ingestion" for source in sources):
        # In a batch it is the time of its entry in the offset log, so a batch that runs again
        # has the same one.
        columns.append("current_timestamp() AS ingested")
    return columns


def _reads_headers(sources: Sequence[Source], topic: str | None = None) -> bool:
    """Whether a source of the topic, or any one, has columns of headers."""
    return any(source.consumed.headers and topic in (None, source.topic) for source in sources)


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
