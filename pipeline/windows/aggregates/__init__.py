"""Declarative aggregates: what ``count()`` or ``avg("x")`` in a topology stand for.

In come the records of many windows at once as a table and index ranges, out goes one result a
window. Two tables say how: that of the aggregates (``built_in``; the approximate ones and the
users' own make their rows themselves), and that of the parts, which state keeps of records and
merges. Windows that keep their records evaluate an ``Aggregate`` over ``Members``; the others
keep ``PartColumns``.
"""

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
from oriel.pipeline.windows.aggregates.pieces import Pieces, of_pieces

__all__ = [
    "Aggregate",
    "Members",
    "PartColumns",
    "Pieces",
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
    "of_pieces",
    "stddev",
    "sum",
    "used_fields",
    "widened",
]
