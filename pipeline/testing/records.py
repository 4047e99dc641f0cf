"""Records of a user's test, decoded as the sources of the pipeline decode JSON."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding import BlockDecoder
from oriel.pipeline.language import JSON_RECORDS, Consumed
from oriel.pipeline.windows import Flags, IllegalArgument, IllegalArgumentType

#: Python type that JSON does not have -> the type of its columns.
_TYPES_WITHOUT_JSON: Mapping[type, Callable[[pa.DataType], bool]] = {
    Decimal: pa.types.is_decimal,
    date: pa.types.is_date,
    bytes: pa.types.is_binary,
}


@dataclass(frozen=True)
class Record:
    """One record of a topic.

    The driver does not use serdes, so a value is always a dict of columns. For example, write
    ``{"value": "tea"}`` for a topic of ``Serdes.string()``. A missing column is null. A column that
    the schema does not have is an error.

    Attributes:
        key: The key as a string, or None.
        value: The columns of the topic's schema by name. None: a null value. A DECIMAL, DATE or
            BINARY column can also have a ``Decimal``, a ``date`` or ``bytes``.
        timestamp_ms: The time of the record in ms since 1970. With ``"ingestion"`` time, the time
            at which the pipeline reads the record.
        headers: The headers by name, as bytes, for ``Consumed(headers=...)``.

    Example:
        >>> record = Record("EWR", {"carrier": "UA", "delay": 7}, timestamp_ms=5)
        >>> record.value["delay"]
        7
    """

    key: str | None
    value: Mapping[str, Any] | None
    timestamp_ms: int
    headers: Mapping[str, bytes] | None = None


def decoded(
    records: Sequence[Record],
    schema: pa.Schema,
    partition: int,
    first_offset: int,
    consumed: Consumed = JSON_RECORDS,
) -> pa.Table:
    """Decode records with the decoder of the pipeline, as the lines of an event log.

    Each row has a value or the reason of its dead letter.

    Raises:
        IllegalArgumentType: an item is not a ``Record``, its key is not a string, its headers are
            not a dict of bytes, or its value does not fit the format of the topic.
    """
    value_type = pa.struct(list(schema))
    lines = []
    not_json = np.zeros(len(records), np.bool_)
    non_finite: dict[int, dict[str, float]] = {}
    for number, record in enumerate(records):
        _check(record, schema, consumed)
        plain = _plain(record.value)
        if consumed.value_serde != JSON_RECORDS.value_serde:
            plain, non_finite[number] = _without_non_finite(plain, schema)
        line = {"key": record.key, "value": plain, "timestamp_ms": record.timestamp_ms}
        if record.headers:
            line["headers"] = _header_strings(record.headers)
        text = json.dumps(line, default=_in_json, ensure_ascii=False, separators=(",", ":"))
        # Half of a surrogate pair becomes its escape.
        lines.append(text.encode("utf-8", "backslashreplace"))
        not_json[number] = _is_not_json(plain, value_type)
    raw = pa.record_batch({
        "partition": pa.array([partition] * len(lines), pa.int32()),
        "offset": pa.array(range(first_offset, first_offset + len(lines)), pa.int64()),
        "raw": pa.array(lines, pa.binary()),
    })  # fmt: skip
    rows = BlockDecoder(value_type, has_envelope=True, consumed=consumed).decode(raw)
    if any(non_finite.values()):
        rows = _with_non_finite(rows, non_finite)
    return _with_wrong_types(rows, not_json) if not_json.any() else rows


def check_columns(topic: str, records: Iterable[Record], schemas: Sequence[pa.Schema]) -> None:
    """Reject a column or a field that no schema of the topic has.

    The pipeline ignores such a column. In a test, it is probably a misspelled name.

    Raises:
        IllegalArgument: a record has such a column. The message names it and the nearest column.
    """
    value_types = [pa.struct(list(schema)) for schema in schemas]
    for record in records:
        if not isinstance(record, Record):
            continue
        for path, columns in _unknown(record.value, value_types, ()):
            *place, name = path
            near = get_close_matches(str(name), columns, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            where = f"topic {topic!r}" + (f", column {'.'.join(place)!r}" if place else "")
            message = (
                f"{where}: a record has {name!r}, which the schema does not have. {hint}The schema "
                f"has {', '.join(columns)}"
            )
            raise IllegalArgument(message)


def _unknown(
    value: Any, value_types: Sequence[pa.DataType], path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], list[str]]]:
    """Yield the path of each name that no type has, and the names that the types have."""
    types = pa.types
    if isinstance(value, list | tuple) and all(map(types.is_list, value_types)):
        inner_types = [each.value_type for each in value_types]
        for item in value:
            yield from _unknown(item, inner_types, path)
    elif isinstance(value, Mapping) and all(map(types.is_map, value_types)):
        inner_types = [each.item_type for each in value_types]
        for item in value.values():
            yield from _unknown(item, inner_types, path)
    elif isinstance(value, Mapping) and all(map(types.is_struct, value_types)):
        fields = [field for each in value_types for field in each]
        for name, item in value.items():
            inner_types = [field.type for field in fields if field.name == name]
            if inner_types:
                yield from _unknown(item, inner_types, (*path, name))
            else:
                yield (*path, name), list(dict.fromkeys(field.name for field in fields))


def _without_non_finite(value: Any, schema: pa.Schema) -> tuple[Any, dict[str, float]]:
    """Separate NaN and infinities, which JSON does not have, from a value. Key: the column."""
    if not isinstance(value, dict):
        return value, {}
    non_finite = {
        field.name: number
        for field in schema
        if pa.types.is_floating(field.type)
        and isinstance(number := value.get(field.name), float)
        and not isfinite(number)
    }
    return {**value, **dict.fromkeys(non_finite)}, non_finite


def _with_non_finite(rows: pa.Table, non_finite: Mapping[int, Mapping[str, float]]) -> pa.Table:
    """Restore NaN and infinities in decoded rows, by row index and column."""
    values = rows["value"].combine_chunks()
    columns = []
    for field in values.type:
        numbers = [non_finite.get(number, {}).get(field.name) for number in range(len(rows))]
        column = pc.struct_field(values, field.name)
        columns.append(
            pc.coalesce(pa.array(numbers, field.type), column)
            if any(number is not None for number in numbers)
            else column
        )
    structs = pa.StructArray.from_arrays(columns, fields=list(values.type), mask=values.is_null())
    return _with(rows, "value", pa.chunked_array([structs]))


def _check(record: Record, schema: pa.Schema, consumed: Consumed) -> None:
    """Reject a record that the driver cannot read as the pipeline would.

    Raises:
        IllegalArgumentType: see ``decoded``.
    """
    if not isinstance(record, Record) or not isinstance(record.key, str | None):
        message = (
            f"a record must be Record(key: str, value: dict, timestamp_ms: int), not {record!r}"
        )
        if isinstance(record, Record):
            message += ". Pass keys as strings ('5') for every key_serde"
        raise IllegalArgumentType(message)
    headers = record.headers
    is_dict = isinstance(headers, Mapping) and all(isinstance(name, str) for name in headers)
    if headers is not None and not (
        is_dict and all(isinstance(value, bytes) for value in headers.values())
    ):
        message = (
            f'headers must be a dict of names to bytes, like {{"trace": b"7f3a"}}, not {headers!r}'
        )
        raise IllegalArgumentType(message)
    # A JSON value that is not an object is a dead letter, as in the pipeline.
    is_value = record.value is None or isinstance(record.value, Mapping)
    if not is_value and consumed.value_serde != JSON_RECORDS.value_serde:
        example = f", for example {dict.fromkeys(schema.names, record.value)!r}"
        message = (
            f"a value must be a dict, not {record.value!r}. The serde of the topic is "
            f"{consumed.value_serde}, so pass a dict of the columns "
            f"{schema.names}{example * (len(schema) == 1)}"
        )
        raise IllegalArgumentType(message)


def _header_strings(headers: Mapping[str, bytes]) -> dict[str, str | None]:
    """Return headers as in an event log. A header that is not UTF-8 is null, as from Kafka."""
    found: dict[str, str | None] = {}
    for name, value in headers.items():
        try:
            found[name] = value.decode()
        except UnicodeDecodeError:
            found[name] = None
    return found


def _with_wrong_types(rows: pa.Table, not_json: Flags) -> pa.Table:
    """Return decoded rows. A foreign row without another reason becomes a wrong-type row."""
    invalid = pa.array(not_json & ~np.asarray(rows["reason"].is_valid()))
    for name in ("key", "timestamp_ms", "value"):
        nothing = pa.scalar(None, rows[name].type)
        rows = _with(rows, name, pc.if_else(invalid, nothing, rows[name]))
    return _with(rows, "reason", pc.if_else(invalid, Reason.WRONG_TYPE.value, rows["reason"]))


def _with(rows: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)


def _is_not_json(value: Any, column_type: pa.DataType) -> bool:
    """Return True if a column has a Python value that JSON does not have."""
    types = pa.types
    if types.is_struct(column_type) and isinstance(value, dict):
        return any(_is_not_json(value.get(field.name), field.type) for field in column_type)
    if types.is_map(column_type) and isinstance(value, dict):
        return any(_is_not_json(item, column_type.item_type) for item in value.values())
    if types.is_list(column_type) and isinstance(value, list):
        return any(_is_not_json(item, column_type.value_type) for item in value)
    is_type = _TYPES_WITHOUT_JSON.get(type(value))
    if is_type is not None:
        return not is_type(column_type)
    return not isinstance(value, str | int | float | list | dict | None)


def _plain(value: Any) -> Any:
    """Return ``value`` with numpy values and tuples as JSON numbers and lists.

    Other values stay unchanged, and every column rejects them.
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


def _in_json(value: Any) -> str:
    """Return a value that JSON does not have as the string that its column accepts."""
    if isinstance(value, Decimal | date):
        return str(value)
    return b64encode(value).decode() if isinstance(value, bytes) else repr(value)
