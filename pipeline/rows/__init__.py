"""Row-wise steps as Spark columns, for example ``filter``, ``map_values`` and ``group_by``.

Input: decoded records or join results, and the steps of one input in the topology language. Output:
rows for the stream-time assigner. Each row has its key, and whether it is kept, filtered out or a
dead letter. The steps are checked when they are built. An expression must be valid, row-wise and
deterministic, and must have a type that Arrow also has. Otherwise, ``InvalidTopology`` names the
step.
"""

from oriel.pipeline.rows.reading import row_steps
from oriel.pipeline.rows.steps import RowSteps

__all__ = ["RowSteps", "row_steps"]
