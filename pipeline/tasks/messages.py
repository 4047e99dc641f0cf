"""Rows between the tasks of a batch: their addressees, reports, dead letters."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.plan import DEAD_LETTER_SCHEMA, BatchPlan, Origin, Reports, SourceReasons
from oriel.pipeline.tasks.reasons import REASONS
from oriel.storage.delta import AddedFile, write_file

#: Reasons that hold for one store only: it alone tells of them.
STORE_REASONS = ("null-key", "null-value", "function-raised")


def addressed(rows: pa.Table, schema: pa.Schema, tasks: int) -> pa.RecordBatch:
    """Rows for the tasks of their key groups, with null for the columns that they lack."""
    length = len(rows)
    task = np.asarray(rows["key_group"]) % tasks
    given = {"task": pa.array(task, pa.int32()), "report": pa.nulls(length, pa.string())}
    columns = [
        given[field.name] if field.name in given
        else rows[field.name] if field.name in rows.column_names
        else pa.nulls(length, field.type)
        for field in schema
    ]  # fmt: skip
    return as_batch(pa.table(columns, names=schema.names).cast(schema))


def report_rows(reports: Reports, schema: pa.Schema, tasks: int) -> pa.RecordBatch:
    """One report row for every task."""
    given = {
        "task": pa.array(range(tasks), pa.int32()),
        "report": pa.array([reports.to_text()] * tasks),
    }
    columns = [given.get(field.name, pa.nulls(tasks, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def split_reports(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What a task is sent: report rows, and records."""
    told = pc.is_valid(rows["report"])
    return rows.filter(told), rows.filter(pc.invert(told))


def as_batch(rows: pa.Table) -> pa.RecordBatch:
    """One record batch of a table's rows."""
    columns = [column.combine_chunks() for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def result_letters(plan: BatchPlan, origin: Origin, rows: pa.Table) -> list[pa.Table]:
    """Results of a join as dead letters of the topics whose records' places they have."""
    is_right = pc.fill_null(pc.equal(rows["suborder"], origin.right_suborder), False)  # noqa: FBT003
    left, right = rows.filter(pc.invert(is_right)), rows.filter(is_right)
    return [
        dead_letters(plan, topic, found)
        for topic, found in ((origin.left_topic, left), (origin.right_topic, right))
    ]


def dead_letters(
    plan: BatchPlan,
    topic: str,
    rows: pa.Table,
    source_reasons: SourceReasons = SourceReasons.NOT_TOLD,
) -> pa.Table:
    """Bad rows (partition, offset, reason, raw and perhaps detail) as dead letters.

    What is bad for this store alone names it; of the rest, ``source_reasons`` tells.
    """
    for_this_store = pc.is_in(rows["reason"], pa.array(STORE_REASONS))
    if source_reasons is SourceReasons.NOT_TOLD:
        rows, for_this_store = rows.filter(for_this_store), for_this_store.filter(for_this_store)
    if source_reasons is SourceReasons.FOR_ITSELF:
        for_this_store = pa.repeat(pa.scalar(value=True), len(rows))
    details = (
        rows["detail"]
        if "detail" in rows.column_names
        else pa.array([REASONS[reason] for reason in rows["reason"].to_pylist()], pa.string())
    )
    store = pc.if_else(for_this_store, pa.scalar(plan.store), pa.scalar(None, pa.string()))
    columns = {
        "topic": pa.repeat(topic, len(rows)),
        "partition": rows["partition"],
        "offset": rows["offset"],
        "store": store,
        "reason": rows["reason"],
        "detail": details,
        "raw": rows["raw"],
        "revision": pa.repeat(pa.scalar(plan.batch, pa.int64()), len(rows)),
    }
    return pa.table(columns, schema=DEAD_LETTER_SCHEMA)


def write_dead_letters(plan: BatchPlan, letters: Sequence[pa.Table]) -> list[AddedFile]:
    """Write dead letters as a file of their table, if there are any."""
    found = [table for table in letters if len(table)]
    if not found:
        return []
    name = f"dead-{plan.store}-{plan.batch:012d}"
    return [write_file(plan.dead_letters, pa.concat_tables(found), name, sync=plan.sync)]
