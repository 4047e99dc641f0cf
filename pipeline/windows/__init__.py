"""Pure window engine: no Spark, no clock, no files. Arrow tables in, Arrow tables out."""

from pipeline.windows.aggregates import (
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
from pipeline.windows.approximations import approx_count_distinct, approx_quantile
from pipeline.windows.clock import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    StreamClock,
    close_time_ms,
)
from pipeline.windows.definitions import (
    MAX_TIMESTAMP_MS,
    NoWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)
from pipeline.windows.engine import EngineResult, WindowEngine
from pipeline.windows.engines import engine_for
from pipeline.windows.errors import IllegalArgument, WindowsError
from pipeline.windows.joins import JoinWindows
from pipeline.windows.mergeables import mergeable
from pipeline.windows.sliding import SlidingWindowEngine

__all__ = [
    "MAX_TIMESTAMP_MS",
    "NEVER_CLOSED_MS",
    "NO_STREAM_TIME_MS",
    "Aggregate",
    "EngineResult",
    "IllegalArgument",
    "JoinWindows",
    "NoWindows",
    "SessionWindows",
    "SlidingWindowEngine",
    "SlidingWindows",
    "StreamClock",
    "TimeWindows",
    "WindowEngine",
    "Windows",
    "WindowsError",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "close_time_ms",
    "collect_list",
    "count",
    "engine_for",
    "first",
    "last",
    "max",
    "mergeable",
    "min",
    "stddev",
    "sum",
]
