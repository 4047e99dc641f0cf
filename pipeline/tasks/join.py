"""The join task: one share of the key groups, one call of a join's engine a batch.

Stands between the stamps and the engine's tasks: gives results as rows for row-wise
steps, and passes on what the stamps reported, so that the engine's tasks know the clocks.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from oriel.pipeline.plan import BatchPlan, JoinedBatch, JoinPlan, JoinReport, Reports
from oriel.pipeline.state import KeyedState, Layout, OpenRecords, Version
from oriel.pipeline.tasks.messages import as_batch, report_rows, split_reports
from oriel.pipeline.windows import Clocks

Batches = Iterator[pa.RecordBatch]


def join_with(plan: BatchPlan, join: JoinPlan) -> Callable[[Batches], Batches]:
    """Return the function for Spark's ``mapInArrow``."""

    def joining(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), join.arriving_schema)
        reports, records = split_reports(rows)
        if not len(reports):
            return
        task = reports["task"][0].as_py()
        given = Reports.from_texts(reports["report"].to_pylist())
        results, report = _advance(plan, join, task, records, given)
        no_report = pa.nulls(len(results), pa.string())
        columns = [_next_task(plan, join, results), no_report, *results.columns]
        yield as_batch(pa.table(columns, schema=join.joined_schema))
        # The stamps told every join task; one is enough to tell it further.
        onwards = Reports(given.stamps if task == 0 else [], [report])
        yield report_rows(onwards, join.joined_schema, plan.tasks)

    return joining


def _advance(
    plan: BatchPlan, join: JoinPlan, task: int, records: pa.Table, told: Reports
) -> tuple[pa.Table, JoinReport]:
    """Take this task's state one batch further; return the results."""
    batch = records.select(join.stage.record_schema.names)
    clocks = join.times(plan.clocks), join.times(told.clocks_after(plan.clocks))
    apply = _applied_to_records if join.stage.streams else _applied_to_keys
    done, version = apply(plan, join, task, batch, clocks)
    report = JoinReport(join.place, task, version.names, version.rows, done.late, done.filtered)
    return done.results, report


def _next_task(plan: BatchPlan, join: JoinPlan, results: pa.Table) -> pa.Array:
    """Who stamps each result: what a stream looked up goes back to the task of its partition."""
    if not join.stage.is_lookup:
        return pa.nulls(len(results), pa.int32())
    return pa.array(np.asarray(results["partition"]) % plan.tasks, pa.int32())


def _applied_to_records(
    plan: BatchPlan, join: JoinPlan, task: int, batch: pa.Table, clocks: tuple[Clocks, Clocks]
) -> tuple[JoinedBatch, Version]:
    """Join streams: with the records that the batch has to do with."""
    engine = join.stage.streams
    assert engine is not None
    schema, marks = engine.record_schema, engine.keeps_matches
    place = (task, plan.tasks)
    state = OpenRecords.of_task(plan.state, join.segments, place, schema, marks=marks)
    rows = np.flatnonzero(engine.concerned(state.records, state.matched, batch, clocks))
    done = join.stage.process(state.state(rows), batch, clocks[1])
    stays = engine.stays(state.records, clocks[1])
    name = _name(plan, join, task)
    return done, state.replaced(rows[done.stayed], done.state, stays, name, sync=plan.sync)


def _applied_to_keys(
    plan: BatchPlan, join: JoinPlan, task: int, batch: pa.Table, clocks: tuple[Clocks, Clocks]
) -> tuple[JoinedBatch, Version]:
    """Join tables: with the rows of the batch's keys."""
    layout = Layout(join.stage.state_schema)
    state = KeyedState.of_task(plan.state, join.segments, (task, plan.tasks), layout)
    touched = state.touched(batch["key"])
    done = join.stage.process(touched.rows, batch, clocks[1])
    changing, name = join.stage.changing(batch), _name(plan, join, task)
    return done, state.replaced(touched, done.state, name, sync=plan.sync, changing=changing)


def _name(plan: BatchPlan, join: JoinPlan, task: int) -> str:
    return f"{plan.batch:012d}-{task:04d}-join-{join.place}"
