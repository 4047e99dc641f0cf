"""Door of oriel.pipeline.rows."""

from oriel.pipeline.rows.steps import RowSteps

__all__ = [
    "RowSteps",
]
