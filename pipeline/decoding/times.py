"""Read and check the time of a record: the time of its message, or a column of its value."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.row_errors import RowErrors, WrongType
from oriel.pipeline.language import FieldTimestamp, Timestamp
from oriel.pipeline.windows import MAX_TIMESTAMP_MS

#: Columns that are null in an invalid record.
_CLEARED_COLUMNS = ("key", "timestamp_ms", "value")

#: The accepted form of ISO 8601: a date, a time with seconds and an optional fraction, and a zone.
_ISO = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})$"
)
_EXCESS_DIGITS = r"(\.[0-9]{6})[0-9]+"
_MICROSECONDS = pa.timestamp("us", "UTC")

_MAX_INT64 = 2**63 - 1


def message_times_ms(timestamps: pa.Array) -> pa.Array:
    """Return times in ms, rounded down before 1970 also, like Spark's ``unix_millis``."""
    microseconds = timestamps.cast(pa.timestamp("us", timestamps.type.tz)).cast(pa.int64())
    values = np.floor_divide(np.asarray(microseconds.fill_null(0)), 1000)
    return pa.array(values, mask=np.asarray(timestamps.is_null()))


def field_times_ms(
    timestamp: FieldTimestamp, rows: pa.StructArray, message_ms: pa.Array, row_errors: RowErrors
) -> pa.Array:
    """Return the times in a column of ``rows``, in ms since 1970.

    A string that is not a time sets the reason of its row. A record with a null value, which
    deletes the row of a table, has no time column. So it has the time of its message.
    """
    column = pc.struct_field(rows, timestamp.column)
    if timestamp.unit == "iso":
        times_ms = _iso_times_ms(timestamp, column, row_errors)
    else:
        values = np.asarray(column.cast(pa.int64()).fill_null(0))
        if timestamp.unit == "s":
            # Values that would overflow 64 bits are clipped. They remain out of range.
            bound = _MAX_INT64 // 1000
            values = np.clip(values, -bound, bound) * 1000
        elif timestamp.unit == "us":
            values = np.floor_divide(values, 1000)
        times_ms = pa.array(values, mask=np.asarray(column.is_null()))
    return pc.if_else(rows.is_null(), message_ms, times_ms)


def check_times(time_ms: pa.Int64Array, row_errors: RowErrors, timestamp: Timestamp) -> None:
    """Set the reason of each record whose time is missing, negative or after the year 9999.

    If ``timestamp`` is a column, the detail contains the name of the column.
    """
    values = np.asarray(time_ms.fill_null(0))
    cases = (
        (np.asarray(time_ms.is_null()), Reason.MISSING_TIMESTAMP, "is missing or null"),
        (values < 0, Reason.NEGATIVE_TIMESTAMP, "is negative"),
        (values > MAX_TIMESTAMP_MS, Reason.TIMESTAMP_TOO_LARGE, "is after the year 9999"),
    )
    for invalid, reason, text in cases:
        if isinstance(timestamp, FieldTimestamp):
            for row in np.flatnonzero(invalid).tolist():
                row_errors.set_one(row, reason, f"the time column {timestamp.column} {text}")
        else:
            row_errors.set(invalid, reason)


def _iso_times_ms(
    timestamp: FieldTimestamp, column: pa.StringArray, row_errors: RowErrors
) -> pa.Array:
    has_iso_form = pc.fill_null(pc.match_substring_regex(column, _ISO), False)  # noqa: FBT003
    texts = pc.if_else(has_iso_form, column, pa.scalar(None, pa.string()))
    texts = pc.replace_substring_regex(texts, _EXCESS_DIGITS, r"\1")
    try:
        times = texts.cast(_MICROSECONDS)
    except pa.ArrowInvalid:
        # A date or a time of day does not exist, for example February 30. This is rare.
        read: list[pa.TimestampScalar | None] = []
        for text in texts:
            try:
                read.append(text.cast(_MICROSECONDS))
            except pa.ArrowInvalid:
                read.append(None)
        times = pa.array(read, _MICROSECONDS)
    invalid = np.asarray(pc.and_(times.is_null(), column.is_valid()))
    for row in np.flatnonzero(invalid).tolist():
        wrong = WrongType("a time like 2026-03-01T12:00:00Z", json.dumps(column[row].as_py()))
        wrong.path.append(timestamp.column)
        row_errors.set_one(row, Reason.INVALID_TIMESTAMP, wrong.detail)
    return message_times_ms(times)


def reject_ahead(records: pa.Table, latest_ms: int | None) -> pa.Table:
    """Return decoded records. Records with a time after ``latest_ms`` become invalid.

    This check runs before all steps, so the records are invalid for every store (decision 0032).

    Args:
        records: Decoded records.
        latest_ms: The greatest valid time, in ms since 1970. None: each time is valid.
    """
    if latest_ms is None or not len(records):
        return records
    ahead = pc.fill_null(pc.greater(records["timestamp_ms"], latest_ms), fill_value=False)
    if not pc.any(ahead).as_py():
        return records
    null_values = {
        name: pa.scalar(None, records.schema.field(name).type) for name in _CLEARED_COLUMNS
    }
    null_values["reason"] = pa.scalar(Reason.TIMESTAMP_AHEAD.value)
    columns = [
        pc.if_else(ahead, null_values[name], column) if name in null_values else column
        for name, column in zip(records.column_names, records.columns, strict=True)
    ]
    return pa.table(columns, schema=records.schema)
