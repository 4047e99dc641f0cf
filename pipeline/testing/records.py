"""Records as a user's test gives them, read as the pipeline's sources read JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.hops import decoded_schema
from oriel.pipeline.windows import MAX_TIMESTAMP_MS

_INTEGERS = {
    integer: range(-(2 ** (integer.bit_width - 1)), 2 ** (integer.bit_width - 1))
    for integer in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
}


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
    value_type = pa.struct(list(schema))
    rows = []
    for number, record in enumerate(records):
        if not isinstance(record, Record) or not isinstance(record.key, str | None):
            message = (
                f"records are Record(key: str, value: dict, timestamp_ms: int), not {record!r}"
            )
            raise TypeError(message)
        plain = _plain(record.value)
        envelope = {"key": record.key, "value": plain, "timestamp_ms": record.timestamp_ms}
        value, reason = None, None
        if _has_no_json(plain):
            reason = Reason.NOT_JSON
        else:
            try:
                value = _read_as(plain, value_type)
            except TypeError:
                reason = Reason.WRONG_TYPE
        reason = reason or _fault(record)
        rows.append({
            "partition": partition,
            "offset": first_offset + number,
            "raw": _as_json(envelope),
            "key": None if reason else record.key,
            "timestamp_ms": None if reason else record.timestamp_ms,
            "value": None if reason else value,
            "reason": reason,
        })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=decoded_schema(value_type))


def _fault(record: Record) -> Reason | None:
    """What is wrong with a record's key or time."""
    time_ms = record.timestamp_ms
    if _has_no_json(record.key):
        return Reason.NOT_JSON
    if time_ms is None:
        return Reason.MISSING_TIMESTAMP
    is_integer = isinstance(time_ms, int) and not isinstance(time_ms, bool)
    if not is_integer or time_ms not in _INTEGERS[pa.int64()]:
        return Reason.WRONG_TYPE
    if time_ms < 0:
        return Reason.NEGATIVE_TIMESTAMP
    return Reason.TIMESTAMP_TOO_LARGE if time_ms > MAX_TIMESTAMP_MS else None


def _plain(value: Any) -> Any:
    """``value`` made of what JSON knows: numpy's numbers and arrays and tuples are, too.

    Anything else stays as it is; no column takes it.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else repr(name): _plain(value[name]) for name in value
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _as_json(value: Any) -> bytes:
    """A plain value as JSON; half of a surrogate pair becomes its escape."""
    text = json.dumps(value, default=repr, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _has_no_json(value: Any) -> bool:
    """Whether a plain value holds what is no number in JSON (NaN), or is no Unicode text."""
    if isinstance(value, dict):
        return any(_has_no_json(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any(map(_has_no_json, value))
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, float) and not math.isfinite(value)


def _read_as(value: Any, column_type: pa.DataType) -> Any:
    """A plain value as a column of ``column_type`` has it, None for null.

    As Spark's ``from_json``: fields that a struct does not name are ignored, those that are
    missing are null; what is no text becomes its JSON text where text is expected.

    Raises:
        TypeError: it is of another type, or too large for it.
    """
    types = pa.types
    if value is None or (types.is_boolean(column_type) and isinstance(value, bool)):
        return value
    if types.is_string(column_type) and isinstance(value, str | int | float | list | dict):
        return value if isinstance(value, str) else _as_json(value).decode()
    if types.is_struct(column_type) and isinstance(value, dict):
        return {field.name: _read_as(value.get(field.name), field.type) for field in column_type}
    if types.is_map(column_type) and isinstance(value, dict):
        key_type, item_type = column_type.key_type, column_type.item_type
        return [(_read_as(k, key_type), _read_as(v, item_type)) for k, v in value.items()]
    if types.is_list(column_type) and isinstance(value, list):
        return [_read_as(item, column_type.value_type) for item in value]
    return _number(value, column_type)


def _number(value: Any, column_type: pa.DataType) -> float:
    """A number that fits a column of numbers; infinity for one that no double can hold."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and pa.types.is_floating(column_type):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if is_number and isinstance(value, int) and value in _INTEGERS.get(column_type, ()):
        return value
    message = f"{value!r} is not of type {column_type}"
    raise TypeError(message)
