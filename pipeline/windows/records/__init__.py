"""Door of oriel.pipeline.windows.records."""

from oriel.pipeline.windows.records.arrival import arrival_keys
from oriel.pipeline.windows.records.changed_rows import STATUS_COLUMNS, WINDOW_COLUMNS, changed_rows
from oriel.pipeline.windows.records.clock import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    StreamClock,
    close_time_ms,
)
from oriel.pipeline.windows.records.columns import (
    INPUT,
    NULL_VALUE,
    PLACE_FIELDS,
    RECORD_FIELDS,
    REJECTED_SCHEMA,
    SUBORDER,
    rows_schema,
)

__all__ = [
    "INPUT",
    "NEVER_CLOSED_MS",
    "NO_STREAM_TIME_MS",
    "NULL_VALUE",
    "PLACE_FIELDS",
    "RECORD_FIELDS",
    "REJECTED_SCHEMA",
    "STATUS_COLUMNS",
    "SUBORDER",
    "WINDOW_COLUMNS",
    "StreamClock",
    "arrival_keys",
    "changed_rows",
    "close_time_ms",
    "rows_schema",
]
