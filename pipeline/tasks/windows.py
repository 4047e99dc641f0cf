"""The window engine's task: one share of the key groups, one call of the engine a batch.

Reads the state version of the previous batch, applies the stamped records, writes the
next state version and the changed windows' Parquet file. Nothing that it writes counts
until the driver has committed it, so a task may run any number of times.
"""

import numpy as np
import pyarrow as pa

from oriel.pipeline.hops import REPORT, REPORT_SCHEMA, TASK, PartitionNumbers
from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.tasks.counters import Counters
from oriel.pipeline.tasks.messages import (
    Batches,
    Reports,
    TaskFunction,
    WindowsReport,
    split_reports,
)
from oriel.pipeline.windows import EngineResult


def windows_task(plan: BatchPlan) -> TaskFunction:
    """Return the task from stamped records to one report."""

    def processing(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), plan.stamped_schema)
        report_table, records = split_reports(rows)
        if not len(report_table):
            # Every task gets a report of every stamp: a task without one is not of this batch.
            return
        task = report_table[TASK.name][0].as_py()
        upstream = Reports.from_texts(report_table[REPORT.name].to_pylist())
        # All tasks have the reports of all stamps, so all close the same windows.
        close_ms = plan.close_time_of(upstream.clocks_after(plan.clocks))
        read = records.select(plan.assembly.engine.record_schema.names)
        result, version = plan.files.process_records(plan, task, read, close_ms)
        letters = plan.dead_letters.of_raised(result, records, plan.topics, plan.origins)
        report = WindowsReport(
            task=task,
            segments=version.names,
            open_records=version.rows,
            changed=len(result.changes),
            close_ms=close_ms,
            counters=_counted(plan, records, result),
            files=plan.files.write_changes(plan, task, result.changes),
            dead_letters=plan.files.write_dead_letters(plan, letters),
            upstream=upstream,
        )
        yield pa.RecordBatch.from_pydict({REPORT.name: [report.to_text()]}, schema=REPORT_SCHEMA)

    return processing


def _counted(plan: BatchPlan, records: pa.Table, result: EngineResult) -> Counters:
    """What became of the records, and beside them of a join's results."""
    inputs = len(plan.topics)
    numbers = PartitionNumbers(inputs)
    arrived = numbers.count_by_input(np.asarray(records["partition"]))
    late = numbers.count_by_input(result.late_partitions)
    rejected = np.bincount(np.asarray(result.rejected["input"]), minlength=inputs)
    is_record = np.array([origin is None for origin in plan.origins])
    return Counters(
        applied=int((arrived - late - rejected)[is_record].sum()),
        late=int(late[is_record].sum()),
        dead_lettered=int(rejected[is_record].sum()),
        late_results=int(late[~is_record].sum()),
        rejected_results=int(rejected[~is_record].sum()),
    )
