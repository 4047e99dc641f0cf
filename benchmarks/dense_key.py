"""Measure the cost of a record by the open records of its key: ``oriel bench dense_key``.

One process calls the window engines without Spark and files. One key receives a number of records
in one batch, and 1,000 more in a second batch. All stay open. Records are up to 5 s older than the
newest record of their partition, for long windows a quarter of the window. A second partition is
idle, so no window becomes final.

The cost in us of processor time per record should not grow faster than the logarithm of the open
records. The second batch changes nearly all open windows around its records, so its cost is the
cost of the batch.

Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oriel import SessionWindows, SlidingWindows, avg, count
from oriel.pipeline.windows import NEVER_CLOSED_MS, Ints, Times, Windows, engine_for

SIZES = (10_000, 100_000, 1_000_000)
_MORE = 1_000
_EPOCH_MS = 1_700_000_000_000
_DISORDER_MS = 5_000
_S = 1_000
_VALUES = pa.schema([("v", pa.float64())])


@dataclass(frozen=True)
class Case:
    """Windows, ms between two records, and maximum disorder, by the number of open records."""

    name: str
    windows: Callable[[int], Windows]
    step_ms: Callable[[int], float]
    disorder_ms: Callable[[int], int] = lambda _open: _DISORDER_MS


def _sliding(difference_ms: int, grace_ms: int) -> SlidingWindows:
    return SlidingWindows.of_time_difference_and_grace(difference_ms, grace_ms)


def _session(grace_ms: int) -> SessionWindows:
    return SessionWindows.of_inactivity_gap_and_grace(5, grace_ms)


#: With more open records, windows of 10 s contain more records. The long windows contain one record
#: per ms and half of all records. A session has one or two records.
CASES = (
    Case("sliding 10 s, no grace", lambda _: _sliding(10 * _S, 0), lambda n: 10 * _S / n),
    Case("sliding 10 s, grace 60 s", lambda _: _sliding(10 * _S, 60 * _S), lambda n: 10 * _S / n),
    Case("long sliding, no grace", lambda n: _sliding(n // 2, 0), lambda _: 1, lambda n: n // 4),
    Case("sessions, no grace", lambda _: _session(0), lambda _: 20),
    Case("sessions, grace 60 s", lambda _: _session(60 * _S), lambda _: 20),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(
        prog="oriel bench dense_key",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="use tiny sizes, only to test the benchmark"
    )
    sizes = [100, 1_000] if parser.parse_args(arguments).quick else SIZES
    print(f"{'open records':28}" + "".join(f"{size:>22,}" for size in sizes))
    found: dict[str, dict[str, Any]] = {}
    for case in CASES:
        measured = {size: _measured(case, size) for size in sizes}
        cells = (f"{m['us_a_record']:10.2f} us{m['more_ms']:6.0f} ms" for m in measured.values())
        print(f"{case.name:28}" + "".join(f"{cell:>22}" for cell in cells))
        found[case.name] = {str(size): one for size, one in measured.items()}
    print(f"\nus of the processor for each record, ms for a batch of {_MORE:,} beside them")
    print(json.dumps({"benchmark": "dense_key", "more": _MORE, "cases": found}))
    return 0


def _measured(case: Case, size: int) -> dict[str, float | int]:
    """Process ``size`` records in one batch, then a batch of ``_MORE`` records."""
    print(f"{case.name}: {size:,} open records of one key", file=sys.stderr, flush=True)
    windows = case.windows(size)
    engine = engine_for(windows, {"n": count(), "mean": avg("v")}, _VALUES)
    first, more = _batches(case, size, windows)
    state, costs, rows = engine.empty_state(), [], 0
    for batch in (first, more):
        late = engine.is_late(*(np.asarray(batch[name]) for name in ("timestamp_ms", "close_ms")))
        accepted = batch.filter(pa.array(~late))
        began = time.process_time()
        result = engine.apply(state, accepted, Times.closing(NEVER_CLOSED_MS, NEVER_CLOSED_MS))
        costs.append(time.process_time() - began)
        state = result.state
        rows += len(result.changes)
    return {
        "us_a_record": round(costs[0] / size * 1e6, 3),
        "more_ms": round(costs[1] * 1e3, 3),
        "rows": rows,
        "state_rows": len(state),
    }


def _batches(case: Case, size: int, windows: Windows) -> tuple[pa.Table, pa.Table]:
    """Return the records of the two batches, in order of arrival."""
    random = np.random.default_rng(size)
    length = size + _MORE
    delays_ms = random.integers(0, case.disorder_ms(size) + 1, length)
    time_ms: Ints = (
        _EPOCH_MS + (np.arange(length) * case.step_ms(size)).astype(np.int64) - delays_ms
    )
    table = pa.table({
        "key": pa.repeat("dense", length),
        "timestamp_ms": time_ms,
        "partition": pa.array(np.zeros(length, dtype=np.int32)),
        "offset": np.arange(length),
        "close_ms": np.maximum.accumulate(time_ms) - windows.close_delay_ms,
        "v": random.integers(0, 1_000, length) / 4,
    })  # fmt: skip
    return table.slice(0, size), table.slice(size)


if __name__ == "__main__":
    sys.exit(main())
