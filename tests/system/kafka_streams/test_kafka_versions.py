"""Versions of rows: Oriel's reads equal those of Kafka Streams 4.3.1 (KIP-960, KIP-968)."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from oriel import StreamsBuilder
from oriel.testing import Record, TopologyTestDriver
from tests.windows.kafka_peer import class_path, some_logs

FIRST_SEED = 9_800_000
#: Key, time and value. None: a tombstone.
Entry = tuple[str, int, str | None]
#: Key, start and end of a range of time.
Question = tuple[str, int, int]


def random_log(random: Random) -> list[Entry]:
    """Return a log with few keys, disorder and tombstones.

    No record is older than a tombstone that is the newest version of its key. Kafka Streams has no
    trace of such a tombstone (docs/reference/kafka-streams-differences.md).
    """
    log: list[Entry] = []
    newest: dict[str, tuple[int, str | None]] = {}
    for number in range(random.choice((1, 3, 10, 30, 60))):
        key, time = random.choice("abc"), max(0, number + random.randint(-25, 10))
        newest_ms, value = newest.get(key, (-1, ""))
        if value is None and time < newest_ms:
            continue
        value = None if random.random() < 0.25 else str(number)
        if time >= newest_ms:
            newest[key] = time, value
        log.append((key, time, value))
    return log


def kafkas(
    cases: Sequence[tuple[int, Sequence[Entry], Sequence[Question]]], directory: Path
) -> list[list[list[str]]]:
    """Return for each question of a case Kafka's version as of a time, and its list of versions."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
    command += ["-cp", class_path(directory / "kafka-peer"), "oriel.Versions"]
    lines = []
    for history, log, questions in cases:
        words = [f"{key}:{time}" + ("" if v is None else f":{v}") for key, time, v in log]
        queries = [f"?{key}:{from_ms}:{to_ms}" for key, from_ms, to_ms in questions]
        lines.append(" ".join([str(history), *words, *queries]))
    ran = subprocess.run(
        [*command, str(directory / "state")],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [[word.split(",") for word in line.split()] for line in ran.stdout.splitlines()]


def ours(history: int, log: Sequence[Entry], random: Random) -> TopologyTestDriver:
    """Return a driver with the versions of a log, in random batches."""
    builder = StreamsBuilder()
    builder.versioned_table("t", "v STRING", history).materialize("versions", versions=True)
    driver = TopologyTestDriver(builder.build())
    records = [Record(key, None if v is None else {"v": v}, time) for key, time, v in log]
    while records:
        size = random.randint(1, 30)
        driver.pipe_input("t", records[:size])
        records = records[size:]
    return driver


@pytest.mark.kafka
@some_logs
def test_versions_are_those_of_kafka_streams(number: int, tmp_path: Path) -> None:
    """As of each time of the history, and for ranges of time, both have the same versions."""
    cases = []
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        random = Random(seed)
        history, log = random.choice((0, 5, 20, 100)), random_log(random)
        starts_ms = max(0, max(time for _, time, _ in log) - history)
        questions = [
            (key, from_ms, from_ms + random.randint(0, 30))
            for key in "abc"
            for from_ms in range(starts_ms, starts_ms + history + 3)
        ]
        cases.append((history, log, questions))
    compared = 0
    for (history, log, questions), results in zip(cases, kafkas(cases, tmp_path), strict=True):
        store = ours(history, log, Random(len(log))).versioned_store("versions")
        for (key, from_ms, to_ms), (as_of, *listed) in zip(questions, results, strict=True):
            one = store.get_as_of(key, from_ms)
            found = "-" if one is None else f"{one.value['v']}/{one.valid_from_ms}"
            assert found == as_of, (history, log, key, from_ms)
            versions = [
                "/".join((v.value["v"], str(v.valid_from_ms), str(v.valid_to_ms or "-")))
                for v in store.versions(key, from_ms, to_ms)
            ]
            assert versions == listed, (history, log, key, from_ms, to_ms)
            compared += len(listed)
    assert compared > number
