"""Dead letters of a real broker: what they keep of a message, and how they are replayed."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS

TOPOLOGY = """
from oriel import Consumed, StreamsBuilder, sum

builder = StreamsBuilder()
values = builder.stream("poisoned", "v INT", Consumed(headers={"trace": "trace"}))
values.group_by_key().aggregate(total=sum("v")).materialize("s")
topology = builder.build()
"""

#: Key, value, time and headers of messages that are invalid for every store, or (last) for one.
POISON: list[tuple[bytes | None, bytes | None, int, Any]] = [
    (b"k\xff", b'{"v":1}', 5_000_000_000, [("trace", b"\xfe"), ("trace", None)]),
    (b"k", b"hello", 7, None),
    (None, b'{"v":2}', 8, [("h", b"")]),
    (b"t", None, 9, None),
]


@pytest.mark.e2e
@pytest.mark.kafka
def test_a_message_is_kept_whole_and_sent_again_as_it_was(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """A replay sends key, value, time, headers and partition unchanged.

    A second one sends nothing.
    """
    (tmp_path / "readings.py").write_text(TOPOLOGY)
    data = str(tmp_path / "data")
    address = broker.address
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    for made in admin.create_topics([NewTopic("poisoned", 3, 1)]).values():
        made.result(timeout=WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for key, value, time_ms, headers in POISON:
        producer.produce(
            "poisoned", key=key, value=value, timestamp=time_ms, partition=2, headers=headers
        )
    producer.flush()
    run = [str(tmp_path / "readings.py"), "--kafka", address, "--data", data, "--once"]
    assert kafka_runs.run(*run).code == 3, "all records of this run are dead letters"
    replay = ["dead-letters", "replay", "--data", data, "--kafka", address]
    replayed = kafka_runs.oriel(*replay)
    assert replayed.code == 0, replayed.errors
    assert "2 records were sent" in replayed.output
    replayed = kafka_runs.oriel(*replay, "--store", "s")
    assert "2 records were sent" in replayed.output, replayed.errors
    assert "0 records were sent" in kafka_runs.oriel(*replay, "--store", "s").output
    assert _messages(address, 2 * len(POISON)) == 2 * POISON
    missing = kafka_runs.oriel(*replay[:-1], f"127.0.0.1:{reserved_port()}", "--again")
    assert missing.code == 1
    (line,) = missing.errors
    assert line.startswith("oriel dead-letters")
    assert "no broker responds" in line
    dead_letters = DeltaTable(tmp_path / "data" / "tables" / "_dead_letters").to_pyarrow_table()
    assert [
        (row["reason"], row["key"], row["timestamp_ms"], row["headers"])
        for row in dead_letters.sort_by("offset").to_pylist()
    ] == [
        (
            "not-utf8", b"k\xff", 5_000_000_000,
            [{"key": "trace", "value": b"\xfe"}, {"key": "trace", "value": None}],
        ),
        ("not-json", b"k", 7, None),
        ("null-key", None, 8, [{"key": "h", "value": b""}]),
        ("null-value", b"t", 9, None),
    ]  # fmt: skip
    assert kafka_runs.run(*run).code == 3
    rows = kafka_runs.oriel("dead-letters", "list", "--data", data, "--json").output.splitlines()
    first, second = (
        {row["offset"]: row for row in map(json.loads, rows) if row["reason"] == reason}
        for reason in ("not-utf8", "not-json")
    )
    for of_reason in (first, second):
        old, new = sorted(of_reason)
        assert of_reason[new]["repeats_offset"] == old
        assert of_reason[old]["replayed_ms"] > 0
        assert of_reason[new]["replayed_ms"] is None


def _messages(address: str, count: int) -> list[tuple[bytes | None, bytes | None, int, Any]]:
    """Return the messages of partition 2 in order."""
    consumer = Consumer({"bootstrap.servers": address, "log_level": 0, "group.id": "test"})
    consumer.assign([TopicPartition("poisoned", 2, 0)])
    found = consumer.consume(count, timeout=WAIT_SECONDS)
    consumer.close()
    return [(m.key(), m.value(), m.timestamp()[1], m.headers()) for m in found]
