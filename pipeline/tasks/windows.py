"""The engine task: one share of the key groups, one call of the window engine a batch.

Reads the state version of the previous batch, applies the stamped records, writes the
next state version and the changed windows' Parquet file. Nothing that it writes counts
until the driver has committed it, so a task may run any number of times.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.plan import RAW, BatchPlan, GroupReport, Reports
from oriel.pipeline.state import KeyedState, Layout, Version, next_segments, read_share
from oriel.pipeline.tasks.messages import (
    dead_letters,
    result_letters,
    split_reports,
    write_dead_letters,
)
from oriel.pipeline.windows import REJECTED_SCHEMA, EngineResult
from oriel.storage.delta import AddedFile, table_rows, write_file

Batches = Iterator[pa.RecordBatch]

RESULT_SCHEMA = pa.schema([pa.field("report", pa.string())])


def group_with(plan: BatchPlan) -> Callable[[Batches], Batches]:
    """Return the function for Spark's ``mapInArrow``."""

    def group(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), plan.stamped_schema)
        reports, records = split_reports(rows)
        if not len(reports):
            return
        given = Reports.from_texts(reports["report"].to_pylist())
        report = _advance(plan, reports["task"][0].as_py(), records, given)
        yield pa.RecordBatch.from_pydict({"report": [report.to_text()]}, schema=RESULT_SCHEMA)

    return group


def _advance(plan: BatchPlan, task: int, records: pa.Table, told: Reports) -> GroupReport:
    """Take this task's state one batch further."""
    engine = plan.assembly.engine
    close_ms = plan.close_time_of(told.clocks_after(plan.clocks))
    batch = records.select(engine.record_schema.names)
    name = f"{plan.batch:012d}-{task:04d}"
    apply = _applied_to_records if engine.state_is_records else _applied_to_keys
    result, version = apply(plan, task, batch, close_ms, name)
    late, rejected = found_by_input(plan, result)
    return GroupReport(
        task=task,
        segments=version.names,
        open_records=version.rows,
        changed=len(result.changes),
        close_ms=close_ms,
        late=late,
        rejected=rejected,
        files=_written(plan, result.changes, name),
        dead_letters=write_dead_letters(plan, rejected_letters(plan, records, result)),
        told=told,
    )


def _applied_to_keys(
    plan: BatchPlan, task: int, batch: pa.Table, close_ms: int, name: str
) -> tuple[EngineResult, Version]:
    """Run the engine on the rows of the keys that the batch has to do with."""
    engine = plan.assembly.engine
    layout = Layout(engine.state_schema, engine.due_ms)
    state = KeyedState.of_task(plan.state, plan.segments, (task, plan.tasks), layout)
    touched = state.touched(batch["key"], (plan.close_ms, close_ms))
    result = engine.process(touched.rows, batch, plan.close_ms, close_ms)
    return result, state.replaced(touched, result.state, name, sync=plan.sync)


def _applied_to_records(
    plan: BatchPlan, task: int, batch: pa.Table, close_ms: int, name: str
) -> tuple[EngineResult, Version]:
    """Run the engine on all records that still matter."""
    engine = plan.assembly.engine
    place = (task, plan.tasks)
    old, state = read_share(plan.state, plan.segments, place, engine.state_schema)
    result = engine.process(state, batch, plan.close_ms, close_ms)
    added = None
    if not len(result.rejected):
        # Records of tasks that are no more are in no segment of this one.
        added = batch if old or not len(state) else pa.concat_tables([state, batch])
    names = next_segments(plan.state, old, added, result.state, name, sync=plan.sync)
    return result, Version(names, len(result.state))


def _written(plan: BatchPlan, changes: pa.Table, name: str) -> list[AddedFile]:
    if not len(changes):
        return []
    types = plan.assembly.engine.aggregate_types
    rows = table_rows(changes, types, plan.batch, windowed=plan.windowed)
    return [write_file(plan.table, rows, f"part-{name}", sync=plan.sync)]


def found_by_input(plan: BatchPlan, result: EngineResult) -> tuple[list[int], list[int]]:
    """How many records of each input the engine found late, and how many it rejected."""
    inputs = len(plan.topics)
    # The engine knows partitions by (partition, input), see StampPlan.
    late = np.bincount(result.late_partitions % inputs, minlength=inputs)
    rejected = np.bincount(np.asarray(result.rejected["input"]), minlength=inputs)
    return late.tolist(), rejected.tolist()


def rejected_letters(plan: BatchPlan, records: pa.Table, result: EngineResult) -> list[pa.Table]:
    """The records for which the user's function raised, altogether or in a window."""
    letters = []
    raised = _with_raw(result, records)
    for place in np.unique(np.asarray(raised["input"])).tolist():
        found = raised.filter(pc.equal(raised["input"], place))
        # The engine knows partitions by (partition, input), see StampPlan.
        numbers = np.asarray(found["partition"]) // len(plan.topics)
        column = found.column_names.index("partition")
        found = found.set_column(column, "partition", pa.array(numbers, pa.int32()))
        found = found.append_column("reason", pa.repeat("function-raised", len(found)))
        origin = plan.origins[place]
        if origin is None:
            letters.append(dead_letters(plan, plan.topics[place], found))
        else:
            letters += result_letters(plan, origin, found)
    return letters


def _with_raw(result: EngineResult, records: pa.Table) -> pa.Table:
    """What the functions raised on, with its raw bytes.

    Rejected records are of this batch, and ``records`` has their bytes. One that is left out
    of a window may be older: the state carries its bytes.
    """
    schema = pa.schema([*REJECTED_SCHEMA, RAW])
    told = [schema.empty_table()]
    if len(result.rejected):
        places = ["partition", "offset", "input"]
        raw = records.group_by(places, use_threads=False).aggregate([(RAW.name, "first")])
        raw = raw.rename_columns({f"{RAW.name}_first": RAW.name})
        told.append(result.rejected.join(raw, places).select(schema.names))
    if len(result.left_out):
        told.append(result.left_out.select(schema.names))
    return pa.concat_tables(told)
