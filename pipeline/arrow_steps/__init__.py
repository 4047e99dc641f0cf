"""Row-wise steps that Arrow runs, wherever the rows are: in a Python task or in the driver.

In come decoded records (or a join's results) as Arrow tables; out go the rows for the stamp that
``oriel.pipeline.rows.RowSteps`` would give. ``arrow_steps`` makes them where it can. Nothing here
imports Spark.
"""

from oriel.pipeline.arrow_steps.steps import ArrowSteps, arrow_steps

__all__ = [
    "ArrowSteps",
    "arrow_steps",
]
