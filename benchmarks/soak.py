"""Measure whether a figure grows with the number of batches: ``oriel bench soak``.

One ``oriel run`` process reads batch after batch of a few records. The benchmark appends a batch to
an event log when the table has the one before it, sometimes with an invalid line. With
``--interval-ms``, it appends batches at a rate instead. For example, one hour of 5,000 records per
second over 100,000 keys is ``--batches 18000 --records 1000 --interval-ms 200 --keys 100000 --kept
5m``.

After each ``--every`` batches, it samples the median time from append to commit since the last
sample. A sample also has processor time and memory of Python and the JVM, and the files. The store
has a retention, so its rows also reach a stable number. Log entries and files that left the table
are kept for ``--kept``.

The last sample is compared with the first stable sample, after a fifth of the run and at most 1,000
batches. Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks.peer_runs.processes import ORIEL_COMMAND, running
from oriel.storage.delta import DeltaLog

_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows, avg, count

builder = StreamsBuilder()
grouped = builder.stream("events", "v DOUBLE").group_by_key()
windows = TimeWindows.of_size_and_grace(10_000, 5_000)
grouped.windowed_by(windows).aggregate(n=count(), mean=avg("v")).materialize(
    "soak", retention_ms=60_000
)
topology = builder.build()
"""
_EPOCH_MS = 1_700_000_000_000
#: Time in the log between two batches if batches have no interval.
_STEP_MS = 1_000
#: From the key of a record to the key of the next: a prime, so that all keys are used.
_KEY_STEP = 7_919
#: One of this many batches has an invalid line.
_BROKEN = 20
_POLL_SECONDS = 0.002
_START_SECONDS = 180
_BATCH_SECONDS = 60
_MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """A sample of a run. Processor times are ms per batch since the last sample."""

    batch: int
    batch_ms: float
    python_ms: float
    java_ms: float
    python_mib: float
    java_mib: float
    table_files: int
    dead_letter_files: int
    log_entries: int
    log_bytes: int
    checkpoint_bytes: int
    state_files: int
    spark_files: int


class Run:
    """The measured process, and the directories that it writes."""

    def __init__(self, process: int, data: Path, log: Path) -> None:
        """Measure ``oriel run`` with this process id."""
        self._python = psutil.Process(process)
        self._java = next(p for p in self._python.children() if "java" in p.name())
        self._data = data
        self._log = log
        self._times = self._processor_seconds()
        self._table = DeltaLog(data / "tables" / "soak")
        self._version = 0

    def commit(self, lines: str) -> float:
        """Append a batch, wait until the table contains it, and return the duration in ms."""
        began = time.perf_counter()
        with self._log.open("a") as file:
            file.write(lines)
        end = self._log.stat().st_size
        while not self._reached(end):
            if time.perf_counter() - began > _BATCH_SECONDS:
                message = f"the batch up to byte {end} is not committed"
                raise TimeoutError(message)
            time.sleep(_POLL_SECONDS)
        return (time.perf_counter() - began) * 1000

    def sample(self, batch: int, batches: int, times_ms: list[float]) -> Sample:
        """Return a sample after ``batches`` more batches with these durations."""
        python, java = self._processor_seconds()
        python_before, java_before = self._times
        self._times = python, java
        table, log = self._data / "tables" / "soak", self._data / "tables" / "soak" / "_delta_log"
        (checkpoint,) = (self._data / "checkpoints").iterdir()
        return Sample(
            batch=batch,
            batch_ms=round(statistics.median(times_ms), 1),
            python_ms=round((python - python_before) * 1000 / batches, 1),
            java_ms=round((java - java_before) * 1000 / batches, 1),
            python_mib=round(self._python.memory_info().rss / _MIB, 1),
            java_mib=round(self._java.memory_info().rss / _MIB, 1),
            table_files=_count(table, "*.parquet"),
            dead_letter_files=_count(self._data / "tables" / "_dead_letters", "*.parquet"),
            log_entries=_count(log, "*.json"),
            log_bytes=sum(path.stat().st_size for path in _there(log, "*")),
            checkpoint_bytes=sum(p.stat().st_size for p in _there(log, "*.checkpoint.parquet")),
            state_files=_count(checkpoint / "state" / "soak", "*"),
            spark_files=_count(checkpoint / "spark", "**/*"),
        )

    def _reached(self, end: int) -> bool:
        """Read the new entries. Return True if an entry commits the log up to ``end``."""
        while (entry := self._table.read(self._version + 1)) is not None:
            self._version += 1
            if entry.record is not None and entry.record.offsets["events"]["0"] >= end:
                return True
        return False

    def _processor_seconds(self) -> tuple[float, float]:
        python, java = (p.cpu_times() for p in (self._python, self._java))
        return python.user + python.system, java.user + java.system


def _there(directory: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a directory, although the pipeline deletes files meanwhile."""
    return (path for path in directory.glob(pattern) if path.is_file())


def _count(directory: Path, pattern: str) -> int:
    return sum(1 for _ in _there(directory, pattern))


def soak(directory: Path, options: argparse.Namespace) -> list[Sample]:
    """Run all batches and return the samples."""
    topology, log = directory / "soak.py", directory / "log" / "events" / "0.jsonl"
    topology.write_text(_TOPOLOGY)
    log.parent.mkdir(parents=True)
    log.touch()
    data = directory / "data"
    command = [
        *ORIEL_COMMAND, "run", str(topology), "--event-log", str(directory / "log"), "--data",
        str(data), "--trigger", "1ms", "--log-retention", options.kept,
        "--deleted-file-retention", options.kept,
    ]  # fmt: skip
    samples: list[Sample] = []
    with running("oriel run", command, directory / "output.txt") as process:
        began = time.perf_counter()
        while not (data / "tables" / "soak" / "_delta_log" / f"{0:020d}.json").exists():
            if process.poll() is not None or time.perf_counter() - began > _START_SECONDS:
                message = f"oriel run did not start: {(directory / 'output.txt').read_text()}"
                raise RuntimeError(message)
            time.sleep(_POLL_SECONDS)
        run = Run(process.pid, data, log)
        times_ms: list[float] = []
        began = time.perf_counter()
        for batch in range(1, options.batches + 1):
            # A batch whose time has passed is appended immediately.
            ahead_ms = batch * options.interval_ms - (time.perf_counter() - began) * 1000
            time.sleep(max(0.0, ahead_ms) / 1000)
            times_ms.append(run.commit(_lines(batch, options)))
            if batch % options.every == 0:
                samples.append(run.sample(batch, len(times_ms), times_ms))
                times_ms = []
                print(samples[-1], file=sys.stderr, flush=True)
    return samples


def _lines(batch: int, options: argparse.Namespace) -> str:
    time_ms = _EPOCH_MS + batch * (options.interval_ms or _STEP_MS)
    first = batch * options.records
    lines = [
        json.dumps({
            "key": f"k{number * _KEY_STEP % options.keys}",
            "value": {"v": number},
            "timestamp_ms": time_ms,
        })
        for number in range(first, first + options.records)
    ]  # fmt: skip
    broken = ["{broken"] if batch % _BROKEN == 0 else []
    return "\n".join([*lines, *broken, ""])


def main() -> None:
    """Print the samples as a table, and with their comparison as JSON."""
    parser = argparse.ArgumentParser(prog="oriel bench soak", description=__doc__)
    parser.add_argument("--batches", type=int, default=5_000)
    parser.add_argument("--records", type=int, default=3, help="records per batch")
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument(
        "--interval-ms",
        type=int,
        default=0,
        help="time between two batches. 0: no wait",
    )
    parser.add_argument("--every", type=int, help="batches between two samples")
    parser.add_argument("--kept", default="30s", help="time that old entries and files are kept")
    parser.add_argument("--quick", action="store_true", help="only test the benchmark")
    options = parser.parse_args()
    if options.quick:
        options.batches, options.kept = 60, "1s"
    options.every = options.every or max(1, options.batches // 20)
    with tempfile.TemporaryDirectory(prefix="oriel-soak-") as directory:
        samples = soak(Path(directory), options)
    steady_from = min(1_000, options.batches // 5)
    steady = next(sample for sample in samples if sample.batch >= steady_from)
    names = list(asdict(steady))
    print(" ".join(f"{name:>17}" for name in names))
    for sample in samples:
        print(" ".join(f"{value:>17,}" for value in asdict(sample).values()))
    grown = {
        name: round(getattr(samples[-1], name) / max(getattr(steady, name), 1e-9), 2)
        for name in names[1:]
    }
    print(json.dumps({
        "samples": [asdict(sample) for sample in samples], "last_over_first_steady": grown,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
