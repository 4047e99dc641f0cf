"""The finished runs in a file, so that an interrupted benchmark can resume.

Each line is JSON: first the conditions, then one line per run or written topic.
"""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka

from benchmarks.peer_runs.plan import LATENCY, LatencyCase, RateCase, Run
from benchmarks.peer_runs.processes import Failed

_ROOT = Path(__file__).parents[2]

#: Where an interrupted benchmark left its runs. Git ignores the directory.
RUN_FILE = _ROOT / ".oriel" / "bench" / "peer.jsonl"

KAFKA_STREAMS = "4.3.1"
#: What may differ when a benchmark resumes.
_OF_THE_START = frozenset({"date", "load_before"})


def machine() -> dict[str, Any]:
    """Return the machine, the versions, the commit and the date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "--untracked-files=no").splitlines()),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(memory / 2**30),
        "load_before": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java.split('"')[1],
        "pyspark": version("pyspark"),
        "deltalake": version("deltalake"),
        "confluent_kafka": confluent_kafka.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
        "kafka_streams": KAFKA_STREAMS,
    }


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


class RunFile:
    """The runs that are finished, also those of the benchmark that is resumed."""

    def __init__(self, path: Path, conditions: Mapping[str, Any], *, resume: bool) -> None:
        """Begin a file, or read the finished runs of an earlier one.

        Raises:
            Failed: the runs of the file were measured under other conditions.
        """
        self._path = path
        self.conditions = dict(conditions)
        self.runs: dict[Run, dict[str, Any]] = {}
        self.topics: dict[str, dict[str, Any]] = {}
        if resume and path.exists():
            self._read()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.conditions) + "\n")

    def add_run(self, run: Run, found: dict[str, Any]) -> None:
        """Keep a finished run."""
        self.runs[run] = found
        self._append({"run": _as_json(run), "found": found})

    def add_topic(self, written: dict[str, Any]) -> None:
        """Keep the cost of writing a topic."""
        self.topics[written["topic"]] = written
        self._append({"topic": written})

    def drop(self, runs: set[Run]) -> None:
        """Forget some runs, so that they are measured again."""
        self.runs = {run: found for run, found in self.runs.items() if run not in runs}

    def _append(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self) -> None:
        text = self._path.read_text()
        # A process that was killed can leave half a line.
        whole = text[: text.rfind("\n") + 1]
        self._path.write_text(whole)
        first, *lines = map(json.loads, whole.splitlines())
        if different := differences(first, self.conditions):
            message = (
                f"{self._path}: the finished runs had other conditions: {', '.join(different)}. "
                "Start again without --resume."
            )
            raise Failed(message)
        self.conditions = first
        for line in lines:
            if "topic" in line:
                self.topics[line["topic"]["topic"]] = line["topic"]
            else:
                # A run that was measured again replaces the earlier one.
                self.runs[_from_json(line["run"])] = line["found"]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the conditions that differ, for example ``cores: 2, now 4``."""
    names = [name for name in {**before, **now} if name not in _OF_THE_START]
    return [
        f"{name}: {before.get(name)}, now {now.get(name)}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def _as_json(run: Run) -> list[Any]:
    case = [LATENCY, *run.case] if isinstance(run.case, LatencyCase) else [*run.case]
    return [*case, run.system, run.repeat]


def _from_json(words: list[Any]) -> Run:
    *words, system, repeat = words
    if words[0] == LATENCY:
        return Run(LatencyCase(*words[1:]), system, repeat)
    return Run(RateCase(*words), system, repeat)
