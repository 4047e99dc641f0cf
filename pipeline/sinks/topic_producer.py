"""A transactional producer of one topic, which writes each batch exactly once.

A transaction contains messages of a batch and a marker (KIP-98). The marker is a committed offset
of partition 0, in a consumer group of the topic. Its metadata has the identity of the batch and the
number of messages that are committed so far. After a restart, the marker shows which messages Kafka
has committed. Consumers with ``read_committed`` read each message once.

A transactional id belongs to a topic of a pipeline. A new producer fences older ones and ends their
transactions, before it reads the marker.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from oriel.pipeline.errors import Fenced, KafkaUnavailable, PipelineError
from oriel.pipeline.kafka_errors import RETRIABLE
from oriel.pipeline.sinks.messages import Messages
from oriel.pipeline.sources import BrokersUnavailable

#: The client writes fatal errors to stderr, although they are raised also.
_NULL_LOGGER = logging.getLogger(__name__)
_NULL_LOGGER.addHandler(logging.NullHandler())
_NULL_LOGGER.propagate = False

#: Settings that protect a guarantee, so users cannot change them.
_FIXED: Mapping[str, str | int | bool] = {
    "enable.idempotence": True,
    # As the Java client, so that all writers send a key to the same partition.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    # If all brokers restart, the client forgets them by default, and then a request to the
    # coordinator of a transaction can wait forever (librdkafka issue 5511).
    "metadata.recovery.strategy": "none",
}
_DEFAULTS: Mapping[str, str | int | bool] = {
    # Kafka's default. If a process is killed and not started again, brokers end its transaction
    # after this time, and read_committed consumers wait until then.
    "transaction.timeout.ms": 60_000,
    # Messages that wait for the brokers bound the memory.
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
}
#: A transaction is committed after this part of its timeout, also in the middle of a batch.
_TIMEOUT_SHARE = 0.25
_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001 - the library's name
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001
_COORDINATOR = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
#: Errors that can pass.
_TRANSIENT = {
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    *RETRIABLE,
}
_SIZE = (
    ". Raise --kafka-option max.request.size, and max.message.bytes of the topic, above the size "
    "of the message"
)
_TIME = (
    ". Raise message.timestamp.before.max.ms of the topic, or set its message.timestamp.type to "
    "LogAppendTime"
)
#: Error -> the end of its message, which says what to do.
_REMEDIES = {
    KafkaError.MSG_SIZE_TOO_LARGE: _SIZE,
    KafkaError.RECORD_LIST_TOO_LARGE: _SIZE,
    KafkaError.INVALID_TIMESTAMP: _TIME,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: ". Set --kafka-option transaction.timeout.ms to at "
    "most transaction.max.timeout.ms of the brokers",
    KafkaError.GROUP_AUTHORIZATION_FAILED: ". Allow this user to read the group {name!r}",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ". Allow this user to describe and write the "
    "transactional id {name!r}",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ". Allow this user to describe, read and write the "
    "topic",
}


class Marker(NamedTuple):
    """The marker of the last transaction.

    Attributes:
        batch: The number of the batch.
        identity: The identity of the batch. Two batches can have one number, for example after a
            restore from a backup.
        sent: The number of messages of the batch that are committed.
    """

    batch: int
    identity: str
    sent: int

    def to_metadata(self) -> str:
        """Return the metadata of the marker's offset."""
        return orjson.dumps({"batch": self.identity, "messages": self.sent}).decode()

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "Marker | None":
        """Read a marker, or return None for an offset without one."""
        try:
            fields = orjson.loads(metadata or "")
            return cls(offset, str(fields["batch"]), int(fields["messages"]))
        except (ValueError, LookupError, TypeError):
            return None

    def committed_count(self, batch: int, identity: str) -> int:
        """Return how many messages of a batch are committed."""
        return self.sent if (self.batch, self.identity) == (batch, identity) else 0


class TopicProducer:
    """Writes batches to one topic. A failed batch can be sent again."""

    def __init__(
        self, settings: Mapping[str, str], pipeline: str, topic: str, *, timeout_seconds: float
    ) -> None:
        """Prepare a producer. It connects when the first batch is sent.

        Args:
            settings: Settings of librdkafka, with ``bootstrap.servers``.
            pipeline: The name of the pipeline.
            topic: The topic.
            timeout_seconds: The longest wait for one response of the brokers.
        """
        #: The transactional id and the group of the marker.
        self.name = f"oriel/{pipeline}/{topic}"
        self._topic = topic
        self._client = dict(settings)
        self._settings = {**_DEFAULTS, **settings, **_FIXED}
        self._timeout = timeout_seconds
        self._transaction_seconds = int(self._settings["transaction.timeout.ms"]) / 1000
        self._producer: Producer | None = None
        self._group: object = None
        #: The marker that the start of the producer has found.
        self._found: Marker | None = None
        #: Why a message of the open transaction cannot be delivered.
        self._undelivered: KafkaError | None = None
        #: Why the producer is not connected.
        self._connection: KafkaError | None = None

    def send(self, batch: int, identity: str, messages: Iterable[Messages]) -> None:
        """Write the messages of a batch that Kafka has not committed yet.

        Args:
            batch: The number of the batch.
            identity: The identity of the batch (``batch_identity``).
            messages: All messages of the batch, in an order that is the same in each call.

        Raises:
            BrokersUnavailable: The brokers do not respond in time.
            KafkaUnavailable: The brokers reject the producer or a message.
            Fenced: Another process writes to the topic for this pipeline.
        """
        try:
            self._send(batch, identity, messages)
        except BaseException as error:
            if self._producer is not None:
                with suppress(KafkaException):
                    # The client reports errors of connections here.
                    self._producer.poll(0)
            undelivered = self._undelivered
            # Only a new producer can read which messages are committed. It has another epoch, so
            # late requests of this producer cannot become part of a later transaction.
            self.close()
            if isinstance(error, BufferError | KafkaException):
                raise self._failure(error, undelivered) from error
            raise

    def close(self) -> None:
        """Close the connections. The brokers drop a transaction that is open."""
        producer, self._producer = self._producer, None
        self._found = self._undelivered = None
        if producer is not None:
            producer.purge()

    def _send(self, batch: int, identity: str, messages: Iterable[Messages]) -> None:
        producer = self._producer or self._started()
        found, self._found = self._found, None
        sent = skipped = found.committed_count(batch, identity) if found else 0
        began: float | None = None
        for chunk in messages:
            unsent = chunk.after(skipped)
            skipped = max(0, skipped - len(chunk.keys))
            if not unsent.keys:
                continue
            if began is None:
                producer.begin_transaction()
                began = time.monotonic()
            self._produce(producer, unsent)
            sent += len(unsent.keys)
            if time.monotonic() - began > self._transaction_seconds * _TIMEOUT_SHARE:
                self._commit(producer, Marker(batch, identity, sent))
                began = None
        if began is not None:
            self._commit(producer, Marker(batch, identity, sent))

    def _produce(self, producer: Producer, messages: Messages) -> None:
        produce, topic = producer.produce, self._topic
        keys, values, times_ms, names, columns = messages
        for key, value, time_ms, *texts in zip(keys, values, times_ms, *columns, strict=True):
            while True:
                try:
                    headers = list(zip(names, texts, strict=True))
                    produce(topic, value, key, timestamp=time_ms, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.02)
                    if self._undelivered is not None:
                        raise

    def _commit(self, producer: Producer, marker: Marker) -> None:
        """Commit the open transaction with its marker."""
        marker_offset = TopicPartition(self._topic, 0, marker.batch, metadata=marker.to_metadata())
        try:
            producer.send_offsets_to_transaction([marker_offset], self._group, self._timeout)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - the library's name
                raise
            # The transaction has failed during the call. The second call returns the reason.
            producer.send_offsets_to_transaction([marker_offset], self._group, self._timeout)
        # After the timeout, the transaction can still be committed. The next producer reads that.
        producer.commit_transaction(self._transaction_seconds)
        self._connection = None

    def _started(self) -> Producer:
        """Return a new producer. It fences older ones, and then reads the marker."""
        self._connection = None
        self._producer = producer = Producer({
            **self._settings, "transactional.id": self.name,
            "error_cb": self._on_error, "on_delivery": self._on_delivery, "logger": _NULL_LOGGER,
        })  # fmt: skip
        if self._topic not in producer.list_topics(timeout=self._timeout).topics:
            message = (
                f"the brokers have no topic {self._topic!r}, or this user cannot see it. Create "
                "the topic, or correct its name in the topology"
            )
            raise KafkaUnavailable(message)
        producer.init_transactions(self._timeout)
        consumer = Consumer({
            **self._client, "group.id": self.name,
            "error_cb": self._on_error, "logger": _NULL_LOGGER,
        })  # fmt: skip
        try:
            self._found = self._read_marker(consumer)
            self._group = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        return producer

    def _read_marker(self, consumer: Consumer) -> Marker | None:
        """Return the marker of the last transaction, or None if Kafka has no marker.

        Kafka forgets it 7 days after the last transaction (``offsets.retention.minutes``).
        """
        end = time.monotonic() + self._timeout
        while True:
            try:
                partitions = [TopicPartition(self._topic, 0)]
                (found,) = consumer.committed(partitions, timeout=self._timeout)
                error = found.error
            except KafkaException as raised:
                error = raised.args[0]
            # The client reports a missing right for the group here.
            message = consumer.poll(0)
            if message is not None and message.error() is not None:
                self._connection = message.error()
            if error is None:
                return Marker.of(found.offset, found.metadata)
            # The coordinator of a new group starts, or it moves to another broker.
            if error.code() not in _COORDINATOR or time.monotonic() > end:
                raise KafkaException(error)
            consumer.poll(0.1)

    def _on_error(self, error: KafkaError) -> None:
        self._connection = error

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        # The first error ends the transaction, and the other messages are purged.
        if error is not None and self._undelivered is None and error.code() not in _PURGED:
            self._undelivered = error

    def _failure(self, raised: Exception, undelivered: KafkaError | None) -> PipelineError:
        """Return the error of the pipeline for an error of the client."""
        error: KafkaError = raised.args[0] if undelivered is None else undelivered
        if isinstance(raised, KafkaException) and raised.args[0].code() in _FENCED:
            error = raised.args[0]
        if error.code() in _TRANSIENT and self._connection is not None:
            # Why the brokers do not respond.
            error = self._connection
        if error.code() in _FENCED:
            message = (
                f"another process writes to the topic {self._topic!r} as {self.name!r}, so this "
                "process has stopped. Run a pipeline once, and use different names (--name) for "
                "pipelines that write to the same topics"
            )
            return Fenced(message)
        remedy = _REMEDIES.get(error.code(), "").format(name=self.name)
        reason = f"{error.str()} ({error.name()}){remedy}"
        return (
            BrokersUnavailable(reason) if error.code() in _TRANSIENT else KafkaUnavailable(reason)
        )
