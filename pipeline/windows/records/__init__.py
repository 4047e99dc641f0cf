"""What records and changed rows look like, and what order and time they are in.

In come a batch's columns; out go the schemas that records, states and rejected records have,
the layout of the rows that engines give, the orders of arrival and inside a window, and the
stream time of each partition, from which lateness and finality follow.
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
