"""A batch as stages: stamps, joins, row-wise steps and engine tasks, run by a runner.

The list of stages is the same whoever runs it: this process (``LocalRunner``), or Spark, for
which the stages of all stores together become one job (``RouteRunner``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, TypeVar

import pyarrow as pa

from oriel.pipeline.hops import REPORT_SCHEMA
from oriel.pipeline.language import Source
from oriel.pipeline.plan import BatchPlan, JoinInput, JoinPlan, Steps, StorePlans
from oriel.pipeline.tasks.engines import join_task, windows_task
from oriel.pipeline.tasks.reports import TaskFunction, WindowsReport
from oriel.pipeline.tasks.stamp import (
    stamp_for_join,
    stamp_for_windows,
    stamp_looked_up,
    stamp_results,
)

Rows = TypeVar("Rows")


class Runner(Protocol[Rows]):
    """Runs stages over rows of its own kind."""

    def read(self, source: Source, steps: Steps) -> Rows:
        """This batch's records of a source after row-wise ``steps``, by source partition."""

    def step(self, rows: Rows, steps: Steps) -> Rows:
        """The results of a join after row-wise ``steps``."""

    def map(self, rows: Rows, function: TaskFunction, schema: pa.Schema) -> Rows:
        """Each task's rows through ``function``, which gives rows of ``schema``."""

    def union(self, rows: Rows, others: Rows) -> Rows:
        """Rows of two stages as those of one."""

    def by_task(self, rows: Rows, tasks: int) -> Rows:
        """Each row at the task that its column ``task`` names; there are ``tasks``."""

    def reports(self, rows_of: Mapping[str, Rows]) -> dict[str, list[str]]:
        """The column ``report`` of the rows of each store, by the store's name; all at once."""


@dataclass(frozen=True)
class StoreWork:
    """What one store has to compute for a batch."""

    plans: StorePlans
    plan: BatchPlan
    joins: Sequence[JoinPlan]


def run_stages(runner: Runner[Rows], stores: Sequence[StoreWork]) -> dict[str, list[WindowsReport]]:
    """Run a batch of ``stores``; what the window engine's tasks report, by the store's name."""
    texts_of = runner.reports({work.plan.store: _stages(runner, work) for work in stores})
    return {
        store: [WindowsReport.from_text(text) for text in texts]
        for store, texts in texts_of.items()
    }


def _stages(runner: Runner[Rows], work: StoreWork) -> Rows:
    """One store's stages, up to the rows in which its window engine's tasks report."""
    plans, plan, joins = work.plans, work.plan, work.joins
    join_of = {join.number: join for join in joins}
    stamped = []
    for input_plan in plans.inputs:
        if input_plan.join is None:
            rows = runner.read(input_plan.source, input_plan.steps)
            stamp = stamp_for_windows(plan, input_plan.stamp)
        else:
            join = join_of[input_plan.join.number]
            rows = _joined(runner, input_plan.join, plan, join_of)
            if join.gives_records:
                # The stream's clock goes on here, so the records of a partition meet again.
                rows = runner.by_task(rows, plan.tasks)
                stamp = stamp_looked_up(plan, input_plan.stamp)
            else:
                stamp = stamp_results(plan, input_plan.stamp)
            rows = runner.step(rows, input_plan.steps)
        stamped.append(runner.map(rows, stamp, plan.stamped_schema))
    rows = runner.by_task(reduce(runner.union, stamped), plan.tasks)
    return runner.map(rows, windows_task(plan), REPORT_SCHEMA)


def _joined(
    runner: Runner[Rows], join_input: JoinInput, plan: BatchPlan, join_of: Mapping[int, JoinPlan]
) -> Rows:
    """Both sides through a join, a side that is itself a join first; its results."""
    join = join_of[join_input.number]
    sides = []
    for side in join_input.sides:
        if side.join is None:
            rows = runner.read(side.source, side.steps)
            stamp = stamp_for_join(plan, side.stamp, join.arriving_schema)
        else:
            rows = _joined(runner, side.join, plan, join_of)
            if side.stamp.moves_clock:
                # As in front of a window engine: this join goes by the stream's clock.
                rows = runner.by_task(rows, plan.tasks)
                stamp = stamp_looked_up(plan, side.stamp, join.arriving_schema)
            else:
                stamp = stamp_results(plan, side.stamp, join.arriving_schema)
            rows = runner.step(rows, side.steps)
        sides.append(runner.map(rows, stamp, join.arriving_schema))
    arriving = runner.by_task(reduce(runner.union, sides), plan.tasks)
    return runner.map(arriving, join_task(plan, join), join.joined_schema)
