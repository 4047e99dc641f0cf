"""The columns, the orders and the times of records and changed rows.

The input is the columns of a batch. The output is the schemas of records, states and rejected
records, the layout of changed rows, and the orders of arrival and inside a window. The stream time
of each partition decides which records are late and which windows are final.
"""

from oriel.pipeline.windows.records.clock import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    NOTHING_OBSERVED_MS,
    StreamClock,
    close_time_ms,
    greatest_ms,
)
from oriel.pipeline.windows.records.rows import (
    EFFECT,
    INPUT,
    NULL_VALUE,
    PARTNER_BYTES,
    PARTNERS,
    PLACE_FIELDS,
    RECORD_FIELDS,
    REJECTED_SCHEMA,
    STATUS_COLUMNS,
    SUBORDER,
    WINDOW_COLUMNS,
    arrival_keys,
    change_places,
    changed_rows,
    partners_ranks,
    rows_schema,
    takes_away,
    window_order,
    with_column,
)

__all__ = [
    "EFFECT",
    "INPUT",
    "NEVER_CLOSED_MS",
    "NOTHING_OBSERVED_MS",
    "NO_STREAM_TIME_MS",
    "NULL_VALUE",
    "PARTNERS",
    "PARTNER_BYTES",
    "PLACE_FIELDS",
    "RECORD_FIELDS",
    "REJECTED_SCHEMA",
    "STATUS_COLUMNS",
    "SUBORDER",
    "WINDOW_COLUMNS",
    "StreamClock",
    "arrival_keys",
    "change_places",
    "changed_rows",
    "close_time_ms",
    "greatest_ms",
    "partners_ranks",
    "rows_schema",
    "takes_away",
    "window_order",
    "with_column",
]
