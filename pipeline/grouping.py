"""The engine task: one share of the key groups, one call of the window engine a batch.

Reads the state version of the previous batch, applies the stamped records, writes the
next state version and the changed windows' Parquet file. Nothing that it writes counts
until the driver has committed it, so a task may run any number of times.
"""

from collections.abc import Callable, Iterator

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.plan import BatchPlan, GroupReport, StampReport
from pipeline.state_files import next_segments, read_state
from pipeline.windows import close_time_ms
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
        stamps = [stamp_report(text) for text in reports["report"].to_pylist()]
        records = rows.filter(pc.invert(told)).select(plan.engine.record_schema.names)
        report = _advance(plan, reports["task"][0].as_py(), records, stamps)
        text = orjson.dumps(report, option=orjson.OPT_NON_STR_KEYS).decode()
        yield pa.RecordBatch.from_pydict({"report": [text]}, schema=RESULT_SCHEMA)

    return group


def _advance(
    plan: BatchPlan, task: int, records: pa.Table, stamps: list[StampReport]
) -> GroupReport:
    """Take this task's state one batch further."""
    clocks = dict(plan.stream_time_ms)
    for stamp in stamps:
        clocks.update(stamp.stream_time_ms)
    close_ms = close_time_ms(clocks, plan.grace_ms)
    old, own = plan.segments_of(task)
    state = read_state(plan.state, old, plan.engine.record_schema)
    if not own:
        state = state.filter(pa.array(np.asarray(state["key_group"]) % plan.tasks == task))
    result = plan.engine.process(state, records, plan.close_ms, close_ms)
    name = f"{plan.batch:012d}-{task:04d}"
    batch = records if own else pa.concat_tables([state, records])
    segments = next_segments(
        plan.state, old if own else [], batch, result.state, name, sync=plan.sync
    )
    return GroupReport(
        task=task,
        segments=segments,
        open_records=len(result.state),
        changed=len(result.changes),
        close_ms=close_ms,
        files=_written(plan, result.changes, name),
        stamps=stamps,
    )


def _written(plan: BatchPlan, changes: pa.Table, name: str) -> list[AddedFile]:
    if not len(changes):
        return []
    rows = table_rows(changes, plan.engine.aggregate_types, plan.batch)
    return [write_file(plan.table, rows, f"part-{name}", sync=plan.sync)]


def stamp_report(text: str) -> StampReport:
    """Read a stamp's report row."""
    fields = orjson.loads(text)
    clocks = {int(partition): time for partition, time in fields["stream_time_ms"].items()}
    files = [AddedFile(**file) for file in fields["dead_letters"]]
    return StampReport(clocks, fields["counters"], files)


def group_report(text: str) -> GroupReport:
    """Read an engine task's report row."""
    fields = orjson.loads(text)
    return GroupReport(
        task=fields["task"],
        segments=fields["segments"],
        open_records=fields["open_records"],
        changed=fields["changed"],
        close_ms=fields["close_ms"],
        files=[AddedFile(**file) for file in fields["files"]],
        stamps=[stamp_report(orjson.dumps(stamp).decode()) for stamp in fields["stamps"]],
    )
