"""A store's batch as stages: stamps, joins, row-wise steps and engine tasks, run by a runner.

The list of stages is the same whoever runs it: Spark (``oriel.pipeline.run``), or the test
driver in its own process (``oriel.pipeline.testing``).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Protocol, TypeVar

import pyarrow as pa

from oriel.pipeline.language import Source
from oriel.pipeline.plan import BatchPlan, GroupReport, InputPlan, JoinPlan, Steps, StorePlans
from oriel.pipeline.tasks.join import join_with
from oriel.pipeline.tasks.stamp import route_with, stamp_for_join, stamp_looked_up, stamp_with
from oriel.pipeline.tasks.windows import RESULT_SCHEMA, group_with

Rows = TypeVar("Rows")
#: What a task does to its share of the rows: Arrow batches in, Arrow batches out.
TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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

    def reports(self, rows: Rows) -> list[str]:
        """The column ``report`` of all rows, here."""


def run_stages(
    runner: Runner[Rows], plans: StorePlans, plan: BatchPlan, joins: Sequence[JoinPlan]
) -> list[GroupReport]:
    """Run a batch's stages and return what the engine's tasks report."""
    by_place = {join.place: join for join in joins}
    stamped = [
        _joined(runner, one, plan, by_place[place])
        if place in by_place
        else runner.map(
            runner.read(one.source, one.steps), stamp_with(plan, one.stamp), plan.stamped_schema
        )
        for place, one in enumerate(plans.inputs)
    ]
    everything = runner.by_task(reduce(runner.union, stamped), plan.tasks)
    reports = runner.reports(runner.map(everything, group_with(plan), RESULT_SCHEMA))
    return [GroupReport.from_text(text) for text in reports]


def _joined(runner: Runner[Rows], one: InputPlan, plan: BatchPlan, join: JoinPlan) -> Rows:
    """Both sides through the join, its results through the steps behind it."""
    assert one.join is not None
    left, right = (
        runner.map(
            runner.read(side.source, side.steps),
            stamp_for_join(plan, side.stamp, join.arriving_schema),
            join.arriving_schema,
        )
        for side in (one.join.left, one.join.right)
    )
    arrived = runner.by_task(runner.union(left, right), plan.tasks)
    results = runner.map(arrived, join_with(plan, join), join.joined_schema)
    behind = route_with
    if join.stage.is_lookup:
        # The stream's clock goes on here, so the records of a partition have to meet again.
        results, behind = runner.by_task(results, plan.tasks), stamp_looked_up
    rows = runner.step(results, one.steps)
    return runner.map(rows, behind(plan, one.stamp), plan.stamped_schema)
