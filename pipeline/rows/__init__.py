"""Row-wise steps: what a stream's ``filter``, ``map_values`` and ``group_by`` do, as Spark columns.

In come decoded records (or a join's results) and the steps of one input, as the language has
them. Out go rows for the stamp: each record with its key, and whether it is kept, filtered out or
a dead letter. Steps are checked when they are built: an expression must be valid,
row-wise, deterministic and of a type that can go on; else ``InvalidTopology`` names it.
"""

from oriel.pipeline.rows.reading import row_steps
from oriel.pipeline.rows.steps import RowSteps

__all__ = [
    "RowSteps",
    "row_steps",
]
