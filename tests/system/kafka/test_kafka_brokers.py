"""librdkafka and Java's client return the same facts about brokers, in a bounded time."""

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.kafka_errors import RETRIABLE
from oriel.pipeline.sources import choose_reader
from oriel.pipeline.sources.brokers import Brokers, BrokersUnavailable, MissingTopic
from oriel.pipeline.sources.kafka_client.brokers import ClientBrokers
from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import ROOT, Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

#: Errors that Java's client retries, and that a run does not wait for.
_RETRIABLE_ELSEWHERE = {
    # The pipeline has its own message for the first. The second can be true for a record each time.
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.INVALID_MSG,
    # No request of the pipeline has these responses: elections, share groups, and the session of a
    # fetch with topic ids (106), which librdkafka does not name.
    KafkaError.ELECTION_NOT_NEEDED,
    KafkaError.SHARE_SESSION_NOT_FOUND,
    KafkaError.INVALID_SHARE_SESSION_EPOCH,
    106,
}
_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
windows = TimeWindows.of_size_with_no_grace(1000)
stream = builder.stream({topic!r}, "v INT").group_by_key().windowed_by(windows)
stream.count().materialize("s")
topology = builder.build()
"""


def main(arguments: list[str]) -> int:
    """Print the facts that Java's client returns, from the process with a JVM."""
    servers, *topics = arguments
    spark = SparkSession.builder.getOrCreate()
    reader = choose_reader("spark", servers, {}, pytest.fail, skips_lost=False)
    facts = _facts(reader.brokers(spark), topics)
    sys.stdout.write(orjson.dumps({**facts, "retriable": _retriable(spark)}).decode())
    return 0


def _retriable(spark: SparkSession) -> list[int]:
    """Return the codes of the errors that Java's client retries."""
    assert spark._jvm is not None
    common = spark._jvm.org.apache.kafka.common
    errors = list(common.protocol.Errors.values())
    loader = errors[0].getClass().getClassLoader()
    retriable = loader.loadClass("org.apache.kafka.common.errors.RetriableException")
    return [error.code() for error in errors if retriable.isInstance(error.exception())]


def _facts(brokers: Brokers, topics: list[str]) -> dict[str, object]:
    logs = brokers.topics(topics)
    starts = ("earliest", "latest", "0", "1005", "9999999")
    return {
        "logs": {name: asdict(log) for name, log in logs.items()},
        "ends": brokers.ends(topics),
        "cluster": brokers.cluster_id(),
        "starts": {f"{t} {s}": brokers.starts_of(t, s, logs) for t in topics for s in starts},
        "sizes": {t: brokers.record_bytes(t, {"0": 2}, logs[t]) for t in topics},
    }


def _client(broker: Broker) -> ClientBrokers:
    return ClientBrokers({"bootstrap.servers": broker.address})


def _create(broker: Broker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, 3, 1) for topic in topics]).values():
        future.result(timeout=WAIT_SECONDS)


def test_both_clients_return_equal_facts(broker: Broker, kafka_runs: Runs) -> None:
    """Both clients return equal facts, including the topic ids that a checkpoint keeps.

    A run also waits for a broker after each error that Java's client retries. For example, a
    broker that has started again knows no leader epoch for a moment (``UNKNOWN_LEADER_EPOCH``).
    """
    # Topic ids are random, and the two alphabets of Base64 differ in two of 64 characters.
    topics = [f"facts-{number}" for number in range(20)]
    _create(broker, *topics)
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for number in range(40):
        producer.produce(topics[0], b"x" * 100, b"key", number % 2, timestamp=1000 + number)
    producer.flush()
    ended = kafka_runs.call("tests.system.kafka.test_kafka_brokers", broker.address, *topics)
    assert ended.code == 0, ended.errors
    facts = orjson.loads(ended.output)
    assert {
        *facts.pop("retriable"), KafkaError.BROKER_NOT_AVAILABLE,
    } == RETRIABLE | _RETRIABLE_ELSEWHERE  # fmt: skip
    assert facts == _facts(_client(broker), topics)
    ids = "".join(log.id for log in _client(broker).topics(topics).values())
    assert len(ids) == 20 * 22
    assert not set(ids) & set("+/=")


def test_the_end_is_the_last_stable_offset(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """A checkpoint that starts at ``latest`` starts before the records of an open transaction."""
    _create(broker, "stable")
    producer = Producer({
        "bootstrap.servers": broker.address, "log_level": 0, "transactional.id": "stable",
        "transaction.timeout.ms": 600_000,
    })  # fmt: skip
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(5):
        producer.produce("stable", b'{"v": 1}', b"k", 0, timestamp=number)
    producer.flush()
    assert _client(broker).ends(["stable"]) == {"stable": {"0": 0, "1": 0, "2": 0}}
    arguments = [*_arguments(tmp_path, broker, "stable"), "--start", "latest"]
    ended = kafka_runs.run(*arguments)
    assert ended.code == 0, ended.errors
    producer.commit_transaction(30)
    # The broker writes the marker after it has confirmed the commit.
    committed = {"stable": {"0": 6, "1": 0, "2": 0}}
    wait_for(committed, lambda: _client(broker).ends(["stable"]), "the marker of the transaction")
    ended = kafka_runs.run(*_arguments(tmp_path, broker, "stable"))
    assert ended.code == 0, ended.errors
    assert ended.summary["stores"]["s"]["input"] == 5


def test_errors_of_the_client_are_kinds_of_one_error(broker: Broker) -> None:
    """A broker that does not respond can respond later. Every other error ends the run."""
    with pytest.raises(MissingTopic, match="has no topic 'none'"):
        _client(broker).topics(["none"])
    with pytest.raises(MissingTopic, match="has no topic 'no/name'"):
        _client(broker).ends(["no/name"])
    unreachable = ClientBrokers({"bootstrap.servers": f"127.0.0.1:{reserved_port()}"})
    with pytest.raises(BrokersUnavailable, match="no broker responds there"):
        unreachable.cluster_id()
    assert unreachable.sample("none", {"0": 0}) == []
    refused = ClientBrokers(
        {"bootstrap.servers": broker.address, "ssl.key.password": "hidden-word", "acks": "hidden"}
    )
    with pytest.raises(KafkaUnavailable) as error:
        refused.cluster_id()
    assert "acks" in str(error.value)
    assert "hidden-word" not in f"{error.value} {refused}"


def test_a_run_with_the_client_loads_no_connector(tmp_path: Path, broker: Broker) -> None:
    """A machine without Maven packages runs a pipeline over Kafka."""
    _create(broker, "without")
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    producer.produce("without", b'{"v": 1}', b"k", 0, timestamp=1)
    producer.flush()
    home = tmp_path / "home"
    home.mkdir()
    # No address responds there, so the connector could not be downloaded.
    nowhere = f"http://127.0.0.1:{reserved_port()}"
    environment = {**os.environ, "HOME": str(home), "https_proxy": nowhere, "http_proxy": nowhere}
    ended = subprocess.run(
        [sys.executable, "-m", "oriel", "run", *_arguments(tmp_path, broker, "without")],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert orjson.loads(ended.stdout)["stores"]["s"]["input"] == 1
    assert list(home.iterdir()) == []


def _arguments(directory: Path, broker: Broker, topic: str) -> list[str]:
    path = directory / "topology.py"
    path.write_text(_TOPOLOGY.format(topic=topic))
    return [str(path), "--data", str(directory / "data"), "--kafka", broker.address, "--cores", "2",
            "--once"]  # fmt: skip
