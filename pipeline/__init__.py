"""The topology language and the Spark streaming job.

This module exports the language only and imports no Spark, so a topology file can be
read anywhere.
"""

from pipeline.errors import InvalidTopology, PipelineError
from pipeline.topology import StreamsBuilder, Topology
from pipeline.windows import (
    IllegalArgument,
    SlidingWindows,
    approx_count_distinct,
    approx_quantile,
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

__all__ = [
    "IllegalArgument",
    "InvalidTopology",
    "PipelineError",
    "SlidingWindows",
    "StreamsBuilder",
    "Topology",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "collect_list",
    "count",
    "first",
    "last",
    "max",
    "min",
    "stddev",
    "sum",
]
