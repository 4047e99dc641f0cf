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
from oriel.pipeline.plan import BatchPlan, InputPlan, JoinPlan, Steps, StorePlans
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
    join_of = {join.input_number: join for join in joins}
    stamped = [
        _joined(runner, input_plan, plan, join_of[number])
        if number in join_of
        else runner.map(
            runner.read(input_plan.source, input_plan.steps),
            stamp_for_windows(plan, input_plan.stamp),
            plan.stamped_schema,
        )
        for number, input_plan in enumerate(plans.inputs)
    ]
    rows = runner.by_task(reduce(runner.union, stamped), plan.tasks)
    return runner.map(rows, windows_task(plan), REPORT_SCHEMA)


def _joined(runner: Runner[Rows], input_plan: InputPlan, plan: BatchPlan, join: JoinPlan) -> Rows:
    """Both sides through the join, its results through the steps behind it."""
    assert input_plan.join is not None
    sides = [
        runner.map(
            runner.read(side.source, side.steps),
            stamp_for_join(plan, side.stamp, join.arriving_schema),
            join.arriving_schema,
        )
        for side in input_plan.join.sides
    ]
    arriving = runner.by_task(reduce(runner.union, sides), plan.tasks)
    results = runner.map(arriving, join_task(plan, join), join.joined_schema)
    stamp = stamp_results
    if join.stage.is_lookup:
        # The stream's clock goes on here, so the records of a partition have to meet again.
        results, stamp = runner.by_task(results, plan.tasks), stamp_looked_up
    rows = runner.step(results, input_plan.steps)
    return runner.map(rows, stamp(plan, input_plan.stamp), plan.stamped_schema)
