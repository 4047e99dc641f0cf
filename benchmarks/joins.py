"""Measure a batch of a join by the size of its state: ``oriel bench joins``.

One process runs the join task of the pipeline without Spark. The task reads the state that the
batch needs, joins, and writes the next version. The state of table joins has a million rows, and
batches change some rows or only read them. The state of stream joins has records that wait for a
match, of many keys or of few. Records have one ms between them, and the sides alternate.

The figures are the median time of a batch, and the longest time, of a batch that merged older
files. Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel import JoinWindows, StreamsBuilder, count
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import KEY_GROUP, BatchPlan, JoinPlan, StorePlans
from oriel.pipeline.tasks import DirectoryFiles, Output, Received, Reports, StreamReport, join_task
from oriel.pipeline.testing import steps_for

_KEY_GROUPS = 64
_LOAD = 100_000


@dataclass(frozen=True)
class Case:
    """A join and its load: ``state`` rows of a table or buffered records, of ``keys`` keys.

    A versioned table has a history retention of ``state`` ms. ``tables`` is the share of a batch's
    records that change a table. The other records read the table as of ``grace_ms`` before. In a
    join of streams, a large ``grace_ms`` leaves a small time difference, so that few records match.
    """

    name: str
    kind: str
    how: str
    keys: int
    state: int
    batch: int
    tables: float = 0.5
    grace_ms: int = 0


_TABLE, _OPEN = 1_000_000, 100_000
CASES = (
    Case("stream with table, half of it changes", "lookup", "left_join", _TABLE, _TABLE, 10_000),
    Case("stream with table, no changes", "lookup", "left_join", _TABLE, _TABLE, 10_000, 0.0),
    Case("stream with versioned table", "versioned", "left_join", _TABLE, _TABLE, 10_000),
    Case("versioned table, few keys", "versioned", "left_join", 100, _OPEN, 1_000, 0.5, 2_000),
    Case("stream that waits for a table", "buffer", "left_join", _OPEN, _OPEN, 1_000),
    Case("updates of two tables", "updates", "join", _TABLE, _TABLE, 10_000),
    Case("updates of two tables, small batches", "updates", "join", _TABLE, _TABLE, 10),
    Case("inner join of streams", "streams", "join", _OPEN, _OPEN, 1_000),
    Case("left join of streams", "streams", "left_join", _OPEN, _OPEN, 1_000),
    Case("left join of streams, few keys", "streams", "left_join", 100, _OPEN, 1_000, 0.5, 99_000),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and one line of JSON."""
    options = _parse(arguments)
    found: dict[str, Any] = {}
    print(f"{'join':40}{'median ms':>11}{'longest ms':>12}{'state rows':>12}{'MB':>8}")
    for case in CASES:
        print(case.name, file=sys.stderr, flush=True)
        scale = 1000 if options.quick else 1
        tiny = replace(
            case,
            keys=max(case.keys // scale, 2),
            state=case.state // scale,
            batch=max(case.batch // scale, 2),
            grace_ms=case.grace_ms // scale,
        )
        with tempfile.TemporaryDirectory(prefix="oriel-bench-joins-") as directory:
            one = measure(tiny, Path(directory), 3 if options.quick else 30, sync=options.sync)
        found[case.name] = one
        print(
            f"{case.name:40}{one['median_ms']:11.1f}{one['longest_ms']:12.1f}"
            f"{one['state_rows']:12,}{one['bytes'] / 1e6:8.1f}"
        )
    print(json.dumps({"benchmark": "joins", "sync": options.sync, "joins": found}))
    return 0


def measure(case: Case, directory: Path, batches: int, *, sync: bool) -> dict[str, Any]:
    """Fill the state, then measure this many batches."""
    task = _Task(case, directory, sync=sync)
    random = np.random.default_rng(1)
    for low in range(0, case.state, _LOAD):
        number = min(_LOAD, case.state - low)
        if case.kind == "streams":
            task.take(random.integers(0, case.keys, number), _in_turn(number))
        else:
            keys = np.arange(low, low + number) % case.keys
            task.take(keys, np.full(number, case.kind != "buffer", dtype=np.int8))
    seconds = []
    for _ in range(batches):
        sides = _in_turn(case.batch)
        if case.kind == "buffer":
            sides = np.zeros(case.batch, dtype=np.int8)
        if case.kind in {"lookup", "versioned"}:
            sides = (np.arange(case.batch) < case.tables * case.batch).astype(np.int8)
        seconds.append(task.take(random.integers(0, case.keys, case.batch), sides))
    return {
        "median_ms": round(float(np.median(seconds)) * 1e3, 2),
        "longest_ms": round(max(seconds) * 1e3, 2),
        "state_rows": task.rows,
        "bytes": sum(path.stat().st_size for path in (directory / "state").iterdir()),
    }


def _in_turn(number: int) -> npt.NDArray[np.int8]:
    return (np.arange(number) % 2).astype(np.int8)


class _Task:
    """The only task of a join. It runs one batch after the other."""

    def __init__(self, case: Case, directory: Path, *, sync: bool) -> None:
        """Plan the store with its state in ``directory``."""
        for name in ("table", "state", "dead"):
            (directory / name).mkdir()
        builder = StreamsBuilder()
        left: Any = builder.stream("left", "l STRING")
        right: Any = builder.table("right", "r STRING")
        windows = []
        waits = {}
        self._lookup_delay_ms = case.grace_ms if case.kind == "versioned" else 0
        if case.kind in {"versioned", "buffer"}:
            right = builder.versioned_table("right", "r STRING", case.state)
        if case.kind == "buffer":
            waits = {"grace_ms": case.state}
        if case.kind == "updates":
            left = builder.table("left", "l STRING")
        if case.kind == "streams":
            apart = (case.state - case.grace_ms) // 2
            windows = [JoinWindows.of_time_difference_and_grace(apart, case.grace_ms)]
            right = builder.stream("right", "r STRING")
        joined = getattr(left, case.how)(right, *windows, **waits)
        stream = joined.to_stream() if case.kind == "updates" else joined
        stream.group_by_key().aggregate(n=count()).materialize("bench")
        (store,) = lower(builder.build()).stores
        plans = StorePlans(store, partial(steps_for, store=store.name), {})
        plans.select_columns(_KEY_GROUPS)
        files = DirectoryFiles(directory / "table", directory / "state", directory / "dead", sync)
        self._state = files.state
        ends = {topic: {"0": 0} for topic in store.topics}
        # The first plan is the buffer if the stream waits for the table, otherwise the join.
        plan, (join, *_) = plans.plan(0, files, 1, None, ends)
        self._plan: BatchPlan = plan
        self._join: JoinPlan = join
        self._taken = 0
        self.rows = 0

    def take(self, keys: npt.NDArray[np.int64], sides: npt.NDArray[np.int8]) -> float:
        """Run one batch and return its seconds."""
        batches = self._arriving(keys, sides)
        upstream = Reports(
            [StreamReport(topic, {0: self._taken - 1}) for topic in ("left", "right")]
        )
        began = time.perf_counter()
        output = Output(join_task(self._plan, self._join)(batches, Received((0,), upstream)))
        for _ in output:
            pass
        seconds = time.perf_counter() - began
        (report,) = output.reports.joins
        self._join = replace(self._join, segments={0: report.segments})
        stream_times = upstream.stream_times_after(self._plan.stream_times)
        self._plan = replace(self._plan, batch=self._plan.batch + 1, stream_times=stream_times)
        self.rows = report.open_records
        for path in self._state.iterdir():
            if path.name not in report.segments:
                path.unlink()
        return seconds

    def _arriving(
        self, keys: npt.NDArray[np.int64], sides: npt.NDArray[np.int8]
    ) -> Iterator[pa.RecordBatch]:
        """Return the records as the stream tasks send them."""
        length = len(keys)
        time_ms = np.arange(self._taken, self._taken + length)
        self._taken += length
        text = pc.utf8_lpad(pa.array(keys).cast(pa.string()), 7, "0")
        value = pc.binary_join_element_wise("value-", pa.array(time_ms).cast(pa.string()), "")
        columns = {
            "task": pa.repeat(pa.scalar(0, pa.int32()), length),
            "key": pc.binary_join_element_wise("key-", text, ""),
            "timestamp_ms": time_ms - np.where(sides == 0, self._lookup_delay_ms, 0),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), length),
            "offset": time_ms,
            "stream_time_ms": time_ms,
            "side": sides,
            "null_value": pa.repeat(pa.scalar(value=False), length),
            KEY_GROUP.name: pa.array(keys % _KEY_GROUPS, pa.int32()),
            "l": pc.if_else(pa.array(sides == 0), value, None),
            "r": pc.if_else(pa.array(sides == 1), value, None),
        }
        return iter([_rows(columns, length, self._join.input_schema)])


def _rows(columns: dict[str, Any], length: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return all columns of the schema. A column without values is null."""
    given = [pa.array(columns.get(f.name, pa.nulls(length, f.type)), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(given, schema=schema)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oriel bench joins",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="use tiny sizes, only to test the benchmark"
    )
    parser.add_argument(
        "--no-sync", dest="sync", action="store_false", help="do not force files to disk"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
