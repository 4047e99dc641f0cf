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
    stamp_looked_up,
    stamp_records,
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

    def by_task(self, rows: Rows, tasks: int, *, together: bool = False) -> Rows:
        """Send each row to the task in its column ``task``; there are ``tasks``.

        ``together``: the next function accepts the rows of several tasks in one call.
        """

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
    plan, join_of = work.plan, {join.number: join for join in work.joins}
    inputs = [_arriving(runner, each, plan, join_of) for each in work.plans.inputs]
    rows = runner.by_task(reduce(runner.union, inputs), plan.tasks, together=True)
    return runner.map(rows, windows_task(plan), REPORT_SCHEMA)


def _arriving(
    runner: Runner[Rows],
    stream: InputPlan,
    plan: BatchPlan,
    join_of: Mapping[int, JoinPlan],
    behind: JoinPlan | None = None,
) -> Rows:
    """A stream's stamped rows for the tasks of the join ``behind``, None: of the window engine.

    Where a join is in front its sides go through it first, and its results through the steps.
    """
    to_join = None if behind is None else behind.arriving_schema
    if stream.join is None:
        rows = runner.read(stream.source, stream.steps)
        stamp = stamp_records(plan, stream.stamp, to_join)
    else:
        join = join_of[stream.join.number]
        sides = [_arriving(runner, side, plan, join_of, join) for side in stream.join.sides]
        rows = runner.by_task(reduce(runner.union, sides), plan.tasks)
        rows = runner.map(rows, join_task(plan, join), join.joined_schema)
        if stream.stamp.moves_clock:
            # The stream's clock goes on here, so the records of a partition have to meet again.
            rows = runner.by_task(rows, plan.tasks)
            stamp = stamp_looked_up(plan, stream.stamp, to_join)
        else:
            stamp = stamp_results(plan, stream.stamp, to_join)
        rows = runner.step(rows, stream.steps)
    return runner.map(rows, stamp, to_join or plan.stamped_schema)
