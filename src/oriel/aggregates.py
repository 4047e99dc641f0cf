"""The aggregates under one name, which leaves Python's ``max``, ``min`` and ``sum`` alone.

    from oriel import aggregates as agg

    orders.aggregate(orders=agg.count(), largest=agg.max("amount"))

They are those of ``oriel``.
"""

from oriel import (
    approx_count_distinct,
    approx_quantile,
    avg,
    collect_list,
    count,
    first,
    last,
    max,
    mergeable,
    min,
    stddev,
    sum,
)

__all__ = [
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
]
