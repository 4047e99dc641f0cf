"""Door of oriel.pipeline.windows.aggregates."""

from oriel.pipeline.windows.aggregates.approximations import approx_count_distinct, approx_quantile
from oriel.pipeline.windows.aggregates.built_in import (
    Aggregate,
    avg,
    collect_list,
    count,
    first,
    last,
    max,
    min,
    stddev,
    sum,
)
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.mergeables import mergeable
from oriel.pipeline.windows.aggregates.part_columns import PartColumns, used_fields
from oriel.pipeline.windows.aggregates.parts import widened

__all__ = [
    "Aggregate",
    "Members",
    "PartColumns",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "collect_list",
    "count",
    "first",
    "last",
    "max",
    "mergeable",
    "min",
    "stddev",
    "sum",
    "used_fields",
    "widened",
]
