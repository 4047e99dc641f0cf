"""The real Kafka Streams 4.3.1 as a peer: the same rows wherever records come in time."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.slow_model import Record, expected
from tests.windows.batches import random_cuts, run_engine
from tests.windows.random_logs import random_case

PEER = Path(__file__).with_name("kafka_streams")
CASES = 600

#: (key, start) -> (timestamp, places of the members in arrival order).
Rows = dict[tuple[str, int], tuple[int, list[int]]]


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


def kafka_rows(class_path: str, cases: list[tuple[int, int, list[Record]]]) -> list[Rows]:
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
        key, start, timestamp, places = token.split(":")
        rows[key, int(start)] = int(timestamp), [int(p) for p in places.split(",") if p]
    return rows


def make_case(seed: int) -> tuple[int, int, list[Record]]:
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
def test_rows_equal_kafka_streams_on_records_in_time(class_path: str) -> None:
    """Random logs: Kafka's rows are ours where all is in time, its windows ours in any case."""
    seeds = range(9_000_000, 9_000_000 + CASES)
    cases = [make_case(seed) for seed in seeds]
    in_time = 0
    for seed, case, kafka in zip(seeds, cases, kafka_rows(class_path, cases), strict=True):
        difference, grace, log = case
        ours = engine_rows(seed, difference, grace, log)
        model = expected({0: log}, difference, grace).windows
        assert set(ours) == set(model), f"seed {seed}"
        # Where a record was partly late, Kafka lacks windows and members, and now and then
        # copies a member from outside the bounds; but it has no window that we lack.
        assert set(kafka) <= set(ours), f"seed {seed}"
        if is_in_time(difference, grace, log):
            in_time += 1
            sorted_kafka = {p: (t, sorted(m)) for p, (t, m) in kafka.items()}
            assert sorted_kafka == {p: (t, sorted(m)) for p, (t, m) in ours.items()}, f"seed {seed}"
    assert in_time > CASES // 4, "too few cases compare whole results"


def engine_rows(seed: int, difference: int, grace: int, log: list[Record]) -> Rows:
    """Run the engine on a random cut of the log."""
    logs = {0: log}
    run = run_engine(logs, difference, grace, random_cuts(logs, Random(seed)))
    return {
        place: (row["timestamp_ms"], [int(value) for value in row["all"]])
        for place, row in run.rows.items()
    }
