"""Measure the cost of a record for each kind of windows: ``oriel bench windows``.

Two worker processes, each with half of the keys, run the engine tasks of the pipeline batch after
batch without Spark. They read the state, call the engine, and write the next state and the Parquet
file of the changed windows. The records of 1,000 keys, one record per key and second, are prepared
before. A rate is the number of all records by the time of the slower worker. A cost (us/record) is
the processor time of both workers.

The four parts are (default: all, in moderate sizes):

- kinds: Each kind, with count and mean and batches of 100,000.
- aggregates: Each aggregate alone, over tumbling and sliding windows.
- scale: The cost of a record in longer and longer logs (it should be flat), and with more keys.
- lengths: The cost of a record in longer and longer sliding windows.

Kinds and aggregates are measured twice: with records in order and no grace, and with disorder,
grace and an optional hot key, as the options define. Late records are rejected before a task. They
count as records, and the JSON has their number. Scale and lengths have records in order.

Progress is written to stderr. stdout has tables, and JSON in the last line.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.window_runs.tasks import AGGREGATES, TASKS, Case, Load, Measured, Workers, working
from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import NoWindows

PARTS = ("kinds", "aggregates", "scale", "lengths")
KEYS = 1_000
BATCH = 100_000

_S = 1_000


@dataclass(frozen=True)
class Arrival:
    """The order of records: disorder, grace, and the percentage of records with one key."""

    disorder_s: int = 0
    grace_s: int = 0
    hot_key_percent: int = 0


IN_ORDER = "in order"
DISORDERED = "disordered"


def _tumbling(grace_s: int = 0) -> TimeWindows:
    return TimeWindows.of_size_and_grace(10 * _S, grace_s * _S)


def _sliding(difference_ms: int, grace_s: int = 0) -> SlidingWindows:
    return SlidingWindows.of_time_difference_and_grace(difference_ms, grace_s * _S)


def _session(gap_ms: int, grace_s: int = 0) -> SessionWindows:
    return SessionWindows.of_inactivity_gap_and_grace(gap_ms, grace_s * _S)


def kinds(grace_s: int = 0) -> tuple[Case, ...]:
    """Return a case for every kind of windows, with this grace."""
    tumbling, sliding = _tumbling(grace_s), _sliding(10 * _S, grace_s)
    return (
        Case("tumbling 10 s", tumbling),
        Case("hopping 10 s by 5 s", tumbling.advance_by(5 * _S)),
        Case("hopping 10 s by 1 s", tumbling.advance_by(_S)),
        Case("sliding 10 s, on update", sliding),
        Case("sliding 10 s, on close", sliding, on_close=True),
        Case("session, gap 5 s", _session(5 * _S, grace_s)),
        Case("session, gap 0.5 s", _session(_S // 2, grace_s)),
        Case("no windows", NoWindows()),
        Case("tumbling 10 s, functions", tumbling, functions=True),
    )


#: The records/s of Kafka Streams 4.3.1 (RocksDB, one thread), measured once on another day and
#: another machine, not by this benchmark. `oriel bench peer` measures both on one machine.
ELSEWHERE = {
    "tumbling 10 s": "65,000",
    "sliding 10 s, on update": "7,000 to 21,000",
    "session, gap 5 s": "16,500",
}


def aggregates(grace_s: int = 0) -> tuple[Case, ...]:
    """Return a case for each aggregate alone, over tumbling and over sliding windows."""
    both = {"tumbling": _tumbling(grace_s), "sliding": _sliding(10 * _S, grace_s)}
    return tuple(
        Case(f"{kind}, {name}", windows, aggregate=name)
        for kind, windows in both.items()
        for name in AGGREGATES
    )


_WARM_UP, _BATCHES = 2, 5
_HEAD = f"{'records/s':>11}{'us/record':>11}{'rows/record':>13}"

_SCALED = (
    Case("tumbling 10 s", _tumbling()),
    Case("session, gap 5 s", _session(5 * _S)),
    Case("no windows", NoWindows()),
)
#: Small enough that even the shortest log has a batch.
_SCALE_BATCH = 10_000
_LENGTHS_S = (1, 10, 60, 600)


class Sizes:
    """The sizes of all measurements."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Use moderate sizes if no part is named, full sizes otherwise, and tiny ones if quick."""
        whole = bool(options.parts)
        self.arrivals = {
            IN_ORDER: Arrival(),
            DISORDERED: Arrival(options.disorder, options.grace, options.hot_key),
        }
        self.keys, self.batch, self.scale_batch = KEYS, BATCH, _SCALE_BATCH
        self.records = [10_000, 100_000, 1_000_000, *([10_000_000] if whole else [])]
        self.all_keys = [1_000, 10_000, 100_000, 1_000_000]
        self.lengths_s: Sequence[int] = _LENGTHS_S
        self.batches = _BATCHES
        if options.quick:
            self.keys, self.batch, self.scale_batch = 10, 200, 200
            self.records, self.all_keys, self.batches = [200, 400], [10, 100], 1
            self.lengths_s = (1, 10)

    def some(self, arrival: Arrival) -> Load:
        """Return some batches of records in this order."""
        return Load(
            self.keys,
            self.batch,
            self.batches,
            _WARM_UP,
            disorder_ms=arrival.disorder_s * _S,
            hot_share=arrival.hot_key_percent / 100,
        )

    def scale(self, records: int) -> Load:
        """Return a log of this many records, without a warm-up."""
        return Load(self.keys, self.scale_batch, records // self.scale_batch)

    def distinct(self, keys: int) -> Load:
        """Return batches after a warm-up in which every key occurred once."""
        return Load(keys, self.batch, self.batches, warm_up=_WARM_UP + keys // self.batch)

    def length(self, seconds: int) -> Load:
        """Return batches after a warm-up in which the first windows of this length closed."""
        filled = -(-seconds * self.keys // self.batch)
        return Load(self.keys, self.batch, self.batches, warm_up=_WARM_UP + filled)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables and one line of JSON."""
    options = _parse(arguments)
    sizes = Sizes(options)
    results: dict[str, Any] = {
        "benchmark": "windows", "cores": os.cpu_count(), "workers": TASKS,
        "keys": sizes.keys, "batch": sizes.batch, "sync": options.sync,
        "arrivals": {name: asdict(arrival) for name, arrival in sizes.arrivals.items()},
    }  # fmt: skip
    with working(sync=options.sync) as workers:
        for part in options.parts or PARTS:
            results.update(_MEASURES[part](workers, sizes))
    print(json.dumps(results))
    return 0


def measure_kinds(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """Measure every kind of windows, with records in order and with disordered records."""
    found = _measured_twice(workers, sizes, kinds, "windows")
    print("Kafka Streams, measured on another day and not by this benchmark, in records/s:")
    print(", ".join(f"{name} {rate}" for name, rate in ELSEWHERE.items()) + "\n")
    for name, by_arrival in found.items():
        by_arrival["kafka_streams_elsewhere"] = ELSEWHERE.get(name)
    return {"kinds": found}


def measure_aggregates(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """Measure each aggregate, over tumbling and sliding windows."""
    found = _measured_twice(workers, sizes, aggregates, "aggregate")
    print()
    return {"aggregates": found}


def _measured_twice(
    workers: Workers, sizes: Sizes, cases: Callable[[int], tuple[Case, ...]], title: str
) -> dict[str, dict[str, Any]]:
    """Measure ``cases`` with the grace of each arrival, and print one line per case."""
    titles = "".join(f"{name:>35}" for name in sizes.arrivals)
    print(f"{'':32}{titles}\n{title:32}{_HEAD * len(sizes.arrivals)}")
    arrivals = sizes.arrivals.items()
    found: dict[str, dict[str, Any]] = {}
    for same in zip(*(cases(arrival.grace_s) for _, arrival in arrivals), strict=True):
        measured = {
            name: _measured(workers, case, sizes.some(arrival), f", {name}")
            for case, (name, arrival) in zip(same, arrivals, strict=True)
        }
        found[same[0].name] = {name: _as_json(one) for name, one in measured.items()}
        print(f"{same[0].name:32}" + "".join(map(_columns, measured.values())), flush=True)
    return found


def measure_scale(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """Measure the cost of a record in longer logs, and with more keys."""
    title = f"us/record, batches of {sizes.scale_batch:,}"
    print(f"{title:28}" + "".join(f"{n:>13,}" for n in sizes.records) + "  records")
    logs: dict[str, dict[str, Any]] = {}
    for case in _SCALED:
        # Logs have no warm-up. This run only does the one-time setup of Python.
        _measured(workers, case, sizes.scale(sizes.records[0]))
        found = {n: _measured(workers, case, sizes.scale(n)) for n in sizes.records}
        logs[case.name] = {str(n): _as_json(one) for n, one in found.items()}
        print(f"{case.name:28}" + "".join(f"{m.cpu_microseconds:13.2f}" for m in found.values()))
    case = _SCALED[-1]
    title = f"us/record, batches of {sizes.batch:,}"
    print(f"{title:28}" + "".join(f"{n:>13,}" for n in sizes.all_keys) + "  keys")
    found = {n: _measured(workers, case, sizes.distinct(n)) for n in sizes.all_keys}
    print(f"{case.name:28}" + "".join(f"{m.cpu_microseconds:13.2f}" for m in found.values()) + "\n")
    keys = {case.name: {str(n): _as_json(one) for n, one in found.items()}}
    return {"scale": {"records": logs, "keys": keys}}


def measure_lengths(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """Measure the cost of a record in longer sliding windows."""
    print(
        f"{'sliding windows':28}{'records/s':>11}{'us/record':>11}{'rows/record':>13}  state rows"
    )
    lengths: dict[str, dict[str, Any]] = {}
    for on_close in (True, False):
        output = "on close" if on_close else "on update"
        lengths[output] = {}
        for seconds in sizes.lengths_s:
            case = Case(f"{seconds} s, {output}", _sliding(seconds * _S), on_close=on_close)
            measured = _measured(workers, case, sizes.length(seconds))
            lengths[output][str(seconds)] = _as_json(measured)
            print(f"{case.name:28}{_columns(measured)}{measured.state:12,}")
    print()
    return {"lengths": lengths}


_MEASURES = {
    "kinds": measure_kinds,
    "aggregates": measure_aggregates,
    "scale": measure_scale,
    "lengths": measure_lengths,
}


def _measured(workers: Workers, case: Case, load: Load, how: str = "") -> Measured:
    line = f"{case.name}{how}: {load.records:,} records of {load.keys:,} keys"
    print(f"{line}, after {load.warm_up} batches", file=sys.stderr, flush=True)
    return workers.measure(case, load)


def _columns(one: Measured) -> str:
    return (
        f"{one.records_per_second:11,.0f}{one.cpu_microseconds:11.2f}{one.windows_per_record:13.2f}"
    )


def _as_json(one: Measured) -> dict[str, float | int]:
    return {
        "records": one.records,
        "late": one.late,
        "seconds": round(one.seconds, 4),
        "records_per_second": round(one.records_per_second),
        "cpu_us_per_record": round(one.cpu_microseconds, 3),
        "rows_per_record": round(one.windows_per_record, 3),
        "state_rows": one.state,
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oriel bench windows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for part in PARTS:
        parser.add_argument(
            f"--{part}", dest="parts", action="append_const", const=part,
            help=f"measure the part '{part}' in full size",
        )  # fmt: skip
    parser.add_argument(
        "--disorder", metavar="S", type=int, default=5,
        help="maximum disorder of records in seconds. Default: 5",
    )  # fmt: skip
    parser.add_argument(
        "--grace", metavar="S", type=int, default=30,
        help="grace for disordered records in seconds. Default: 30",
    )  # fmt: skip
    parser.add_argument(
        "--hot-key", metavar="PERCENT", type=int, default=0,
        help="percentage of disordered records with one key. Default: 0",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="use tiny sizes, only to test the benchmark"
    )
    parser.add_argument(
        "--no-sync", dest="sync", action="store_false", help="do not force files to disk"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
