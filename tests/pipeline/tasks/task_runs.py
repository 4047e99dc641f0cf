"""A store's tasks run without Spark: plans, stream tasks, joins and store tasks as functions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from oriel import Topology
from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.lowered import Store, lower
from oriel.pipeline.plan import BatchPlan, StreamPlan, StreamTimePlan, plan_engine
from oriel.pipeline.plan.engine import PlannedEngine
from oriel.pipeline.stage_columns import STEPPED_FIELDS
from oriel.pipeline.tasks import (
    DirectoryFiles,
    Output,
    Received,
    Reports,
    StoreReport,
    StreamReport,
    store_task,
    stream_task,
)
from oriel.pipeline.windows import NEVER_CLOSED_MS

Row = dict[str, Any]

#: The stream time of the topic `t`.
CLOCK = StreamTimePlan("t", "t", 0)


def one_store(topology: Topology) -> Store:
    """Return the only store of a topology."""
    (store,) = lower(topology).stores
    return store


def first_plan(directory: Path, store: Store, assembly: PlannedEngine, tasks: int) -> BatchPlan:
    """Return the first batch of a store over the partitions 0 and 1 of each input's topic."""
    for name in ("table", "state", "dead"):
        (directory / name).mkdir()
    topics = tuple(one.source.topic for one in store.inputs)
    return BatchPlan(
        store=store.name,
        topics=topics,
        origins=(None,) * len(topics),
        batch=0,
        tasks=tasks,
        key_groups=64,
        assembly=assembly,
        stream_time_plans=tuple(StreamTimePlan(topic, topic, 0) for topic in topics),
        stream_times={topic: {0: -1, 1: -1} for topic in topics},
        close_ms=NEVER_CLOSED_MS,
        segments={},
        files=directory_files(directory),
    )


def directory_files(directory: Path) -> DirectoryFiles:
    """Return the files of a store's tasks below `folder`."""
    return DirectoryFiles(directory / "table", directory / "state", directory / "dead", sync=False)


def files_of(plan: BatchPlan) -> DirectoryFiles:
    """Return the files of a plan whose tasks write into directories."""
    assert isinstance(plan.files, DirectoryFiles)
    return plan.files


def plan_of(directory: Path, topology: Topology, tasks: int, *values: pa.Schema) -> BatchPlan:
    """Return the first batch of a topology's only store. `values` are its inputs' columns."""
    store = one_store(topology)
    return first_plan(directory, store, plan_engine(store, values), tasks)


def stream_of(
    plan: BatchPlan, input_number: int = 0, reasons: SourceReasons = SourceReasons.FOR_ALL
) -> StreamPlan:
    """Return the stream of an input of a plan."""
    columns = plan.assembly.columns[input_number]
    constants: dict[str, Any] = {"input": pa.scalar(input_number, pa.int8())}
    marker = plan.assembly.markers[input_number]
    if marker is not None:
        constants[marker] = pa.scalar(value=True)
    inputs = len(plan.assembly.columns)
    return StreamPlan(
        plan.stream_time_plans[input_number], columns, constants, reasons, inputs, input_number
    )


def row(partition: int, offset: int, key: str | None, time: int | None, **other: Any) -> Row:
    """Return one row as row-wise steps return it. Its value `v` is its offset."""
    given = {"partition": partition, "offset": offset, "key": key}
    usual = {"keep": True, "null_value": False, "v": float(offset)}
    return {**given, "timestamp_ms": time, **usual, **other}


def row_batches(values: pa.Schema, batches: Sequence[Sequence[Row]]) -> "list[pa.RecordBatch]":
    """Return rows as Arrow batches with these value columns."""
    schema = pa.schema([*STEPPED_FIELDS, *values])
    return [pa.RecordBatch.from_pylist(list(rows), schema=schema) for rows in batches]


class Sent(NamedTuple):
    """What a task sends to the next stage: rows for one task each, and reports for all tasks."""

    rows: pa.Table
    reports: Reports


def run_task(function: Any, rows: Any, received: Received, schema: pa.Schema) -> Sent:
    """Run a task function over Arrow batches."""
    output = Output(function(iter(rows), received))
    return Sent(pa.Table.from_batches(output, schema), output.reports)


def with_stream_times(
    plan: BatchPlan, values: pa.Schema, *batches: Sequence[Row], stream: StreamPlan | None = None
) -> Sent:
    """Run one stream task over Arrow batches of a source."""
    task = stream_task(plan, stream or stream_of(plan), is_source=True)
    return run_task(task, row_batches(values, batches), Received(), plan.input_schema)


def grouped(plan: BatchPlan, *sent: Sent) -> Reports:
    """Run each store task on what the stream tasks sent to it, and return all reports."""
    stores = [
        run_task(store_task(plan), share.to_batches(), received, pa.schema([])).reports
        for share, received in shares(plan, *sent)
    ]
    return Reports.of([*(one.reports for one in sent), *stores])


def counters_of(plan: BatchPlan, *sent: Sent) -> dict[str, int]:
    """Return the counters of a store's first batch, from its streams to its commit."""
    return prepared_batch(plan, [], grouped(plan, *sent), None, {}).record.counters


def shares(plan: BatchPlan, *sent: Sent) -> list[tuple[pa.Table, Received]]:
    """Return what the exchange delivers to each task."""
    rows = pa.concat_tables([one.rows for one in sent])
    reports = Reports.of(one.reports for one in sent)
    return [
        (rows.filter(pa.compute.equal(rows["task"], task)), Received((task,), reports))
        for task in range(plan.tasks)
    ]


def next_plan(plan: BatchPlan, reports: Reports) -> BatchPlan:
    """Return the plan of the batch that follows the batch of `reports`."""
    stores = reports.stores
    return replace(
        plan,
        batch=plan.batch + 1,
        segments={report.task: report.segments for report in stores} or plan.segments,
        stream_times=reports.stream_times_after(plan.stream_times),
        close_ms=stores[0].close_ms if stores else plan.close_ms,
    )


def written_rows(plan: BatchPlan, reports: Reports) -> list[Row]:
    """Return the rows that a batch wrote to the table."""
    files = [file.path for report in reports.stores for file in report.files]
    return [row for path in files for row in pq.read_table(files_of(plan).table / path).to_pylist()]


def written_dead_letters(
    plan: BatchPlan, reports: Sequence[StreamReport | StoreReport]
) -> list[Row]:
    """Return the dead letters that tasks wrote, in the order of files."""
    files = [file.path for report in reports for file in report.dead_letters]
    return [
        letter
        for path in files
        for letter in pq.read_table(files_of(plan).dead_letters / path).to_pylist()
    ]
