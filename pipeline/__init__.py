"""The topology language and the Spark streaming job.

This module exports the language only and imports no Spark, so a topology file can be
read anywhere.
"""

from pipeline.errors import InvalidTopology, PipelineError
from pipeline.grouped import until_window_closes
from pipeline.streams import StreamsBuilder
from pipeline.topology import EmitStrategy, Topology
from pipeline.windows import (
    IllegalArgument,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
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
    "EmitStrategy",
    "IllegalArgument",
    "InvalidTopology",
    "JoinWindows",
    "PipelineError",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "TimeWindows",
    "Topology",
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
    "until_window_closes",
]
