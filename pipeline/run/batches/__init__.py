"""Compute a batch of all stores, in the driver or as a Spark job.

Input: the rows that Spark offers as a batch, and the final rows of other stores. Output: the
reports of the tasks. If an expression fails on a record, the error names the step.
"""

from oriel.pipeline.run.batches.computation import Computation
from oriel.pipeline.run.batches.final_rows import (
    FinalRows,
    check_readers,
    final_rows_up_to,
    rows_of_batch,
    stream_ends,
)
from oriel.pipeline.run.batches.planned_batch import RARE_LOGS, planned_batch
from oriel.pipeline.run.batches.spark_runner import SPARK_ERRORS, raise_failing_step, warm_up

__all__ = [
    "RARE_LOGS",
    "SPARK_ERRORS",
    "Computation",
    "FinalRows",
    "check_readers",
    "final_rows_up_to",
    "planned_batch",
    "raise_failing_step",
    "rows_of_batch",
    "stream_ends",
    "warm_up",
]
