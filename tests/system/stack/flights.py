"""Windows of flights that the stack serves, next to an independent computation."""

import functools
import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from oriel.demo.check import check_windows
from oriel.demo.command import KEY, RULES, STORE
from oriel.demo.records import ORIGINS, TOPIC, read_flights, to_lines
from tests.system.stack.compose import Stack
from tests.system.stack.waiting import wait_for

#: Per partition of the topic: how many records the tables include.
Offsets = dict[str, int]


@dataclass(frozen=True)
class _Pages:
    """All windows of a key, and the positions of the pages that contain them."""

    positions: list[dict[str, Any]]
    windows: list[dict[str, Any]] = field(repr=False)


def offsets(stack: Stack) -> Offsets:
    """Return the position of the service, or an empty dict if it has no response or no table."""
    try:
        response = stack.get(f"/v1/stores/{STORE}/fetch/{KEY}", limit=1)
    except httpx.TransportError:
        return {}
    if response.status_code != httpx.codes.OK:
        return {}
    reached: Offsets = response.json()["position"]["offsets"].get(TOPIC, {})
    return reached


def wait_for_more_flights(stack: Stack) -> None:
    """Wait until further flights of each airport are in the tables."""
    before = wait_for(lambda: offsets(stack), bool, "a position")
    wait_for(
        lambda: offsets(stack),
        lambda now: all(now.get(partition, 0) > offset for partition, offset in before.items()),
        f"offsets greater than {before}",
    )


def require_exact_windows(stack: Stack) -> Offsets:
    """Compare every window of one airport with an independent computation, and return the position.

    The computation uses the flights in order, as many per partition as the tables include. A lost
    or duplicate record therefore changes windows.
    """
    wait_for(
        lambda: offsets(stack),
        lambda reached: len(reached) == len(ORIGINS),
        "flights of each airport in the tables",
    )
    # The pages have one position as soon as the pipeline has processed the records so far.
    with stack.suspended("producer"):
        pages = wait_for(
            lambda: _read_pages(stack),
            lambda pages: all(position == pages.positions[0] for position in pages.positions),
            "pages of one position",
        )
    reached: Offsets = pages.positions[0]["offsets"][TOPIC]
    _require_flights_in_the_topic(stack, reached)
    assert check_windows(pages.windows, _first_flights(reached), KEY, RULES) > 0
    return reached


#: Prints the keys and values of each partition's first records. It is Python, because the
#: producer's container has no other Kafka client.
_READ_TOPIC = """
import json, sys
from confluent_kafka import Consumer, TopicPartition

reached = {int(partition): offset for partition, offset in json.loads(sys.argv[1]).items()}
consumer = Consumer({"bootstrap.servers": "broker:9092", "log_level": 0, "group.id": "test"})
consumer.assign([TopicPartition("flights", partition, 0) for partition in reached])
found = {partition: [] for partition in reached}
while any(len(found[partition]) < offset for partition, offset in reached.items()):
    for message in consumer.consume(10_000, 1):
        assert message.error() is None, message.error()
        if message.offset() < reached[message.partition()]:
            record = [message.key().decode(), message.timestamp()[1], json.loads(message.value())]
            found[message.partition()].append(record)
print(json.dumps(found))
"""


def _require_flights_in_the_topic(stack: Stack, reached: Offsets) -> None:
    """Compare the topic with the flights: the producer sends each once, in their order."""
    code, output = stack.execute("producer", "python", "-c", _READ_TOPIC, json.dumps(reached))
    assert code == 0, output
    partition, lines = np.asarray(_flights()["partition"]), to_lines(_flights()).to_pylist()
    for number, records in json.loads(output).items():
        places = np.flatnonzero(partition == int(number)).tolist()
        sent = (json.loads(lines[place]) for place in places)
        expected = [[one["key"], one["timestamp_ms"], one["value"]] for one in sent]
        for offset, (record, flight) in enumerate(zip(records, expected, strict=False)):
            # The logs of the producer and the broker show whether it is a repeat or a gap.
            assert record == flight, (
                f"partition {number}, offset {offset}: flight "
                f"{expected.index(record) if record in expected else None}\n"
                f"{stack.compose('logs', '--tail', '40', 'producer', 'broker')}"
            )


def _read_pages(stack: Stack) -> _Pages:
    pages = _Pages([], [])
    cursor: dict[str, str] = {}
    while True:
        response = stack.get(f"/v1/stores/{STORE}/fetch/{KEY}", limit=10_000, **cursor)
        assert response.status_code == httpx.codes.OK, response.text
        page = response.json()
        pages.positions.append(page["position"])
        pages.windows.extend(page["windows"])
        if page["next_cursor"] is None:
            return pages
        cursor = {"cursor": page["next_cursor"]}


_flights = functools.cache(read_flights)


def _first_flights(reached: Offsets) -> pa.Table:
    """Return the flights that the topic has below these offsets, in their order."""
    partition = np.asarray(_flights()["partition"])
    included = np.zeros(len(partition), dtype=bool)
    for number, offset in reached.items():
        included[np.flatnonzero(partition == int(number))[:offset]] = True
    return _flights().filter(pa.array(included))
