"""Named aggregates such as ``count()`` and ``avg("x")``.

The input is the records of many windows, as a table and index ranges. The output is one result per
window. The module ``built_in`` has the table of aggregates. Approximate and mergeable aggregates
create their own rows of this table. The module ``parts`` has the table of partial aggregates, which
the state keeps and merges. Sliding windows keep records and evaluate an ``Aggregate`` over
``Members``. All other windows keep the partial aggregates of ``PartialAggregates``.
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
from oriel.pipeline.windows.aggregates.kept_partials import (
    KeptAggregate,
    KeptPartials,
    can_be_kept,
    kept_aggregates,
)
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.mergeables import mergeable
from oriel.pipeline.windows.aggregates.part_columns import PartialAggregates, used_fields
from oriel.pipeline.windows.aggregates.parts import widened
from oriel.pipeline.windows.aggregates.pieces import Pieces, aggregates_of_pieces

__all__ = [
    "Aggregate",
    "KeptAggregate",
    "KeptPartials",
    "Members",
    "PartialAggregates",
    "Pieces",
    "aggregates_of_pieces",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "can_be_kept",
    "collect_list",
    "count",
    "first",
    "kept_aggregates",
    "last",
    "max",
    "mergeable",
    "min",
    "stddev",
    "sum",
    "used_fields",
    "widened",
]
