"""Random event logs for the end-to-end tests: disorder, odd keys, invalid lines, null values."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import orjson

from tests.models.tables import Record
from tests.system.kills.kinds_topology import DELETES, RAISES, SKIPPED

KEYS = ("plain", "with/slash", "space and ?&#%2F", "ünïcödé 🛩", "a..b", "")

#: Lines that are invalid for all stores, and the reason of each.
BAD_LINES = {
    b"rubbish": "not-json",
    b"": "not-json",
    b'{"key": "a"}': "missing-timestamp",
    b'{"key": "a", "value": {"v": 1}, "timestamp_ms": -1}': "negative-timestamp",
    b'{"key": "a", "value": {"v": "x"}, "timestamp_ms": 1}': "wrong-type",
    b'{"key": null, "value": {}, "timestamp_ms": 1}': "null-key",
}
_RECORDS = 450
_EACH_BAD_LINE = 3
#: Only ``_SAME_START`` has records of this key.
TWICE = "twice"
ALL_KEYS = (*KEYS, TWICE)
#: A key has records for this long, then none for twice as long, so that sessions end.
_BURST_MS = 60
#: By partition: when a record arrives, its key and its time. The result is two sessions that start
#: at 300: [300, 300] of partition 0, and [300, 315] of partition 1. Late records extended the
#: second one down to 300 when the first one was closed for them (decision 0009).
_SAME_START = {
    0: [(300, TWICE, 300)],
    1: [(315, TWICE, 315), (360, KEYS[0], 375), (360, TWICE, 306), (360, TWICE, 300)],
}


@dataclass(frozen=True)
class Line:
    """A line of a log: its offset, its bytes, and its record or the reason without a record."""

    offset: int
    raw: bytes
    record: Record | None
    reason: str | None = None


def random_logs(random: Random) -> dict[int, list[Line]]:
    """Return two partitions with different stream times."""
    return {p: _random_lines(random, p, random.choice((1.6, 2.0))) for p in range(2)}


def _random_lines(random: Random, partition: int, ms_a_record: float) -> list[Line]:
    """Return a partition with disorder beyond the grace, and with invalid lines."""
    lines: list[Line] = []
    offset = 0
    for raw, record in _raw_lines(random, partition, ms_a_record):
        lines.append(Line(offset, raw, record, None if record else BAD_LINES[raw]))
        offset += len(raw) + 1
    return lines


def _raw_lines(
    random: Random, partition: int, ms_a_record: float
) -> Iterator[tuple[bytes, Record | None]]:
    waiting = list(_SAME_START[partition])
    places = random.sample(range(_RECORDS), _EACH_BAD_LINE * len(BAD_LINES))
    bad = dict(zip(places, list(BAD_LINES) * _EACH_BAD_LINE, strict=True))
    for i in range(_RECORDS):
        now_ms = i * ms_a_record
        while waiting and waiting[0][0] <= now_ms:
            _, key, time = waiting.pop(0)
            yield _line((key, time, {"v": 0.5, "word": f"{i}"}))
        if i in bad:
            yield bad[i], None
        yield _line(_random_record(random, now_ms, f"{i}"))


def _line(record: Record) -> tuple[bytes, Record]:
    return orjson.dumps(dict(zip(("key", "timestamp_ms", "value"), record, strict=True))), record


def _random_record(random: Random, now_ms: float, word: str) -> Record:
    time = max(0, round(now_ms) + random.choice((0, 0, random.randint(-150, 10))))
    here = [key for i, key in enumerate(KEYS) if (time // _BURST_MS + i) % 3 == 0]
    key = random.choice(KEYS if random.random() < 0.1 else here)
    if random.random() < 0.05:
        return key, time, None
    value = random.choice((None, round(random.uniform(-5, 5), 2), 1e15, 0.1))
    if random.random() < 0.12:
        word = random.choice((SKIPPED, RAISES, DELETES))
    return key, time, {"v": value, "word": word}


def write_lines(directory: Path, logs: dict[int, list[Line]]) -> None:
    """Write the event log of a topic."""
    directory.mkdir(parents=True)
    for partition, lines in logs.items():
        content = b"".join(line.raw + b"\n" for line in lines)
        (directory / f"{partition}.jsonl").write_bytes(content)
