"""Named aggregates such as ``count()`` and ``avg("x")``.

The input is the records of many windows, as a table and index ranges. The output is one result per
window. One table has the aggregates (``built_in``), except for the approximate and the mergeable
ones, which create their rows themselves. Another table has the partial aggregates that the state
keeps and merges. Windows that keep their records evaluate an ``Aggregate`` over ``Members``. The
other windows keep ``PartColumns``.
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
