"""What Kafka's brokers say of a cluster and its topics, asked through the client in Spark's JVM."""

from collections.abc import Sequence
from typing import Any, Self, cast

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from oriel.pipeline.errors import KafkaUnavailable
from oriel.storage import Offsets

#: How long the brokers may take to answer.
_TIMEOUT_MS = 20_000


class KafkaAdmin:
    """Kafka's AdminClient, for the time of a ``with`` block; its methods raise KafkaUnavailable."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str) -> None:
        """Ask the cluster behind ``bootstrap_servers``."""
        # Py4J gives Java's classes as attributes.
        self._jvm = cast("Any", spark._jvm)  # noqa: SLF001 - pyspark has no public name for it
        self._kafka = self._jvm.org.apache.kafka
        self._servers = bootstrap_servers
        settings = self._jvm.java.util.Properties()
        settings.put("bootstrap.servers", bootstrap_servers)
        for name in ("request.timeout.ms", "default.api.timeout.ms"):
            settings.put(name, str(_TIMEOUT_MS))
        try:
            self._admin = self._kafka.clients.admin.AdminClient.create(settings)
        except Py4JJavaError as error:
            raise self._unavailable(error) from None

    def cluster_id(self) -> str:
        """The id of the cluster, which is its own whatever its addresses are."""
        return str(self._answer(self._admin.describeCluster().clusterId()))

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The ids of ``topics``; one that is made anew gets another."""
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        described = self._answer(self._admin.describeTopics(names).allTopicNames())
        return {topic: described[topic].topicId().toString() for topic in topics}

    def earliest(self, ends: Offsets) -> Offsets:
        """The first offset that is still there in each partition of ``ends``."""
        earliest = self._kafka.clients.admin.OffsetSpec.earliest()
        place_of = {
            (topic, partition): self._kafka.common.TopicPartition(topic, int(partition))
            for topic, partitions in ends.items()
            for partition in partitions
        }
        asked = self._jvm.java.util.HashMap()
        for place in place_of.values():
            asked.put(place, earliest)
        answer = self._answer(self._admin.listOffsets(asked).all())
        return {
            topic: {p: int(answer[place_of[topic, p]].offset()) for p in partitions}
            for topic, partitions in ends.items()
        }

    def __enter__(self) -> Self:
        """Use the client for the time of a ``with`` block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close its connections."""
        self._admin.close()

    def _answer(self, future: Any) -> Any:
        try:
            return future.get()
        except Py4JJavaError as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: Py4JJavaError) -> KafkaUnavailable:
        java = error.java_exception
        cause = java.getCause() or java
        message = (
            f"Kafka at {self._servers} does not answer as it should: {cause.getMessage()}. Check "
            "--kafka and that the cluster and its topics are there"
        )
        return KafkaUnavailable(message)
