"""Facts about topics from Kafka's brokers through librdkafka, without Java."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.kafka_errors import RETRIABLE
from oriel.pipeline.kafka_slices import GROUP, known_offset, requested_offsets
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
from oriel.storage import Offsets

_T = TypeVar("_T")

_REQUEST_SECONDS = REQUEST_MS / 1000
#: A waiting request checks the errors of the connections after each period of this length.
_POLL_SECONDS = 0.05

_ADDRESS = re.compile(r"(?:[\w+]+://)?(?:\[[^\[\]]+\]|[^\s:\[\]]+):\d{1,5}")
#: The text that librdkafka writes around a reason: the address of the broker, and the state.
_DECORATION = re.compile(r"^\S+/\S+: | \(after \d+ms in state \w+\)$")
#: The error of a login contains this if the connection ended. The client connects again.
_INTERRUPTED = "failed: Local:"

_NO_RESPONSE = {
    KafkaError._TIMED_OUT,  # noqa: SLF001 - the library's name
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}
_UNAUTHORIZED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


@dataclass(frozen=True)
class ClientBrokers(Brokers):
    """The brokers of a cluster, as librdkafka reaches them.

    The end of a partition is its last stable offset (KIP-98), because the reader reads up to it.

    Each call creates a client, which connects in about 3 ms. So no client has to survive a fork,
    and the next call connects at once to a broker that has started again.

    Attributes:
        settings: Settings of librdkafka (``client_settings``), which can contain secrets.
    """

    settings: Mapping[str, str] = field(repr=False)

    def topics(self, names: Sequence[str]) -> dict[str, TopicLog]:
        client = _Client(self.settings)
        described = client.described(names)
        partitions = _partitions(described)
        earliest = client.offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        latest = client.offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        # The ids as the Java client writes them, because checkpoints contain them.
        java_characters = str.maketrans("+/", "-_")
        return {
            name: TopicLog(
                str(topic.topic_id).translate(java_characters), earliest[name], latest[name]
            )
            for name, topic in described.items()
        }

    def offsets_at(self, topic: str, partitions: Collection[str], time_ms: int) -> dict[str, int]:
        spec = OffsetSpec.for_timestamp(time_ms)
        return _Client(self.settings).offsets({topic: list(map(int, partitions))}, spec)[topic]

    def ends(self, names: Sequence[str]) -> Offsets:
        client = _Client(self.settings)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return client.offsets(_partitions(client.described(names)), latest)

    def cluster_id(self) -> str:
        return _Client(self.settings).cluster_id()

    def sample(self, topic: str, positions: Mapping[str, int]) -> list[int]:
        consumer = Consumer({
            **self.settings,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "max.partition.fetch.bytes": SAMPLE_BYTES,
            "queued.max.messages.kbytes": SAMPLE_BYTES // 1024,
            "log_level": 0,
        })  # fmt: skip
        sizes: list[int] = []
        ended = 0
        give_up_at = time.monotonic() + SAMPLE_MS / 1000
        try:
            consumer.assign([TopicPartition(topic, int(p), at) for p, at in positions.items()])
            while len(sizes) < SAMPLE_RECORDS and ended < len(positions):
                message = consumer.poll(max(0.0, give_up_at - time.monotonic()))
                if message is None:
                    break
                error = message.error()
                if error is None:
                    sizes.append(len(message.key() or b"") + len(message.value() or b""))
                elif error.code() in _UNAUTHORIZED:
                    raise _rejected(self.settings, error)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's name
                    ended += 1
        finally:
            consumer.close()
        return sizes


class _Client:
    """Sends requests. Each ends in a bounded time, with a result or an error in one line."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Create the client.

        Raises:
            KafkaUnavailable: librdkafka rejects a setting, or the servers are not addresses.
        """
        self._settings = settings
        #: Errors of connections since the client was created.
        self._errors: list[KafkaError] = []
        for address in settings["bootstrap.servers"].split(","):
            # librdkafka would use its default port.
            if not _ADDRESS.fullmatch(address.strip()):
                raise _kafka_unavailable(settings, f"Invalid url in bootstrap.servers: {address}")
        try:
            self._admin = AdminClient({
                **settings,
                "log_level": 0,
                "error_cb": self._errors.append,  # type: ignore[dict-item]
            })  # fmt: skip
        except KafkaException as error:
            raise _rejected(settings, error.args[0]) from error

    def described(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Return the description of each topic.

        Raises:
            BrokersUnavailable, MissingTopic, KafkaUnavailable: See ``Brokers``.
        """
        collection = TopicCollection(list(names))
        futures = self._admin.describe_topics(collection, request_timeout=_REQUEST_SECONDS)
        for name, future in futures.items():
            error = self._error_of(future)
            if error is not None and error.code() in _UNKNOWN:
                raise missing_topic(name, self._names(), self._settings["bootstrap.servers"])
        return {name: self._result(future) for name, future in futures.items()}

    def offsets(
        self, partitions: Mapping[str, Sequence[int]], spec: OffsetSpec
    ) -> dict[str, dict[str, int]]:
        """Return the offset of each partition that ``spec`` names."""
        futures = requested_offsets(self._admin, partitions, spec, _REQUEST_SECONDS)
        found: dict[str, dict[str, int]] = {topic: {} for topic in partitions}
        for topic_partition, future in futures.items():
            try:
                offset = known_offset(self._result(future))
            except KafkaException as error:
                raise self._failure(error.args[0]) from error
            found[topic_partition.topic][str(topic_partition.partition)] = offset
        return found

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        future = self._admin.describe_cluster(request_timeout=_REQUEST_SECONDS)
        return str(self._result(future).cluster_id)

    def _names(self) -> set[str]:
        """Return the names of all topics that this user can see."""
        try:
            return set(self._admin.list_topics(timeout=_REQUEST_SECONDS).topics)
        except KafkaException as error:
            raise self._failure(error.args[0]) from error

    def _result(self, future: "Future[_T]") -> _T:
        """Return the result of a request.

        Raises:
            BrokersUnavailable: No broker responds in time.
            KafkaUnavailable: The brokers reject the client or the request.
        """
        error = self._error_of(future)
        if error is not None:
            raise self._failure(error)
        return future.result()

    def _error_of(self, future: "Future[_T]") -> KafkaError | None:
        """Wait for a request, and return its error. Raise early if no connection can succeed."""
        while True:
            try:
                error = future.exception(timeout=_POLL_SECONDS)
            except TimeoutError:
                self._raise_connection_error()
                continue
            if not isinstance(error, KafkaException):
                return None
            self._raise_connection_error()
            reason: KafkaError = error.args[0]
            return reason

    def _raise_connection_error(self) -> None:
        """Raise the first error of a connection that cannot pass."""
        self._admin.poll(0)
        for error in self._errors:
            text = error.str()
            if "certificate verify failed" in text:
                reason = "the certificate of the brokers cannot be verified"
                raise _kafka_unavailable(self._settings, reason + CHECK_CERTIFICATE)
            is_login = error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001 - as above
            is_tls = error.code() == KafkaError._SSL and "alert" in text  # noqa: SLF001
            if (is_login and _INTERRUPTED not in text) or is_tls:
                raise _kafka_unavailable(self._settings, _DECORATION.sub("", text) + CHECK_LOGIN)
        codes = {error.code() for error in self._errors}
        if codes == {KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN}:  # noqa: SLF001
            raise self._unavailable(UNRESOLVED)

    def _failure(self, error: KafkaError) -> KafkaUnavailable:
        if error.code() in _NO_RESPONSE:
            return self._unavailable(NO_RESPONSE)
        # If a topic is deleted during the request, the next request finds out which.
        if error.code() in RETRIABLE | {KafkaError.UNKNOWN_TOPIC_OR_PART}:
            return self._unavailable(error.str())
        return _rejected(self._settings, error)

    def _unavailable(self, reason: str) -> BrokersUnavailable:
        return BrokersUnavailable(
            f"Kafka at {self._settings['bootstrap.servers']} cannot be read: {reason}"
        )


def _rejected(settings: Mapping[str, str], error: KafkaError) -> KafkaUnavailable:
    rights = CHECK_PERMISSIONS if error.code() in _UNAUTHORIZED else ""
    return _kafka_unavailable(settings, error.str() + rights)


def _kafka_unavailable(settings: Mapping[str, str], reason: str) -> KafkaUnavailable:
    servers = settings["bootstrap.servers"]
    return KafkaUnavailable(
        f"Kafka at {servers} cannot be read: {without_secrets(reason, settings)}"
    )


def _partitions(described: Mapping[str, TopicDescription]) -> dict[str, list[int]]:
    return {name: [each.id for each in topic.partitions] for name, topic in described.items()}
