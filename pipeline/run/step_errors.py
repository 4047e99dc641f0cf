"""An expression that fails on a record: one line that names the store and the step."""

from collections.abc import Iterable

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame

from oriel.pipeline.errors import ExpressionFailed
from oriel.pipeline.plan import StorePlans
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.run.spark_runner import Records
from oriel.pipeline.spark import told

#: The errors with which Spark or Java stop a job.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def refuse_failing(
    error: Exception, store: str, read: Iterable[tuple[RowSteps, DataFrame]]
) -> None:
    """Look for the step that stopped a store's batch, in steps and the records that they read.

    Steps are run again for that, one by one; the records are still there.

    Raises:
        ExpressionFailed: it was found. A Python function's error says more by itself, so there
            the error is only given a note.
    """
    for steps, records in read:
        step = steps.failing_step(records, error)
        if step is None:
            continue
        place = f"store {store!r}, step {step}"
        if isinstance(error, PythonException):
            error.add_note(place)
            return
        message = (
            f"{place}: fails on a record: {told(error)}; mend the expression, or keep such records "
            "from it with a filter before"
        )
        raise ExpressionFailed(message) from error
    error.add_note(f"store {store!r}")


def steps_of(plans: StorePlans, records: Records) -> Iterable[tuple[RowSteps, DataFrame]]:
    """The steps of a store with what they read; of those behind a join, a row of nulls."""
    for one in plans.inputs:
        sides = (one.join.left, one.join.right) if one.join is not None else (one,)
        for side in sides:
            if isinstance(side.steps, RowSteps):
                yield side.steps, records[side.source]
        if one.join is not None and isinstance(one.steps, RowSteps):
            yield one.steps, one.steps.a_null_row()
