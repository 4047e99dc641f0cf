"""Pages as Arrow tables, parsed from the index's JSON with the schema of the store.

The index writes the JSON (``oriel.storage.index``), so its fields have exactly the types of the
definition. NaN and infinities are null, because JSON does not have them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from oriel.storage import StoreDefinition, StoreKind
from oriel.storage.delta import arrow_type, store_schema

#: Field of the JSON -> column of the table.
_TIMES: Mapping[str, str] = {
    "window_start_ms": "window_start",
    "window_end_ms": "window_end",
    "timestamp_ms": "timestamp",
    "valid_from_ms": "valid_from",
    "valid_to_ms": "valid_to",
}

#: The columns of a version, which the table of a store does not have.
VALIDITY = ("valid_from", "valid_to")

#: Columns of a store's table that are not in responses.
_INTERNAL = ("deleted", "revision")


def page_table(items: Sequence[bytes], definition: StoreDefinition) -> Any:
    """Return windows or rows as an Arrow table with the columns and types of the store's table.

    Args:
        items: JSON objects of the store, all with the same fields. The table has only these
            fields, or all columns without an item. The order of the items is unchanged.
        definition: The definition of the store.
    """
    schema = _response_schema(definition)
    if items:
        fields = {_TIMES.get(name, name) for name in orjson.loads(items[0])}
        schema = pa.schema([field for field in schema if field.name in fields])
    fields_by_column = {column: field for field, column in _TIMES.items()}
    plain = pa.schema([
        pa.field(fields_by_column[field.name], pa.int64())
        if field.name in fields_by_column
        else field
        for field in schema
    ])  # fmt: skip
    table = _parsed(items, plain)
    columns = [
        _timestamps(table[fields_by_column[field.name]], field.type)
        if field.name in fields_by_column
        else table[field.name]
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def keys_table(keys: Sequence[str]) -> Any:
    """Return keys as a table with one column."""
    schema = pa.schema([pa.field("key", pa.string(), nullable=False)])
    return pa.table([pa.array(keys, pa.string())], schema=schema)


def with_ms_times(table: Any) -> Any:
    """Return the table with timestamps as integers in ms, with the names of the JSON fields."""
    return _with_times(table, {column: field for field, column in _TIMES.items()}, _milliseconds)


def with_iso_times(table: Any) -> Any:
    """Return the table with timestamps as ISO 8601 strings, ``2013-01-01T10:00:00.000Z``."""
    return _with_times(table, {column: column for column in _TIMES.values()}, _iso_texts)


def _response_schema(definition: StoreDefinition) -> pa.Schema:
    aggregates = {aggregate.name: arrow_type(aggregate.type) for aggregate in definition.aggregates}
    schema = store_schema(aggregates, windowed=definition.window.is_windowed)
    fields = [field for field in schema if field.name not in _INTERNAL]
    if definition.window.kind is StoreKind.VERSIONED:
        fields += [schema.field("timestamp").with_name(name) for name in VALIDITY]
    return pa.schema(fields)


def _parsed(items: Sequence[bytes], schema: pa.Schema) -> Any:
    if not items:
        return schema.empty_table()
    lines = b"\n".join(items)
    # One block, because one line can be longer than any fixed block.
    options = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    by_schema = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pj.read_json(pa.BufferReader(lines), options, by_schema)


def _with_times(table: Any, names: Mapping[str, str], written: Any) -> Any:
    return pa.table({
        names.get(name, name): written(column) if name in names else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    })  # fmt: skip


def _timestamps(times_ms: Any, timestamp: pa.DataType) -> Any:
    return times_ms.cast(pa.timestamp("ms", tz="UTC")).cast(timestamp)


def _milliseconds(column: Any) -> Any:
    return column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())


def _iso_texts(column: Any) -> Any:
    times_ms = _milliseconds(column)
    times = np.asarray(times_ms.fill_null(0), np.int64).view("datetime64[ms]")
    texts = pa.array(np.datetime_as_string(times, unit="ms", timezone="UTC"), pa.string())
    # The newest version has no end.
    return texts if not times_ms.null_count else pc.if_else(times_ms.is_valid(), texts, None)
