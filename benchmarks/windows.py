"""What a record costs in each kind of windows: ``oriel bench windows``.

Two worker processes, each with half of the keys, run the pipeline's own engine tasks batch
after batch without Spark: read the state, call the engine, write the next state and the
Parquet file of the changed windows. The records (1,000 keys, each once a second, in order) are
prepared before a task begins. A rate is all records by the time of the slower worker, a cost
(us/record) the processor's time of both. Three parts, all in moderate sizes if none is named:

- kinds: every kind side by side, count and mean, batches of 100,000
- scale: the cost of a record in ever longer logs (flat is the aim), and with ever more keys
- lengths: the same for ever longer sliding windows

Progress goes to stderr; stdout gets tables, and JSON in the last line.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.window_tasks import TASKS, Case, Load, Measured, Workers, working
from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import NoWindows

PARTS = ("kinds", "scale", "lengths")
KEYS = 1_000
BATCH = 100_000

_S = 1_000
_TUMBLING = TimeWindows.of_size_with_no_grace(10 * _S)


def _sliding(difference_ms: int) -> SlidingWindows:
    return SlidingWindows.of_time_difference_with_no_grace(difference_ms)


def _session(gap_ms: int) -> SessionWindows:
    return SessionWindows.of_inactivity_gap_with_no_grace(gap_ms)


#: Each case with the records/s of Kafka Streams 4.3.1 (RocksDB, one thread) that
#: design.md, section 5, tells: measured there, on another day, and not by this benchmark.
KINDS: tuple[tuple[Case, str | None], ...] = (
    (Case("tumbling 10 s", _TUMBLING), "65,000"),
    (Case("hopping 10 s by 5 s", _TUMBLING.advance_by(5 * _S)), None),
    (Case("hopping 10 s by 1 s", _TUMBLING.advance_by(_S)), None),
    (Case("sliding 10 s, on update", _sliding(10 * _S)), "7,000 to 21,000"),
    (Case("sliding 10 s, on close", _sliding(10 * _S), on_close=True), None),
    (Case("session, gap 5 s", _session(5 * _S)), "16,500"),
    (Case("session, gap 0.5 s", _session(_S // 2)), None),
    (Case("no windows", NoWindows()), None),
    (Case("tumbling 10 s, functions", _TUMBLING, functions=True), None),
)
_WARM_UP, _BATCHES = 2, 5
_HEAD = f"{'records/s':>11}{'us/record':>11}{'rows/record':>13}"

_SCALED = (
    Case("tumbling 10 s", _TUMBLING),
    Case("session, gap 5 s", _session(5 * _S)),
    Case("no windows", NoWindows()),
)
#: Small, so that the shortest log is a batch, too.
_SCALE_BATCH = 10_000
_LENGTHS_S = (1, 10, 60, 600)


class Sizes:
    """How much is measured."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Moderate sizes if no part is named, else all that the part has; tiny ones if quick."""
        whole = bool(options.parts)
        self.keys, self.batch, self.scale_batch = KEYS, BATCH, _SCALE_BATCH
        self.records = [10_000, 100_000, 1_000_000, *([10_000_000] if whole else [])]
        self.all_keys = [1_000, 10_000, 100_000, 1_000_000]
        self.lengths_s: Sequence[int] = _LENGTHS_S
        self.batches = _BATCHES
        if options.quick:
            self.keys, self.batch, self.scale_batch = 10, 200, 200
            self.records, self.all_keys, self.batches = [200, 400], [10, 100], 1
            self.lengths_s = (1, 10)

    def kinds(self) -> Load:
        """Some batches of every kind."""
        return Load(self.keys, self.batch, self.batches, _WARM_UP)

    def scale(self, records: int) -> Load:
        """A log of so many records, from its first on."""
        return Load(self.keys, self.scale_batch, records // self.scale_batch)

    def distinct(self, keys: int) -> Load:
        """Batches after every key came once."""
        return Load(keys, self.batch, self.batches, warm_up=_WARM_UP + keys // self.batch)

    def length(self, seconds: int) -> Load:
        """Batches after the first windows of this length are closed."""
        filled = -(-seconds * self.keys // self.batch)
        return Load(self.keys, self.batch, self.batches, warm_up=_WARM_UP + filled)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables and one line of JSON."""
    options = _parse(arguments)
    sizes = Sizes(options)
    results: dict[str, Any] = {
        "benchmark": "windows", "cores": os.cpu_count(), "workers": TASKS,
        "keys": sizes.keys, "batch": sizes.batch, "sync": options.sync,
    }  # fmt: skip
    with working(sync=options.sync) as workers:
        for part in options.parts or PARTS:
            results.update(_MEASURES[part](workers, sizes))
    print(json.dumps(results))
    return 0


def measure_kinds(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """Every kind of windows, side by side."""
    print(f"{'windows':28}{_HEAD}  Kafka Streams *")
    found = {}
    for case, elsewhere in KINDS:
        measured = _measured(workers, case, sizes.kinds())
        found[case.name] = {**_told(measured), "kafka_streams_elsewhere": elsewhere}
        print(f"{case.name:28}{_columns(measured)}  {elsewhere or ''}")
    print("* records/s as design.md, section 5, tells them: not measured here\n")
    return {"kinds": found}


def measure_scale(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """The cost of a record in longer logs, and among more keys."""
    title = f"us/record, batches of {sizes.scale_batch:,}"
    print(f"{title:28}" + "".join(f"{n:>13,}" for n in sizes.records) + "  records")
    logs: dict[str, dict[str, Any]] = {}
    for case in _SCALED:
        # A log begins with its first batch; only what Python sets up once is left out.
        _measured(workers, case, sizes.scale(sizes.records[0]))
        found = {n: _measured(workers, case, sizes.scale(n)) for n in sizes.records}
        logs[case.name] = {str(n): _told(one) for n, one in found.items()}
        print(f"{case.name:28}" + "".join(f"{m.cpu_microseconds:13.2f}" for m in found.values()))
    case = _SCALED[-1]
    title = f"us/record, batches of {sizes.batch:,}"
    print(f"{title:28}" + "".join(f"{n:>13,}" for n in sizes.all_keys) + "  keys")
    found = {n: _measured(workers, case, sizes.distinct(n)) for n in sizes.all_keys}
    print(f"{case.name:28}" + "".join(f"{m.cpu_microseconds:13.2f}" for m in found.values()) + "\n")
    keys = {case.name: {str(n): _told(one) for n, one in found.items()}}
    return {"scale": {"records": logs, "keys": keys}}


def measure_lengths(workers: Workers, sizes: Sizes) -> dict[str, Any]:
    """The cost of a record in longer sliding windows."""
    print(
        f"{'sliding windows':28}{'records/s':>11}{'us/record':>11}{'rows/record':>13}  state rows"
    )
    lengths: dict[str, dict[str, Any]] = {}
    for on_close in (True, False):
        told = "on close" if on_close else "on update"
        lengths[told] = {}
        for seconds in sizes.lengths_s:
            case = Case(f"{seconds} s, {told}", _sliding(seconds * _S), on_close=on_close)
            measured = _measured(workers, case, sizes.length(seconds))
            lengths[told][str(seconds)] = _told(measured)
            print(f"{case.name:28}{_columns(measured)}{measured.state:12,}")
    print()
    return {"lengths": lengths}


_MEASURES = {"kinds": measure_kinds, "scale": measure_scale, "lengths": measure_lengths}


def _measured(workers: Workers, case: Case, load: Load) -> Measured:
    told = f"{case.name}: {load.records:,} records of {load.keys:,} keys"
    print(f"{told}, after {load.warm_up} batches", file=sys.stderr, flush=True)
    return workers.measure(case, load)


def _columns(one: Measured) -> str:
    return (
        f"{one.records_per_second:11,.0f}{one.cpu_microseconds:11.2f}{one.windows_per_record:13.2f}"
    )


def _told(one: Measured) -> dict[str, float | int]:
    return {
        "records": one.records,
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
            help=f"measure the part '{part}', in full size",
        )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only whether it works")
    parser.add_argument(
        "--no-sync", dest="sync", action="store_false", help="do not force files to disk"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
