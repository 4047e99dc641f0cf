"""Records as a user's test gives them, brought to the form that decoded ones have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from pipeline.windows import MAX_TIMESTAMP_MS


@dataclass(frozen=True)
class Record:
    """One record: ``value`` has the columns of the topic's schema, None is no value.

    ``headers`` are kept for symmetry with Kafka's; no step reads them.
    """

    key: str | None
    value: Mapping[str, Any] | None
    timestamp_ms: int
    headers: Mapping[str, bytes] | None = None


#: The columns in front of the value's.
DECODED_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("raw", pa.binary()),
    pa.field("key", pa.string()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("reason", pa.string()),
    pa.field("null_value", pa.bool_()),
)


def decoded(
    records: Sequence[Record], schema: pa.Schema, partition: int, first_offset: int
) -> pa.Table:
    """Records as decoded rows, each with its value's columns or the reason why it is bad.

    Raises:
        TypeError: one is no ``Record``, or its key is no text.
    """
    kind = pa.struct(list(schema))
    rows = []
    for place, record in enumerate(records):
        if not isinstance(record, Record) or not isinstance(record.key, str | None):
            message = (
                f"records are Record(key: str, value: dict, timestamp_ms: int), not {record!r}"
            )
            raise TypeError(message)
        reason = _reason(record, kind)
        value = {} if reason or record.value is None else dict(record.value)
        rows.append({
            **{name: value.get(name) for name in schema.names},
            "partition": partition,
            "offset": first_offset + place,
            "raw": _raw(record),
            "key": record.key,
            "timestamp_ms": None if reason else record.timestamp_ms,
            "reason": reason,
            "null_value": record.value is None,
        })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=pa.schema([*DECODED_FIELDS, *schema]))


def _reason(record: Record, kind: pa.DataType) -> str | None:
    """Why a record is a dead letter for every store, by the codes of ``pipeline.reasons``."""
    time = record.timestamp_ms
    if time is None:
        return "missing-timestamp"
    if isinstance(time, bool) or not isinstance(time, int):
        return "wrong-type"
    if time < 0:
        return "negative-timestamp"
    if time > MAX_TIMESTAMP_MS:
        return "timestamp-too-large"
    try:
        pa.array([record.value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
        return "wrong-type"
    return None


def _raw(record: Record) -> bytes:
    """The record as the event log would have it."""
    fields = {"key": record.key, "value": record.value, "timestamp_ms": record.timestamp_ms}
    return orjson.dumps(fields, default=repr, option=orjson.OPT_SERIALIZE_NUMPY)
