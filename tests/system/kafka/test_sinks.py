"""Records of streams in Kafka topics of a real broker: kills, new topics, changed steps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.campaigns import full
from tests.e2e.kafka_broker import Broker, messages_of
from tests.e2e.runs_in_one_process import Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS
from tests.system.kills.killed_runs import start

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

TOPOLOGY = """
from oriel import StreamsBuilder

builder = StreamsBuilder()
orders = builder.stream("orders", "v BIGINT, tags ARRAY<STRING>")
users = builder.table("users", "city STRING")
paid = orders.filter("v > {least}")
paid.left_join(users).map_values("*", time_ms="timestamp_ms").to("enriched-{name}")
paid.group_by_key().count().materialize("counted")
{more}
topology = builder.build()
"""
COPIED = 'orders.to("copied-{name}")'
READER = """
from oriel import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
enriched = builder.stream("enriched-{name}", "v BIGINT, city STRING")
windows = TimeWindows.of_size_and_grace(1000, 10**9)
enriched.group_by("city").windowed_by(windows).count().materialize("by_city")
topology = builder.build()
"""
CITIES = {f"k{number}": f"city {number % 2}" for number in range(3)}
RECORDS = 240
#: The records are about 20 kB: two batches, or five for a pipeline that is killed.
_LARGE, _SMALL = 12_000, 4_000


class Message(NamedTuple):
    """A message of a topic, with its position."""

    source: str
    time_ms: int
    key: str | None
    value: str | None
    partition: int
    offset: int


@dataclass
class Pipeline:
    """A pipeline that writes an event log to a broker, and the expected content of its topics."""

    directory: Path
    address: str
    #: The suffix of its topics.
    name: str
    #: Source -> key, time, value of each record.
    records: dict[str, tuple[str | None, int, dict[str, Any] | None]]

    def arguments(self, *, least: int = 3, more: str = "", batch_bytes: int = _LARGE) -> list[str]:
        """Return the arguments of `oriel run`."""
        path = self.directory / "orders.py"
        path.write_text(
            TOPOLOGY.format(least=least, name=self.name, more=more.format(name=self.name))
        )
        return [
            str(path), "--event-log", str(self.directory / "log"),
            "--data", str(self.directory / "data"),
            "--max-batch-bytes", str(batch_bytes), "--publish-to", self.address, "--cores", "2",
        ]  # fmt: skip

    @property
    def sink(self) -> str:
        """Return the name of the sink of enriched records in counters and dead letters."""
        return f"to(enriched-{self.name})"

    def messages(self, topic: str = "enriched") -> "list[Message]":
        """Return all messages of a topic."""
        return list(_messages(self.address, f"{topic}-{self.name}"))

    def enriched(self, least: int = 3) -> dict[str, tuple[str | None, int, str]]:
        """Return the enriched form of the records that pass the filter and have a key."""
        return {
            source: (
                key,
                time_ms,
                orjson.dumps(value | {"city": CITIES.get(key), "time_ms": time_ms}).decode(),
            )
            for source, (key, time_ms, value) in self.records.items()
            if key is not None and value is not None and value["v"] > least
        }


@pytest.fixture(name="pipeline")
def _pipeline(tmp_path: Path, broker: Broker) -> Pipeline:
    """Return a pipeline that has not run."""
    return _made(tmp_path, broker)


def _made(parent: Path, broker: Broker) -> Pipeline:
    """Write records of two partitions: some have a null key or value, and one line is invalid."""
    directory, name = parent / "sinks", parent.name
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic(f"{topic}-{name}", 3, 1) for topic in ("enriched", "copied")]
    for made in admin.create_topics(topics).values():
        made.result(timeout=WAIT_SECONDS)
    random = Random(7_650_000)
    records: dict[str, tuple[str | None, int, dict[str, Any] | None]] = {}
    for topic in ("orders", "users"):
        (directory / "log" / topic).mkdir(parents=True)
    with (directory / "log" / "users" / "0.jsonl").open("wb") as log:
        for user, city in CITIES.items():
            log.write(_line(user, {"city": city}, 1))
    for partition in range(2):
        with (directory / "log" / "orders" / f"{partition}.jsonl").open("wb") as log:
            for number in range(RECORDS // 2):
                key: str | None = random.choice(("k0", "k1", "k2", "k3", None))
                value = {"v": random.randrange(20), "tags": [None, f"é{number}"]}
                time_ms = random.randrange(5000)
                records[f"orders/{partition}/{log.tell()}"] = (
                    key, time_ms, None if number % 10 == 4 else value,
                )  # fmt: skip
                log.write(_line(key, None if number % 10 == 4 else value, time_ms))
            log.write(b"garbage\n")
    return Pipeline(directory, broker.address, name, records)


def _line(key: str | None, value: Any, time_ms: int) -> bytes:
    return orjson.dumps({"key": key, "value": value, "timestamp_ms": time_ms}) + b"\n"


class Survived(NamedTuple):
    """A killed pipeline after it resumed to the end of its log, with its results."""

    pipeline: Pipeline
    #: The counters of the sink.
    counters: dict[str, int]
    messages: list[Message]
    wanted: dict[str, tuple[str | None, int, str]]


#: The steps and batches at which the pipeline is killed.
KILLS = {
    # Every run without a broker tests the steps between: tests/system/runs/test_sink_runs.py.
    "one": [("published", 2)],
    "all": [("decided", 1), ("published", 2)],
}


@pytest.fixture(name="survived", scope="module", params=["one", *full("all")])
def _survived(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, broker: Broker,
    kafka_runs: Runs,
) -> Survived:  # fmt: skip
    """Kill and resume a pipeline. Later tests can append records and run it again."""
    pipeline = _made(tmp_path_factory.mktemp("survived"), broker)
    run = [*pipeline.arguments(batch_bytes=_SMALL), "--once"]
    for step, batch in KILLS[request.param]:
        killed = start("tests.system.kafka.killed_sink", step, str(batch), *run)
        assert killed.returncode == -9, killed.stderr[-3000:]
    ended = kafka_runs.run(*run)
    assert ended.code == 0, ended.errors
    counters = ended.summary["stores"][pipeline.sink]
    return Survived(pipeline, counters, pipeline.messages(), pipeline.enriched())


def test_each_record_comes_whatever_is_killed(survived: Survived) -> None:
    """Each record is in the topic once, with its own time, whatever is killed."""
    pipeline, counters, messages, wanted = survived
    assert {m.source: (m.key, m.time_ms, m.value) for m in messages} == wanted
    _check_order(messages)
    assert len(messages) == len(wanted)
    ends = ("applied", "late", "dead_lettered", "filtered")
    assert counters["input"] == sum(counters[end] for end in ends) == RECORDS + 5
    assert counters["applied"] == len(wanted) + len(CITIES)
    # Neither the checkpoint nor a table keeps published records.
    state = pipeline.directory / "data" / "checkpoints" / "orders" / "state" / pipeline.sink
    names = [path.name for path in state.iterdir()]
    assert sum(name.startswith("published-") for name in names) == 1
    assert len({name[:12] for name in names if name.endswith(".arrow") and "join" not in name}) <= 2
    assert not (pipeline.directory / "data" / "tables" / pipeline.sink).exists()


def test_columns_are_headers_of_messages(pipeline: Pipeline, kafka_runs: Runs) -> None:
    """Each message has its headers in addition to its own. The value does not have the columns."""
    copied = 'orders.to("copied-{name}", headers={{"number": "v"}})'
    ended = kafka_runs.run(*pipeline.arguments(more=copied), "--once")
    assert ended.code == 0, ended.errors
    found = {}
    for message in messages_of(pipeline.address, f"copied-{pipeline.name}", 3):
        headers: Any = dict(message.headers() or [])
        found[headers.pop("source").decode()] = (
            headers.pop("timestamp_ms"),
            headers,
            message.value(),
        )
    assert found == {
        source: (
            str(time_ms).encode(),
            {"number": None if value is None else str(value["v"]).encode()},
            None if value is None else orjson.dumps({"tags": value["tags"]}),
        )
        for source, (_, time_ms, value) in pipeline.records.items()
    }


def test_late_records_are_messages_with_their_record_ids(
    pipeline: Pipeline, kafka_runs: Runs
) -> None:
    """Each late record of tumbling windows is one message, whose source is its record id."""
    late_to = (
        "from oriel import TimeWindows\n"
        "windows = TimeWindows.of_size_with_no_grace(500)\n"
        'windowed = orders.group_by_key().windowed_by(windows).late_to("copied-{name}")\n'
        'windowed.count().materialize("windowed")'
    )
    ended = kafka_runs.run(*pipeline.arguments(more=late_to), "--once")
    assert ended.code == 0, ended.errors
    newest_ms = [-1, -1]
    expected = {}
    for source, (key, time_ms, value) in pipeline.records.items():
        if key is None:
            continue
        topic, partition, offset = source.split("/")
        newest_ms[int(partition)] = max(newest_ms[int(partition)], time_ms)
        start_ms, end_ms = time_ms // 500 * 500, time_ms // 500 * 500 + 500
        if end_ms <= newest_ms[int(partition)]:
            columns = {"v": None, "tags": None} if value is None else value
            expected[source] = key, time_ms, columns | {
                "record_topic": topic, "record_partition": int(partition),
                "record_offset": int(offset),
                "late_by_ms": newest_ms[int(partition)] - end_ms + 1, "partly_late": False,
                "first_missed_start_ms": start_ms, "first_missed_end_ms": end_ms,
                "last_missed_start_ms": start_ms, "last_missed_end_ms": end_ms,
            }  # fmt: skip
    messages = pipeline.messages("copied")
    found = {m.source: (m.key, m.time_ms, orjson.loads(m.value or "null")) for m in messages}
    assert found == expected
    late = ended.summary["stores"]["windowed"]["late"]
    assert len(messages) == len(expected) == late > 0


def test_a_topic_that_is_new_gets_all_records(pipeline: Pipeline, kafka_runs: Runs) -> None:
    """A new output topic receives all records, including earlier ones and null keys or values."""
    first = kafka_runs.run(*pipeline.arguments(), "--once")
    assert first.code == 0, first.errors
    ended = kafka_runs.run(*pipeline.arguments(more=COPIED), "--once")
    assert ended.code == 0, ended.errors
    copied = f"to(copied-{pipeline.name})"
    assert f"output topic rebuilt: sink={copied}" in "".join(ended.errors)
    messages = pipeline.messages("copied")
    assert {m.source: (m.key, m.time_ms, m.value) for m in messages} == {
        source: (key, time_ms, None if value is None else orjson.dumps(value).decode())
        for source, (key, time_ms, value) in pipeline.records.items()
    }
    assert len(messages) == len(pipeline.records)
    _check_order(messages)
    dead_letters = DeltaTable(
        pipeline.directory / "data" / "tables" / "_dead_letters"
    ).to_pyarrow_table()
    found = Counter((row["store"], row["reason"]) for row in dead_letters.to_pylist())
    assert found[None, "not-json"] == 2
    assert found[pipeline.sink, "null-key"] > 0
    assert (copied, "null-key") not in found
    # From here, the sink continues with new records.
    source = f"orders/0/{(pipeline.directory / 'log' / 'orders' / '0.jsonl').stat().st_size}"
    with (pipeline.directory / "log" / "orders" / "0.jsonl").open("ab") as log:
        log.write(_line("k0", {"v": 19, "tags": None}, 9))
    pipeline.records[source] = "k0", 9, {"v": 19, "tags": None}
    assert kafka_runs.run(*pipeline.arguments(more=COPIED), "--once").code == 0
    after = pipeline.messages("copied")
    assert [m.source for m in after if m not in messages] == [source]
    shown = kafka_runs.oriel("status", "--data", str(pipeline.directory / "data")).output
    assert copied in shown
    listed = kafka_runs.oriel("clock", copied, "--data", str(pipeline.directory / "data"))
    assert listed.code == 0, listed.errors
    left = kafka_runs.run(*pipeline.arguments(), "--once")
    assert left.errors[0] == (
        f"{copied} is not in the topology: no more records are written to the topic"
    )


def test_other_steps_are_rejected_or_rewrite_all_records(
    pipeline: Pipeline, kafka_runs: Runs
) -> None:
    """One line describes the difference and the fixes.

    A rebuild writes the records of the new steps.
    """
    assert kafka_runs.run(*pipeline.arguments(), "--once").code == 0
    known = pipeline.messages()
    # The store is rebuilt first, so that only the sink is rejected.
    other = pipeline.arguments(least=15)
    assert kafka_runs.oriel("rebuild", "counted", *other).code == 0
    refused = kafka_runs.run(*other, "--once")
    assert refused.code == 1
    (line,) = refused.errors
    assert f"{pipeline.sink}: its chain of steps was" in line
    assert "use other names for changed stores and output topics" in line
    assert f"`oriel rebuild '{pipeline.sink}' TOPOLOGY.py`" in line
    ended = kafka_runs.oriel("rebuild", pipeline.sink, *other)
    assert ended.code == 0, ended.errors
    messages = Counter(m.source for m in pipeline.messages())
    messages.subtract(m.source for m in known)
    assert +messages == Counter(dict.fromkeys(pipeline.enriched(least=15), 1))
    again = kafka_runs.run(*other, "--once")
    assert again.code == 0, again.errors
    assert not [name for name in again.summary["stores"].values() if name["changed_windows"]]


def test_another_pipeline_reads_the_records_with_their_own_times(
    tmp_path: Path, survived: Survived, kafka_runs: Runs
) -> None:
    """Another pipeline uses the times of the messages."""
    pipeline = survived.pipeline
    (tmp_path / "reader.py").write_text(READER.format(name=pipeline.name))
    ended = kafka_runs.run(
        str(tmp_path / "reader.py"), "--kafka", pipeline.address, "--once",
        "--data", str(tmp_path / "data"),
    )  # fmt: skip
    assert ended.code == 0, ended.errors
    rows = DeltaTable(tmp_path / "data" / "tables" / "by_city").to_pyarrow_table().to_pylist()
    messages = [orjson.loads(m.value or "") for m in pipeline.messages()]
    counted = Counter((m["city"], m["time_ms"] // 1000) for m in messages if m["city"])
    rows.sort(key=lambda row: int(row["revision"]))
    assert {(row["key"], row["window_start"].second): row["count"] for row in rows} == counted


def test_a_cluster_that_is_down_is_one_line(survived: Survived, kafka_runs: Runs) -> None:
    """The error is one line with the topic and the address, and the next start writes the batch."""
    pipeline = survived.pipeline
    with (pipeline.directory / "log" / "orders" / "1.jsonl").open("ab") as log:
        source = f"orders/1/{log.tell()}"
        log.write(_line("k1", {"v": 19, "tags": None}, 9))
    pipeline.records[source] = "k1", 9, {"v": 19, "tags": None}
    run = [*pipeline.arguments(), "--once", "--kafka-option", "max.block.ms=1000"]
    run += ["--kafka-option", "reconnect.backoff.ms=600000"]
    run += ["--kafka-option", "reconnect.backoff.max.ms=600000"]
    nowhere = f"127.0.0.1:{reserved_port()}"
    run[run.index(pipeline.address)] = nowhere
    ended = kafka_runs.run(*run)
    assert ended.code == 1
    assert ended.errors[-1].startswith(
        f"oriel run: records for the topic 'enriched-{pipeline.name}' cannot be written to Kafka "
        f"at {nowhere}"
    )
    assert kafka_runs.run(*pipeline.arguments(), "--once").code == 0
    sources = [message.source for message in pipeline.messages()]
    assert sources.count(source) == 1


def test_without_a_cluster_it_is_refused(pipeline: Pipeline, kafka_runs: Runs) -> None:
    """A sink needs ``--publish-to``, because an event log has no cluster as default."""
    arguments = pipeline.arguments()
    at = arguments.index("--publish-to")
    ended = kafka_runs.run(*arguments[:at], *arguments[at + 2 :], "--once")
    assert ended.code == 1
    (line,) = ended.errors
    assert line == (
        f"oriel run: a stream writes to the Kafka topic 'enriched-{pipeline.name}', but no "
        "cluster is named. Name the cluster with --publish-to HOST:PORT"
    )


def _messages(address: str, topic: str) -> Iterator[Message]:
    """Yield all messages of a topic."""
    for message in messages_of(address, topic, 3):
        headers: Any = dict(message.headers() or [])
        key, value = message.key(), message.value()
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        yield Message(
            headers["source"].decode(), int(headers["timestamp_ms"]),
            None if key is None else key.decode(), None if value is None else value.decode(),
            partition, offset,
        )  # fmt: skip


def _check_order(messages: Sequence[Message]) -> None:
    """Check that each key's records of one partition are in order, by their first messages."""
    seen: set[str] = set()
    last: dict[tuple[str, str], int] = {}
    for message in sorted(messages, key=lambda m: (m.partition, m.offset)):
        if message.key is None or message.source in seen:
            continue
        seen.add(message.source)
        _, partition, offset = message.source.split("/")
        place = message.key, partition
        assert int(offset) > last.get(place, -1), message
        last[place] = int(offset)
