"""Compare Oriel with Kafka Streams on the same topics and machine: ``oriel bench peer``.

The two parts are (default: both):

- rates: each kind of windows over 1,000,000 JSON records of 1,000 keys and 2 partitions, in order
  and with 5 s of disorder. *Cold* is the whole command, from the start of the process to its end,
  with everything committed. *Steady* is the records/s of the second half. Oriel reads the topic,
  and then the same records from an event log. All stores must have the same windows at the end.
- latency: from produce to the HTTP response with the record, at 1,000 records/s.

Kafka Streams 4.3.1 has settings for speed: RocksDB, 2 threads, 100 MB of cache, at least once, a
commit each 30 s (the default, more commits cost it more), and aggregates of 16 bytes. Its steady
rate does not include the flush of the cache at the end, and it does not sync files to disk. Oriel's
steady rate includes each commit, synced.

The benchmark needs Maven and a JDK, because it fetches and builds broker and peer. Each system
first runs once over a small topic, which is not counted: it fetches missing packages and warms the
disk. Progress is written to stderr. stdout has tables, and JSON in the last line.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peer_runs import latency
from benchmarks.peer_runs.cases import KINDS, DataSet, Kind
from benchmarks.peer_runs.figures import (
    EVENT_LOG,
    PEER,
    TITLES,
    Figures,
    as_json,
    case_result,
    machine,
    tables,
)
from benchmarks.peer_runs.kafka_streams_runs import Peer, require_tools
from benchmarks.peer_runs.oriel_runs import run_once
from benchmarks.peer_runs.processes import Failed, say
from benchmarks.peer_runs.saved import save
from benchmarks.peer_runs.topics import produce, write_log
from tests.e2e.kafka_broker import running_broker

PARTS = ("rates", "latency")
_RECORDS, _QUICK_RECORDS, _WARM_UP_RECORDS = 1_000_000, 100_000, 2_000
_SECONDS, _QUICK_SECONDS = 30.0, 5.0
_SLACK_BYTES = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, print tables and JSON; 1 if stores differ, or it can't go on."""
    options = parsed(arguments)
    # What is running ends with this process: broker, pipeline, service.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        require_tools()
        results = measure(options)
    except (Failed, OSError) as error:
        say(str(error))
        return 1
    print(tables(results))
    print(as_json(results))
    if options.save:
        save(results)
    different = [row["windows"] for row in results["rates"] if row["same_windows"] is False]
    for windows in different:
        say(f"{windows}: the stores differ, so the figures do not compare")
    return 1 if different else 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start a broker, and measure the parts that are asked for."""
    say("starting a broker and building the Kafka Streams program")
    results: dict[str, Any] = {
        "benchmark": "peer",
        "machine": machine(),
        "rates": [],
        "latency": [],
    }
    with (
        tempfile.TemporaryDirectory(prefix="oriel-bench-peer-") as name,
        running_broker(Path(name)) as servers,
    ):
        folder = Path(name)
        peer = Peer(servers, folder)
        if "rates" in options.parts:
            results["rates"] = Rates(options, servers, peer, folder).measured()
        if "latency" in options.parts:
            for case in latency.CASES:
                if case.system not in options.systems:
                    continue
                say(f"{TITLES[case.system]}: latency, stores: {case.stores}")
                found = latency.measure(case, peer, servers, folder, options.seconds)
                say(f"    p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms")
                results["latency"].append(found)
    return results


class Rates:
    """Runs of all systems over the same topics, in turn."""

    def __init__(self, options: argparse.Namespace, servers: str, peer: Peer, folder: Path) -> None:
        """Write topics to the broker, logs and tables into ``folder``."""
        self._options = options
        self._servers = servers
        self._peer = peer
        self._folder = folder
        self._logs = folder / "log"
        self._log_bytes: dict[DataSet, int] = {}

    def measured(self) -> list[dict[str, Any]]:
        """Return one result for each kind and disorder."""
        warm_up = DataSet(dense=False, disorder_s=0, records=_WARM_UP_RECORDS)
        for system in self._options.systems:
            self._run(system, KINDS["sliding"], warm_up)
        found = []
        for name in self._options.kinds:
            for disorder_s in self._options.disorder:
                data = DataSet(KINDS[name].dense, disorder_s, self._options.records)
                found.append(self._in_turn(KINDS[name], data))
        return found

    def _in_turn(self, kind: Kind, data: DataSet) -> dict[str, Any]:
        runs: dict[str, list[Figures]] = {system: [] for system in self._options.systems}
        for _ in range(self._options.repeat):
            for system, figures in runs.items():
                figures.append(self._run(system, kind, data))
        return case_result(kind.title, data.records, data.disorder_s, runs)

    def _run(self, system: str, kind: Kind, data: DataSet) -> Figures:
        self._write(data)
        totals: bool = self._options.check
        told = f"{TITLES[system]}: {kind.title}, {data.disorder_s} s of disorder"
        say(f"{told}, {data.records:,} records")
        if system == PEER:
            # Sliding windows leave its store once they can't change any more (decision 0027).
            totals &= kind.peer_kind != "sliding" or data.records <= _QUICK_RECORDS
            figures = self._peer.run_once(kind, data.topic, data.records, totals=totals)
        else:
            source = ["--kafka", self._servers]
            if system == EVENT_LOG:
                # Two batches, as the topic has; the rest of a line is no third one.
                most = str(self._log_bytes[data] // 2 + _SLACK_BYTES)
                source = ["--event-log", str(self._logs), "--max-batch-bytes", most]
            topology = self._folder / "peer_topology.py"
            topology.write_text(kind.topology(data.topic))
            tables_folder = self._folder / "data"
            figures = run_once(topology, source, tables_folder, totals=totals)
            shutil.rmtree(tables_folder)
        rate = figures.steady_per_second
        steady = "" if rate is None else f", then {rate:,.0f} records/s"
        say(f"    cold {figures.cold_seconds:.1f} s{steady}")
        return figures

    def _write(self, data: DataSet) -> None:
        if data not in self._log_bytes:
            say(f"producing {data.records:,} records to topic {data.topic}")
            produce(self._servers, data)
            self._log_bytes[data] = write_log(self._logs, data)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says, with ``--quick`` resolved."""
    parser = argparse.ArgumentParser(
        prog="oriel bench peer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=tuple(KINDS))
    parser.add_argument("--systems", nargs="+", choices=TITLES, default=tuple(TITLES))
    parser.add_argument("--disorder", nargs="+", type=int, default=(0, 5), metavar="SECONDS")
    parser.add_argument("--records", type=int, help=f"records per topic. Default: {_RECORDS:,}")
    parser.add_argument("--repeat", type=int, default=1, help="runs per case. Prints medians")
    parser.add_argument("--seconds", type=float, help="seconds per case of latency. Default: 30")
    parser.add_argument("--quick", action="store_true", help="100,000 records, 5 s of latency")
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="do not compare the stores"
    )
    parser.add_argument(
        "--save", action="store_true",
        help="write benchmarks/results/peer.json and the tables of benchmarks.md and README.md",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    options.records = options.records or (_QUICK_RECORDS if options.quick else _RECORDS)
    options.seconds = options.seconds or (_QUICK_SECONDS if options.quick else _SECONDS)
    return options


if __name__ == "__main__":
    sys.exit(main())
