"""Records as a user's test gives them, brought to the form that decoded ones have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oriel.pipeline.testing.values import as_json, has_no_json, plain, read_as
from oriel.pipeline.windows import MAX_TIMESTAMP_MS

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Record:
    """One record: ``value`` has the columns of the topic's schema, None is no value.

    Columns that are missing are null, those that the schema does not name are ignored.
    ``headers`` are kept for symmetry with Kafka's; no step reads them.
    """

    key: str | None
    value: Mapping[str, Any] | None
    timestamp_ms: int
    headers: Mapping[str, bytes] | None = None


def decoded(
    records: Sequence[Record], schema: pa.Schema, partition: int, first_offset: int
) -> pa.Table:
    """Records as the pipeline's decoders give them: a value, or the reason why it is bad.

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
        given = plain(record.value)
        fields = {"key": record.key, "value": given, "timestamp_ms": record.timestamp_ms}
        value, reason = _read(given, kind)
        reason = reason or _fault(record)
        rows.append({
            "partition": partition,
            "offset": first_offset + place,
            "raw": as_json(fields),
            "key": None if reason else record.key,
            "timestamp_ms": None if reason else record.timestamp_ms,
            "value": None if reason else value,
            "reason": reason,
        })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=decoded_schema(kind))


def decoded_schema(kind: pa.DataType) -> pa.Schema:
    """The columns of decoded records whose value is of type ``kind``."""
    return pa.schema([
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("raw", pa.binary()),
        ("key", pa.string()),
        ("timestamp_ms", pa.int64()),
        ("value", kind),
        ("reason", pa.string()),
    ])  # fmt: skip


def _read(value: Any, kind: pa.DataType) -> tuple[Any, str | None]:
    """The value as its columns have it, or the code (``REASONS``) of what is wrong."""
    if has_no_json(value):
        return None, "not-json"
    try:
        return read_as(value, kind), None
    except TypeError:
        return None, "wrong-type"


def _fault(record: Record) -> str | None:
    """What is wrong with a record's key or time."""
    time = record.timestamp_ms
    if has_no_json(record.key):
        return "not-json"
    if time is None:
        return "missing-timestamp"
    if isinstance(time, bool) or not isinstance(time, int) or time not in _INT64:
        return "wrong-type"
    if time < 0:
        return "negative-timestamp"
    return "timestamp-too-large" if time > MAX_TIMESTAMP_MS else None
