"""The pipeline over a real Kafka broker has the same contract as over the event log."""

from datetime import datetime
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import WAIT_SECONDS

TOPOLOGY = """
from oriel import SlidingWindows, StreamsBuilder, count, sum

builder = StreamsBuilder()
(
    builder.stream("readings", "v DOUBLE")
    .group_by_key()
    .windowed_by(SlidingWindows.of_time_difference_and_grace(10, 100))
    .aggregate(n=count(), total=sum("v"))
    .materialize("readings")
)
topology = builder.build()
"""

#: The windows of KIP-450's figure 1 (semantics.md#2-2), as (start, end, count, total, timestamp).
EXPECTED = {
    (0, 10, 1, 1.0, 10),
    (4, 14, 2, 3.0, 14),
    (9, 19, 3, 7.0, 19),
    (11, 21, 2, 6.0, 19),
    (15, 25, 1, 4.0, 19),
    (16, 26, 2, 12.0, 26),
    (20, 30, 1, 8.0, 26),
}


@pytest.mark.e2e
@pytest.mark.kafka
def test_kip_450_windows_come_from_a_kafka_topic(
    tmp_path: Path, broker: Broker, kafka_runs: Runs
) -> None:
    """Records, tombstones and invalid values of a topic become windows and dead letters, once."""
    (tmp_path / "readings.py").write_text(TOPOLOGY)
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic("readings", 1, 1)])["readings"].result(timeout=WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for value, time_ms in ((1, 10), (2, 14), (4, 19)):
        _send(producer, b"a/b", orjson.dumps({"v": value}), time_ms)
    _send(producer, b"a/b", b"rubbish", 20)
    _send(producer, b"a/b", None, 20)
    _send(producer, None, b'{"v": 1}', 20)
    producer.flush()
    arguments = [str(tmp_path / "readings.py"), "--kafka", broker.address]
    arguments += ["--data", str(tmp_path / "data"), "--once"]
    assert kafka_runs.run(*arguments).code == 0
    _send(producer, b"a/b", b'{"v": 8}', 26)
    producer.flush()
    assert kafka_runs.run(*arguments).code == 0
    assert _newest_rows(tmp_path / "data" / "tables" / "readings") == EXPECTED
    dead_letters = DeltaTable(tmp_path / "data" / "tables" / "_dead_letters").to_pyarrow_table()
    assert dict(
        zip(dead_letters["offset"].to_pylist(), dead_letters["reason"].to_pylist(), strict=True)
    ) == {
        3: "not-json",
        4: "null-value",
        5: "null-key",
    }
    assert dead_letters.num_rows == 3


def _send(producer: Producer, key: bytes | None, value: bytes | None, time_ms: int) -> None:
    producer.produce("readings", key=key, value=value, timestamp=time_ms, partition=0)


def _newest_rows(table: Path) -> set[tuple[int, int, int, float, int]]:
    rows = DeltaTable(table).to_pyarrow_table().sort_by("revision").to_pylist()
    newest = {row["window_start"]: row for row in rows}
    return {
        (
            _ms(row["window_start"]),
            _ms(row["window_end"]),
            row["n"],
            row["total"],
            _ms(row["timestamp"]),
        )
        for row in newest.values()
    }


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
