"""Aggregations by functions of a user, for every kind of windows.

The input is the functions with the types of their columns (a ``UserFunctions``) and the records of
a batch. The output is aggregates as Python values, and the records on which a function raised. A
``UserFunctions`` reads aggregates from Arrow columns and writes them to Arrow columns.
"""

from oriel.pipeline.windows.functions.compiled import (
    Compilation,
    CompiledFunctions,
    RunAggregates,
    compile_functions,
    skipped_runs,
)
from oriel.pipeline.windows.functions.processing import (
    OnTimer,
    ProcessContext,
    ProcessFunctions,
    Processor,
)
from oriel.pipeline.windows.functions.sources import NotPlain
from oriel.pipeline.windows.functions.user_functions import (
    Aggregator,
    Merger,
    Rejected,
    UserFunctions,
    function_fields,
    function_values,
    in_partition_order,
    merged_in_order,
    rejected_table,
)

__all__ = [
    "Aggregator",
    "Compilation",
    "CompiledFunctions",
    "Merger",
    "NotPlain",
    "OnTimer",
    "ProcessContext",
    "ProcessFunctions",
    "Processor",
    "Rejected",
    "RunAggregates",
    "UserFunctions",
    "compile_functions",
    "function_fields",
    "function_values",
    "in_partition_order",
    "merged_in_order",
    "rejected_table",
    "skipped_runs",
]
