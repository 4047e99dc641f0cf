"""Door of oriel.pipeline.windows.functions."""

from oriel.pipeline.windows.functions.folds import (
    Aggregator,
    Fold,
    Merger,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)

__all__ = [
    "Aggregator",
    "Fold",
    "Merger",
    "Rejected",
    "fold_fields",
    "fold_values",
    "in_partition_order",
    "rejected_table",
]
