"""The columns of records and of states on their way through the engine."""

from collections.abc import Iterable

import pyarrow as pa

#: Whether the record has no value (semantics 1.2); its value columns are then all null.
NULL_VALUE = pa.field("null_value", pa.bool_())

#: A record's key, time and place in the log.
PLACE_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
#: The columns that every engine of windows reads of a record; ``close_ms`` is the stream time of
#: the record's partition when it came, less the windows' ``close_delay_ms``.
RECORD_FIELDS = (*PLACE_FIELDS, pa.field("close_ms", pa.int64()))

#: Which stream of a cogroup a record is from, counted from 0.
INPUT = pa.field("input", pa.int8())
#: The order of records that share a place: results of a join that share their left record.
SUBORDER = pa.field("suborder", pa.int64())

#: Records that a user's function raised on, altogether or in some window; ``detail`` says where
#: and how.
REJECTED_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    INPUT,
    SUBORDER,
    pa.field("detail", pa.string()),
])  # fmt: skip


def rows_schema(
    place: Iterable[pa.Field], carried: Iterable[pa.Field], aggregates: Iterable[pa.Field]
) -> pa.Schema:
    """A state of rows a window: key, ``place`` (window, partition), ``carried``, aggregates, time.

    ``aggregates`` are the columns that results are computed from, ``timestamp_ms`` is the greatest
    time of the row's records.
    """
    key, timestamp = PLACE_FIELDS[:2]
    return pa.schema([key, *place, *carried, *aggregates, timestamp])
