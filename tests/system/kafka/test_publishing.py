"""Rows of stores in Kafka topics of a real broker: updates, final rows, removals, replays."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import Broker, messages_of
from tests.e2e.runs_in_one_process import Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

STORES = ("sessions", "final", "totals")

#: A message: key, value, revision.
Message = tuple[dict[str, Any], dict[str, Any] | None, int]


@pytest.fixture(name="messages", scope="module")
def _messages(
    tmp_path_factory: pytest.TempPathFactory, broker: Broker, kafka_runs: Runs
) -> dict[str, list[Message]]:
    """Return the messages of each store's topic, by revision and key."""
    directory = tmp_path_factory.mktemp("published")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [NewTopic(f"{store}-out", 2, 1) for store in STORES]
    for future in admin.create_topics(topics).values():
        future.result(timeout=WAIT_SECONDS)
    ended = kafka_runs.call(
        "tests.system.kafka.published_run", str(directory / "run"), broker.address
    )
    assert ended.code == 0, ended.errors
    return {store: _read(broker.address, store) for store in STORES}


def _read(address: str, store: str) -> list[Message]:
    messages: list[Message] = []
    for message in messages_of(address, f"{store}-out", 2):
        headers: Any = dict(message.headers() or [])
        assert headers["store"].decode() == store
        value = message.value()
        key = orjson.loads(message.key() or b"")
        parsed = orjson.loads(value) if value else None
        messages.append((key, parsed, int(headers["revision"])))
    return sorted(messages, key=lambda message: (message[2], str(message[0])))


def _session(start_ms: int, end_ms: int) -> dict[str, Any]:
    return {"key": "k", "window_start_ms": start_ms, "window_end_ms": end_ms}


def test_updates_come_with_removals(messages: dict[str, list[Message]]) -> None:
    """A merged session is a message with a null value, and no crash repeats a message."""
    first, merged = _session(0, 5), _session(0, 12)
    final = {"final": False}
    second_batch = [
        (merged, {**merged, "count": 3, "timestamp_ms": 12, **final, "revision": 1}, 1),
        (first, None, 1),
    ]
    assert messages["sessions"] == [
        (first, {**first, "count": 2, "timestamp_ms": 5, **final, "revision": 0}, 0),
        (
            _session(30, 30),
            {**_session(30, 30), "count": 1, "timestamp_ms": 30, **final, "revision": 0},
            0,
        ),
        *second_batch,
        # The batch that crashed before any of its rows was written.
        (_session(30, 30), None, 2),
        (
            _session(30, 40),
            {**_session(30, 40), "count": 2, "timestamp_ms": 40, **final, "revision": 2},
            2,
        ),
    ]


def test_final_rows_come_once(messages: dict[str, list[Message]]) -> None:
    """Each final row is written once, and the open window is not written."""
    first, second = _session(0, 10), _session(30, 40)
    final = {"final": True}
    assert messages["final"] == [
        (first, {**first, "count": 2, "timestamp_ms": 5, **final, "revision": 0}, 0),
        (second, {**second, "count": 1, "timestamp_ms": 30, **final, "revision": 2}, 2),
    ]


def test_rows_without_windows_have_the_key(messages: dict[str, list[Message]]) -> None:
    """A client that ignores revisions up to a key's highest one sees each row once."""
    seen: dict[str, int] = {}
    rows = []
    for key, value, revision in messages["totals"]:
        if revision > seen.get(str(key), -1):
            seen[str(key)] = revision
            rows.append((key, value))
    assert rows == [
        ({"key": "k"}, {"key": "k", "n": 3, "timestamp_ms": 30, "revision": 0}),
        ({"key": "k"}, {"key": "k", "n": 4, "timestamp_ms": 30, "revision": 1}),
        ({"key": "k"}, {"key": "k", "n": 5, "timestamp_ms": 40, "revision": 2}),
    ]


def test_a_cluster_that_is_down_is_one_line(tmp_path: Path, kafka_runs: Runs) -> None:
    """The error is one line with the store and the address, and the table has the batch."""
    topology = 'table.aggregate(n=count()).materialize("s").to("out")\n'
    (tmp_path / "topology.py").write_text(
        "from oriel import StreamsBuilder, count\nbuilder = StreamsBuilder()\n"
        f'table = builder.stream("t", "v LONG").group_by_key()\n{topology}'
        "topology = builder.build()\n"
    )
    log = tmp_path / "log" / "t"
    log.mkdir(parents=True)
    (log / "0.jsonl").write_text('{"key": "a", "value": {"v": 1}, "timestamp_ms": 1}\n')
    nowhere = f"127.0.0.1:{reserved_port()}"
    ended = kafka_runs.run(
        str(tmp_path / "topology.py"), "--once", "--cores", "1",
        "--event-log", str(tmp_path / "log"), "--data", str(tmp_path / "data"),
        "--publish-to", nowhere, "--kafka-option", "max.block.ms=1000",
        # Spark keeps the producer for ten minutes. The option prevents a failure log every second.
        "--kafka-option", "reconnect.backoff.ms=600000",
        "--kafka-option", "reconnect.backoff.max.ms=600000",
    )  # fmt: skip
    assert ended.code == 1
    (line,) = ended.errors
    assert line.startswith(f"oriel run: rows of store 's' cannot be written to Kafka at {nowhere}")
    assert DeltaTable(tmp_path / "data" / "tables" / "s").to_pyarrow_table().num_rows == 1
