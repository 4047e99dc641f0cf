"""What a store and a checkpoint remember, over a real Kafka broker, by the commands themselves."""

import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import running_broker
from tests.locks import only_one

ROOT = Path(__file__).resolve().parents[2]

TOPOLOGY = """
from oriel import StreamsBuilder, sum

builder = StreamsBuilder()
for topic in {topics}:
    stream = builder.stream(topic, "v INT").filter("v > {above}")
    stream.group_by_key().aggregate(total=sum("v")).materialize(topic)
topology = builder.build()
"""


class Cluster:
    """A broker, and the command over it."""

    def __init__(self, folder: Path, address: str) -> None:
        """Use the broker at ``address``; files go to ``folder``."""
        self.folder = folder
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})

    def create(self, topic: str, *values: int) -> None:
        """Make a topic with one record for each value."""
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=30)
        self.send(topic, *values)

    def send(self, topic: str, *values: int) -> None:
        """Append records of key ``k``."""
        producer = Producer({"bootstrap.servers": self.address})
        for value in values:
            producer.produce(topic, key=b"k", value=orjson.dumps({"v": value}), timestamp=value)
        producer.flush()

    def oriel(self, *command: str, above: int = 0, topics: tuple[str, ...] = ("a",)) -> str:
        """Run a command over the topology; "" or the one line that it said when it failed."""
        path = self.folder / "app.py"
        path.write_text(TOPOLOGY.format(topics=topics, above=above))
        source = ["--kafka", self.address] if "--event-log" not in command else []
        once = ["--once"] if command[0] == "run" else []
        arguments = [command[0], *command[1:2], str(path), *command[2:]]
        if command[0] == "run":
            arguments = [command[0], str(path), *command[1:]]
        options = ["--data", str(self.folder / "data"), "--cores", "1", *source, *once]
        with only_one("ivy"):
            done = subprocess.run(
                [sys.executable, "-m", "oriel", *arguments, *options],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
        self.told = done.stderr
        if done.returncode == 0:
            return ""
        # Spark may say something of its own when it is ended.
        (line,) = (one for one in done.stderr.splitlines() if one.startswith("oriel "))
        return line

    def total(self, store: str) -> int:
        """The newest row of the one key."""
        rows = DeltaTable(self.folder / "data" / "tables" / store).to_pyarrow_table().to_pylist()
        total: int = max(rows, key=lambda row: row["revision"])["total"]
        return total


@pytest.mark.e2e
@pytest.mark.kafka
def test_stores_of_a_cluster_are_rebuilt_and_other_logs_refused(tmp_path: Path) -> None:
    """A filter, a new topic, deleted records, an event log instead."""
    with running_broker(tmp_path) as address:
        cluster = Cluster(tmp_path, address)
        cluster.create("a", 1, 2, 4)
        assert cluster.oriel("run") == ""
        assert cluster.total("a") == 7
        told = cluster.oriel("run", above=1)
        assert told.startswith(
            "oriel run: store 'a': its chain of steps was a.filter('v > 0'), the"
        )
        assert cluster.oriel("rebuild", "a", above=1) == ""
        assert cluster.total("a") == 6
        # Another topic in front of it: Spark tells its sources by their order.
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
        assert "topic a has lost its first records (partition 0 below 3)" in cluster.told
        assert cluster.total("a") == 16
        (tmp_path / "log").mkdir()
        told = cluster.oriel("run", "--event-log", str(tmp_path / "log"))
        assert "has read another log (Kafka cluster " in told
    told = cluster.oriel("run", "--kafka-wait", "1s", above=1, topics=("a", "B"))
    assert told.startswith(f"oriel run: Kafka at {address} can't be read: ")


def _wait_for_deletion(cluster: Cluster) -> None:
    from confluent_kafka import Consumer  # noqa: PLC0415 - only here

    consumer = Consumer({"bootstrap.servers": cluster.address, "group.id": "look"})
    while consumer.get_watermark_offsets(TopicPartition("a", 0), timeout=10)[0] < 3:
        time.sleep(0.05)
    consumer.close()
