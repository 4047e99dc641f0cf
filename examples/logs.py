"""Create the records of the examples from a seed and write them as event logs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
#: 2026-03-02T00:00Z, a Monday.
BEGIN_MS = 1_772_409_600_000


class Event(NamedTuple):
    """A record of a partition of a topic. The time is in ms since 1970."""

    topic: str
    partition: int
    key: str
    value: dict[str, Any]
    timestamp_ms: int


def clicks(random: Random) -> Iterator[Event]:
    """Return visits of 200 users in one day. Some clicks arrive two minutes late."""
    arrivals = []
    for number in range(200):
        for _ in range(random.randint(1, 4)):
            time_ms = BEGIN_MS + random.randrange(20 * HOUR_MS)
            for _ in range(random.randint(1, 25)):
                page = random.choice(("/", "/tea", "/tea/green", "/cups", "/cart", "/pay"))
                value = {"page": page, "ms": round(random.lognormvariate(4, 1))}
                event = Event("clicks", number % 2, f"user-{number:03}", value, time_ms)
                arrivals.append((time_ms + random.choice((0, 0, 0, 2 * MINUTE_MS)), event))
                time_ms += random.randrange(5_000, 10 * MINUTE_MS)
    return (event for _, event in sorted(arrivals, key=lambda each: each[0]))


def heartbeats(random: Random) -> Iterator[Event]:
    """Yield a heartbeat per minute of 20 devices for six hours. Five devices pause for a while."""
    silent = {
        device: range(minute, minute + random.randint(5, 40))
        for device in range(0, 20, 4)
        for minute in [random.randrange(30, 300)]
    }
    for minute in range(6 * 60):
        for device in range(20):
            if minute not in silent.get(device, ()):
                time_ms = BEGIN_MS + minute * MINUTE_MS + device * 1_000
                value = {"battery": round(100 - minute / 10 - random.random(), 1)}
                yield Event("heartbeats", device % 2, f"device-{device:02}", value, time_ms)


def orders(random: Random) -> Iterator[Event]:
    """Yield 300 customers in six cities and 20,000 orders of a day, some of unknown customers."""
    cities = ("Berlin", "Lagos", "Lima", "Oslo", "Paris", "Tokyo")
    for number in range(300):
        value = {"city": random.choice(cities), "since": random.randint(2015, 2025)}
        yield Event("customers", 0, f"c{number:03}", value, BEGIN_MS)
    for step in range(20_000):
        item, price = random.choice((("tea", 2.5), ("cup", 6.0), ("pot", 24.0), ("kettle", 55.0)))
        time_ms = BEGIN_MS + step * 24 * HOUR_MS // 20_000
        # An order arrives up to five minutes after its time.
        time_ms = max(BEGIN_MS, time_ms - random.randrange(5 * MINUTE_MS))
        value = {"item": item, "amount": price * random.randint(1, 4)}
        yield Event("orders", step % 2, f"c{random.randrange(306):03}", value, time_ms)


#: Example -> the function that creates its records.
GENERATORS: dict[str, Callable[[Random], Iterator[Event]]] = {
    "alert": heartbeats,
    "clicks": clicks,
    "orders": orders,
}


def write_log(root: Path, example: str, seed: int = 1) -> int:
    """Append the records of an example to the event log ``root``. Return their number."""
    lines: dict[tuple[str, int], list[bytes]] = {}
    for event in GENERATORS[example](Random(seed)):
        record = {"key": event.key, "value": event.value, "timestamp_ms": event.timestamp_ms}
        lines.setdefault((event.topic, event.partition), []).append(orjson.dumps(record) + b"\n")
    for (topic, partition), of_partition in lines.items():
        (root / topic).mkdir(parents=True, exist_ok=True)
        with (root / topic / f"{partition}.jsonl").open("ab") as file:
            file.writelines(of_partition)
    return sum(map(len, lines.values()))
