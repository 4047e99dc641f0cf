"""Decode raw rows to records, block by block.

Arrow parses blocks of lines. Python parses the lines that Arrow could read differently from Spark.
Records of both sources have the columns of ``stage_columns.decoded_schema``.

Spark's ``from_json`` with the additional checks of ``sources/spark_decoding.py`` defines a valid
record (docs/decisions/0020). A test compares both decoders over hostile lines. This decoder needs
a fraction of the time and no JVM.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.formats import SchemaRegistry, value_reader
from oriel.pipeline.decoding.headers import header_columns
from oriel.pipeline.decoding.json_lines import (
    BlockReader,
    converted,
    decode_line,
    has_map,
    json_type,
    maps_as_lists,
    suspicious_lines,
    types_in,
)
from oriel.pipeline.decoding.keys import read_keys
from oriel.pipeline.decoding.row_errors import RowErrors, WrongType
from oriel.pipeline.decoding.times import check_times, field_times_ms, message_times_ms
from oriel.pipeline.decoding.values import ValueReader
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import JSON_RECORDS, Consumed, FieldTimestamp, arrow_schema
from oriel.pipeline.stage_columns import MESSAGE, decoded_schema

#: The size of a block. The start of a parse is a small part of its time, and a block fits into the
#: cache of a processor.
_BLOCK_BYTES = 1 << 20
#: The first block of a batch is small. It shows whether the batch has invalid lines.
_FIRST_BLOCK_BYTES = 1 << 15
#: A block with at most this many lines and bytes is parsed line by line.
_MAX_LINES_ONE_BY_ONE = 32
_MAX_BYTES_ONE_BY_ONE = 1 << 13

_NO_BYTES = pa.scalar(b"", pa.binary())


@dataclass(frozen=True)
class BlockDecoder:
    """Decodes batches of raw rows. A source has one decoder, without state between calls.

    Attributes:
        value_type: The columns of the value.
        has_envelope: If True, a line is
            ``{"key": ..., "value": {...}, "timestamp_ms": ..., "headers": {...}}``. If False, it
            is only the value, and the batch has columns for the key, time and headers.
        consumed: The serdes, the time of a record, and the headers that become columns.
        values: The reader of values that are not JSON, only without an envelope.
    """

    value_type: pa.StructType
    has_envelope: bool
    consumed: Consumed = JSON_RECORDS
    values: ValueReader | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of decoded records."""
        headers = [pa.field(name, pa.string()) for name in self.consumed.headers.values()]
        return decoded_schema(pa.struct([*self.value_type, *headers]))

    def decode(self, raw: pa.RecordBatch) -> pa.Table:
        """Return the record of each raw row, with its value or the reason why it is invalid.

        The key, time and value of an invalid record are null.

        Args:
            raw: Rows with the columns ``partition``, ``offset`` and ``raw``. Without an envelope,
                they also have ``key`` (binary) and ``timestamp`` (in microseconds), and ``headers``
                and ``ingested`` if ``consumed`` needs them.
        """
        ends = np.cumsum(pc.fill_null(pc.binary_length(raw["raw"]), 0), dtype=np.int64)
        decoded = []
        # If the first block, which is smaller, has invalid lines, the others probably have them.
        start, size, expects_rejections = 0, _FIRST_BLOCK_BYTES, False
        while start < len(ends):
            start_byte = ends[start - 1] if start else 0
            # A longer line is a block.
            end = max(start + 1, int(np.searchsorted(ends, start_byte + size, side="right")))
            table, expects_rejections = self._decoded(
                raw[start:end], expects_rejections=expects_rejections
            )
            decoded.append(table)
            start, size = end, _BLOCK_BYTES
        return pa.concat_tables(decoded) if decoded else self.schema.empty_table()

    def _decoded(self, block: pa.RecordBatch, *, expects_rejections: bool) -> tuple[pa.Table, bool]:
        """Return the records of a block, and whether Arrow's reader rejected a line."""
        texts = block["raw"]
        row_errors, refused = RowErrors(len(texts)), False
        if not self.has_envelope:
            # Only the first error of a row counts. As in Spark's decoder, the key is checked first.
            key, time_ms, headers = self._message_fields(block, row_errors)
            message = _message(block, time_ms)
        if self.values is not None:
            value = self.values.read(texts, row_errors)
        else:
            string_field = "key" if self.has_envelope else None
            value, refused = _read(
                texts,
                self.line_type,
                string_field,
                row_errors,
                expects_rejections=expects_rejections,
            )
        if self.has_envelope:
            if value.null_count:  # JSON's null is not an object
                row_errors.set(np.asarray(value.is_null()), Reason.WRONG_TYPE)
            key, time_ms, headers, value = self._opened(value)
            message = pa.nulls(len(texts), MESSAGE.type)
        count, timestamp = row_errors.count, self.consumed.timestamp
        if isinstance(timestamp, FieldTimestamp):
            time_ms = field_times_ms(timestamp, value, time_ms, row_errors)
        check_times(time_ms, row_errors, timestamp)
        if headers:
            fields, mask = list(self.schema.field("value").type), value.is_null()
            value = pa.StructArray.from_arrays([*value.flatten(), *headers], None, fields, mask)
        if row_errors.count > count or not self.has_envelope:
            invalid = pa.array(row_errors.invalid)
            key, time_ms, value = (
                pc.if_else(invalid, pa.scalar(None, column.type), column)
                for column in (key, time_ms, value)
            )
        decoded = {
            "partition": block["partition"],
            "offset": block["offset"],
            "raw": pc.coalesce(texts, _NO_BYTES) if texts.null_count else texts,
            MESSAGE.name: message,
            "key": key,
            "timestamp_ms": time_ms,
            "value": value,
            "reason": row_errors.reasons(),
        }
        return pa.table(decoded, schema=self.schema), refused

    @property
    def line_type(self) -> pa.StructType:
        """Return the type of a line: the envelope, or the columns of the value."""
        if not self.has_envelope:
            return self.value_type
        names = self.consumed.headers
        headers = [("headers", pa.struct([(name, pa.string()) for name in names]))] if names else []
        return pa.struct([
            ("key", pa.string()), ("timestamp_ms", pa.int64()), ("value", self.value_type),
            *headers,
        ])  # fmt: skip

    def _opened(
        self, rows: pa.StructArray
    ) -> tuple[pa.Array, pa.Array, list[pa.Array], pa.StructArray]:
        """Return the key, time, headers and value of lines with an envelope."""
        key, time_ms, value = (
            pc.struct_field(rows, name) for name in ("key", "timestamp_ms", "value")
        )
        headers = []
        if self.consumed.headers:
            line_headers = pc.struct_field(rows, "headers")
            headers = [pc.struct_field(line_headers, name) for name in self.consumed.headers]
        return key, time_ms, headers, value

    def _message_fields(
        self, block: pa.RecordBatch, row_errors: RowErrors
    ) -> tuple[pa.Array, pa.Array, list[pa.Array]]:
        """Return the key, time and headers of Kafka messages."""
        consumed = self.consumed
        key = read_keys(consumed.key_serde.name, block["key"], row_errors)
        time_column = "ingested" if consumed.timestamp == "ingestion" else "timestamp"
        headers = header_columns(block["headers"], consumed.headers) if consumed.headers else []
        return key, message_times_ms(block[time_column]), headers


def _message(block: pa.RecordBatch, time_ms: pa.Array) -> pa.StructArray:
    """Return the column ``MESSAGE``: key, time and headers of each message, for dead letters."""
    key, _, headers = MESSAGE.type
    headers_column = (
        block["headers"].cast(headers.type) if "headers" in block.schema.names else None
    )
    columns = [
        block["key"].cast(key.type),
        time_ms,
        pa.nulls(len(block), headers.type) if headers_column is None else headers_column,
    ]
    return pa.StructArray.from_arrays(columns, fields=list(MESSAGE.type))


def event_log_decoder(value_schema: str, consumed: Consumed = JSON_RECORDS) -> BlockDecoder | None:
    """Return the decoder of an event log.

    A line is ``{"key": ..., "value": {...}, "timestamp_ms": ..., "headers": {...}}``.

    Args:
        value_schema: The columns of the value in Spark DDL.
        consumed: How the topic is read.

    Returns:
        None if Spark's decoder has to read the schema, or to report an error in it. Spark's decoder
        only supports the default ``consumed``, so other values never return None.

    Raises:
        InvalidTopology: ``consumed`` is not the default, and the schema cannot be read.
    """
    value_type = _value_type(value_schema, consumed)
    return None if value_type is None else BlockDecoder(value_type, True, consumed)  # noqa: FBT003


def kafka_decoder(
    value_schema: str, consumed: Consumed = JSON_RECORDS, registry: SchemaRegistry | None = None
) -> BlockDecoder | None:
    """Return the decoder of Kafka messages.

    A message with a null value, or with the JSON value ``null``, is a tombstone. Its value is null.

    Args:
        value_schema: The columns of the value in Spark DDL.
        consumed: How the topic is read.
        registry: The schema registry, for values that contain the id of their schema.

    Returns:
        None in the same cases as ``event_log_decoder``.

    Raises:
        InvalidTopology: ``consumed`` is not the default, and the schema cannot be read or does not
            fit the serde of values.
    """
    value_type = _value_type(value_schema, consumed)
    if value_type is None:
        return None
    values = value_reader(consumed.value_serde, value_type, registry)
    return BlockDecoder(value_type, False, consumed, values)  # noqa: FBT003


def _value_type(value_schema: str, consumed: Consumed) -> pa.StructType | None:
    if consumed != JSON_RECORDS:
        return pa.struct(list(arrow_schema(value_schema)))
    try:
        value_type = pa.struct(list(arrow_schema(value_schema)))
    except InvalidTopology:
        return None
    # Spark's decoder reports the errors of a schema. It rejects TINYINT, maps whose keys are not
    # strings, names that differ only in case, and some names that begin with a digit.
    for each in types_in(value_type):
        names = [field.name.lower() for field in each] if pa.types.is_struct(each) else []
        if (
            (_is_other_map(each) or pa.types.is_int8(each))
            or len(set(names)) < len(names)
            or any(name[0].isdigit() for name in names)
        ):
            return None
    return value_type


def _is_other_map(column_type: pa.DataType) -> bool:
    """Return whether a type is a map that no JSON object fits, because its keys are not strings."""
    return pa.types.is_map(column_type) and not pa.types.is_string(column_type.key_type)


def _read(
    texts: pa.BinaryArray,
    row_type: pa.StructType,
    string_field: str | None,
    row_errors: RowErrors,
    *,
    expects_rejections: bool,
) -> tuple[pa.StructArray, bool]:
    """Return the rows of ``texts``, and whether Arrow's reader rejected a line.

    The row of a null or invalid text is null. An invalid text sets the reason of its row.

    Args:
        texts: JSON texts.
        row_type: The type of the rows.
        string_field: See ``decode_line``.
        row_errors: The reasons of invalid rows, which this function adds to.
        expects_rejections: See ``BlockReader.read``.
    """
    are_few = len(texts) <= _MAX_LINES_ONE_BY_ONE and texts.nbytes <= _MAX_BYTES_ONE_BY_ONE
    if are_few or any(map(_is_other_map, types_in(row_type))):
        found = _read_slowly(texts, range(len(texts)), row_type, string_field, row_errors)
        return pa.array(list(found.values()), row_type), False
    is_null = np.asarray(texts.is_null())
    lines = texts.fill_null(b"") if is_null.any() else texts
    read_type = json_type(row_type)
    suspicious = suspicious_lines(lines, types_in(read_type))
    if has_map(row_type):
        lines, suspicious = maps_as_lists(lines, suspicious, row_type)
    rows, unread = BlockReader(read_type).read(
        lines, suspicious, expects_rejections=expects_rejections
    )
    refused = bool((unread & ~suspicious).any())
    rows, is_unusual = converted(rows, row_type)
    if is_unusual.any():
        rows = pc.if_else(pa.array(is_unusual), pa.scalar(None, row_type), rows)
        unread = unread | is_unusual
    slow = np.flatnonzero(unread & ~is_null)
    found = _read_slowly(texts, slow.tolist(), row_type, string_field, row_errors)
    valid = slow[[found[index] is not None for index in slow.tolist()]]
    if len(valid):
        order = np.arange(len(texts))
        order[valid] = len(texts) + np.arange(len(valid))
        read_slowly = pa.array([found[index] for index in valid.tolist()], row_type)
        rows = pa.concat_arrays([rows, read_slowly]).take(pa.array(order))
    return rows, refused


def _read_slowly(
    texts: pa.BinaryArray,
    indexes: Iterable[int],
    row_type: pa.StructType,
    string_field: str | None,
    row_errors: RowErrors,
) -> dict[int, dict[str, Any] | None]:
    """Return index -> row for lines that are parsed one by one, None for null and invalid lines.

    An invalid line sets the reason of its row.
    """
    found = {}
    for index in indexes:
        line = texts[index].as_py()
        row = None if line is None else decode_line(line, row_type, string_field)
        if isinstance(row, WrongType):
            row_errors.set_one(index, Reason.WRONG_TYPE, row.detail)
            row = None
        elif isinstance(row, Reason):
            row_errors.set_one(index, row)
            row = None
        found[index] = row
    return found
