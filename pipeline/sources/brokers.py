"""Facts about topics from Kafka's brokers, requested in a bounded time by the client in the JVM.

Spark repeats requests for minutes, and its errors are Java traces. So a run checks the brokers
before it starts its query, and again after the query has failed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.sources.kafka_options import without_secrets
from oriel.pipeline.spark import first_line
from oriel.storage import Offsets

#: Timeout of one request.
_ASK_MS = 5_000
#: A sample has at most this many records of a partition, from at most this many partitions.
_SAMPLE = 50
_SAMPLED_PARTITIONS = 8
_SAMPLE_BYTES = 2**20

_CLIENTS = "org.apache.kafka.clients."
_COMMON = "org.apache.kafka.common."
#: Errors that may pass -> what they mean.
_PASSING = {
    "TimeoutException": "no broker responds there (if it runs, it may use another protocol: check "
    "security.protocol)",
    "DisconnectException": "the broker ends the connection",
    "No resolvable bootstrap urls": "none of the addresses can be resolved",
}


@dataclass(frozen=True)
class TopicLog:
    """A topic on the brokers: its id, and the first and the end offset of each partition."""

    id: str
    earliest: Mapping[str, int]
    latest: Mapping[str, int]


@dataclass(frozen=True)
class Message:
    """A message to send to a partition. If its time is None, the client sets the time."""

    topic: str
    partition: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class NoTopic(KafkaUnavailable):
    """The brokers have no topic of that name, or none that this user may see."""


class NoAnswer(KafkaUnavailable):
    """The brokers do not respond now, but can respond later."""


class Brokers:
    """The brokers of ``servers``. ``options`` are options of the client."""

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str]) -> None:
        """Use the client in the JVM of ``spark``, which has the connector."""
        self._jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Java
        self._servers = servers
        self._options = options

    def topics(self, names: Sequence[str]) -> dict[str, TopicLog]:
        """Each topic of ``names`` as it is.

        Raises:
            NoAnswer: in a few seconds none of the brokers has answered.
            NoTopic: they have no such topic.
            KafkaUnavailable: they refuse the client.
        """
        with self._telling(), self._admin() as admin:
            # The client itself waits for a bounded time only.
            present = set(admin.listTopics().names().get())
            for name in names:
                if name not in present:
                    raise NoTopic(_missing(name, present, self._servers))
            described = admin.describeTopics(list(names)).allTopicNames().get()
            partitions = _partitions(described)
            spec = self._java(_CLIENTS + "admin.OffsetSpec")
            earliest = self._offsets(admin, partitions, spec.earliest())
            latest = self._offsets(admin, partitions, spec.latest())
            return {
                name: TopicLog(described[name].topicId().toString(), earliest[name], latest[name])
                for name in names
            }

    def starts_of(self, topic: str, start: str, logs: Mapping[str, TopicLog]) -> dict[str, int]:
        """Return the offset of each partition at which a new checkpoint begins.

        Args:
            topic: The topic.
            start: ``earliest``, ``latest`` or ms since 1970. A partition without a record at or
                after the time begins at its end.
            logs: The topics as ``topics`` returned them.

        Raises:
            NoAnswer: No broker responds in a few seconds.
            KafkaUnavailable: The brokers refuse the client.
        """
        log = logs[topic]
        if not start.isdecimal():
            return dict(log.earliest if start == "earliest" else log.latest)
        partitions = {topic: [int(partition) for partition in log.latest]}
        with self._telling(), self._admin() as admin:
            spec = self._java(_CLIENTS + "admin.OffsetSpec").forTimestamp(int(start))
            found = self._offsets(admin, partitions, spec)[topic]
        return {p: offset if offset >= 0 else log.latest[p] for p, offset in found.items()}

    def ends(self, names: Sequence[str]) -> Offsets:
        """Where each partition of the topics ends.

        Raises:
            NoAnswer: in a few seconds none of the brokers has answered.
            KafkaUnavailable: they refuse the client, or lack a topic.
        """
        with self._telling(), self._admin() as admin:
            described = admin.describeTopics(list(names)).allTopicNames().get()
            latest = self._java(_CLIENTS + "admin.OffsetSpec").latest()
            return self._offsets(admin, _partitions(described), latest)

    def send(self, messages: Iterable[Message]) -> list[int]:
        """Send messages to their partitions, each as it is, and return their offsets.

        The brokers have all messages when this returns.

        Raises:
            NoAnswer: in a bounded time none of the brokers has taken one.
            KafkaUnavailable: they refuse the client or a message.
        """
        as_they_are = _COMMON + "serialization.ByteArraySerializer"
        properties = {
            "key.serializer": as_they_are,
            "value.serializer": as_they_are,
            "acks": "all",
            "max.block.ms": str(_ASK_MS),
            "request.timeout.ms": str(_ASK_MS),
            "delivery.timeout.ms": str(2 * _ASK_MS),
        }
        record = self._java(_CLIENTS + "producer.ProducerRecord")
        header = self._java(_COMMON + "header.internals.RecordHeader")
        with self._telling("written to"):
            producer = self._java(_CLIENTS + "producer.KafkaProducer")(self._properties(properties))
            try:
                sent = [
                    producer.send(
                        record(
                            message.topic, message.partition, message.timestamp_ms, message.key,
                            message.value, [header(name, value) for name, value in message.headers],
                        )
                    )
                    for message in messages
                ]  # fmt: skip
                producer.flush()
                return [answer.get().offset() for answer in sent]
            finally:
                producer.close()

    def cluster_id(self) -> str:
        """The id of the cluster, which is its own whatever its addresses are.

        Raises:
            NoAnswer: in a few seconds none of the brokers has answered.
            KafkaUnavailable: they refuse the client.
        """
        with self._telling(), self._admin() as admin:
            return str(admin.describeCluster().clusterId().get())

    def record_bytes(self, topic: str, starts: Mapping[str, int], log: TopicLog) -> float:
        """How large records of a topic are on average, by some at ``starts`` and at the end.

        The larger average of the two places, or 0 without records.
        """
        filled = [p for p, latest in log.latest.items() if latest > log.earliest[p]]
        firsts = {p: max(starts.get(p, 0), log.earliest[p]) for p in filled}
        # Where all is read, there is nothing to wait for.
        unread = [p for p in filled if firsts[p] < log.latest[p]][:_SAMPLED_PARTITIONS]
        filled = filled[:_SAMPLED_PARTITIONS]
        lasts = {p: max(log.latest[p] - _SAMPLE, log.earliest[p]) for p in filled}
        with self._telling():
            return max(
                self._sampled(topic, {p: firsts[p] for p in unread}), self._sampled(topic, lasts)
            )

    def _sampled(self, topic: str, positions: Mapping[str, int]) -> float:
        """Return the average size of some records at positions of a topic, 0 without records."""
        if not positions:
            return 0
        bytes_as_they_are = _COMMON + "serialization.ByteArrayDeserializer"
        properties = self._properties(
            {
                "max.poll.records": str(_SAMPLE),
                "max.partition.fetch.bytes": str(_SAMPLE_BYTES),
                "fetch.max.bytes": str(_SAMPLE_BYTES),
                "key.deserializer": bytes_as_they_are,
                "value.deserializer": bytes_as_they_are,
                "enable.auto.commit": "false",
            }
        )
        consumer = self._java(_CLIENTS + "consumer.KafkaConsumer")(properties)
        try:
            places = {self._partition(topic, p): offset for p, offset in positions.items()}
            consumer.assign(list(places))
            for place, offset in places.items():
                consumer.seek(place, offset)
            records = consumer.poll(self._jvm.java.time.Duration.ofMillis(_ASK_MS // 2))
            sizes = [
                max(0, record.serializedKeySize()) + max(0, record.serializedValueSize())
                for record in _each(records)
            ]
        finally:
            consumer.close(self._jvm.java.time.Duration.ZERO)
        return sum(sizes) / len(sizes) if sizes else 0

    def _offsets(
        self, admin: Any, partitions: Mapping[str, Sequence[int]], spec: Any
    ) -> dict[str, dict[str, int]]:
        """Return the offset of each partition that an ``OffsetSpec`` of Java names."""
        asked = {
            self._partition(topic, number): spec
            for topic, numbers in partitions.items()
            for number in numbers
        }
        answers = admin.listOffsets(asked)
        found: dict[str, dict[str, int]] = {topic: {} for topic in partitions}
        for place in asked:
            offset = answers.partitionResult(place).get().offset()
            found[place.topic()][str(place.partition())] = offset
        return found

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        properties = self._properties(
            {
                "default.api.timeout.ms": str(_ASK_MS),
                "request.timeout.ms": str(_ASK_MS - 1_000),
            }
        )
        admin = self._java(_CLIENTS + "admin.AdminClient").create(properties)
        try:
            yield admin
        finally:
            admin.close(self._jvm.java.time.Duration.ZERO)

    def _properties(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**self._options, **more, "bootstrap.servers": self._servers}

    def _partition(self, topic: str, number: int | str) -> Any:
        return self._java(_COMMON + "TopicPartition")(topic, int(number))

    def _java(self, name: str) -> Any:
        """A class of Java's by its name."""
        found = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    @contextmanager
    def _telling(self, what: str = "read") -> Iterator[None]:
        """Turn Java's errors into one line each, of Kafka that can't be ``what``."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            # Spark converts a few Java exceptions to its own.
            reason = without_secrets(first_line(error), self._options)
            begin = f"Kafka at {self._servers} cannot be {what}: "
            for word, meaning in _PASSING.items():
                if word in reason:
                    raise NoAnswer(begin + meaning) from error
            raise KafkaUnavailable(begin + reason + _way_out(reason)) from error


def _partitions(described: Any) -> dict[str, list[int]]:
    """The partitions of topics, as the brokers describe them."""
    return {name: [info.partition() for info in described[name].partitions()] for name in described}


def _way_out(reason: str) -> str:
    if "Sasl" in reason or "Ssl" in reason or "Authentication" in reason:
        return ". Check security.protocol, sasl.mechanism, sasl.jaas.config and the ssl options"
    if "Cert" in reason:
        return (
            ". Set ssl.truststore.location to the certificate of the brokers or of its authority "
            "(ssl.truststore.type=PEM reads one), and connect by a name in the certificate"
        )
    if "Authorization" in reason:
        return ". Allow this user to describe and read the topic"
    return ""


def _missing(name: str, present: set[str], servers: str) -> str:
    topics = sorted(topic for topic in present if not topic.startswith("__"))
    near = get_close_matches(name, topics, n=3) or topics[:3]
    have = f"it has {', '.join(map(repr, near))}" if near else "this user can see none"
    return (
        f"Kafka at {servers} has no topic {name!r} ({have}). Create it, or correct its name in "
        "the topology"
    )


def _each(iterable: Any) -> Iterator[Any]:
    """The items of anything that Java can iterate over."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
