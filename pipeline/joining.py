"""The join task: one share of the key groups, one call of a join's engine a batch.

Stands between the stamps and the engine's tasks: gives results as rows for row-wise
steps, and passes on what the stamps reported, so that the engine's tasks know the clocks.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.plan import BatchPlan, Clocks, JoinPlan, JoinReport, Reports
from pipeline.state_files import next_segments, read_state
from pipeline.task_rows import as_batch, report_rows
from pipeline.windows import NO_STREAM_TIME_MS

Batches = Iterator[pa.RecordBatch]


def join_with(plan: BatchPlan, join: JoinPlan) -> Callable[[Batches], Batches]:
    """Return the function for Spark's ``mapInArrow``."""

    def joining(batches: Batches) -> Batches:
        rows = pa.Table.from_batches(list(batches), join.arriving_schema)
        told = pc.is_valid(rows["report"])
        reports = rows.filter(told)
        if not len(reports):
            return
        task = reports["task"][0].as_py()
        given = Reports.from_texts(reports["report"].to_pylist())
        results, report = _advance(plan, join, task, rows.filter(pc.invert(told)), given)
        nulls = [pa.nulls(len(results), f.type) for f in join.joined_schema][:2]
        columns = [*nulls, *results.columns]
        yield as_batch(pa.table(columns, schema=join.joined_schema))
        # The stamps told every join task; one is enough to tell it further.
        onwards = Reports(given.stamps if task == 0 else [], [report])
        yield report_rows(onwards, join.joined_schema, plan.tasks)

    return joining


def _advance(
    plan: BatchPlan, join: JoinPlan, task: int, records: pa.Table, told: Reports
) -> tuple[pa.Table, JoinReport]:
    """Take this task's state one batch further; return the results."""
    after = told.clocks_after(plan.clocks)
    old, own = plan.segments_of(task, join.segments)
    state = read_state(plan.state, old, join.stage.state_schema)
    if not own:
        state = state.filter(pa.array(np.asarray(state["key_group"]) % plan.tasks == task))
    left, right = (_slowest(after, stamp.clock.name) for stamp in (join.left, join.right))
    done = join.stage.process(state, records.select(join.stage.record_schema.names), left, right)
    name = f"{plan.batch:012d}-{task:04d}-join-{join.place}"
    segments = next_segments(plan.state, old if own else [], None, done.state, name, sync=plan.sync)
    report = JoinReport(join.place, task, segments, len(done.state), done.late, done.filtered)
    return done.results, report


def _slowest(clocks: Clocks, name: str) -> int:
    """The least stream time of a stream's partitions, -1 where none is known."""
    return min(clocks[name].values(), default=NO_STREAM_TIME_MS)
