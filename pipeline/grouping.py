"""The engine task: one share of the key groups, one call of the window engine a batch.

Reads the state version of the previous batch, applies the stamped records, writes the
next state version and the changed windows' Parquet file. Nothing that it writes counts
until the driver has committed it, so a task may run any number of times.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.plan import BatchPlan, GroupReport, Reports
from pipeline.state_files import next_segments, read_state
from pipeline.task_rows import dead_letters, write_dead_letters
from pipeline.windows import EngineResult
from storage.columns import table_rows
from storage.table import AddedFile, write_file

Batches = Iterator[pa.RecordBatch]

RESULT_SCHEMA = pa.schema([pa.field("report", pa.string())])


def group_with(plan: BatchPlan) -> Callable[[Batches], Batches]:
    """Return the function for Spark's ``mapInArrow``."""

    def group(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), plan.stamped_schema)
        told = pc.is_valid(rows["report"])
        reports = rows.filter(told)
        if not len(reports):
            return
        records = rows.filter(pc.invert(told))
        given = Reports.from_texts(reports["report"].to_pylist())
        report = _advance(plan, reports["task"][0].as_py(), records, given)
        yield pa.RecordBatch.from_pydict({"report": [report.to_text()]}, schema=RESULT_SCHEMA)

    return group


def _advance(plan: BatchPlan, task: int, records: pa.Table, told: Reports) -> GroupReport:
    """Take this task's state one batch further."""
    engine = plan.assembly.engine
    close_ms = plan.close_time_of(told.clocks_after(plan.clocks))
    old, own = plan.segments_of(task, plan.segments)
    state = read_state(plan.state, old, engine.state_schema)
    if not own:
        state = state.filter(pa.array(np.asarray(state["key_group"]) % plan.tasks == task))
    batch = records.select(engine.record_schema.names)
    result = engine.process(state, batch, plan.close_ms, close_ms)
    name = f"{plan.batch:012d}-{task:04d}"
    added = None
    if engine.state_is_records and not len(result.rejected):
        added = batch if own else pa.concat_tables([state, batch])
    segments = next_segments(
        plan.state, old if own else [], added, result.state, name, sync=plan.sync
    )
    return GroupReport(
        task=task,
        segments=segments,
        open_records=len(result.state),
        changed=len(result.changes),
        close_ms=close_ms,
        late=result.late,
        rejected=len(result.rejected),
        files=_written(plan, result.changes, name),
        dead_letters=write_dead_letters(plan, rejected_letters(plan, records, result)),
        told=told,
    )


def _written(plan: BatchPlan, changes: pa.Table, name: str) -> list[AddedFile]:
    if not len(changes):
        return []
    types = plan.assembly.engine.aggregate_types
    rows = table_rows(changes, types, plan.batch, windowed=plan.windowed)
    return [write_file(plan.table, rows, f"part-{name}", sync=plan.sync)]


def rejected_letters(plan: BatchPlan, records: pa.Table, result: EngineResult) -> list[pa.Table]:
    """The records for which the user's function raised, as dead letters."""
    letters = []
    for place in np.unique(np.asarray(result.rejected["input"])).tolist():
        rows = result.rejected.filter(pc.equal(result.rejected["input"], place))
        raw = records.filter(pc.equal(records["input"], place))
        raw = raw.group_by(["partition", "offset"], use_threads=False).aggregate([("raw", "first")])
        found = rows.join(raw.rename_columns({"raw_first": "raw"}), ["partition", "offset"])
        found = found.append_column("reason", pa.repeat("function-raised", len(found)))
        letters.append(dead_letters(plan, plan.topics[place], found, tells_source_reasons=False))
    return letters
