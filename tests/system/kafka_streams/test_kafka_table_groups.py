"""Grouped tables: Oriel's rows equal those of the real Kafka Streams 4.3.1."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oriel import StreamsBuilder
from oriel.testing import Record, TopologyTestDriver
from tests.models.table_groups import Record as Entry
from tests.windows.kafka_peer import class_path, some_logs

FIRST_SEED = 9_400_000
#: Group -> value and time.
Rows = dict[str, tuple[str, int]]


def random_log(random: Random) -> list[Entry]:
    """Return a log with few keys, disorder, tombstones, and null groups."""
    log: list[Entry] = []
    for _ in range(random.choice((0, 3, 10, 25, 60))):
        group = random.choice((None, "x", "y", "z", "x"))
        row = None if random.random() < 0.25 else (group, random.randint(0, 9))
        log.append((random.choice("abcde"), random.randint(0, 40), row))
    return log


def line_of(log: Sequence[Entry]) -> str:
    """Return the log in the form that the peer program reads."""
    words = [
        f"{key}:{time}" if row is None else f"{key}:{time}:{row[0] or '-'}:{row[1]}"
        for key, time, row in log
    ]
    return " ".join(words)


def kafkas(logs: Sequence[Sequence[Entry]], directory: Path) -> list[tuple[Rows, Rows]]:
    """Return Kafka's counts and aggregates of each log."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
    command += ["-cp", class_path(directory / "kafka-peer"), "oriel.TableGroups"]
    text = "".join(f"{line_of(log)}\n" for log in logs)
    ran = subprocess.run(
        [*command, str(directory / "state")],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    results = []
    for line in ran.stdout.splitlines():
        counts, aggregates = map(_rows, line.split("|"))
        results.append((counts, aggregates))
    return results


def _rows(text: str) -> Rows:
    words = [token.split(":") for token in text.split()]
    return {group: (value, int(time)) for group, time, value in words}


def ours(log: Sequence[Entry], random: Random) -> tuple[Rows, Rows]:
    """Return the same from the test driver, in random batches."""
    builder = StreamsBuilder()
    table = builder.table("t", "g STRING, n BIGINT").group_by("g")
    table.count().materialize("counts")
    table.aggregate(lambda: "0", with_row, without_row, schema="text STRING").materialize("texts")
    driver = TopologyTestDriver(builder.build())
    records = [
        Record(key, None if row is None else {"g": row[0], "n": row[1]}, time)
        for key, time, row in log
    ]
    while records:
        size = random.randint(1, 8)
        driver.pipe_input("t", records[:size])
        records = records[size:]
    counts, texts = (
        {
            row.key: (str(next(iter(row.value.values()))), row.timestamp_ms)
            for row in driver.key_value_store(name).all()
        }
        for name in ("counts", "texts")
    )
    return counts, texts


def with_row(_key: str, value: Any, text: str) -> str | None:
    """Return the aggregate of the peer's adder."""
    return None if value["n"] == 8 else f"{text}+{value['n']}"


def without_row(_key: str, value: Any, text: str) -> str | None:
    """Return the aggregate of the peer's subtractor."""
    return None if value["n"] == 0 else f"{text}-{value['n']}"


@pytest.mark.kafka
@some_logs
def test_groups_of_tables_equal_kafka_streams(
    tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    """Counts, function calls and times are equal in any batching."""
    randoms = [Random(seed) for seed in range(FIRST_SEED, FIRST_SEED + number)]
    logs = [random_log(random) for random in randoms]
    results = kafkas(logs, tmp_path_factory.getbasetemp())
    for log, random, result in zip(logs, randoms, results, strict=True):
        assert ours(log, random) == result, line_of(log)
