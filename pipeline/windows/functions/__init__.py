"""Aggregations by the user's own functions, for every kind of windows.

In come the functions and the types of their columns (a ``Fold``) and the records of a batch; out
go aggregates as Python values, which a ``Fold`` reads from and writes to Arrow columns, and
the records on which a function raised.
"""

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
