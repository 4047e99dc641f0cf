"""Measure a batch by the number of open records: ``oriel bench open_records``.

One process runs the windows task of a batch without Spark. It finds the state of the batch in the
files, calls the engine, and writes the next version of the state. The batches have records of
random keys with up to 5 s of disorder. Each batch runs once with an empty state. Then all batches
run one after the other with a full state of ten records per key, 6 s apart. No window closes.

The figures are ms of processor time, as the median and for the longest batch, which merged older
files, and the average number of bytes that a batch wrote.

Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.window_runs.tasks import Case, store_of
from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.plan import KEY_GROUP, BatchPlan, StreamTimePlan, plan_engine
from oriel.pipeline.tasks import DirectoryFiles
from oriel.pipeline.windows import NEVER_CLOSED_MS, Ints, NoWindows, Times

_S = 1_000
_DAY = 86_400 * _S
_EPOCH_MS = 1_700_000_000_000
_ROUNDS, _ROUND_MS, _DISORDER_MS = 10, 6 * _S, 5 * _S
_LOAD = 500_000
_TIMES = Times.closing(NEVER_CLOSED_MS, NEVER_CLOSED_MS)
_KEY_GROUPS = 64

_TUMBLING = TimeWindows.of_size_and_grace(10 * _S, _DAY)
_SLIDING = SlidingWindows.of_time_difference_and_grace(10 * _S, _DAY)
_SESSION = SessionWindows.of_inactivity_gap_and_grace(5 * _S, _DAY)

KINDS = (
    Case("tumbling 10 s", _TUMBLING),
    Case("hopping 10 s by 2 s", _TUMBLING.advance_by(2 * _S)),
    Case("sliding 10 s", _SLIDING),
    Case("session, gap 5 s", _SESSION),
    Case("no windows", NoWindows()),
    Case("tumbling 10 s, functions", _TUMBLING, functions=True),
    Case("sliding 10 s, functions", _SLIDING, functions=True),
    Case("session, functions", _SESSION, functions=True),
)
#: 1,440 windows of each key stay open.
LONG = Case("tumbling 1 min, 24 h grace", TimeWindows.of_size_and_grace(60 * _S, _DAY))


@dataclass(frozen=True)
class Fill:
    """The records that are open: ``rounds`` of each key, ``round_ms`` apart."""

    keys: int
    rounds: int
    round_ms: int

    @property
    def end_ms(self) -> int:
        """The approximate time of the newest record."""
        return _EPOCH_MS + self.rounds * self.round_ms


@dataclass
class Took:
    """The cost of batches: processor seconds, and bytes of the files that they wrote."""

    seconds: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def as_json(self) -> dict[str, float]:
        """Return the median and the maximum in ms, and the mean of the bytes."""
        return {
            "median_ms": round(float(np.median(self.seconds)) * 1e3, 2),
            "longest_ms": round(max(self.seconds) * 1e3, 2),
            "bytes": round(float(np.mean(self.written))),
        }


class Task:
    """The only task of a store. It runs one batch after the other."""

    def __init__(self, case: Case, directory: Path) -> None:
        for name in ("table", "state", "dead"):
            (directory / name).mkdir()
        self.files = DirectoryFiles(
            directory / "table", directory / "state", directory / "dead", sync=False
        )
        self.plan = BatchPlan(
            store="bench",
            topics=("events",),
            origins=(None,),
            batch=0,
            tasks=1,
            key_groups=64,
            assembly=plan_engine(store_of(case), [arrow_schema("v DOUBLE")]),
            stream_time_plans=(StreamTimePlan("events", "events", 0),),
            stream_times={"events": {}},
            close_ms=NEVER_CLOSED_MS,
            segments={},
            files=self.files,
        )
        self.rows = 0

    def process(self, batch: pa.Table, took: Took | None = None, *, keep: bool = True) -> None:
        """Process a batch. The next batch starts with its state if ``keep``."""
        schema = self.plan.assembly.engine.record_schema
        records = pa.table([batch[name] for name in schema.names], schema=schema)
        before = {path.name for path in self.files.state.iterdir()}
        began = time.process_time()
        _, (version,) = self.files.run_operator(self.plan, self.plan.stored, [0], records, _TIMES)
        seconds = time.process_time() - began
        written = [path for path in self.files.state.iterdir() if path.name not in before]
        if took is not None:
            took.seconds.append(seconds)
            took.written.append(sum(path.stat().st_size for path in written))
        if keep:
            self.plan = replace(self.plan, batch=self.plan.batch + 1, segments={0: version.names})
            self.rows = version.rows
        kept = set(self.plan.segments.get(0, ()))
        for path in self.files.state.iterdir():
            if path.name not in kept:
                path.unlink()


def records_of(key: Ints, time_ms: Ints, first: int) -> pa.Table:
    """Return records with all columns of an engine. ``first`` is the offset of the first record."""
    length = len(key)
    numbers = pc.utf8_lpad(pa.array(key).cast(pa.string()), 8, "0")
    value = pa.array(key % 1000 / 10)
    return pa.table({
        "key": pc.binary_join_element_wise("key-", numbers, ""),
        "timestamp_ms": pa.array(time_ms),
        "partition": pa.array(np.zeros(length, dtype=np.int32)),
        "offset": pa.array(np.arange(first, first + length)),
        "close_ms": pa.array(np.full(length, NEVER_CLOSED_MS)),
        KEY_GROUP.name: pa.array((key % _KEY_GROUPS).astype(np.int32)),
        "input": pa.array(np.zeros(length, dtype=np.int8)),
        "null_value": pa.repeat(pa.scalar(value=False), length),
        "raw": pa.repeat(b'{"v": 1.5}', length).cast(pa.binary()),
        "v": value,
    })  # fmt: skip


def filling(fill: Fill) -> Iterator[pa.Table]:
    """Yield all open records, in order of time, in large batches."""
    records = fill.keys * fill.rounds
    for low in range(0, records, _LOAD):
        place = np.arange(low, min(low + _LOAD, records))
        time_ms = _EPOCH_MS + place * fill.round_ms // fill.keys
        # The stride is not 1, so that records with adjacent times do not have adjacent keys.
        yield records_of(place % fill.keys * 7919 % fill.keys, time_ms, low)


def batches(fill: Fill, batch: int, number: int) -> Iterator[pa.Table]:
    """Yield batches of one second each, which follow the open records."""
    random = np.random.default_rng(1)
    for i in range(number):
        key = random.integers(0, fill.keys, batch)
        time_ms = fill.end_ms + i * _S + np.sort(random.integers(0, _S, batch))
        first = fill.keys * fill.rounds + i * batch
        yield records_of(key, time_ms - random.integers(0, _DISORDER_MS, batch), first)


def measure(case: Case, fill: Fill, batch: int, number: int) -> dict[str, Any]:
    """Measure the same batches with an empty state and with the open records as the state."""
    empty, full = Took(), Took()
    with tempfile.TemporaryDirectory(prefix="oriel-bench-open-") as name:
        task = Task(case, Path(name))
        for records in batches(fill, batch, number + 1):
            task.process(records, empty, keep=False)
        for records in filling(fill):
            task.process(records)
        open_rows = task.rows
        state_bytes = sum(path.stat().st_size for path in task.files.state.iterdir())
        for records in batches(fill, batch, number + 1):
            task.process(records, full)
    # The first batch includes the one-time setup of Python.
    for took in (empty, full):
        del took.seconds[0], took.written[0]
    ratio = round(float(np.median(full.seconds) / np.median(empty.seconds)), 2)
    return {
        "state_rows": open_rows,
        "bytes_a_row": round(state_bytes / open_rows, 1),
        "alone": empty.as_json(),
        "beside": full.as_json(),
        "ratio": ratio,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and one line of JSON."""
    options = _parse(arguments)
    if options.quick:
        options.records, options.batch, options.batches = 2_000, 60, 3
    usual = Fill(max(options.records // _ROUNDS, 1), _ROUNDS, _ROUND_MS)
    long = Fill(max(options.records // 1_440, 1), 1_440, 60 * _S)
    cases = [*((case, usual) for case in KINDS), (LONG, long)]
    print(
        f"{'ms of a batch':28}{'state rows':>12}{'bytes':>7}{'empty':>9}{'full':>9}"
        f"{'ratio':>7}{'longest':>9}"
    )
    found = {}
    for case, fill in cases:
        if options.kind not in case.name:
            continue
        print(f"{case.name}: {fill.keys * fill.rounds:,} records", file=sys.stderr, flush=True)
        one = found[case.name] = measure(case, fill, options.batch, options.batches)
        print(
            f"{case.name:28}{one['state_rows']:12,}{one['bytes_a_row']:7.1f}"
            f"{one['alone']['median_ms']:9.1f}{one['beside']['median_ms']:9.1f}{one['ratio']:7.2f}"
            f"{one['beside']['longest_ms']:9.1f}",
            flush=True,
        )
    results = {"benchmark": "open_records", "records": options.records, "batch": options.batch}
    print(json.dumps({**results, "batches": options.batches, "kinds": found}))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oriel bench open_records",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--records", type=int, default=1_000_000, help="open records. Default: 1,000,000"
    )
    parser.add_argument(
        "--batch", type=int, default=6_000, help="records per batch. Default: 6,000"
    )
    parser.add_argument("--batches", type=int, default=40, help="measured batches. Default: 40")
    parser.add_argument("--kind", default="", help="only kinds whose name contains this")
    parser.add_argument("--quick", action="store_true", help="only test the benchmark")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
