"""The tasks behind the shuffle: one share of the key groups, one call of an engine a batch.

The join task stands between the stamps and the windows task: it gives results as rows for
row-wise steps, and passes on what the stamps reported, so that the windows tasks know the clocks.
The windows task reads the state version of the previous batch, applies the stamped records, writes
the next version and the changed windows' Parquet file. Nothing that they write counts until the
driver has committed it, so a task may run any number of times.
"""

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.hops import REPORT, REPORT_SCHEMA, TASK, PartitionNumbers
from oriel.pipeline.plan import BatchPlan, JoinPlan
from oriel.pipeline.tasks.reports import (
    Batches,
    Counters,
    JoinReport,
    Reports,
    TaskFunction,
    WindowsReport,
    as_batch,
    report_rows,
    split_reports,
)
from oriel.pipeline.windows import LEFT, RIGHT, EngineResult, JoinResult


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
        for piece in joined.pieces:
            if len(piece):
                yield _result_rows(plan, join, piece)
        counters = _joined_counters(join, records, joined) if join.counts else Counters()
        report = JoinReport(join.number, task, version.names, version.rows, counters)
        # Every join task got the same reports; that one passes them on is enough.
        upstream = upstream if task == 0 else Reports()
        onwards = Reports(upstream.stamps, [*upstream.joins, report])
        yield report_rows(onwards, join.joined_schema, plan.tasks)

    return joining


def _result_rows(plan: BatchPlan, join: JoinPlan, results: pa.Table) -> pa.RecordBatch:
    """Results as rows; those of a stream go back to one task for each of their partitions."""
    if join.stage.keeps_order:
        # The records of a partition have to meet again, where their clock goes on.
        task = pa.array(np.asarray(results["partition"]) % plan.tasks, TASK.type)
    else:
        task = pa.nulls(len(results), TASK.type)
    columns = [task, pa.nulls(len(results), REPORT.type), *results.columns]
    return as_batch(pa.table(columns, schema=join.joined_schema))


def _joined_counters(join: JoinPlan, records: pa.Table, joined: JoinResult) -> Counters:
    """What became of the records whose way ends here.

    They have become part of the join's state, or of results, which are no records. What a
    stream looked up, or an aggregation made of it, goes on as the record that it is, and is
    counted where its way ends; so goes a result of a join in front, which is counted nowhere.
    """
    if join.stage.keeps_records:
        elements = Counters(applied=joined.flattened, elements=joined.elements)
        counters = elements if join.gives_records else Counters()
        late, *late_of_table = joined.late
        # An aggregation that is looked up may be of elements, or of what are no records.
        if join.of_records[RIGHT:] == (True,):
            of_table = pc.sum(pc.equal(records["side"], RIGHT), min_count=0).as_py()
            of_table -= sum(late_of_table)
            of_elements = of_table if join.of_elements[RIGHT] else 0
            counters += Counters.of("applied", of_table, of_elements)
            counters += Counters(table_records=of_table - of_elements, late=sum(late_of_table))
        if not join.gives_records:
            return counters + Counters(late_results=late)
        for end, rows in (("filtered", sum(joined.filtered)), ("late", late)):
            counters += Counters.of(end, rows, rows if join.of_elements[LEFT] else 0)
        return counters
    if join.stage.is_between_tables:
        # Of the left table another input tells; what it says to the right one are no records.
        if join.of_records[RIGHT:] != (True,):
            return Counters()
        of_right = pc.sum(pc.equal(records["side"], RIGHT), min_count=0).as_py()
        return Counters.of("applied", of_right, of_right if join.of_elements[RIGHT] else 0)
    counters = Counters()
    came = np.bincount(np.asarray(records["side"]), minlength=len(join.of_records)).tolist()
    # Of tables no record is late, of joins of streams none filtered.
    sides = zip_longest(
        came, joined.late, joined.filtered, join.of_records, join.of_elements, fillvalue=0
    )
    for arrived, late, filtered, of_records, of_elements in sides:
        if of_records:
            ends = {"late": late, "filtered": filtered, "applied": arrived - late - filtered}
            for end, rows in ends.items():
                counters += Counters.of(end, rows, rows if of_elements else 0)
        else:
            counters += Counters(late_results=late)
    return counters


def windows_task(plan: BatchPlan) -> TaskFunction:
    """Return the function that computes the records of one or more tasks.

    It returns one report per task. For a small batch, the driver computes all tasks in one call: an
    engine call and a table file cost the same for ten records as for a thousand (decision 0095).
    Each task has its own version of the state.
    """

    def processing(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), plan.stamped_schema)
        report_table, records = split_reports(rows)
        if not len(report_table):
            # Every task gets a report of every stamp: a task without one is not of this batch.
            return
        tasks = sorted(set(report_table[TASK.name].to_pylist()))
        # All tasks have the reports of all stamps, so all close the same windows.
        of_first = report_table.filter(pc.equal(report_table[TASK.name], tasks[0]))
        upstream = Reports.from_texts(of_first[REPORT.name].to_pylist())
        close_ms = plan.close_time_of(upstream.clocks_after(plan.clocks), upstream.spoke())
        read = records.select(plan.assembly.engine.record_schema.names)
        result, versions = plan.files.process_records(plan, tasks, read, close_ms)
        written = plan.assembly.written(result.changes)
        letters = plan.dead_letters.of_raised(result, records, plan.topics, plan.origins)
        first, *others = (
            WindowsReport(task, version.names, version.rows, close_ms)
            for task, version in zip(tasks, versions, strict=True)
        )
        first = replace(
            first,
            changed=len(written),
            counters=_applied_counters(plan, records, result),
            files=plan.files.write_changes(plan, tasks[0], written),
            dead_letters=plan.files.write_dead_letters(plan, letters),
            upstream=upstream,
            observed_ms=result.observed_ms(plan.windows),
        )
        texts = [report.to_text() for report in (first, *others)]
        yield pa.RecordBatch.from_pydict({REPORT.name: texts}, schema=REPORT_SCHEMA)

    return processing


def _applied_counters(plan: BatchPlan, records: pa.Table, result: EngineResult) -> Counters:
    """What became of the records, and beside them of elements and of a join's results."""
    inputs = len(plan.topics)
    numbers = PartitionNumbers(inputs)
    arrived = numbers.count_by_input(np.asarray(records["partition"]))
    late = numbers.count_by_input(result.late_partitions)
    rejected = np.bincount(np.asarray(result.rejected["input"]), minlength=inputs)
    is_result = np.array([origin is not None for origin in plan.origins])
    is_element = np.array(plan.assembly.of_elements)
    counters = Counters(
        late_results=int(late[is_result].sum()), rejected_results=int(rejected[is_result].sum())
    )
    ends = {"applied": arrived - late - rejected, "late": late, "dead_lettered": rejected}
    for end, numbers_of in ends.items():
        rows, elements = int(numbers_of[~is_result].sum()), int(numbers_of[is_element].sum())
        counters += Counters.of(end, rows, elements)
    return counters
