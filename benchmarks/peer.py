"""Compare Oriel with Kafka Streams on the same topics and machine: ``oriel bench peer``.

The three parts are (default: all):

- cold: Seconds of the whole command over 1,000,000 JSON records, for each kind of windows. The
  records have 1,000 keys and 2 partitions. They are in order or up to 5 s out of order.
- steady: Records/s in the second half of 20,000,000 records. For sliding windows, Kafka Streams
  reads fewer records, but each run needs at least 60 s.
- latency: From produce to the HTTP response with the record, at 10, 1,000 and 10,000 records/s,
  with one and with five stores. Kafka Streams has one store.

Oriel reads the topic, and then the same records from an event log. Each run is repeated three
times, in turn with the other systems. All stores over the same records must have the same windows
at the end. For each run, the results have the processor time of the system, the broker, the
producer and all other processes.

Kafka Streams 4.3.1 has settings for speed: RocksDB, 2 threads, 100 MB of cache, at least once, a
commit each 30 s (the default, more commits cost it more), and aggregates of 16 bytes. Its steady
rate does not include the flush of the cache at the end, and it does not sync files to disk. Oriel's
steady rate includes each commit, synced.

The benchmark needs Linux, Maven and a JDK, because it fetches and builds broker and peer. A full
run needs hours. Finished runs are kept in .oriel/bench/peer.jsonl, and --resume continues after
them. Topics, logs and tables are in the directory for temporary files (TMPDIR). They are deleted
after their last run. Progress is written to stderr. stdout has tables, and JSON in the last line.
"""

import argparse
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peer_runs import latency
from benchmarks.peer_runs.cases import (
    EVENT_LOG,
    KINDS,
    PEER,
    STEADY_RECORDS,
    TITLES,
    DataSet,
)
from benchmarks.peer_runs.figures import Figures, rate_figures, results_of
from benchmarks.peer_runs.kafka_streams_runs import Peer, require_tools
from benchmarks.peer_runs.oriel_runs import run_once
from benchmarks.peer_runs.plan import (
    CHOSEN_PARTS,
    COLD,
    LATENCY_SECONDS,
    RATES,
    STORES,
    LatencyCase,
    RateCase,
    Run,
    data_set,
    data_sets,
    needed_bytes,
    planned,
    remaining_seconds,
)
from benchmarks.peer_runs.processes import Failed, say
from benchmarks.peer_runs.processor import (
    Snapshot,
    Usage,
    adopt_orphans,
    snapshot,
    usage_between,
)
from benchmarks.peer_runs.run_file import RUN_FILE, RunFile, machine
from benchmarks.peer_runs.saved import (
    as_json,
    different_stores,
    refused_options,
    refused_runs,
    save,
)
from benchmarks.peer_runs.tables import tables
from benchmarks.peer_runs.topics import delete_topics, produce, write_log
from oriel.demo import DemoError
from tests.e2e.kafka_broker import Broker

_QUICK_RECORDS, _WARM_UP_RECORDS = 100_000, 2_000
_QUICK_SECONDS = 5.0
_REPEAT = 3
_IDLE_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print tables and JSON. Returns 1 after an error or if stores differ."""
    options = parsed(arguments)
    # Broker, pipeline and service end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    adopt_orphans()
    try:
        require_tools()
        results = measure(options)
    except (Failed, DemoError, OSError) as error:
        say(str(error))
        return 1
    print(tables(results))
    print(as_json(results))
    reasons = different_stores(results)
    if options.save:
        reasons += refused_runs(results)
        if not reasons:
            save(results)
    for reason in reasons:
        say(reason)
    if options.save and reasons:
        say("not saved. --resume --save repeats only the runs on a loaded machine")
    return 1 if reasons else 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start a broker, measure all runs that are not finished, and return the results of all."""
    runs = planned(options)
    sizes = {"records": options.records, "latency_seconds": options.seconds}
    kept = RunFile(RUN_FILE, machine() | sizes, resume=options.resume)
    if options.save:
        kept.drop({run for run, found in kept.runs.items() if found["loaded"]})
        _require_quiet()
    with tempfile.TemporaryDirectory(prefix="oriel-bench-peer-") as name:
        directory = Path(name)
        _require_space(directory, needed_bytes(runs, options.records))
        say("starting a broker and building the Kafka Streams program")
        broker = Broker(directory)
        try:
            Benchmark(options, broker, directory, kept).measure(runs)
        finally:
            broker.kill()
    return results_of(kept.conditions, {run: kept.runs[run] for run in runs}, kept.topics)


def _require_quiet() -> None:
    """Check that other processes leave the processor to the benchmark.

    Raises:
        Failed: they use it.
    """
    before = snapshot()
    time.sleep(_IDLE_SECONDS)
    usage = usage_between(before, snapshot(), benchmark=os.getpid())
    if usage.loaded:
        message = (
            f"--save: the machine is loaded. Other processes use {usage.others_cores:.2f} cores: "
            f"{', '.join(usage.loaded_by)}. End them, or measure without --save."
        )
        raise Failed(message)


def _require_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    say(f"disk space in {directory.parent}: {needed / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free")
    if free < needed:
        message = f"{directory.parent}: the disk is too small. Set TMPDIR to another directory."
        raise Failed(message)


class Benchmark:
    """Runs of all systems over the same topics, in turn."""

    def __init__(
        self, options: argparse.Namespace, broker: Broker, directory: Path, kept: RunFile
    ) -> None:
        """Write topics to the broker, other files to ``directory``, finished runs to ``kept``."""
        self._options = options
        self._broker = broker
        self._directory = directory
        self._kept = kept
        self._peer = Peer(broker.address, directory)
        self._logs = directory / "log"
        self._written: set[DataSet] = set()

    def measure(self, runs: Sequence[Run]) -> None:
        """Measure the runs that are not finished."""
        took: dict[Run, float] = {
            run: found["took_seconds"] for run, found in self._kept.runs.items()
        }
        waiting = [run for run in runs if run not in took]
        say(f"{len(waiting)} of {len(runs)} runs, {self._remaining(runs, took)}")
        if any(isinstance(run.case, RateCase) for run in waiting):
            self._warm_up()
        for number, run in enumerate(waiting, 1):
            say(f"{number}/{len(waiting)}: {_title(run)}")
            if isinstance(run.case, RateCase):
                self._write(data_set(run, self._options.records))
            began = time.perf_counter()
            found = self._measured(run)
            took[run] = time.perf_counter() - began
            self._kept.add_run(run, found | {"took_seconds": round(took[run], 1)})
            self._delete_unless_read(waiting[number:])
            say(f"    {_line(found)}; {self._remaining(runs, took)}")

    def _remaining(self, runs: Sequence[Run], took: dict[Run, float]) -> str:
        sizes = self._options.records, self._options.seconds
        hours, minutes = divmod(math.ceil(remaining_seconds(runs, took, *sizes) / 60), 60)
        return f"about {hours} h {minutes} min remain"

    def _warm_up(self) -> None:
        """Run each system once, not counted. It fetches missing packages and warms the disk."""
        data = DataSet(dense=False, disorder_s=0, records=_WARM_UP_RECORDS)
        self._write(data)
        for system in self._options.systems:
            say(f"{TITLES[system]}: a run that is not counted")
            self._run_once(Run(RateCase(COLD, "sliding", 0), system, 0), data)
        self._delete_unless_read([])

    def _measured(self, run: Run) -> dict[str, Any]:
        """Return the figures of a run, and the processor time, as JSON."""
        if isinstance(run.case, LatencyCase):
            waits = latency.measure(
                run, self._peer, self._broker.address, self._directory, self._options.seconds
            )
            found = latency.latency_figures(waits)
            usage = self._usage(waits.before, waits.after, waits.producer)
        else:
            data = data_set(run, self._options.records)
            before = snapshot()
            found = rate_figures(self._run_once(run, data), data.records)
            usage = self._usage(before, snapshot())
        return found | {"processor": usage.as_json(), "loaded": usage.loaded}

    def _usage(self, before: Snapshot, after: Snapshot, producer: int | None = None) -> Usage:
        return usage_between(
            before, after, benchmark=os.getpid(), broker=self._broker.pid, producer=producer
        )

    def _run_once(self, run: Run, data: DataSet) -> Figures:
        assert isinstance(run.case, RateCase)
        kind, totals = KINDS[run.case.kind], self._options.check
        if run.system == PEER:
            totals &= data.records <= kind.peer_compared_records
            return self._peer.run_once(kind, data.topic, data.records, totals=totals)
        source = ["--kafka", self._broker.address]
        if run.system == EVENT_LOG:
            source = ["--event-log", str(self._logs)]
        topology = self._directory / "peer_topology.py"
        topology.write_text(kind.topology(data.topic))
        tables_directory = self._directory / "data"
        figures = run_once(topology, source, tables_directory, totals=totals)
        shutil.rmtree(tables_directory)
        return figures

    def _write(self, data: DataSet) -> None:
        """Write the topic and the log, unless they exist."""
        if data in self._written:
            return
        say(f"writing {data.records:,} records to topic and log {data.topic}")
        before = snapshot()
        produce(self._broker.address, data)
        usage = self._usage(before, snapshot())
        if EVENT_LOG in self._options.systems:
            write_log(self._logs, data)
        self._written.add(data)
        if data.records > _WARM_UP_RECORDS:
            self._kept.add_topic({
                "topic": data.topic,
                "records": data.records,
                "seconds": round(usage.seconds, 1),
                # The benchmark itself produces.
                "producer": round(usage.benchmark, 2),
                "broker": round(usage.broker, 2),
            })  # fmt: skip

    def _delete_unless_read(self, waiting: Sequence[Run]) -> None:
        """Delete the topics and logs that no waiting run reads."""
        for data in self._written - data_sets(waiting, self._options.records):
            delete_topics(self._broker.address, data.topic)
            shutil.rmtree(self._logs / data.topic, ignore_errors=True)
            self._written.remove(data)


def _title(run: Run) -> str:
    case, which = run.case, f"{TITLES[run.system]}, run {run.repeat + 1}"
    if isinstance(case, LatencyCase):
        return f"{which}: latency at {case.records_per_second:,} records/s, stores: {case.stores}"
    return f"{which}: {case.part}, {KINDS[case.kind].title}, {case.disorder_s} s of disorder"


def _line(found: dict[str, Any]) -> str:
    """Return a finished run in one line, for example ``11.0 s, then 294,000 records/s``."""
    if not found.get("kept_up", True):
        line = "does not keep up"
    elif "p50_ms" in found:
        line = f"p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms"
    else:
        rate = found["steady_records_per_second"]
        line = f"{found['seconds']:.1f} s" + ("" if rate is None else f", then {rate:,} records/s")
    if found["loaded"]:
        line += f", on a loaded machine ({', '.join(found['processor']['loaded_by'])})"
    return line


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says, with ``--quick`` resolved."""
    parser = argparse.ArgumentParser(
        prog="oriel bench peer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", nargs="+", choices=CHOSEN_PARTS, default=CHOSEN_PARTS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=tuple(KINDS))
    parser.add_argument("--systems", nargs="+", choices=TITLES, default=tuple(TITLES))
    parser.add_argument("--disorder", nargs="+", type=int, default=(0, 5), metavar="SECONDS")
    parser.add_argument(
        "--rates", nargs="+", type=int, choices=RATES, default=RATES,
        help="measure latency only at these records per second",
    )  # fmt: skip
    parser.add_argument(
        "--stores", nargs="+", type=int, choices=STORES, default=STORES,
        help="measure latency only with this many stores",
    )  # fmt: skip
    parser.add_argument(
        "--records", type=int,
        help=f"use at most this many records per run. Default: {STEADY_RECORDS:,}",
    )  # fmt: skip
    parser.add_argument("--repeat", type=int, help=f"runs per case and system. Default: {_REPEAT}")
    parser.add_argument(
        "--seconds", type=float,
        help=f"seconds of measured latency per run. Default: {LATENCY_SECONDS:g}",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="100,000 records, 5 s of latency, one run"
    )
    parser.add_argument("--resume", action="store_true", help="keep the runs that are finished")
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="do not compare the stores"
    )
    parser.add_argument(
        "--save", action="store_true",
        help="write benchmarks/results/peer.json and the tables of benchmarks.md and README.md. "
        "Keeps the saved cases that this benchmark does not measure. Needs a quiet machine, all "
        "systems and at least three runs",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    options.records = options.records or (_QUICK_RECORDS if options.quick else STEADY_RECORDS)
    options.seconds = options.seconds or (_QUICK_SECONDS if options.quick else LATENCY_SECONDS)
    options.repeat = options.repeat or (1 if options.quick else _REPEAT)
    if options.save and (reasons := refused_options(options)):
        parser.error(f"--save: {'. '.join(reasons)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
