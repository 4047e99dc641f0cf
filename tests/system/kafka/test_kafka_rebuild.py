"""What a store and a checkpoint record of a real Kafka broker, tested with the commands."""

from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_for

TOPOLOGY = """
from oriel import StreamsBuilder, sum

builder = StreamsBuilder()
for topic in {topics}:
    stream = builder.stream(topic, "v INT").filter("v > {above}")
    stream.group_by_key().aggregate(total=sum("v")).materialize(topic)
topology = builder.build()
"""


class Cluster:
    """A broker, and the commands that use it."""

    def __init__(self, directory: Path, address: str, runs: Runs) -> None:
        """Use the broker at ``address``, and write files to ``directory``."""
        self.directory = directory
        self.address = address
        self._runs = runs
        self.admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def create(self, topic: str, *values: int) -> None:
        """Create a topic with one record per value."""
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=WAIT_SECONDS)
        self.send(topic, *values)

    def send(self, topic: str, *values: int) -> None:
        """Append records with the key ``k``."""
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for value in values:
            producer.produce(topic, key=b"k", value=orjson.dumps({"v": value}), timestamp=value)
        producer.flush()

    def oriel(self, *command: str, above: int = 0, topics: tuple[str, ...] = ("a",)) -> str:
        """Run a command over the topology, and return the line of its error, or an empty string."""
        path = self.directory / "app.py"
        path.write_text(TOPOLOGY.format(topics=topics, above=above))
        is_named = {"--event-log", "--kafka"} & set(command)
        source = [] if is_named else ["--kafka", self.address]
        once = ["--once"] if command[0] == "run" else []
        arguments = [command[0], *command[1:2], str(path), *command[2:]]
        if command[0] == "run":
            arguments = [command[0], str(path), *command[1:]]
        options = ["--data", str(self.directory / "data"), "--cores", "1", *source, *once]
        ended = self._runs.oriel(*arguments, *options)
        self.errors = "\n".join(ended.errors)
        if ended.code == 0:
            return ""
        (line,) = (one for one in ended.errors if one.startswith("oriel "))
        return line

    def total(self, store: str) -> int:
        """Return the newest row of the only key."""
        rows = DeltaTable(self.directory / "data" / "tables" / store).to_pyarrow_table().to_pylist()
        total: int = max(rows, key=lambda row: row["revision"])["total"]
        return total


@pytest.mark.e2e
@pytest.mark.kafka
def test_stores_of_a_cluster_are_rebuilt_and_other_logs_refused(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """A store is rebuilt after a changed filter, a new topic and deleted records.

    An event log instead of the cluster is rejected.
    """
    cluster = Cluster(tmp_path, broker.address, kafka_runs)
    cluster.create("a", 1, 2, 4)
    assert cluster.oriel("run") == ""
    assert cluster.total("a") == 7
    error = cluster.oriel("run", above=1)
    assert error.startswith("oriel run: store 'a': its chain of steps was a.filter('v > 0'), but")
    assert cluster.oriel("rebuild", "a", above=1) == ""
    assert cluster.total("a") == 6
    # The new topic sorts before the other one. Spark distinguishes its sources by their order.
    cluster.create("B", 8)
    cluster.send("a", 16)
    assert cluster.oriel("run", above=1, topics=("a", "B")) == ""
    assert (cluster.total("a"), cluster.total("B")) == (22, 8)
    cluster.send("B", 32)
    assert cluster.oriel("run", above=1, topics=("a", "B")) == ""
    assert (cluster.total("a"), cluster.total("B")) == (22, 40)
    cluster.admin.delete_records([TopicPartition("a", 0, 3)])
    _wait_for_deletion(cluster)
    assert cluster.oriel("rebuild", "a", topics=("a", "B")) == ""
    assert "first records lost: store=a topic=a (partition 0 below 3)" in cluster.errors
    assert cluster.total("a") == 16
    (tmp_path / "log").mkdir()
    error = cluster.oriel("run", "--event-log", str(tmp_path / "log"))
    assert "has read another log (Kafka cluster " in error
    nowhere = f"127.0.0.1:{reserved_port()}"
    error = cluster.oriel(
        "run", "--kafka", nowhere, "--kafka-wait", "1s", above=1, topics=("a", "B")
    )
    assert error.startswith(f"oriel run: Kafka at {nowhere} cannot be read: ")


def _wait_for_deletion(cluster: Cluster) -> None:
    from confluent_kafka import Consumer  # noqa: PLC0415 - only here

    consumer = Consumer({"bootstrap.servers": cluster.address, "log_level": 0, "group.id": "look"})
    wait_for(
        3, lambda: consumer.get_watermark_offsets(TopicPartition("a", 0), timeout=WAIT_SECONDS)[0],
        "the first offset",
    )  # fmt: skip
    consumer.close()
