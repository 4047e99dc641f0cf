"""The columns of records on their way through the engine."""

from collections.abc import Iterable

import pyarrow as pa

#: Whether the record has no value (semantics 1.2); its value columns are then all null.
NULL_VALUE = pa.field("null_value", pa.bool_())


#: A record's key, time and place.
PLACE_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
#: The columns that every engine of windows reads of a record.
RECORD_FIELDS = (*PLACE_FIELDS, pa.field("close_ms", pa.int64()))

#: Which stream of a cogroup a record is from.
INPUT = pa.field("input", pa.int8())
#: The order of records that share a place: results of a join that share their left record.
SUBORDER = pa.field("suborder", pa.int64())

#: Records that the user's function raised on, altogether or in some window.
REJECTED_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    INPUT,
    SUBORDER,
    pa.field("detail", pa.string()),
])  # fmt: skip


def rows_schema(
    place: Iterable[pa.Field], carried: Iterable[pa.Field], kept: Iterable[pa.Field]
) -> pa.Schema:
    """A state of windows: ``place`` in key and time, ``kept`` of their records, timestamp."""
    key, timestamp = PLACE_FIELDS[:2]
    return pa.schema([key, *place, *carried, *kept, timestamp])
