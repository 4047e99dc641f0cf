"""A batch as stages: streams, joins, row-wise steps and store tasks, run by a runner.

All runners run the same stages. ``LocalRunner`` runs them in this process. ``RouteRunner`` collects
the stages of all stores for one Spark job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, TypeVar

import pyarrow as pa

from oriel.pipeline.language import Source
from oriel.pipeline.plan import BatchPlan, InputPlan, JoinPlan, Steps, StorePlans
from oriel.pipeline.tasks.engines import join_task, store_task
from oriel.pipeline.tasks.exchange import TaskFunction
from oriel.pipeline.tasks.reports import Reports
from oriel.pipeline.tasks.streams import stream_task

Rows = TypeVar("Rows")

#: The columns of a store task, which yields no rows.
_NO_COLUMNS = pa.schema([])


class Runner(Protocol[Rows]):
    """Runs stages. Each runner has its own type of rows."""

    def read(self, source: Source, steps: Steps) -> Rows:
        """Return the records of a source in this batch after row-wise ``steps``, by partition."""

    def step(self, rows: Rows, steps: Steps) -> Rows:
        """Return the results of a join after row-wise ``steps``."""

    def map(self, rows: Rows, function: TaskFunction, schema: pa.Schema) -> Rows:
        """Return the result of ``function`` for the rows of each task, as rows of ``schema``."""

    def union(self, rows: Rows, others: Rows) -> Rows:
        """Return the rows of two stages together."""

    def by_task(self, rows: Rows, tasks: int, *, together: bool = False) -> Rows:
        """Send each row to the task in its column ``task``, and the reports to all tasks.

        Args:
            rows: The rows.
            tasks: The number of tasks.
            together: True if the next function accepts the rows of several tasks in one call.
        """

    def reports(self, rows_of: Mapping[str, Rows]) -> dict[str, Reports]:
        """Run the stages of all stores and return the reports of their tasks, by store."""


@dataclass(frozen=True)
class StoreWork:
    """The plans of one store for a batch."""

    plans: StorePlans
    plan: BatchPlan
    joins: Sequence[JoinPlan]


def run_stages(runner: Runner[Rows], stores: Sequence[StoreWork]) -> dict[str, Reports]:
    """Run a batch of ``stores`` and return the reports of all tasks, by the name of the store."""
    rows_of = {}
    for work in stores:
        plan, join_of = work.plan, {join.number: join for join in work.joins}
        inputs = [_input_rows(runner, each, plan, join_of) for each in work.plans.inputs]
        # All inputs are one exchange, because a record of any input can be of the same key, and all
        # stream times of the store decide which windows are final.
        rows = runner.by_task(reduce(runner.union, inputs), plan.tasks, together=True)
        rows_of[plan.store] = runner.map(rows, store_task(plan), _NO_COLUMNS)
    return runner.reports(rows_of)


def _input_rows(
    runner: Runner[Rows],
    input_plan: InputPlan,
    plan: BatchPlan,
    join_of: Mapping[int, JoinPlan],
    downstream: JoinPlan | None = None,
) -> Rows:
    """Return the rows of an input for the tasks of the downstream join, or of the store.

    An upstream join runs first: its inputs, its tasks and the steps of its results.

    Args:
        runner: The runner.
        input_plan: The input.
        plan: The batch.
        join_of: The joins of the store by their index.
        downstream: The downstream join. None: the store.
    """
    to_join = None if downstream is None else downstream.input_schema
    if input_plan.join is None:
        rows = runner.read(input_plan.source, input_plan.steps)
        # Only rows of a source are counted as input. Results continue records that are counted
        # already.
        task = stream_task(plan, input_plan.stream, to_join, is_source=True)
    else:
        join = join_of[input_plan.join.number]
        inputs = [_input_rows(runner, side, plan, join_of, join) for side in input_plan.join.sides]
        # A join runs once per task, because its task returns rows for the next stage.
        rows = runner.by_task(reduce(runner.union, inputs), plan.tasks)
        rows = runner.map(rows, join_task(plan, join), join.joined_schema)
        if input_plan.stream.advances_stream_time:
            # The stream time continues here, so one task needs all records of a partition.
            rows = runner.by_task(rows, plan.tasks)
        rows = runner.step(rows, input_plan.steps)
        task = stream_task(plan, input_plan.stream, to_join, is_source=False)
    return runner.map(rows, task, to_join or plan.input_schema)
