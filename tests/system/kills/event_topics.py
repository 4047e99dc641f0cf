"""The random event logs of ``tests.e2e.event_logs`` as a topic of a real Kafka broker."""

from collections.abc import Iterator

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.event_logs import Line
from tests.storage.waiting import WAIT_SECONDS
from tests.system.kills.kinds_topology import TOPIC

#: Messages that are invalid for all stores, and the reason of each. A message always has a time,
#: and it is never negative.
_BAD_MESSAGES = {
    "not-json": (b"a", b"rubbish"),
    "wrong-type": (b"a", b'{"v": "x"}'),
    "null-key": (None, b"{}"),
}


def produced(address: str, logs: dict[int, list[Line]]) -> dict[int, list[Line]]:
    """Create the topic again with a log's records, and return these with their offsets."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    if TOPIC in admin.list_topics(timeout=WAIT_SECONDS).topics:
        admin.delete_topics([TOPIC])[TOPIC].result(timeout=WAIT_SECONDS)
    admin.create_topics([NewTopic(TOPIC, len(logs), 1)])[TOPIC].result(timeout=WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    lines: dict[int, list[Line]] = {}
    for partition, log in logs.items():
        lines[partition] = []
        for offset, (line, key, value, time_ms) in enumerate(_messages(log)):
            producer.produce(TOPIC, value, key, partition, timestamp=time_ms)
            lines[partition].append(Line(offset, value or b"", line.record, line.reason))
            producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    return lines


def _messages(log: list[Line]) -> Iterator[tuple[Line, bytes | None, bytes | None, int]]:
    """Yield the messages of a log's lines, without lines that cannot be messages."""
    for line in log:
        if line.record is not None:
            key, time_ms, value = line.record
            message = key.encode(), None if value is None else orjson.dumps(value), time_ms
            if time_ms > 0:  # 0 is "now" for this client
                yield line, *message
        elif line.reason in _BAD_MESSAGES:
            yield line, *_BAD_MESSAGES[line.reason], 1
