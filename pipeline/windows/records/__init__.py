"""The columns, the orders and the times of records and changed rows.

The input is the columns of a batch. The output is the schemas of records, states and rejected
records, the layout of changed rows, and the orders of arrival and inside a window. The stream time
of each partition decides which records are late and which windows are final.
"""

from oriel.pipeline.windows.records.lineage import (
    LINEAGE,
    Lineage,
    are_retractions,
    encoded,
    extended_by,
    indexes,
    joined_lineages,
    lineage_fields,
    lineage_keys,
    merged_lineage,
    right_records,
    update_keys,
    update_lineages,
    with_log,
)
from oriel.pipeline.windows.records.rows import (
    APPLY_ORDER,
    INPUT,
    NULL_VALUE,
    PARTIALS,
    RECORD_FIELDS,
    RECORD_ID_FIELDS,
    REJECTED_SCHEMA,
    STATUS_COLUMNS,
    WINDOW_COLUMNS,
    arrival_keys,
    changed_rows,
    rows_schema,
    window_order,
    with_column,
)
from oriel.pipeline.windows.records.stream_times import (
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    NOTHING_OBSERVED_MS,
    StreamTimes,
    close_time_ms,
    greatest_ms,
)

__all__ = [
    "APPLY_ORDER",
    "INPUT",
    "LINEAGE",
    "NEVER_CLOSED_MS",
    "NOTHING_OBSERVED_MS",
    "NO_STREAM_TIME_MS",
    "NULL_VALUE",
    "PARTIALS",
    "RECORD_FIELDS",
    "RECORD_ID_FIELDS",
    "REJECTED_SCHEMA",
    "STATUS_COLUMNS",
    "WINDOW_COLUMNS",
    "Lineage",
    "StreamTimes",
    "are_retractions",
    "arrival_keys",
    "changed_rows",
    "close_time_ms",
    "encoded",
    "extended_by",
    "greatest_ms",
    "indexes",
    "joined_lineages",
    "lineage_fields",
    "lineage_keys",
    "merged_lineage",
    "right_records",
    "rows_schema",
    "update_keys",
    "update_lineages",
    "window_order",
    "with_column",
    "with_log",
]
