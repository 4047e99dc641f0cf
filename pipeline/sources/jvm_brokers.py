"""Facts about topics from Kafka's brokers through the client in the JVM of Spark."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.sources.brokers import (
    CHECK_CERTIFICATE,
    CHECK_LOGIN,
    CHECK_PERMISSIONS,
    NO_RESPONSE,
    REQUEST_MS,
    SAMPLE_BYTES,
    SAMPLE_MS,
    SAMPLE_RECORDS,
    UNRESOLVED,
    Brokers,
    BrokersUnavailable,
    TopicLog,
    missing_topic,
)
from oriel.pipeline.sources.kafka_options import without_secrets
from oriel.pipeline.spark import first_line
from oriel.storage import Offsets

_CLIENTS = "org.apache.kafka.clients."
_COMMON = "org.apache.kafka.common."
#: Errors that can pass -> their meaning.
_TRANSIENT = {
    "TimeoutException": NO_RESPONSE,
    "DisconnectException": "the broker ends the connection",
    "No resolvable bootstrap urls": UNRESOLVED,
}
#: A word in the reason of an error -> what to check. The first word counts.
_REMEDIES = {
    **dict.fromkeys(("Sasl", "Ssl", "Authentication"), CHECK_LOGIN),
    "Cert": CHECK_CERTIFICATE,
    "Authorization": CHECK_PERMISSIONS,
}


@dataclass(frozen=True)
class Message:
    """A message to send to a partition. Without ``timestamp_ms``, the client sets its time."""

    topic: str
    partition: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class JvmBrokers(Brokers):
    """The brokers of ``servers``, as the client in the JVM of Spark reaches them.

    ``options`` are options of the client.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str]) -> None:
        """Use the client in the JVM of ``spark``, which has the connector."""
        self._jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Java
        self._servers = servers
        self._options = options

    def topics(self, names: Sequence[str]) -> dict[str, TopicLog]:
        with self._converted_errors(), self._admin() as admin:
            # The client waits for a bounded time.
            present = set(admin.listTopics().names().get())
            for name in names:
                if name not in present:
                    raise missing_topic(name, present, self._servers)
            described = admin.describeTopics(list(names)).allTopicNames().get()
            partitions = _partitions(described)
            spec = self._java(_CLIENTS + "admin.OffsetSpec")
            earliest = self._offsets(admin, partitions, spec.earliest())
            latest = self._offsets(admin, partitions, spec.latest())
            return {
                name: TopicLog(described[name].topicId().toString(), earliest[name], latest[name])
                for name in names
            }

    def offsets_at(self, topic: str, partitions: Collection[str], time_ms: int) -> dict[str, int]:
        with self._converted_errors(), self._admin() as admin:
            spec = self._java(_CLIENTS + "admin.OffsetSpec").forTimestamp(time_ms)
            return self._offsets(admin, {topic: list(map(int, partitions))}, spec)[topic]

    def ends(self, names: Sequence[str]) -> Offsets:
        with self._converted_errors(), self._admin() as admin:
            described = admin.describeTopics(list(names)).allTopicNames().get()
            latest = self._java(_CLIENTS + "admin.OffsetSpec").latest()
            return self._offsets(admin, _partitions(described), latest)

    def send(self, messages: Iterable[Message]) -> list[int]:
        """Send messages to their partitions, with unchanged bytes, and return their offsets.

        All in-sync replicas have acknowledged the messages when this returns.

        Raises:
            BrokersUnavailable: The brokers do not accept a message in a bounded time.
            KafkaUnavailable: The brokers reject the client or a message.
        """
        byte_serializer = _COMMON + "serialization.ByteArraySerializer"
        properties = {
            "key.serializer": byte_serializer,
            "value.serializer": byte_serializer,
            "acks": "all",
            "max.block.ms": str(REQUEST_MS),
            "request.timeout.ms": str(REQUEST_MS),
            "delivery.timeout.ms": str(2 * REQUEST_MS),
        }
        record = self._java(_CLIENTS + "producer.ProducerRecord")
        header = self._java(_COMMON + "header.internals.RecordHeader")
        with self._converted_errors("written to"):
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
                return [future.get().offset() for future in sent]
            finally:
                producer.close()

    def cluster_id(self) -> str:
        with self._converted_errors(), self._admin() as admin:
            return str(admin.describeCluster().clusterId().get())

    def sample(self, topic: str, positions: Mapping[str, int]) -> list[int]:
        byte_deserializer = _COMMON + "serialization.ByteArrayDeserializer"
        properties = self._properties(
            {
                "max.poll.records": str(SAMPLE_RECORDS),
                "max.partition.fetch.bytes": str(SAMPLE_BYTES),
                "fetch.max.bytes": str(SAMPLE_BYTES),
                "key.deserializer": byte_deserializer,
                "value.deserializer": byte_deserializer,
                "enable.auto.commit": "false",
            }
        )
        with self._converted_errors():
            consumer = self._java(_CLIENTS + "consumer.KafkaConsumer")(properties)
            try:
                offsets = {self._partition(topic, p): offset for p, offset in positions.items()}
                consumer.assign(list(offsets))
                for topic_partition, offset in offsets.items():
                    consumer.seek(topic_partition, offset)
                records = consumer.poll(self._jvm.java.time.Duration.ofMillis(SAMPLE_MS)).iterator()
                sizes = []
                while records.hasNext():
                    record = records.next()
                    key_size, value_size = record.serializedKeySize(), record.serializedValueSize()
                    sizes.append(max(0, key_size) + max(0, value_size))
                return sizes
            finally:
                consumer.close(self._jvm.java.time.Duration.ZERO)

    def _offsets(
        self, admin: Any, partitions: Mapping[str, Sequence[int]], spec: Any
    ) -> dict[str, dict[str, int]]:
        """Return the offset of each partition that an ``OffsetSpec`` of Java names."""
        requested = {
            self._partition(topic, number): spec
            for topic, numbers in partitions.items()
            for number in numbers
        }
        responses = admin.listOffsets(requested)
        found: dict[str, dict[str, int]] = {topic: {} for topic in partitions}
        for topic_partition in requested:
            offset = responses.partitionResult(topic_partition).get().offset()
            found[topic_partition.topic()][str(topic_partition.partition())] = offset
        return found

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        properties = self._properties(
            {
                "default.api.timeout.ms": str(REQUEST_MS),
                "request.timeout.ms": str(REQUEST_MS - 1_000),
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
        """Return a Java class by its name."""
        found = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    @contextmanager
    def _converted_errors(self, what: str = "read") -> Iterator[None]:
        """Raise a Java error in this block as an error of one line.

        Its message says that Kafka cannot be ``what``: read, or written to.
        """
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            # Spark converts a few Java exceptions to its own.
            reason = without_secrets(first_line(error), self._options)
            prefix = f"Kafka at {self._servers} cannot be {what}: "
            for word, meaning in _TRANSIENT.items():
                if word in reason:
                    raise BrokersUnavailable(prefix + meaning) from error
            remedy = next((text for word, text in _REMEDIES.items() if word in reason), "")
            raise KafkaUnavailable(prefix + reason + remedy) from error


def _partitions(described: Any) -> dict[str, list[int]]:
    """Return topic -> partitions, from descriptions of the brokers."""
    return {name: [info.partition() for info in described[name].partitions()] for name in described}
