"""A store's tasks run without Spark: plans, stamps, joins and engine tasks as plain functions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oriel import Topology
from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.hops import STEPPED_FIELDS
from oriel.pipeline.language import Store
from oriel.pipeline.plan import BatchPlan, ClockPlan, StampPlan, assemble
from oriel.pipeline.plan.engine import Assembly
from oriel.pipeline.tasks import (
    FolderFiles,
    Reports,
    StampReport,
    WindowsReport,
    stamp_records,
    windows_task,
)
from oriel.pipeline.windows import NEVER_CLOSED_MS

Row = dict[str, Any]

#: The clock of the topic ``t``.
CLOCK = ClockPlan("t", "t", 0)


def one_store(topology: Topology) -> Store:
    """The only store of a topology."""
    (store,) = topology.stores
    return store


def first_plan(folder: Path, store: Store, assembly: Assembly, tasks: int) -> BatchPlan:
    """The first batch of a store over the partitions 0 and 1 of each of its inputs' topics."""
    for name in ("table", "state", "dead"):
        (folder / name).mkdir()
    topics = tuple(one.source.topic for one in store.inputs)
    return BatchPlan(
        store=store.name,
        topics=topics,
        origins=(None,) * len(topics),
        batch=0,
        tasks=tasks,
        key_groups=64,
        assembly=assembly,
        clock_plans=tuple(ClockPlan(topic, topic, 0) for topic in topics),
        clocks={topic: {0: -1, 1: -1} for topic in topics},
        close_ms=NEVER_CLOSED_MS,
        segments={},
        files=folder_files(folder),
    )


def folder_files(folder: Path) -> FolderFiles:
    """The files of a store's tasks below ``folder``."""
    return FolderFiles(folder / "table", folder / "state", folder / "dead", sync=False)


def files_of(plan: BatchPlan) -> FolderFiles:
    """The files of a plan whose tasks write into folders."""
    assert isinstance(plan.files, FolderFiles)
    return plan.files


def plan_of(folder: Path, topology: Topology, tasks: int, *values: pa.Schema) -> BatchPlan:
    """The first batch of a topology's only store; ``values`` are its inputs' columns."""
    store = one_store(topology)
    return first_plan(folder, store, assemble(store, values), tasks)


def stamp_of(
    plan: BatchPlan, input_number: int = 0, reasons: SourceReasons = SourceReasons.FOR_ALL
) -> StampPlan:
    """The stamp of a plan's input."""
    columns = plan.assembly.columns[input_number]
    constants: dict[str, Any] = {"input": pa.scalar(input_number, pa.int8())}
    marker = plan.assembly.markers[input_number]
    if marker is not None:
        constants[marker] = pa.scalar(value=True)
    inputs = len(plan.assembly.columns)
    return StampPlan(
        plan.clock_plans[input_number], columns, constants, reasons, inputs, input_number
    )


def row(partition: int, offset: int, key: str | None, time: int | None, **other: Any) -> Row:
    """One row as the row-wise steps would hand it on; its value ``v`` is its offset."""
    given = {"partition": partition, "offset": offset, "key": key}
    usual = {"keep": True, "null_value": False, "v": float(offset)}
    return {**given, "timestamp_ms": time, **usual, **other}


def row_batches(values: pa.Schema, batches: Sequence[Sequence[Row]]) -> "list[pa.RecordBatch]":
    """Rows as Arrow batches with these value columns."""
    schema = pa.schema([*STEPPED_FIELDS, *values])
    return [pa.RecordBatch.from_pylist(list(rows), schema=schema) for rows in batches]


def stamped(
    plan: BatchPlan, values: pa.Schema, *batches: Sequence[Row], stamp: StampPlan | None = None
) -> pa.Table:
    """Run one stamp task over Arrow batches."""
    given = iter(row_batches(values, batches))
    made = stamp_records(plan, stamp or stamp_of(plan))(given)
    return pa.Table.from_batches(list(made), plan.stamped_schema)


def stamp_reports(table: pa.Table) -> list[StampReport]:
    """What stamps said, one report of each row that told it."""
    texts = table["report"].drop_null().to_pylist()
    return [one for text in texts for one in Reports.from_texts([text]).stamps]


def grouped(plan: BatchPlan, *stamps: pa.Table) -> list[WindowsReport]:
    """Run every engine task over what the stamps sent it."""
    reports = []
    for mine in shares(plan, *stamps):
        (result,) = windows_task(plan)(iter(mine.to_batches()))
        reports.append(WindowsReport.from_text(result["report"][0].as_py()))
    return reports


def counters_of(plan: BatchPlan, *stamps: pa.Table) -> dict[str, int]:
    """What became of the records of a store's first batch, from its stamps to its commit."""
    return prepared_batch(plan, [], grouped(plan, *stamps), None, {}).record.counters


def shares(plan: BatchPlan, *tables: pa.Table) -> list[pa.Table]:
    """What the shuffle gives to each task."""
    everything = pa.concat_tables(tables)
    return [
        everything.filter(pa.compute.equal(everything["task"], task)) for task in range(plan.tasks)
    ]


def next_plan(plan: BatchPlan, reports: Sequence[WindowsReport]) -> BatchPlan:
    """The plan of the batch after the one that made ``reports``."""
    return replace(
        plan,
        batch=plan.batch + 1,
        segments={report.task: report.segments for report in reports} or plan.segments,
        clocks=reports[0].upstream.clocks_after(plan.clocks) if reports else plan.clocks,
        close_ms=reports[0].close_ms if reports else plan.close_ms,
    )


def written_rows(plan: BatchPlan, reports: Sequence[WindowsReport]) -> list[Row]:
    """The table's rows that a batch wrote."""
    files = [file.path for report in reports for file in report.files]
    return [row for path in files for row in pq.read_table(files_of(plan).table / path).to_pylist()]


def written_letters(plan: BatchPlan, reports: Sequence[StampReport | WindowsReport]) -> list[Row]:
    """The dead letters that tasks wrote, in the order of files."""
    files = [file.path for report in reports for file in report.dead_letters]
    return [
        letter
        for path in files
        for letter in pq.read_table(files_of(plan).dead_letters / path).to_pylist()
    ]
