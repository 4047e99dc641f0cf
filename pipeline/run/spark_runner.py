"""Stages as one Spark job: rows are DataFrames, tasks are Spark's; and which step made it fail.

Nothing runs before the reports are collected: Spark then makes one job of all stages, with a
shuffle wherever rows go to the task that they name. Where an expression fails on a record, its
steps are run again one by one, to name the store and the step in one line.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.errors import ExpressionFailed
from oriel.pipeline.language import Source
from oriel.pipeline.plan import Steps, StorePlans
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.spark import first_line
from oriel.pipeline.tasks import TaskFunction

#: The decoded records of each source, as Spark reads them.
Records = Mapping[Source, DataFrame]


class SparkRunner:
    """A ``Runner`` over one batch's decoded records."""

    def __init__(self, records: Records) -> None:
        """Read ``records``."""
        self.records = records

    def read(self, source: Source, steps: Steps) -> DataFrame:
        """See ``Runner``."""
        return self.step(self.records[source], steps)

    def step(self, rows: DataFrame, steps: Steps) -> DataFrame:
        """See ``Runner``."""
        stepped: DataFrame = steps.rows(rows)
        return stepped

    def map(self, rows: DataFrame, function: TaskFunction, schema: pa.Schema) -> DataFrame:
        """See ``Runner``."""
        return rows.mapInArrow(function, from_arrow_schema(schema))

    def union(self, rows: DataFrame, others: DataFrame) -> DataFrame:
        """See ``Runner``."""
        return rows.union(others)

    def by_task(self, rows: DataFrame, tasks: int) -> DataFrame:
        """See ``Runner``."""
        return rows.repartitionById(tasks, "task")

    def reports(self, rows: DataFrame) -> list[str]:
        """See ``Runner``."""
        return [row.report for row in rows.collect()]


#: The errors with which Spark or Java stop a job.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def refuse_failing(
    error: Exception, store: str, steps_and_records: Iterable[tuple[RowSteps, DataFrame]]
) -> None:
    """Look for the step that stopped a store's batch, in the steps and the records that they read.

    Spark's error names an expression at best. So the steps are run again, one by one; the
    records are still there, and whoever is to mend the step waits anyway.

    Raises:
        ExpressionFailed: it was found. A Python function's error says more by itself, so there
            the error is only given a note.
    """
    for steps, records in steps_and_records:
        step = steps.failing_step(records, error)
        if step is None:
            continue
        where = f"store {store!r}, step {step}"
        if isinstance(error, PythonException):
            error.add_note(where)
            return
        message = (
            f"{where}: fails on a record: {first_line(error)}; mend the expression, or keep such "
            "records from it with a filter before"
        )
        raise ExpressionFailed(message) from error
    error.add_note(f"store {store!r}")


def steps_of(plans: StorePlans, records: Records) -> Iterable[tuple[RowSteps, DataFrame]]:
    """The steps of a store with what they read; of those behind a join, a row of nulls."""
    for input_plan in plans.inputs:
        join = input_plan.join
        for side in (join.left, join.right) if join is not None else (input_plan,):
            if isinstance(side.steps, RowSteps):
                yield side.steps, records[side.source]
        if join is not None and isinstance(input_plan.steps, RowSteps):
            # A join's results are gone with its tasks. What fails on every record, like a
            # pattern that is none, fails on a row of nulls too.
            yield input_plan.steps, input_plan.steps.a_null_row()
