"""Avro values, which fastavro reads with the schema of their writer.

A column has the value of the field with the same name. It is null if the writer has no such field.
Values must fit their column:

- an integer column: integers in its range
- DOUBLE: all numbers
- FLOAT: numbers that it does not round to infinity
- STRING: strings, enums, and bytes that are UTF-8
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from struct import error as struct_error
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.schema import (
    SchemaParseException,
    UnknownType,
    fingerprint,
    to_parsing_canonical_form,
)

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.block_bytes import BlockBytes
from oriel.pipeline.decoding.formats.registry import SchemaRegistry
from oriel.pipeline.decoding.row_errors import RowErrors, WrongType
from oriel.pipeline.decoding.values import as_float, struct_rows
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import AvroSerde

#: Errors of fastavro for bytes that are not a record of the schema.
_READ_ERRORS = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct_error,
)  # fmt: skip

#: Confluent's header: a zero byte, and the id of the schema in four bytes.
_ID_BYTES = 4
REGISTRY_HEADER_BYTES = 1 + _ID_BYTES
#: Avro's single-object encoding: this marker, and the fingerprint of the schema.
_MARKER = b"\xc3\x01"

#: A detail contains a value with one of the types below, and only the type of other values.
_DETAIL_TYPES = (bool, int, float, str)

#: Type of a column -> Avro types with values that are not converted.
_UNCONVERTED_TYPES = {
    pa.bool_(): {"boolean"},
    pa.int32(): {"int"},
    pa.int64(): {"int", "long"},
    pa.float32(): {"float"},
    pa.float64(): {"float", "double"},
    pa.string(): {"string", "enum"},
}


@dataclass(frozen=True)
class WriterSchema:
    """The schema of a writer.

    Attributes:
        parsed: The schema as fastavro uses it.
        expanded: The schema with each name replaced by its definition.
    """

    parsed: Any
    expanded: Any


@dataclass(frozen=True)
class AvroReader:
    """Reads Avro values as rows of ``row_type``.

    Attributes:
        serde: The serde of the values, with or without a schema.
        row_type: The type of the rows.
        registry: The schema registry, for a serde without a schema.
    """

    serde: AvroSerde
    row_type: pa.StructType
    registry: SchemaRegistry | None

    def __post_init__(self) -> None:
        """Check the schema, if the serde has one, before any record arrives.

        Raises:
            InvalidTopology: The schema is not valid or has no field for a column. Or the serde
                has no schema, and ``registry`` is None.
        """
        if self.serde.schema is None:
            if self.registry is None:
                message = (
                    "the values contain the ids of their Avro schemas, so a schema registry is "
                    "needed. Add --schema-registry URL"
                )
                raise InvalidTopology(message)
            return
        schema = writer_schema((self.serde.schema,))
        if isinstance(schema, str):
            message = f"the Avro schema is not valid: {schema}"
            raise InvalidTopology(message)
        names = {field["name"] for field in schema.expanded["fields"]}
        missing = [field.name for field in self.row_type if field.name not in names]
        if missing:
            message = (
                f"the Avro schema has no fields for the columns {missing}. Use its field names"
            )
            raise InvalidTopology(message)

    def read(self, values: pa.BinaryArray, row_errors: RowErrors) -> pa.StructArray:
        rows: list[dict[str, Any] | None] = [None] * len(values)
        for schemas, header_bytes, indexes in self._by_schema(values, row_errors):
            schema = writer_schema(schemas)
            if isinstance(schema, str):
                for index in indexes.tolist():
                    row_errors.set_one(index, Reason.UNKNOWN_SCHEMA, schema)
                continue
            is_plain = _fits(schema.expanded, self.row_type)
            schema_values = values.take(pa.array(indexes)).to_pylist()
            for index, value in zip(indexes.tolist(), schema_values, strict=True):
                row = _record(value[header_bytes:], schema.parsed)
                if row is None:
                    row_errors.set_one(index, Reason.NOT_AVRO)
                    continue
                try:
                    rows[index] = row if is_plain else _converted(row, self.row_type)
                except WrongType as error:
                    row_errors.set_one(index, Reason.WRONG_TYPE, error.detail)
        return struct_rows(rows, self.row_type, row_errors)

    def _by_schema(
        self, values: pa.BinaryArray, row_errors: RowErrors
    ) -> Iterator[tuple[tuple[str, ...], int, np.ndarray]]:
        """Yield each schema, the length of its values' header, and the indexes of its values."""
        is_present = np.asarray(values.is_valid()) & ~row_errors.invalid
        if self.serde.header == "none":
            yield (str(self.serde.schema),), 0, np.flatnonzero(is_present)
        elif self.serde.header == "single-object":
            header = _MARKER + _fingerprint(str(self.serde.schema))
            begins = pc.starts_with(values, header)
            fits = is_present & np.asarray(pc.fill_null(begins, False))  # noqa: FBT003
            row_errors.set(is_present & ~fits, Reason.NOT_AVRO)
            yield (str(self.serde.schema),), len(header), np.flatnonzero(fits)
        else:
            assert self.registry is not None
            ids, has_header = schema_ids(values)
            row_errors.set(is_present & ~has_header, Reason.NOT_AVRO)
            for schema_id in np.unique(ids[is_present & has_header]).tolist():
                has_id = is_present & has_header & (ids == schema_id)
                schemas = self.registry.avro_schemas(schema_id)
                if schemas is None:
                    row_errors.set(has_id, Reason.UNKNOWN_SCHEMA)
                else:
                    yield schemas, REGISTRY_HEADER_BYTES, np.flatnonzero(has_id)


def schema_ids(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids in Confluent's headers, and which values have a header."""
    found = BlockBytes(values.fill_null(b""))
    has_header = found.ends - found.starts >= REGISTRY_HEADER_BYTES
    starts = found.starts[has_header].astype(np.int64)
    ids = np.zeros(len(values), np.int64)
    digits = found.data[starts[:, None] + np.arange(1, REGISTRY_HEADER_BYTES)].astype(np.int64)
    ids[has_header] = digits @ (256 ** np.arange(_ID_BYTES)[::-1])
    has_header[has_header] = found.data[starts] == 0
    return ids, has_header


@lru_cache(maxsize=1024)
def writer_schema(schemas: tuple[str, ...]) -> WriterSchema | str:
    """Return the last of ``schemas``, which can reference the others, or an error message."""
    has_id: dict[str, Any] = {}
    expanded_names: dict[str, Any] = {}
    try:
        for text in schemas:
            plain = _without_logical_types(json.loads(text))
            parsed = fastavro.parse_schema(plain, named_schemas=has_id)
            expanded = fastavro.parse_schema(plain, named_schemas=expanded_names, expand=True)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    except RecursionError:
        return "it is nested too deeply"
    if not isinstance(expanded, dict) or expanded["type"] != "record":
        return "it is not the schema of a record"
    return _unbounded(expanded, ()) or WriterSchema(parsed, expanded)


@lru_cache(maxsize=64)
def _fingerprint(schema: str) -> bytes:
    canonical = to_parsing_canonical_form(json.loads(schema))
    return bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def _without_logical_types(schema: Any) -> Any:
    """Return the schema without logical types: a time is a number, and a decimal is bytes."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if isinstance(schema, dict):
        return {
            name: _without_logical_types(each)
            for name, each in schema.items()
            if name not in {"logicalType", "default", "doc"}
        }
    return schema


def _unbounded(schema: Any, enclosing_records: tuple[str, ...]) -> str | None:
    """Return why a few bytes of this schema could exhaust the process, or None.

    A record that contains itself has no limit of depth. An array whose items can have zero bytes
    has no limit of length.
    """
    node = _node(schema)
    kind = node["type"]
    if kind in enclosing_records:
        return f"{kind} contains itself without end"
    if kind == "array" and _can_be_empty(node["items"]):
        return "it has an array whose items can have zero bytes"
    inner = (*enclosing_records, node["name"]) if kind == "record" else enclosing_records
    return next(filter(None, (_unbounded(each, inner) for each in _children(node))), None)


def _can_be_empty(schema: Any) -> bool:
    node = _node(schema)
    if node["type"] == "record":
        return all(map(_can_be_empty, _children(node)))
    return bool(node["type"] == "null" or (node["type"] == "fixed" and node["size"] == 0))


def _node(schema: Any) -> dict[str, Any]:
    """Return a schema in any notation as an object with a type. A list has the type union."""
    while isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        schema = schema["type"]
    if isinstance(schema, list):
        return {"type": "union", "branches": schema}
    return schema if isinstance(schema, dict) else {"type": schema}


def _children(node: dict[str, Any]) -> list[Any]:
    fields = [field["type"] for field in node.get("fields", ())]
    return [
        *fields,
        *node.get("branches", ()),
        *(node[n] for n in ("items", "values") if n in node),
    ]


def _fits(written: Any, column_type: pa.DataType) -> bool:
    """Return whether all values of a schema fit a column, so that no value is converted."""
    node = _node(written)
    kind = node["type"]
    if kind == "union":
        return all(_fits(each, column_type) for each in node["branches"] if each != "null")
    if pa.types.is_struct(column_type) and kind == "record":
        types = {field["name"]: field["type"] for field in node["fields"]}
        return all(
            field.name not in types or _fits(types[field.name], field.type) for field in column_type
        )
    if pa.types.is_list(column_type) and kind == "array":
        return _fits(node["items"], column_type.value_type)
    return kind in _UNCONVERTED_TYPES.get(column_type, set())


def _record(value: bytes, schema: Any) -> Any:
    """Return the record of a value, or None if the bytes are not exactly one record."""
    stream = BytesIO(value)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except _READ_ERRORS:
        return None
    return record if stream.tell() == len(value) else None


def _converted(value: Any, column_type: pa.DataType) -> Any:
    """Return a value for a column of Arrow. Raise WrongType if it does not fit."""
    types, kind = pa.types, type(value)
    if kind is dict and types.is_struct(column_type):
        row: dict[str, Any] = {}
        for field in column_type:
            try:
                row[field.name] = _converted(value.get(field.name), field.type)
            except WrongType as error:
                error.path.insert(0, field.name)
                raise
        return row
    if kind is dict and types.is_map(column_type) and types.is_string(column_type.key_type):
        return [(name, _converted(item, column_type.item_type)) for name, item in value.items()]
    if kind is list and types.is_list(column_type):
        return [_converted(item, column_type.value_type) for item in value]
    return None if value is None else _scalar(value, column_type)


def _scalar(value: Any, column_type: pa.DataType) -> Any:
    types, kind = pa.types, type(value)
    if kind is bytes and types.is_string(column_type):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise WrongType(column_type, "bytes that are not UTF-8") from error
    if kind in {int, float} and types.is_floating(column_type):
        return as_float(value, column_type)
    fits = (
        (kind is str and types.is_string(column_type))
        or (kind is int and types.is_integer(column_type))
        or (kind is bool and types.is_boolean(column_type))
    )
    if not fits:
        raise WrongType(column_type, repr(value) if kind in _DETAIL_TYPES else f"a {kind.__name__}")
    return value
