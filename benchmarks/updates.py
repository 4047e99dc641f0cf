"""Measure the update stream of an aggregation: ``oriel bench updates``.

One process runs the task of a batch without Spark. It finds the state of the batch in the files,
emits the rows that its records change, and writes the next version. Each kind is measured twice:
with records in order and no grace, and with 2 s of disorder, 5 s of grace and half of the records
of one key.

The figures are us of processor time per record and per emitted row. In sliding windows, a record
emits one row per window around it, about two for each record of its key in such a window.
Therefore, the sliding windows here are short.

Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel import SessionWindows, SlidingWindows, TimeWindows, avg, count
from oriel.pipeline.plan import KEY_GROUP
from oriel.pipeline.state import KeyedState, Layout
from oriel.pipeline.windows import (
    AggregateUpdatesEngine,
    NoWindows,
    Times,
    UserFunctions,
    Windows,
    updates_engine_for,
)

_S = 1_000
_EPOCH_MS = 1_700_000_000_000
_KEYS = 1_000
_VALUES = pa.schema([("v", pa.float64())])
_COLUMNS: Any = {"n": count(), "mean": avg("v")}
_FUNCTIONS = UserFunctions(
    lambda: 0.0,
    (lambda _, value, total: total + value["v"],),
    lambda _, left, right: left + right,
    {"total": pa.float64()},
    "aggregate",
)


class Case(NamedTuple):
    """Windows by their grace in ms, and their aggregates."""

    windows: Callable[[int], Windows]
    by: Any = _COLUMNS


def _tumbling(grace_ms: int) -> TimeWindows:
    return TimeWindows.of_size_and_grace(10 * _S, grace_ms)


def _session(grace_ms: int) -> SessionWindows:
    return SessionWindows.of_inactivity_gap_and_grace(3 * _S, grace_ms)


CASES = {
    "no windows": Case(lambda _: NoWindows()),
    "tumbling 10 s": Case(_tumbling),
    "hopping 10 s by 2 s": Case(lambda grace_ms: _tumbling(grace_ms).advance_by(2 * _S)),
    "sliding 40 ms": Case(lambda ms: SlidingWindows.of_time_difference_and_grace(40, ms)),
    "session, gap 3 s": Case(_session),
    "tumbling 10 s, functions": Case(_tumbling, _FUNCTIONS),
    "session, functions": Case(_session, _FUNCTIONS),
}
#: Disorder and grace in ms, and the share of the records with one key, by name.
ARRIVALS = {"in order": (0, 0, 0.0), "disordered": (2 * _S, 5 * _S, 0.5)}


def measure(case: Case, arrival: str, records: int, batch: int) -> dict[str, float]:
    """Process records in batches, and return the cost of a record and of a row in us."""
    disorder_ms, grace_ms, hot = ARRIVALS[arrival]
    engine = updates_engine_for(case.windows(grace_ms), case.by, _VALUES, pa.schema([KEY_GROUP]))
    random = np.random.default_rng(1)
    layout, names, rows, seconds = Layout.of(engine), list[str](), 0, 0.0
    stream_times = (-1, -1)
    with tempfile.TemporaryDirectory(prefix="oriel-bench-updates-") as name:
        for number, low in enumerate(range(0, records, batch)):
            arrived = _records(engine, random, low, batch, disorder_ms, hot)
            before, stream_times = (
                stream_times,
                (int(pc.max(arrived["stream_time_ms"]).as_py()), -1),
            )
            began = time.process_time()
            state = KeyedState(Path(name), names, layout)
            needed = engine.needed_state(state, arrived, Times(before, stream_times))
            result = engine.apply(needed.rows, arrived, Times.at(stream_times))
            rows += sum(map(len, result.pieces))
            version = state.replaced(
                needed, result.state, str(number), sync=False, added_rows=result.added
            )
            seconds += time.process_time() - began
            names = version.names
    return {
        "us_a_record": round(seconds / records * 1e6, 2),
        "us_a_row": round(seconds / rows * 1e6, 2),
        "rows_a_record": round(rows / records, 2),
        "open_rows": version.rows,
    }


def _records(
    engine: AggregateUpdatesEngine,
    random: np.random.Generator,
    low: int,
    number: int,
    disorder_ms: int,
    hot: float,
) -> pa.Table:
    """Return records as stream tasks send them, one per ms, starting with ``low``."""
    key = random.integers(0, _KEYS, number)
    key = np.where(random.random(number) < hot, 0, key)
    delays_ms = random.integers(0, disorder_ms + 1, number)
    place = np.arange(low, low + number)
    time_ms = _EPOCH_MS + place - delays_ms
    columns = {
        "key": pc.binary_join_element_wise("key-", pa.array(key).cast(pa.string()), ""),
        "timestamp_ms": time_ms,
        "partition": np.zeros(number, dtype=np.int32),
        "offset": place,
        "stream_time_ms": np.maximum.accumulate(time_ms),
        "side": np.zeros(number, dtype=np.int8),
        "null_value": np.zeros(number, dtype=np.bool_),
        KEY_GROUP.name: (key % 64).astype(np.int32),
        "v": random.random(number),
    }
    schema = engine.record_schema
    return pa.table([pa.array(columns[name]) for name in schema.names], schema.names).cast(schema)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(
        prog="oriel bench updates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--records", type=int, default=400_000, help="records per kind. Default: 400,000"
    )
    parser.add_argument(
        "--batch", type=int, default=50_000, help="records per batch. Default: 50,000"
    )
    parser.add_argument("--quick", action="store_true", help="only test the benchmark")
    options = parser.parse_args(arguments)
    if options.quick:
        options.records, options.batch = 2_000, 1_000
    print(f"{'':26}{'':12}{'us/record':>11}{'us/row':>9}{'rows/record':>13}{'open rows':>11}")
    found: dict[str, dict[str, Any]] = {}
    for name, case in CASES.items():
        found[name] = {}
        for arrival in ARRIVALS:
            print(f"{name}, {arrival}", file=sys.stderr, flush=True)
            one = found[name][arrival] = measure(case, arrival, options.records, options.batch)
            print(
                f"{name:26}{arrival:12}{one['us_a_record']:11.2f}{one['us_a_row']:9.2f}"
                f"{one['rows_a_record']:13.2f}{one['open_rows']:11,}",
                flush=True,
            )
    results = {"benchmark": "updates", "records": options.records, "batch": options.batch}
    print(json.dumps({**results, "kinds": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
