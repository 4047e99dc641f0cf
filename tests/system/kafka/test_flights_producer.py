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
from tests.system.kafka.doubtful_broker import doubtful_broker

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

_PARTITIONS = 3
_FLIGHTS = 6_000
_DENIED_FLIGHTS = 600
_PER_SECOND = 1_000
#: The time of the flights: Kafka expires the state of producers by the times of their records.
_TIME_MS = 1_357_034_400_000


def _lines(flights: int) -> pa.Array:
    return pa.array([
        orjson.dumps({"key": "k", "value": {"n": n}, "timestamp_ms": _TIME_MS + n}).decode()
        for n in range(flights)
    ])  # fmt: skip


def _found(address: str) -> dict[int, list[int]]:
    """Return the numbers of the flights in each partition of the topic."""
    found: dict[int, list[int]] = {number: [] for number in range(_PARTITIONS)}
    for message in messages_of(address, "flights", _PARTITIONS):
        found[message.partition() or 0].append(orjson.loads(message.value() or b"")["n"])
    return found


def test_a_broker_that_is_killed_has_each_record_once(tmp_path: Path) -> None:
    """The producer continues after the records in the topic, in their order."""
    broker = Broker(tmp_path)
    partition = np.arange(_FLIGHTS) % _PARTITIONS
    lines = _lines(_FLIGHTS)

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
        assert _found(broker.address) == {
            number: list(range(number, _FLIGHTS, _PARTITIONS)) for number in range(_PARTITIONS)
        }
    finally:
        broker.kill()


def test_a_written_record_that_a_broker_denies_is_there_once(tmp_path: Path) -> None:
    """A broker that shuts down can deny a write that it has made, and the record is not repeated.

    The client would repeat it without a limit, because it assumes that the broker wrote nothing.
    """
    broker = Broker(tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        topic = NewTopic("flights", _PARTITIONS, 1)
        admin.create_topics([topic])["flights"].result(timeout=WAIT_SECONDS)
        partition = np.arange(_DENIED_FLIGHTS) % _PARTITIONS
        with doubtful_broker(broker.address, deny_at=2) as proxy:
            send_flights(proxy.address, "flights", partition, _lines(_DENIED_FLIGHTS), _PER_SECOND)
            assert proxy.denied == 1
        assert _found(broker.address) == {
            number: list(range(number, _DENIED_FLIGHTS, _PARTITIONS))
            for number in range(_PARTITIONS)
        }
    finally:
        broker.kill()
