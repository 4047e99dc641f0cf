"""Topics of several formats in one run over a real broker: serdes, record times and headers."""

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs
from tests.pipeline.decoding.registry_server import running_registry, with_id
from tests.pipeline.decoding.test_avro import ORDER, SCHEMA, written
from tests.pipeline.decoding.test_protobuf import DESCRIPTORS
from tests.pipeline.decoding.test_protobuf import ORDER as MESSAGE
from tests.storage.waiting import WAIT_SECONDS

TOPOLOGY = """
from pathlib import Path

from oriel import Consumed, FieldTimestamp, Serdes, StreamsBuilder, TimeWindows, max, sum

builder = StreamsBuilder()
hours = TimeWindows.of_size_and_grace(3_600_000, 0)

avro = Consumed(value_serde=Serdes.avro(), timestamp=FieldTimestamp("at", "s"))
orders = builder.stream("avro", "n INT, note STRING, at BIGINT", avro)
orders.group_by("note").aggregate(total=sum("n")).materialize("from_avro")

descriptors = Path(__file__).with_name("shop.pb")
protobuf = Consumed(value_serde=Serdes.protobuf(descriptors, "shop.Order"))
messages = builder.stream("protobuf", "id BIGINT, tags ARRAY<STRING>", protobuf)
messages.filter("size(tags) > 0").group_by_key().aggregate(total=sum("id")).materialize(
    "from_protobuf"
)

numbers = Consumed(key_serde=Serdes.integer(), value_serde=Serdes.long(), timestamp="ingestion")
amounts = builder.stream("numbers", "amount BIGINT", numbers).group_by_key()
amounts.aggregate(total=sum("amount")).materialize("from_numbers")

texts = Consumed(
    key_serde=Serdes.json(), value_serde=Serdes.string(), headers={"trace": "trace_id"}
)
lines = builder.stream("texts", "line STRING", texts).group_by_key().windowed_by(hours)
lines.aggregate(last=max("line"), trace=max("trace_id")).materialize("from_texts")
topology = builder.build()
"""


@pytest.mark.e2e
@pytest.mark.kafka
def test_topics_of_several_formats_in_one_run(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """Every topic's valid records are in its store, and each invalid record is a dead letter."""
    (tmp_path / "formats.py").write_text(TOPOLOGY)
    (tmp_path / "shop.pb").write_bytes(DESCRIPTORS)
    _produce(broker.address)
    arguments = [str(tmp_path / "formats.py"), "--kafka", broker.address, "--once"]
    arguments += ["--data", str(tmp_path / "data"), "--schema-registry"]
    with running_registry() as registry:
        # Without a response of the registry the run ends, and decodes nothing.
        registry.responses["/schemas/ids/7"] = 403
        ended = kafka_runs.run(*arguments, registry.url)
        assert ended.code == 1
        assert "status 403" in ended.errors[-1]
        assert not _rows(tmp_path, "from_avro")
        between_ms = time.time_ns() // 1_000_000
        registry.responses["/schemas/ids/7"] = {"schema": SCHEMA}
        done = kafka_runs.run(*arguments, registry.url)
        assert done.code == 0, done.errors
    assert _rows(tmp_path, "from_avro") == {"hi": {"total": 4, "timestamp": 12_000}}
    assert _rows(tmp_path, "from_protobuf") == {"p": {"total": 5, "timestamp": 10}}
    numbers = _rows(tmp_path, "from_numbers")
    # No store had prepared the batch, so the second run planned it again.
    entry = max((tmp_path / "data").rglob("offsets/0"))
    planned_ms = json.loads(entry.read_text().splitlines()[1])["batchTimestampMs"]
    assert between_ms <= numbers["-7"].pop("timestamp") == planned_ms
    assert numbers == {"-7": {"total": 2**40 + 1}}
    assert _rows(tmp_path, "from_texts") == {
        '{"a":1,"b":2}': {"last": "y", "trace": "t2", "timestamp": 10}
    }
    dead_letters = DeltaTable(tmp_path / "data" / "tables" / "_dead_letters").to_pyarrow_table()
    places = zip(dead_letters["topic"].to_pylist(), dead_letters["reason"].to_pylist(), strict=True)
    assert sorted(places) == [
        ("avro", "not-avro"), ("avro", "unknown-schema"), ("numbers", "wrong-type"),
        ("numbers", "wrong-type"), ("protobuf", "not-protobuf"), ("texts", "not-json"),
        ("texts", "not-utf8"),
    ]  # fmt: skip


def _produce(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    topics = ("avro", "protobuf", "numbers", "texts")
    for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        made.result(timeout=WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": address, "log_level": 0})

    def send(topic: str, key: bytes, value: bytes, headers: Any = None) -> None:
        producer.produce(topic, key=key, value=value, timestamp=10, partition=0, headers=headers)

    order = with_id(7, written(ORDER))
    for value in (order, order[:-1], order, with_id(8, b"")):
        send("avro", b"k", value)
    message = MESSAGE(id=5, tags=["a"]).SerializeToString()
    for value in (message, message[:-1], MESSAGE(id=6).SerializeToString()):
        send("protobuf", b"p", value)
    key = struct.pack(">i", -7)
    send("numbers", key, struct.pack(">q", 2**40))
    send("numbers", key, struct.pack(">q", 1))
    send("numbers", key, b"12")
    send("numbers", b"k", struct.pack(">q", 1))
    send("texts", json.dumps({"b": 2, "a": 1}).encode(), b"x", [("trace", b"t1"), ("trace", b"t2")])
    send("texts", b'{"a":1,"b":2}', b"y")
    send("texts", b"{", b"z")
    send("texts", b'"k"', b"\xff")
    producer.flush()


def _rows(directory: Path, store: str) -> dict[str, dict[str, Any]]:
    """Return the aggregates and the time of each key's newest row."""
    rows = DeltaTable(directory / "data" / "tables" / store).to_pyarrow_table().sort_by("revision")
    aggregates = ("total", "last", "trace")
    return {
        row["key"]: {
            **{name: row[name] for name in aggregates if name in row},
            "timestamp": round(row["timestamp"].timestamp() * 1000),
        }
        for row in rows.to_pylist()
    }
