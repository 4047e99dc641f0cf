"""Kafka with TLS, passwords, transactions and compaction, and failures."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from oriel.storage.monitoring import overview
from tests.e2e.kafka_broker import PASSWORD, USER, Broker
from tests.e2e.runs_in_one_process import ROOT, Runs, after_start
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_for, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows, count

builder = StreamsBuilder()
windows = TimeWindows.of_size_and_grace(1000, 1000)
for topic in {topics!r}:
    stream = builder.stream(topic, "v INT").group_by_key().windowed_by(windows)
    stream.aggregate(n=count()).materialize(topic)
topology = builder.build()
"""

VALUE = b'{"v": 1}'


class Cluster:
    """A broker, and the operations of the tests on it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic."""
        new = NewTopic(
            topic, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()}
        )
        self.admin.create_topics([new])[topic].result(timeout=WAIT_SECONDS)

    def send(
        self, topic: str, count: int, partition: int = 0, *, at_ms: int = 1, value: bytes = VALUE
    ) -> None:
        """Write ``count`` records with different keys."""
        for number in range(count):
            key = f"k{number}".encode()
            self._producer.produce(topic, value, key, partition, timestamp=at_ms + number)
        self._producer.flush()

    def transaction(self, topic: str, count: int, *, commit: bool) -> None:
        """Write records in a transaction, which is committed or aborted."""
        producer = Producer({
            "bootstrap.servers": self.broker.address, "log_level": 0,
            "transactional.id": f"tests-{topic}",
        })  # fmt: skip
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, VALUE, f"k{number}".encode(), 0, timestamp=number + 1)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete the records before ``offset``, as retention does."""
        place = TopicPartition(topic, partition, offset)
        for future in self.admin.delete_records([place]).values():
            future.result(timeout=WAIT_SECONDS)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return len(self.admin.list_topics(topic).topics[topic].partitions)

    def offsets(self, topic: str) -> list[int]:
        """Return the offsets that a consumer finds in partition 0."""
        consumer = Consumer({
            "bootstrap.servers": self.broker.address, "log_level": 0, "group.id": "tests",
            "enable.auto.commit": False, "enable.partition.eof": True,
        })  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(WAIT_SECONDS)) is not None and not message.error():
            found.append(message.offset() or 0)
        consumer.close()
        return found


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    """Return the broker with the operations on it."""
    return Cluster(broker)


@pytest.fixture
def runs(kafka_runs: Runs) -> Runs:
    """Return the process of all runs in this file that end by themselves."""
    return kafka_runs


def _arguments(directory: Path, topics: list[str], address: str, *more: str) -> list[str]:
    """Return the arguments of ``oriel run`` for a topology with one store per topic."""
    path = directory / "topology.py"
    path.write_text(TOPOLOGY.format(topics=topics))
    return [str(path), "--data", str(directory / "data"), "--kafka", address, "--cores", "2", *more]


def _read(directory: Path, cluster: Cluster, runs: Runs, topic: str) -> list[str]:
    """Return the arguments of a run that has read the three records of a new topic."""
    cluster.create(topic)
    cluster.send(topic, 3)
    arguments = _arguments(directory, [topic], cluster.broker.address, "--once")
    assert runs.run(*arguments).code == 0
    return arguments


def test_a_run_says_where_the_log_ends(tmp_path: Path, cluster: Cluster, runs: Runs) -> None:
    """A run records the end of the log, which the brokers report, and the lag in records."""
    _read(tmp_path, cluster, runs, "followed")
    seen = overview(tmp_path / "data")
    ((run, is_alive),) = seen.runs.values()
    assert (run.offset_unit, run.log_ends, is_alive) == ("records", {"followed": {"0": 3}}, False)
    (partition,) = seen.stores[0].partitions
    # The run has ended, so the log can be longer by now.
    assert (partition.offset, partition.last_lag, partition.lag) == (3, 0, None)


def _input(summary: dict[str, dict[str, dict[str, int]]]) -> dict[str, int]:
    return {name: counters["input"] for name, counters in summary["stores"].items()}


def test_mistakes_are_one_line_in_a_bounded_time(
    tmp_path: Path, cluster: Cluster, runs: Runs
) -> None:
    """Each mistake is one line with the fix, in a bounded time.

    The mistakes are a missing broker or topic, another protocol, a wrong password, and an unknown
    certificate.
    """
    cluster.create("orders")
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}"'
    login = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "ssl.truststore.type=PEM",
             f"ssl.truststore.location={cluster.broker.certificate}"]  # fmt: skip
    untrusted = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN",
                 f'sasl.jaas.config={jaas} password="{PASSWORD}";']  # fmt: skip
    wrong = [*login, f'sasl.jaas.config={jaas} password="not-this-one";']
    broken = [*login, f"sasl.jaas.config={jaas} password=not-this-one"]
    good = [*login, f'sasl.jaas.config={jaas} password="{PASSWORD}";']
    address, sasl_address = cluster.broker.address, cluster.broker.sasl_address
    cases = [
        (f"127.0.0.1:{reserved_port()}", [], "no broker responds there"),
        (sasl_address, [], "check security.protocol"),
        ("nobody.invalid:9092", [], "none of the addresses can be resolved"),
        ("nonsense", [], "Invalid url in bootstrap.servers"),
        (address, [], "has no topic 'order' (it has 'orders'). Create it, or correct its name"),
        (sasl_address, wrong, "Invalid username or password. Check security.protocol"),
        (sasl_address, broken, "JAAS"),
        (sasl_address, untrusted, "Set ssl.truststore.location to the certificate"),
        (sasl_address, good, "has no topic 'order'"),
        (sasl_address.replace("127.0.0.1", "localhost"), good, "by a name in the certificate"),
        (address, ["security.protocol=NOPE"], "security.protocol"),
    ]
    for servers, options, said in cases:
        given = [text for option in options for text in ("--kafka-option", option)]
        waits = ["--once", "--kafka-wait", "1ms", *given]
        code, _, lines = runs.run(*_arguments(tmp_path, ["order"], servers, *waits))
        assert code == 1, said
        # For a login that only Java's client can read, the first line names the chosen reader.
        errors = [line for line in lines if not line.startswith("Kafka reader chosen: ")]
        assert len(errors) == 1, lines
        assert errors[0].startswith("oriel run: Kafka at ")
        assert said in errors[0]
        assert "not-this-one" not in "".join(lines)
    assert not (tmp_path / "data" / "tables").exists() or not list(
        (tmp_path / "data" / "tables").glob("*/_delta_log/*1.json")
    )


@pytest.mark.parametrize("reader", ["client", "spark"])
def test_transactions_compaction_and_new_partitions(
    tmp_path: Path, cluster: Cluster, runs: Runs, reader: str
) -> None:
    """Only committed records that still exist are input, over TLS.

    The password is not in any file.
    """
    paid, newest = f"paid-{reader}", f"newest-{reader}"
    cluster.create(paid)
    cluster.create(newest, cleanup_policy="compact", segment_ms="100",
                   min_cleanable_dirty_ratio="0.01")  # fmt: skip
    cluster.transaction(paid, 3, commit=True)
    cluster.transaction(paid, 5, commit=False)
    cluster.transaction(paid, 2, commit=True)
    rounds = 0

    def removed() -> int:
        # A later record closes a segment, which is then compacted.
        nonlocal rounds
        rounds += 1
        cluster.send(newest, 4, at_ms=rounds * 1_000)
        return 4 * rounds - len(cluster.offsets(newest))

    wait_until(removed, "compaction to remove records")
    config = tmp_path / "client.properties"
    config.write_text(
        "# who we are\nsecurity.protocol = SASL_SSL\nsasl.mechanism: PLAIN\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.broker.certificate}\n"
        "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'    username="{USER}" \\\n    password="{PASSWORD}";\n'
    )
    arguments = _arguments(tmp_path, [paid, newest], cluster.broker.sasl_address, "--once",
                           "--kafka-config", str(config), "--max-batch-records", "4",
                           "--kafka-reader", reader)  # fmt: skip
    ended = runs.run(*arguments)
    assert ended.code == 0, ended.errors
    kept = len(cluster.offsets(newest))
    assert _input(ended.summary)[paid] == 5
    # Compaction can have continued since then.
    assert kept <= _input(ended.summary)[newest] < 4 * rounds

    # A batch with offsets but without records has no input. Then a new partition appears.
    cluster.transaction(paid, 5, commit=False)
    cluster.admin.create_partitions([NewPartitions(paid, 2)])[paid].result(timeout=WAIT_SECONDS)
    wait_for(2, lambda: cluster.partitions(paid), "the number of partitions")
    cluster.send(paid, 4, partition=1)
    ended = runs.run(*arguments)
    assert ended.code == 0, ended.errors
    assert _input(ended.summary)[paid] == 9
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


@pytest.mark.parametrize("reader", ["client", "spark"])
def test_lost_records_stop_a_run_or_are_counted(
    tmp_path: Path, cluster: Cluster, runs: Runs, reader: str
) -> None:
    """Records that Kafka deleted before they were read are named, and only an option skips them."""
    short = f"short-{reader}"
    arguments = [*_read(tmp_path, cluster, runs, short), "--kafka-reader", reader]
    cluster.send(short, 7)
    cluster.delete_before(short, 8)
    ended = runs.run(*arguments)
    deletion = f"topic {short!r}, partition 0: 5 offsets, 3 to 7, were deleted from Kafka"
    assert ended.code == 1
    assert len(ended.errors) == 1
    assert deletion in ended.errors[0]
    assert "--on-data-loss continue" in ended.errors[0]
    ended = runs.run(*arguments, "--on-data-loss", "continue")
    assert ended.code == 0, ended.errors
    assert deletion in ended.errors[0]
    assert _input(ended.summary) == {short: 5}
    assert ended.summary["lost"] == {short: 5}
    # The run has recorded the gap, so it is not an error any more.
    ended = runs.run(*arguments)
    assert ended.code == 0, ended.errors
    assert ended.summary["lost"] == {short: 5}


def test_a_topic_that_is_created_again_is_another_log(
    tmp_path: Path, cluster: Cluster, runs: Runs
) -> None:
    """A new topic with the same name is another log, although it has all the offsets."""
    arguments = _read(tmp_path, cluster, runs, "again")
    cluster.admin.delete_topics(["again"])["again"].result(timeout=WAIT_SECONDS)
    wait_until(
        lambda: sorted(cluster.admin.list_topics().topics), "deletion of the topic",
        lambda topics: "again" not in topics,
    )  # fmt: skip
    cluster.create("again")
    cluster.send("again", 9)
    for choice in ("fail", "continue"):
        ended = runs.run(*arguments, "--on-data-loss", choice)
        assert ended.code == 1
        assert len(ended.errors) == 1
        assert "topic 'again' was deleted and created again" in ended.errors[0]


def test_a_checkpoint_starts_at_the_given_offsets(
    tmp_path: Path, cluster: Cluster, runs: Runs
) -> None:
    """A checkpoint starts after the last record or at a time. Later starts ignore the option.

    The run reports that it ignores the option.
    """
    cluster.create("later")
    cluster.send("later", 5)
    for start, expected in (("latest", 0), ("1970-01-01T00:00:00.003Z", 3), ("99999", 0)):
        directory = tmp_path / start
        directory.mkdir()
        arguments = _arguments(directory, ["later"], cluster.broker.address, "--once")
        ended = runs.run(*arguments, "--start", start)
        assert ended.code == 0, ended.errors
        assert _input(ended.summary) == {"later": expected}
    cluster.send("later", 2)
    ended = runs.run(*_arguments(tmp_path / "latest", ["later"], cluster.broker.address, "--once"),
                     "--start", "earliest")  # fmt: skip
    assert ended.code == 0
    assert ended.errors[0].startswith(
        "--start earliest has no effect on topic 'later': this checkpoint began at latest"
    )
    assert _input(ended.summary) == {"later": 2}


def test_topics_begin_at_places_of_their_own(tmp_path: Path, cluster: Cluster, runs: Runs) -> None:
    """A start for one topic has precedence, and a start for an unknown topic is an error."""
    topics = ["ones", "twos", "threes"]
    for topic in topics:
        cluster.create(topic)
        cluster.send(topic, 5)
    arguments = [*_arguments(tmp_path, topics, cluster.broker.address, "--once"),
                 "--start", "latest", "--start", "twos=earliest",
                 "--start", "threes=1970-01-01T00:00:00.004Z"]  # fmt: skip
    ended = runs.run(*arguments, "--start", "fours=latest")
    assert (ended.code, len(ended.errors)) == (1, 1)
    assert "the topology reads ones, threes, twos, not 'fours'" in ended.errors[0]
    for expected in (0, 5, 2), (2, 7, 4):
        ended = runs.run(*arguments)
        assert ended.code == 0, ended.errors
        assert _input(ended.summary) == dict(zip(topics, expected, strict=True))
        for topic in topics:
            cluster.send(topic, 2)


def test_batches_are_bounded_by_bytes(tmp_path: Path, cluster: Cluster, runs: Runs) -> None:
    """The sizes of the current records limit a batch, even if the first records are small."""
    cluster.create("large")
    cluster.send("large", 100)
    cluster.send("large", 60, value=b'{"v": 1, "padding": "' + b"x" * 10_000 + b'"}')
    ended = runs.run(*_arguments(tmp_path, ["large"], cluster.broker.address, "--once",
                                 "--max-batch-bytes", "200000"))  # fmt: skip
    assert ended.code == 0, ended.errors
    assert _input(ended.summary) == {"large": 160}
    # At most 19 records of 10 kB fit into a batch.
    assert ended.summary["batches"] >= 160 // 20


@pytest.mark.parametrize("reader", ["client", "spark"])
def test_a_run_survives_its_broker(tmp_path: Path, cluster: Cluster, reader: str) -> None:
    """A run waits for a broker that hangs or is down, writes one line, and then continues.

    With the connector of Spark, records that are deleted before they are read end the run. The
    client has fetched the records before they are deleted.
    """
    steady = f"steady-{reader}"
    cluster.create(steady)
    cluster.send(steady, 3)
    cluster.broker.pause()
    quick = ["default.api.timeout.ms=2000", "request.timeout.ms=1500"]
    options = [text for option in quick for text in ("--kafka-option", option)]
    arguments = _arguments(tmp_path, [steady], cluster.broker.address, *options,
                           "--kafka-reader", reader)  # fmt: skip
    log_file = tmp_path / "told"
    with log_file.open("w") as errors:
        run = subprocess.Popen(
            [sys.executable, "-m", "oriel", "run", *arguments], cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    watched = _Watched(tmp_path / "data", log_file, run)
    said, said_more, committed = watched.said, watched.said_more, watched.committed
    try:
        said_more(0)
        cluster.broker.go_on()
        committed(3)
        assert said("Kafka responds again") == 1
        waiting = said("waiting: Kafka at ")
        cluster.broker.kill()
        said_more(waiting)
        cluster.broker.start()
        cluster.send(steady, 4)
        committed(7)
        if reader == "client":
            run.terminate()
        else:
            _lose_records(cluster, steady, run.pid)
        run.wait(WAIT_SECONDS)
    finally:
        cluster.broker.go_on()
        cluster.broker.ensure_running()
        run.kill()
        run.wait()
    lines = log_file.read_text().splitlines()
    if reader == "client":
        assert run.returncode == 0, lines
    else:
        assert run.returncode == 1
        last = lines.pop()
        assert f"topic {steady!r}, partition 0: 5 offsets, 7 to 11, were deleted" in last
    assert said("waiting: Kafka at ") == waiting + 1
    assert said("Kafka responds again") == 2
    expected = ("waiting", "Kafka", "batch")
    others = after_start("\n".join(lines))
    assert [line for line in others if not line.startswith(expected)] == [], lines


class _Watched(NamedTuple):
    """A run with its data directory and the file with its output."""

    data: Path
    log_file: Path
    process: "subprocess.Popen[bytes]"

    def said(self, part: str) -> int:
        """Return how many lines contain ``part``."""
        return sum(part in line for line in self.log_file.read_text().splitlines())

    def said_more(self, than: int) -> None:
        """Wait until the run has reported more often than ``than`` that it waits."""
        wait_until(
            self.log_file.read_text, f"more than {than} lines about the broker",
            lambda text: text.count("waiting: Kafka at ") > than, process=self.process,
        )  # fmt: skip

    def committed(self, offset: int) -> None:
        """Wait until the store has read up to an offset."""

        def state() -> tuple[list[int], str]:
            stores = overview(self.data).stores
            offsets = [part.offset for store in stores for part in store.partitions]
            return offsets, self.log_file.read_text()

        wait_until(
            state, f"offset {offset}", lambda seen: seen[0] == [offset], process=self.process
        )


def _lose_records(cluster: Cluster, topic: str, process: int) -> None:
    """Send and delete records while the Java process of a run is stopped."""
    (java,) = _children(process)
    os.kill(java, signal.SIGSTOP)
    cluster.send(topic, 9)
    cluster.delete_before(topic, 12)
    os.kill(java, signal.SIGCONT)


def _children(process: int) -> list[int]:
    """Return the Java processes that a process started. A run has one."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if "java" in Path(f"/proc/{child}/comm").read_text()]
