"""Run the engine tasks of a store in worker processes, batch after batch, without Spark.

A worker runs the code that Spark runs in its Python workers. The task reads the state of the
previous batch, calls the window engine, and writes the next state and the Parquet file of the
changed windows. Only the transfer to and from the JVM and the commit of the driver are missing. All
workers start each batch together, like the tasks of one batch.
"""

import gc
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import oriel
from oriel import EmitStrategy, StreamsBuilder
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.lowered import Store, lower
from oriel.pipeline.plan import (
    KEY_GROUP,
    BatchPlan,
    StreamTimePlan,
    plan_engine,
)
from oriel.pipeline.spark import WORKER_ENVIRONMENT
from oriel.pipeline.tasks import (
    Counters,
    DirectoryFiles,
    Output,
    Received,
    Reports,
    StoreReport,
    StreamReport,
    store_task,
)
from oriel.pipeline.windows import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    Aggregate,
    NoWindows,
    StreamTimes,
    Windows,
)

TASKS = 2

_TOPIC = "events"
_VALUE = "v DOUBLE, text STRING"
_EPOCH_MS = 1_700_000_000_000
_KEY_GROUPS = 64
_PARTITIONS = 2


#: The aggregates that can be measured alone, by name.
AGGREGATES: dict[str, Aggregate] = {
    "count": oriel.count(),
    "sum": oriel.sum("v"),
    "avg": oriel.avg("v"),
    "stddev": oriel.stddev("v"),
    "min": oriel.min("v"),
    "max of texts": oriel.max("text"),
    "first": oriel.first("v"),
    "last": oriel.last("v"),
    "collect_list": oriel.collect_list("v"),
    "approx_count_distinct": oriel.approx_count_distinct("v"),
    "approx_quantile": oriel.approx_quantile("v", 0.5),
}


@dataclass(frozen=True)
class Case:
    """A store: its windows, when it writes rows, and its aggregates.

    It has user-defined ``functions``, one ``aggregate`` of ``AGGREGATES``, or count and mean.
    """

    name: str
    windows: Windows
    on_close: bool = False
    functions: bool = False
    aggregate: str | None = None


@dataclass(frozen=True)
class Load:
    """One record per key and second, in order of time, in batches of one size.

    ``warm_up`` batches are not measured. Each record is late by a random time of at most
    ``disorder_ms``. A random share of all records, ``hot_share``, has the first key.
    """

    keys: int
    batch: int
    batches: int
    warm_up: int = 0
    disorder_ms: int = 0
    hot_share: float = 0.0

    def __post_init__(self) -> None:
        """Reject sizes that the workers cannot share evenly."""
        if self.keys % TASKS or self.batch % TASKS or not self.batches:
            message = f"keys and batch must be even, and batches must be positive: {self}"
            raise ValueError(message)

    @property
    def records(self) -> int:
        """The number of measured records."""
        return self.batch * self.batches


@dataclass
class Took:
    """The figures of one worker: seconds and written rows of its batches, rows of its state.

    ``cpu`` is processor time in seconds, which is more stable on a busy machine. Also, ``late``
    counts the records of all workers that were rejected as late before they reached a worker.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    changed: int = 0
    state: int = 0
    late: int = 0


@dataclass(frozen=True)
class Measured:
    """The figures of all workers: ``seconds`` of the slowest, ``cpu`` of all."""

    records: int
    seconds: float
    cpu: float
    windows: int
    state: int
    late: int

    @property
    def records_per_second(self) -> float:
        """The rate."""
        return self.records / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        """The processor time of a record, in us."""
        return self.cpu / self.records * 1e6

    @property
    def windows_per_record(self) -> float:
        """The rows of the table per record."""
        return self.windows / self.records


@dataclass(frozen=True)
class _Job:
    case: Case
    load: Load
    directory: Path
    sync: bool


@dataclass
class Workers:
    """Running worker processes."""

    directory: Path
    sync: bool
    pipes: list[Connection] = field(default_factory=list)

    def measure(self, case: Case, load: Load) -> Measured:
        """Run ``case`` in all workers at once.

        Raises:
            RuntimeError: A worker failed. Its own message is on stderr.
        """
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            for pipe in self.pipes:
                pipe.send(_Job(case, load, Path(directory), self.sync))
            try:
                took = [pipe.recv() for pipe in self.pipes]
            except EOFError as error:
                message = f"{case.name}: a worker failed, see above"
                raise RuntimeError(message) from error
        return Measured(
            records=load.records,
            seconds=max(one.seconds for one in took),
            cpu=sum(one.cpu for one in took),
            windows=sum(one.changed for one in took),
            state=sum(one.state for one in took),
            late=took[0].late,
        )


@contextmanager
def working(*, sync: bool) -> Iterator[Workers]:
    """Start the workers, and end them when the block ends."""
    # Each worker is a new process, with the environment of Spark's Python workers.
    context = multiprocessing.get_context("spawn")
    os.environ.update(WORKER_ENVIRONMENT)
    start = context.Barrier(TASKS)
    processes = []
    with tempfile.TemporaryDirectory(prefix="oriel-bench-windows-") as directory:
        workers = Workers(Path(directory), sync)
        for task in range(TASKS):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(task, theirs, start), daemon=True)
            process.start()
            theirs.close()
            workers.pipes.append(ours)
            processes.append(process)
        try:
            yield workers
        finally:
            for pipe in workers.pipes:
                pipe.close()
            for process in processes:
                process.join(10)
                process.terminate()


def _work(task: int, jobs: Connection, start: Any) -> None:
    """Run all jobs."""
    while True:
        try:
            job = jobs.recv()
        except EOFError:
            return
        try:
            jobs.send(run_task(job.case, job.load, task, job.directory, job.sync, start.wait))
        except BaseException:
            # The other workers must not wait for this one.
            start.abort()
            raise


def run_task(
    case: Case,
    load: Load,
    task: int,
    directory: Path,
    sync: bool,  # noqa: FBT001
    ready: Callable[[], Any],
) -> Took:
    """Run one task's share of every batch. ``ready`` waits for the other tasks before a batch."""
    plan = _first_plan(case, directory / str(task), sync=sync)
    records = _Records(load, task)
    took = Took()
    # Collect the garbage of imports now. Otherwise, a later import starts the collection in a
    # measured batch. In the first case, this was 0.1 s of 0.2 s.
    gc.collect()
    gc.freeze()
    for number in range(load.warm_up + load.batches):
        rows, upstream = records.with_stream_times(plan, number)
        ready()
        began, cpu_began = time.perf_counter(), time.process_time()
        output = Output(store_task(plan)(iter([rows]), Received((task,), upstream)))
        for _ in output:
            pass
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
        (report,) = output.reports.stores
        if number >= load.warm_up:
            took.seconds += seconds
            took.cpu += cpu
            took.changed += report.changed
            took.late += sum(stream.counters.late for stream in upstream.streams)
        took.state = report.open_records
        plan = _next_plan(plan, report, upstream)
    return took


def store_of(case: Case) -> Store:
    """Return the store as a topology defines it."""
    builder = StreamsBuilder()
    grouped = builder.stream(_TOPIC, _VALUE).group_by_key()
    windowed: Any = grouped
    if not isinstance(case.windows, NoWindows):
        strategy = EmitStrategy.on_window_close if case.on_close else EmitStrategy.on_window_update
        windowed = grouped.windowed_by(case.windows).emit(strategy())
    if case.functions:
        table = windowed.aggregate(_nothing, _with_record, _together, "n BIGINT, mean DOUBLE")
    elif case.aggregate:
        table = windowed.aggregate(result=AGGREGATES[case.aggregate])
    else:
        table = windowed.aggregate(n=oriel.count(), mean=oriel.avg("v"))
    table.materialize("bench")
    return lower(builder.build()).stores[0]


def _nothing() -> dict[str, Any]:
    return {"n": 0, "mean": 0.0}


def _with_record(_key: str, value: dict[str, Any], aggregate: dict[str, Any]) -> dict[str, Any]:
    n = aggregate["n"] + 1
    return {"n": n, "mean": aggregate["mean"] + (value["v"] - aggregate["mean"]) / n}


def _together(_key: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    n = left["n"] + right["n"]
    mean = (left["mean"] * left["n"] + right["mean"] * right["n"]) / n if n else 0.0
    return {"n": n, "mean": mean}


def _first_plan(case: Case, directory: Path, *, sync: bool) -> BatchPlan:
    """Return the plan of the first batch. The task writes its files to ``directory``."""
    for name in ("table", "state", "dead"):
        (directory / name).mkdir(parents=True)
    return BatchPlan(
        store="bench",
        topics=(_TOPIC,),
        origins=(None,),
        batch=0,
        tasks=TASKS,
        key_groups=_KEY_GROUPS,
        assembly=plan_engine(store_of(case), [arrow_schema(_VALUE)]),
        stream_time_plans=(StreamTimePlan(_TOPIC, _TOPIC, 0),),
        stream_times={_TOPIC: dict.fromkeys(range(_PARTITIONS), NO_STREAM_TIME_MS)},
        close_ms=NEVER_CLOSED_MS,
        segments={},
        files=DirectoryFiles(directory / "table", directory / "state", directory / "dead", sync),
    )


def _next_plan(plan: BatchPlan, report: StoreReport, upstream: Reports) -> BatchPlan:
    """Return the plan of the next batch. Delete the state it does not need, as the driver does."""
    assert isinstance(plan.files, DirectoryFiles)
    for path in plan.files.state.iterdir():
        if path.name not in report.segments:
            path.unlink()
    for file in report.files:
        (plan.files.table / file.path).unlink()
    others = {task: list[str]() for task in range(TASKS)}
    return replace(
        plan,
        batch=plan.batch + 1,
        stream_times=upstream.stream_times_after(plan.stream_times),
        close_ms=report.close_ms,
        segments={**others, report.task: report.segments},
    )


class _Records:
    """One task's share of the records, as the shuffle delivers them."""

    def __init__(self, load: Load, task: int) -> None:
        self._load = load
        self._task = task
        numbers = pa.array(range(task, load.keys, TASKS)).cast(pa.string())
        self._keys = pc.binary_join_element_wise("key-", pc.utf8_lpad(numbers, 7, "0"), "")

    def with_stream_times(self, plan: BatchPlan, batch: int) -> tuple[pa.RecordBatch, Reports]:
        """Return the task's accepted records of one batch, and the report of their stream."""
        load = self._load
        # Every task generates the same whole batch, because all records advance the stream times.
        random = np.random.default_rng(batch)
        place = np.arange(batch * load.batch, (batch + 1) * load.batch)
        is_hot = random.random(load.batch) < load.hot_share
        key = np.where(is_hot, 0, place % load.keys)
        disorder_ms = random.integers(load.disorder_ms, size=load.batch, endpoint=True)
        time_ms = _EPOCH_MS + place // load.keys * 1000 - disorder_ms
        partition = (key // TASKS % _PARTITIONS).astype(np.int32)
        clock = StreamTimes(plan.stream_times[_TOPIC])
        close_ms = clock.advance(partition, time_ms) - plan.windows.close_delay_ms
        is_late = plan.assembly.engine.is_late(time_ms, close_ms)
        own = np.flatnonzero((key % TASKS == self._task) & ~is_late)
        number = (key * 7 + place // load.keys * 13)[own] % 1000
        columns = {
            "task": pa.repeat(pa.scalar(self._task, pa.int32()), len(own)),
            "raw": pa.repeat(b'{"v": 1.5}', len(own)),
            "key": self._keys.take(pa.array(key[own] // TASKS)),
            "timestamp_ms": time_ms[own],
            "partition": partition[own],
            "offset": place[own],
            "close_ms": close_ms[own],
            KEY_GROUP.name: pa.array(key[own] % _KEY_GROUPS, pa.int32()),
            "input": pa.repeat(pa.scalar(0, pa.int8()), len(own)),
            "null_value": pa.repeat(pa.scalar(value=False), len(own)),
            "v": number / 10,
            "text": pa.array(number).cast(pa.string()),
        }
        counted = Counters(input=load.batch, late=int(is_late.sum()))
        report = StreamReport(_TOPIC, clock.stream_time_ms, counted)
        return _rows(columns, len(own), plan.input_schema), Reports([report])


def _rows(columns: dict[str, Any], length: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return all columns of the schema. A column without values is null."""
    given = [
        pa.array(columns[name], found)
        if name in columns and not isinstance(columns[name], pa.Array)
        else columns.get(name, pa.nulls(length, found))
        for name, found in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(given, schema=schema)
