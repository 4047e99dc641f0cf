"""Facts about topics from Kafka's brokers, requested in a bounded time.

Spark repeats requests for minutes, and its errors are Java traces. So a run checks the brokers
before it starts its query, and again after the query has failed.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from oriel.pipeline.errors import KafkaUnavailable
from oriel.storage import Offsets

#: Timeout of one request.
REQUEST_MS = 5_000
#: A sample has at most this many records of a partition, from at most this many partitions.
SAMPLE_RECORDS = 50
_SAMPLED_PARTITIONS = 8
SAMPLE_BYTES = 2**20
#: A sample without a record in this time is empty.
SAMPLE_MS = REQUEST_MS // 2

#: The causes of errors that can pass.
NO_RESPONSE = (
    "no broker responds there (if it runs, it may use another protocol: check security.protocol)"
)
UNRESOLVED = "none of the addresses can be resolved"

#: What the user can do after an error that cannot pass.
CHECK_LOGIN = ". Check security.protocol, sasl.mechanism, sasl.jaas.config and the ssl options"
CHECK_CERTIFICATE = (
    ". Set ssl.truststore.location to the certificate of the brokers or of its authority "
    "(ssl.truststore.type=PEM reads one), and connect by a name in the certificate"
)
CHECK_PERMISSIONS = ". Allow this user to describe and read the topic"


@dataclass(frozen=True)
class TopicLog:
    """A topic on the brokers: its id, and the first and the end offset of each partition."""

    id: str
    earliest: Mapping[str, int]
    latest: Mapping[str, int]


class MissingTopic(KafkaUnavailable):
    """Raised if the brokers have no topic with this name, or do not show it to this user."""


class BrokersUnavailable(KafkaUnavailable):
    """Raised if the brokers do not respond now, but can respond later."""


class Brokers(ABC):
    """The brokers of a cluster, as a client of Kafka reaches them."""

    @abstractmethod
    def topics(self, names: Sequence[str]) -> dict[str, TopicLog]:
        """Return each topic of ``names`` as it is now.

        Raises:
            BrokersUnavailable: No broker responds in a few seconds.
            MissingTopic: The brokers have no such topic.
            KafkaUnavailable: The brokers reject the client.
        """

    @abstractmethod
    def offsets_at(self, topic: str, partitions: Collection[str], time_ms: int) -> dict[str, int]:
        """Return the offset of the first record at or after a time per partition, -1 without one.

        Raises:
            BrokersUnavailable: No broker responds in a few seconds.
            KafkaUnavailable: The brokers reject the client.
        """

    @abstractmethod
    def ends(self, names: Sequence[str]) -> Offsets:
        """Return the end of each partition of the topics.

        Raises:
            BrokersUnavailable: No broker responds in a few seconds.
            KafkaUnavailable: The brokers reject the client, or have no such topic.
        """

    @abstractmethod
    def cluster_id(self) -> str:
        """Return the id of the cluster, which does not depend on the addresses.

        Raises:
            BrokersUnavailable: No broker responds in a few seconds.
            KafkaUnavailable: The brokers reject the client.
        """

    @abstractmethod
    def sample(self, topic: str, positions: Mapping[str, int]) -> list[int]:
        """Return the sizes in bytes of some records at positions of a topic."""

    def starts_of(self, topic: str, start: str, logs: Mapping[str, TopicLog]) -> dict[str, int]:
        """Return the offset of each partition at which a new checkpoint begins.

        Args:
            topic: The topic.
            start: ``earliest``, ``latest`` or ms since 1970. A partition without a record at or
                after the time begins at its end.
            logs: The topics as ``topics`` returned them.

        Raises:
            BrokersUnavailable: No broker responds in a few seconds.
            KafkaUnavailable: The brokers reject the client.
        """
        log = logs[topic]
        if not start.isdecimal():
            return dict(log.earliest if start == "earliest" else log.latest)
        found = self.offsets_at(topic, log.latest.keys(), int(start))
        return {p: offset if offset >= 0 else log.latest[p] for p, offset in found.items()}

    def record_bytes(self, topic: str, starts: Mapping[str, int], log: TopicLog) -> float:
        """Return the average size in bytes of the records of a topic, or 0 if it has no records.

        One sample has records at ``starts``, and another has records at the end. The result is the
        larger average of the two.
        """
        filled = [p for p, latest in log.latest.items() if latest > log.earliest[p]]
        first_offsets = {p: max(starts.get(p, 0), log.earliest[p]) for p in filled}
        # A position at the end has no records, and the client would wait for one.
        unread = [p for p in filled if first_offsets[p] < log.latest[p]][:_SAMPLED_PARTITIONS]
        last_offsets = {
            p: max(log.latest[p] - SAMPLE_RECORDS, log.earliest[p])
            for p in filled[:_SAMPLED_PARTITIONS]
        }
        samples = [
            self.sample(topic, positions)
            for positions in ({p: first_offsets[p] for p in unread}, last_offsets)
            if positions
        ]
        return max((sum(sizes) / len(sizes) for sizes in samples if sizes), default=0)


def missing_topic(name: str, present: Collection[str], servers: str) -> MissingTopic:
    """Return the error for a topic that the brokers do not have. It lists similar names."""
    topics = sorted(topic for topic in present if not topic.startswith("__"))
    similar = get_close_matches(name, topics, n=3) or topics[:3]
    known = f"it has {', '.join(map(repr, similar))}" if similar else "this user can see none"
    return MissingTopic(
        f"Kafka at {servers} has no topic {name!r} ({known}). Create it, or correct its name in "
        "the topology"
    )
