"""Run logs of one partition through Kafka Streams 4.3.1.

The peer program (kafka_streams/) runs one case after the other in one JVM. The value of a record is
its position in the log, starting with 1, so each member of a window has another value.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pytest

from oriel import SessionWindows, TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import UserFunctions, Windows
from tests.campaigns import cases
from tests.java import QUICK
from tests.locks import only_one
from tests.windows.engine_runs import Run, Setup, random_cuts, run_engine

_SOURCE = Path(__file__).with_name("kafka_streams")
#: The number of random logs that are compared with Kafka, in every run and in long runs.
some_logs = cases(33, 300)
#: A long retention, because Kafka's default hides windows that are still open.
_AMPLE_MS = 1_000_000_000

#: Key, time, and value: the position of the record, or None.
Record = tuple[str, int, float | None]
Emit = Literal["update", "close", "suppress"]


class Place(NamedTuple):
    """The key and window of a row. Without windows, both bounds are 0."""

    key: str
    start: int
    end: int


class Row(NamedTuple):
    """The aggregates of a window. Its members are sorted, without null values."""

    timestamp: int
    number: int
    total: int
    members: list[int]


Rows = dict[Place, Row]


class Emitted(NamedTuple):
    """A record that Kafka forwarded.

    ``calls`` lists the calls of functions: "0" is an initial aggregate, "+" a call of aggregator or
    merger. A tombstone has no calls.
    """

    place: Place
    timestamp: int
    calls: str | None


def _with_place(_: str, value: Mapping[str, Any] | None, calls: str) -> str:
    return f"{calls}+{'null' if value is None else int(value['v'])}"


def _with_calls(_: str, left: str, right: str) -> str:
    return f"{left}+{right}"


VALUES = pa.schema([("v", pa.float64())])
AGGREGATES: Mapping[str, w.Aggregate] = {
    "n": w.count(),
    "total": w.sum("v"),
    "all": w.collect_list("v"),
}
#: The aggregation of the peer program as a user of Oriel writes it.
CALLS = UserFunctions(lambda: "0", (_with_place,), _with_calls, {"calls": pa.string()}, "the peer")


@dataclass(frozen=True)
class Case:
    """The log of a partition, and its windows."""

    windows: Windows
    log: Sequence[Record]
    emit: Emit = "update"
    retention_ms: int | None = None

    @property
    def line(self) -> str:
        """The case as a line for the peer program."""
        windows = self.windows
        advance = windows.advance_ms if isinstance(windows, TimeWindows) else 0
        numbers = (windows.length_ms, advance, windows.grace_ms, self._retention_ms)
        words = [windows.kind, *map(str, numbers), self.emit]
        for key, time, value in self.log:
            words.append(f"{key}:{time}" + (":null" if value is None else ""))
        return " ".join(words)

    @property
    def _retention_ms(self) -> int:
        if self.retention_ms is not None:
            return self.retention_ms
        least = self.windows.least_retention_ms
        # One ms more than the default hides a session exactly when it closes. A shorter retention
        # hides open sessions. With a longer retention, closed sessions can be reopened.
        return least + (1 if isinstance(self.windows, SessionWindows) else _AMPLE_MS)


@dataclass(frozen=True)
class KafkaResult:
    """Kafka's result of a case.

    Args:
        rows: The rows of the store at the end.
        left: The newest forwarded value of each row without a tombstone. This includes rows that
            the retention hides at the end.
        emitted: All forwarded records.
        dropped: Kafka's counter of dropped records, which can count a record twice.
    """

    rows: Rows
    left: Rows
    emitted: list[Emitted]
    dropped: int

    @property
    def calls(self) -> dict[Place, str]:
        """The calls of functions for each row of ``left``."""
        newest = {e.place: e.calls for e in self.emitted}
        return {place: calls for place, calls in newest.items() if calls is not None}


class KafkaPeer:
    """The running peer program."""

    def __init__(self, process: "subprocess.Popen[str]", complaints: Path) -> None:
        """Use a process that writes its errors to the file ``complaints``."""
        self._process = process
        self._complaints = complaints

    def results(self, cases: Iterable[Case]) -> list[KafkaResult]:
        """Return Kafka's result of each case."""
        return [self.result(case) for case in cases]

    def result(self, case: Case) -> KafkaResult:
        """Return Kafka's result of a case."""
        return _parsed(self.response(case.line))

    def response(self, request: str) -> str:
        """Send a line to the program, and return the line that it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{request}: {_causes(self._complaints.read_text())}"
        return line


@contextmanager
def running_peer(target: Path) -> Iterator[KafkaPeer]:
    """Compile the peer into ``target``, and yield it in a JVM with its own state directory."""
    command = ["java", *QUICK.split(), "-Xmx512m", "-cp", class_path(target), "oriel.Peer"]
    with tempfile.TemporaryDirectory(prefix="kafka-peer-") as directory:
        complaints = Path(directory) / "errors.txt"
        with (
            complaints.open("w") as errors,
            subprocess.Popen(
                [*command, str(Path(directory) / "state")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            # When the block ends, stdin is closed, so the program ends.
            yield KafkaPeer(process, complaints)


@cache
def class_path(target: Path) -> str:
    """Compile the peer program with Maven, once per test run, and return its class path."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        reason = "mvn or javac not found (Debian: apt-get install maven default-jdk-headless)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    if "PYTEST_XDIST_WORKER" in os.environ:
        # All worker processes use the same classes, in the parent directory of their directories.
        target = target.parents[1] / target.name
    listed = target / "class-path.txt"
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    maven = ["mvn", "-q", "-B", f"-Dtarget={target}", *goals]
    # Maven needs the network only for packages that its cache does not have.
    with only_one("maven"):
        if not listed.exists():
            offline = [*maven, "--offline"]
            cached = subprocess.run(offline, cwd=_SOURCE, check=False, capture_output=True)
            if cached.returncode != 0:
                subprocess.run(maven, cwd=_SOURCE, check=True)
    return f"{target / 'classes'}{os.pathsep}{listed.read_text()}"


def our_run(
    case: Case, seed: int, aggregates: Mapping[str, w.Aggregate] | UserFunctions = AGGREGATES
) -> Run:
    """Run our engine on a random cut of the log, without the records that Kafka also ignores."""
    takes_nulls = case.windows.rule.takes_null_values
    taken = [record for record in case.log if takes_nulls or record[2] is not None]
    logs = {0: [(key, time, None if v is None else {"v": v}) for key, time, v in taken]}
    setup = Setup(case.windows, aggregates, VALUES, emit_final_only=case.emit == "close")
    return run_engine(setup, logs, random_cuts(logs, Random(seed)))


def our_rows(case: Case, run: Run) -> Rows:
    """Return the rows of ``run`` as Kafka has them: an empty sum is 0, and so is a missing end."""
    return {
        _our_place(case, place): Row(
            row["timestamp_ms"], row["n"], int(row["total"] or 0), sorted(map(int, row["all"]))
        )
        for place, row in run.rows.items()
    }


def our_calls(case: Case, seed: int) -> dict[Place, str]:
    """Run our engine with the functions of the peer, and return the calls for each row."""
    run = our_run(case, seed, CALLS)
    return {_our_place(case, place): row["calls"] for place, row in run.rows.items()}


def log_of(text: str) -> list[Record]:
    """Parse a log of words: KEY:TIME, or TIME for the key k. A final "!" is a null value."""
    log: list[Record] = []
    for place, word in enumerate(text.split(), start=1):
        key, _, time = word.removesuffix("!").rpartition(":")
        log.append((key or "k", int(time), None if word.endswith("!") else float(place)))
    return log


def random_log(random: Random) -> list[Record]:
    """Return a log with few keys, small times, disorder, some jumps and some null values."""
    keys = "abc"[: random.randint(1, 3)]
    drift = random.choice((0.0, 0.5, 2.0, 6.0, -2.0))
    spread = random.choice((2, 8, 25))
    start = 60 if drift < 0 else random.choice((0, 0, 5, 40))
    nulls = random.choice((0.0, 0.0, 0.2))
    log: list[Record] = []
    for i in range(random.choice((1, 5, 15, 40))):
        time = max(0, round(start + drift * i + random.randint(-spread, spread)))
        if random.random() < 0.03:
            time += 60
        value = None if random.random() < nulls else float(i + 1)
        log.append((random.choice(keys), time, value))
    return log


def _causes(complaints: str) -> str:
    """Return the messages of a stack trace, without the lines of code."""
    return "\n".join(line for line in complaints.splitlines() if not line.startswith("\tat "))


def _our_place(case: Case, place: tuple[str, int, int]) -> Place:
    key, start, end = place
    return Place(key, start, 0 if case.windows.kind == "none" else end)


def _parsed(line: str) -> KafkaResult:
    rows, emitted, dropped = line.split("|")
    forwarded = [token.split(":") for token in emitted.split()]
    left: Rows = {}
    for words in forwarded:
        left.pop(_place(words), None)
        if _has_value(words):
            left[_place(words)] = _row(words)
    return KafkaResult(
        rows={_place(words): _row(words) for words in (token.split(":") for token in rows.split())},
        left=left,
        emitted=[
            Emitted(_place(words), int(words[3]), words[-1] if _has_value(words) else None)
            for words in forwarded
        ],
        dropped=int(dropped),
    )


def _place(words: Sequence[str]) -> Place:
    return Place(words[0], int(words[1]), int(words[2]))


def _has_value(words: Sequence[str]) -> bool:
    return len(words) > len(("key", "start", "end", "timestamp", "null"))


def _row(words: Sequence[str]) -> Row:
    _, _, _, timestamp, number, total, calls = words
    members = sorted(int(call) for call in calls.split("+") if call not in ("0", "null"))
    return Row(int(timestamp), int(number), int(total), members)
