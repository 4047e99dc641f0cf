"""The topic has the flights of the demo once, whatever happens to the broker."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oriel.demo.to_kafka import send_flights
from tests.e2e.kafka_broker import Broker, messages_of
from tests.storage.waiting import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

_PARTITIONS = 3
_FLIGHTS = 6_000
_PER_SECOND = 1_000
#: The time of the flights: Kafka expires the state of producers by the times of their records.
_TIME_MS = 1_357_034_400_000


def test_a_broker_that_is_killed_has_each_record_once(tmp_path: Path) -> None:
    """The producer continues after the records in the topic, in their order."""
    broker = Broker(tmp_path)
    partition = np.arange(_FLIGHTS) % _PARTITIONS
    lines = pa.array([
        orjson.dumps({"key": "k", "value": {"n": n}, "timestamp_ms": _TIME_MS + n}).decode()
        for n in range(_FLIGHTS)
    ])  # fmt: skip

    def received() -> int:
        if sending.done():
            sending.result()
        return sum(1 for _ in messages_of(broker.address, "flights", _PARTITIONS))

    try:
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(
                send_flights, broker.address, "flights", partition, lines, _PER_SECOND
            )
            # Created after the producer, so that the broker does not know the new topic at first.
            admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
            topic = NewTopic("flights", _PARTITIONS, 1)
            admin.create_topics([topic])["flights"].result(timeout=WAIT_SECONDS)
            for least in (_FLIGHTS // 6, _FLIGHTS // 2):
                wait_until(received, f"{least} flights", least.__le__)
                broker.kill()
                broker.start()
            sending.result(timeout=WAIT_SECONDS)
        found: dict[int, list[int]] = {number: [] for number in range(_PARTITIONS)}
        for message in messages_of(broker.address, "flights", _PARTITIONS):
            found[message.partition() or 0].append(orjson.loads(message.value() or b"")["n"])
        assert found == {
            number: list(range(number, _FLIGHTS, _PARTITIONS)) for number in range(_PARTITIONS)
        }
    finally:
        broker.kill()
