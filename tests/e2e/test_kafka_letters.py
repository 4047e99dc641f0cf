"""Dead letters of a real broker: what they keep of a message, and that it can be sent again."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import running_broker
from tests.locks import only_one

ROOT = Path(__file__).resolve().parents[2]

TOPOLOGY = """
from oriel import Consumed, StreamsBuilder, sum

builder = StreamsBuilder()
values = builder.stream("readings", "v INT", Consumed(headers={"trace": "trace"}))
values.group_by_key().aggregate(total=sum("v")).materialize("s")
topology = builder.build()
"""

#: Key, value, time and headers of messages that are bad for every store, or (last) for one.
POISON: list[tuple[bytes | None, bytes | None, int, Any]] = [
    (b"k\xff", b'{"v":1}', 5_000_000_000, [("trace", b"\xfe"), ("trace", None)]),
    (b"k", b"hello", 7, None),
    (None, b'{"v":2}', 8, [("h", b"")]),
    (b"t", None, 9, None),
]


@pytest.mark.e2e
@pytest.mark.kafka
def test_a_message_is_kept_whole_and_sent_again_as_it_was(tmp_path: Path) -> None:
    """Key, value, time, headers and partition; a second replay sends nothing."""
    (tmp_path / "readings.py").write_text(TOPOLOGY)
    data = str(tmp_path / "data")
    with running_broker(tmp_path) as address:
        admin = AdminClient({"bootstrap.servers": address})
        for made in admin.create_topics([NewTopic("readings", 3, 1)]).values():
            made.result(timeout=30)
        producer = Producer({"bootstrap.servers": address})
        for key, value, time_ms, headers in POISON:
            producer.produce(
                "readings", key=key, value=value, timestamp=time_ms, partition=2, headers=headers
            )
        producer.flush()
        run = ["run", str(tmp_path / "readings.py"), "--kafka", address, "--data", data, "--once"]
        assert _done(run).returncode == 0
        replay = ["dead-letters", "replay", "--data", data, "--kafka", address]
        told = _done(replay)
        assert told.returncode == 0, told.stderr[-3000:]
        assert "2 records were sent" in told.stdout
        told = _done([*replay, "--store", "s"])
        assert "2 records were sent" in told.stdout, told.stderr[-3000:]
        assert "0 records were sent" in _done([*replay, "--store", "s"]).stdout
        assert _messages(address, 2 * len(POISON)) == 2 * POISON
        missing = _done([*replay[:-1], "127.0.0.1:1", "--again"])
        assert missing.returncode == 1
        (line,) = [text for text in missing.stderr.splitlines() if "oriel dead-letters" in text]
        assert "no broker answers" in line
    letters = DeltaTable(tmp_path / "data" / "tables" / "_dead_letters").to_pyarrow_table()
    assert [
        (row["reason"], row["key"], row["timestamp_ms"], row["headers"])
        for row in letters.sort_by("offset").to_pylist()
    ] == [
        (
            "not-utf8", b"k\xff", 5_000_000_000,
            [{"key": "trace", "value": b"\xfe"}, {"key": "trace", "value": None}],
        ),
        ("not-json", b"k", 7, None),
        ("null-key", None, 8, [{"key": "h", "value": b""}]),
        ("null-value", b"t", 9, None),
    ]  # fmt: skip


def _done(arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "oriel", *arguments]
    with only_one("ivy"):
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _messages(address: str, count: int) -> list[tuple[bytes | None, bytes | None, int, Any]]:
    """The messages of partition 2 in order."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test"})
    consumer.assign([TopicPartition("readings", 2, 0)])
    found = consumer.consume(count, timeout=30)
    consumer.close()
    return [(m.key(), m.value(), m.timestamp()[1], m.headers()) for m in found]
