"""The join task: one share of the key groups, one call of a join's engine a batch.

Stands between the stamps and the engine's tasks: gives results as rows for row-wise
steps, and passes on what the stamps reported, so that the engine's tasks know the clocks.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.hops import REPORT, TASK
from oriel.pipeline.plan import BatchPlan, JoinedBatch, JoinPlan
from oriel.pipeline.tasks.counters import Counters
from oriel.pipeline.tasks.messages import (
    Batches,
    JoinReport,
    Reports,
    TaskFunction,
    as_batch,
    report_rows,
    split_reports,
)
from oriel.pipeline.windows import RIGHT


def join_task(plan: BatchPlan, join: JoinPlan) -> TaskFunction:
    """Return the task from stamped records of both sides to results."""

    def joining(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), join.arriving_schema)
        report_table, records = split_reports(rows)
        if not len(report_table):
            # Every task gets a report of every stamp: a task without one is not of this batch.
            return
        task = report_table[TASK.name][0].as_py()
        upstream = Reports.from_texts(report_table[REPORT.name].to_pylist())
        records = records.select(join.stage.record_schema.names)
        # The clocks of the whole batch, before and after: a record leaves the state, and comes
        # out alone, when the other side's slowest partition has passed it (decision 0012).
        clocks = plan.clocks, upstream.clocks_after(plan.clocks)
        joined, version = plan.files.join_records(plan, join, task, records, clocks)
        yield _result_rows(plan, join, joined.results)
        counters = _counted(join, records, joined)
        report = JoinReport(join.input_number, task, version.names, version.rows, counters)
        # Every join task got the reports of all stamps; that one passes them on is enough.
        onwards = Reports(upstream.stamps if task == 0 else [], [report])
        yield report_rows(onwards, join.joined_schema, plan.tasks)

    return joining


def _result_rows(plan: BatchPlan, join: JoinPlan, results: pa.Table) -> pa.RecordBatch:
    """Results as rows; those of a lookup go back to one task for each of their partitions."""
    if join.stage.is_lookup:
        # The records of a partition have to meet again, where their clock goes on.
        task = pa.array(np.asarray(results["partition"]) % plan.tasks, TASK.type)
    else:
        task = pa.nulls(len(results), TASK.type)
    columns = [task, pa.nulls(len(results), REPORT.type), *results.columns]
    return as_batch(pa.table(columns, schema=join.joined_schema))


def _counted(join: JoinPlan, records: pa.Table, joined: JoinedBatch) -> Counters:
    """What became of the records whose way ends here.

    They have become part of the join's state, or of results, which are no records. What a
    stream looked up goes on as the record that it is, and is counted where its way ends.
    """
    if join.stage.is_lookup:
        applied = pc.sum(pc.equal(records["side"], RIGHT), min_count=0).as_py()
    else:
        applied = len(records) - joined.late - joined.filtered
    return Counters(applied=applied, late=joined.late, filtered=joined.filtered)
