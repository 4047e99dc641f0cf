"""Row-wise steps that Arrow runs, in a Python task or in the driver.

Input: decoded records or join results as Arrow tables. Output: the rows for the stream-time
assigner, the same as from ``oriel.pipeline.rows.RowSteps``. The function ``selecting_steps``
returns steps that only select columns. Steps whose expressions Spark has read are in
``RowSteps.arrow``. Their expressions are those of ``oriel.storage.expressions``. Steps after an
aggregation only run here (``AggregatedSteps``, ``UpdateSteps``). This package does not import
Spark.
"""

from oriel.pipeline.arrow_steps.aggregated import AggregatedSteps, UpdateSteps
from oriel.pipeline.arrow_steps.choosing import selecting_steps
from oriel.pipeline.arrow_steps.steps import ArrowSteps
from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.stage_columns import StepsOutput

__all__ = [
    "AggregatedSteps",
    "ArrowSteps",
    "StepsOutput",
    "TypedKeys",
    "UpdateSteps",
    "selecting_steps",
]
