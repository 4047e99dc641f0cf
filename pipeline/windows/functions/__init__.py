"""Aggregations by functions of a user, for every kind of windows.

The input is the functions with the types of their columns (a ``Fold``) and the records of a batch.
The output is aggregates as Python values, and the records on which a function raised. A ``Fold``
reads aggregates from Arrow columns and writes them to Arrow columns.
"""

from oriel.pipeline.windows.functions.compiled import (
    Compilation,
    CompiledFold,
    FoldedRuns,
    compiled_fold,
    skipped_runs,
)
from oriel.pipeline.windows.functions.folds import (
    Aggregator,
    Fold,
    Merger,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    merged_in_order,
    rejected_table,
)
from oriel.pipeline.windows.functions.sources import NotPlain

__all__ = [
    "Aggregator",
    "Compilation",
    "CompiledFold",
    "Fold",
    "FoldedRuns",
    "Merger",
    "NotPlain",
    "Rejected",
    "compiled_fold",
    "fold_fields",
    "fold_values",
    "in_partition_order",
    "merged_in_order",
    "rejected_table",
    "skipped_runs",
]
