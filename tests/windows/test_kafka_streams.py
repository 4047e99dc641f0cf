"""The real Kafka Streams 4.3.1 as a peer: the same rows wherever records came in time."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.slow_model import Record, expected
from tests.windows.batches import random_cuts, run_engine
from tests.windows.random_logs import random_case

PEER = Path(__file__).with_name("kafka_streams")
CASES = 600
FIRST_SEED = 9_000_000


class Row(NamedTuple):
    """A window's aggregates; the places of its members in the log stand sorted."""

    timestamp: int
    number: int
    total: int
    members: list[int]


#: (key, start) -> row.
Rows = dict[tuple[str, int], Row]
#: Time difference, grace, the log of the one partition.
KafkaCase = tuple[int, int, list[Record]]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Kafka Streams and the peer program, compiled by Maven."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        reason = "mvn or javac not found (Debian: apt-get install maven default-jdk-headless)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    target = tmp_path_factory.mktemp("peer")
    listed = target / "class-path.txt"
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    maven = ["mvn", "-q", "-B", f"-Dtarget={target}", *goals]
    subprocess.run(maven, cwd=PEER, check=True)
    return f"{target / 'classes'}{os.pathsep}{listed.read_text()}"


def kafka_rows(class_path: str, cases: list[KafkaCase]) -> list[Rows]:
    """Run every case in one JVM."""
    lines = [
        " ".join([str(difference), str(grace), *(f"{key}:{time}" for key, time, _ in log)])
        for difference, grace, log in cases
    ]
    done = subprocess.run(
        ["java", "-cp", class_path, "oriel.SlidingPeer"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [_rows(line) for line in done.stdout.splitlines()]
    assert len(found) == len(cases)
    return found


def _rows(line: str) -> Rows:
    rows: Rows = {}
    for token in line.split():
        key, start, timestamp, count, total, places = token.split(":")
        members = sorted(int(place) for place in places.split(",") if place)
        rows[key, int(start)] = Row(int(timestamp), int(count), int(total), members)
    return rows


def make_case(seed: int) -> KafkaCase:
    """One partition's log of plain keys; values are places, so members can be told apart."""
    case = random_case(seed)
    log: list[Record] = [
        (key[:1].replace("ä", "c"), time, float(place))
        for place, (key, time, _) in enumerate(case.logs[0])
    ]
    # Kafka can't run a time difference of 0.
    return max(case.difference, 1), case.grace, log


def is_in_time(difference: int, grace: int, log: list[Record]) -> bool:
    """Whether each accepted record came while its own left window was open."""
    stream_time = -1
    for _, time, _ in log:
        stream_time = max(stream_time, time)
        close = stream_time - grace
        if time + difference >= close > max(time, difference):
            return False
    return True


@pytest.mark.kafka
def test_rows_equal_kafka_streams_where_records_came_in_time(class_path: str) -> None:
    """Kafka's rows are ours where all came in time; elsewhere it never knows more than we do."""
    seeds = range(FIRST_SEED, FIRST_SEED + CASES)
    cases = [make_case(seed) for seed in seeds]
    in_time, different = 0, 0
    for seed, case, kafka in zip(seeds, cases, kafka_rows(class_path, cases), strict=True):
        ours = model_rows(case)
        assert engine_rows(seed, case) == ours, f"seed {seed}: engine and model differ"
        if is_in_time(*case):
            in_time += len(case[2]) >= 5
            assert kafka == ours, f"seed {seed}: Kafka differs"
        else:
            different += kafka != ours
            check_kafka_knows_no_more(seed, case, kafka, ours)
    assert in_time >= CASES // 4, f"seeds from {FIRST_SEED}: few cases compare whole results"
    assert different >= 10, f"seeds from {FIRST_SEED}: few cases lose records in Kafka"


def check_kafka_knows_no_more(seed: int, case: KafkaCase, kafka: Rows, ours: Rows) -> None:
    """No window that we lack, and within its bounds no record that we lack."""
    difference, _, log = case
    assert set(kafka) <= set(ours), f"seed {seed}: Kafka has more windows"
    for (key, start), row in kafka.items():
        mine = ours[key, start]
        inside = {p for p in row.members if start <= log[p][1] <= start + difference}
        assert inside <= set(mine.members), f"seed {seed}: Kafka has more in {key} {start}"
        assert row.timestamp <= mine.timestamp, f"seed {seed}: Kafka is later in {key} {start}"


@pytest.mark.kafka
def test_kafka_copies_a_partly_late_record_into_a_window_it_lies_before(class_path: str) -> None:
    """The reason for "within its bounds": Kafka's window [2, 6] holds a record of time 1."""
    times = (("a", 0), ("c", 5), ("a", 1), ("a", 2), ("a", 1))
    case: KafkaCase = (4, 0, [(key, time, float(p)) for p, (key, time) in enumerate(times)])
    [kafka] = kafka_rows(class_path, [case])
    assert kafka["a", 2] == Row(timestamp=2, number=2, total=5, members=[2, 3])
    assert engine_rows(0, case)["a", 2] == Row(timestamp=2, number=1, total=3, members=[3])


def model_rows(case: KafkaCase) -> Rows:
    """Work out the rows by the slow model."""
    difference, grace, log = case
    rows: Rows = {}
    for place, window in expected({0: log}, difference, grace).windows.items():
        members = sorted(member.offset for member in window.members)
        rows[place] = Row(window.timestamp, len(members), sum(members), members)
    return rows


def engine_rows(seed: int, case: KafkaCase) -> Rows:
    """Run the engine on a random cut of the log."""
    difference, grace, log = case
    logs = {0: log}
    run = run_engine(logs, difference, grace, random_cuts(logs, Random(seed)))
    return {
        place: Row(row["timestamp_ms"], row["n"], row["total"], sorted(map(int, row["all"])))
        for place, row in run.rows.items()
    }
