"""A store's tasks run without Spark: plans, stamps, joins and engine tasks as plain functions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oriel import Topology
from oriel.pipeline.language import Store
from oriel.pipeline.plan import (
    KEY_GROUP,
    BatchPlan,
    ClockPlan,
    GroupReport,
    Reports,
    SourceReasons,
    StampPlan,
    StampReport,
    assemble,
)
from oriel.pipeline.plan.engine import Assembly
from oriel.pipeline.tasks import group_with, stamp_with
from oriel.pipeline.windows import NEVER_CLOSED_MS

#: The columns that row-wise steps hand to the stamp, before the value's.
ROW_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("reason", pa.string()),
    pa.field("keep", pa.bool_()),
    pa.field("null_value", pa.bool_()),
    pa.field("raw", pa.binary()),
    pa.field("key", pa.string()),
    KEY_GROUP,
    pa.field("timestamp_ms", pa.int64()),
)

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
    delays = tuple(ClockPlan(topic, topic, 0) for topic in topics)
    return BatchPlan(
        store=store.name,
        topics=topics,
        origins=(None,) * len(topics),
        batch=0,
        tasks=tasks,
        assembly=assembly,
        close_delay_ms=store.windows.close_delay_ms,
        delays=delays,
        clocks={topic: {0: -1, 1: -1} for topic in topics},
        close_ms=NEVER_CLOSED_MS,
        segments={},
        table=folder / "table",
        state=folder / "state",
        dead_letters=folder / "dead",
        windowed=store.windows.kind != "none",
        sync=False,
    )


def plan_of(folder: Path, topology: Topology, tasks: int, *values: pa.Schema) -> BatchPlan:
    """The first batch of a topology's only store; ``values`` are its inputs' columns."""
    store = one_store(topology)
    return first_plan(folder, store, assemble(store, values), tasks)


def stamp_of(
    plan: BatchPlan, place: int = 0, reasons: SourceReasons = SourceReasons.FOR_ALL
) -> StampPlan:
    """The stamp of a plan's input."""
    columns = plan.assembly.columns[place]
    constants: dict[str, Any] = {"input": pa.scalar(place, pa.int8())}
    marker = plan.assembly.markers[place]
    if marker is not None:
        constants[marker] = pa.scalar(value=True)
    inputs = len(plan.assembly.columns)
    return StampPlan(plan.delays[place], columns, constants, reasons, inputs, place)


def row(partition: int, offset: int, key: str | None, time: int | None, **other: Any) -> Row:
    """One row as the row-wise steps would hand it on; its value ``v`` is its offset."""
    group = sum(map(ord, key or "")) % 64
    given = {"partition": partition, "offset": offset, "key": key, "key_group": group}
    usual = {"keep": True, "null_value": False, "v": float(offset)}
    return {**given, "timestamp_ms": time, **usual, **other}


def row_batches(values: pa.Schema, batches: Sequence[Sequence[Row]]) -> "list[pa.RecordBatch]":
    """Rows as Arrow batches with these value columns."""
    schema = pa.schema([*ROW_FIELDS, *values])
    return [pa.RecordBatch.from_pylist(list(rows), schema=schema) for rows in batches]


def stamped(
    plan: BatchPlan, values: pa.Schema, *batches: Sequence[Row], stamp: StampPlan | None = None
) -> pa.Table:
    """Run one stamp task over Arrow batches."""
    given = iter(row_batches(values, batches))
    made = stamp_with(plan, stamp or stamp_of(plan))(given)
    return pa.Table.from_batches(list(made), plan.stamped_schema)


def stamp_reports(table: pa.Table) -> list[StampReport]:
    """What stamps said, one report of each row that told it."""
    texts = table["report"].drop_null().to_pylist()
    return [one for text in texts for one in Reports.from_texts([text]).stamps]


def grouped(plan: BatchPlan, *stamps: pa.Table) -> list[GroupReport]:
    """Run every engine task over what the stamps sent it."""
    reports = []
    for mine in shares(plan, *stamps):
        (result,) = group_with(plan)(iter(mine.to_batches()))
        reports.append(GroupReport.from_text(result["report"][0].as_py()))
    return reports


def shares(plan: BatchPlan, *tables: pa.Table) -> list[pa.Table]:
    """What the shuffle gives to each task."""
    everything = pa.concat_tables(tables)
    return [
        everything.filter(pa.compute.equal(everything["task"], task)) for task in range(plan.tasks)
    ]


def next_plan(plan: BatchPlan, reports: Sequence[GroupReport]) -> BatchPlan:
    """The plan of the batch after the one that made ``reports``."""
    return replace(
        plan,
        batch=plan.batch + 1,
        segments={report.task: report.segments for report in reports} or plan.segments,
        clocks=reports[0].told.clocks_after(plan.clocks) if reports else plan.clocks,
        close_ms=reports[0].close_ms if reports else plan.close_ms,
    )


def written_rows(plan: BatchPlan, reports: Sequence[GroupReport]) -> list[Row]:
    """The table's rows that a batch wrote."""
    files = [file.path for report in reports for file in report.files]
    return [found for path in files for found in pq.read_table(plan.table / path).to_pylist()]


def written_letters(plan: BatchPlan, reports: Sequence[StampReport | GroupReport]) -> list[Row]:
    """The dead letters that tasks wrote, in the order of files."""
    files = [file.path for report in reports for file in report.dead_letters]
    return [
        found for path in files for found in pq.read_table(plan.dead_letters / path).to_pylist()
    ]
