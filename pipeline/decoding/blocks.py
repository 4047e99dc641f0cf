"""Decode raw rows to records, block by block.

Arrow parses blocks of lines. Python parses the lines that Arrow could read differently from Spark.
Records of both sources have the columns of ``hops.decoded_schema``.

Spark's ``from_json`` with the additional checks of ``sources/spark_decoding.py`` defines a valid
record (docs/decisions/0020). A test compares both decoders over hostile lines. This decoder needs
a fraction of the time and no JVM.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.faults import Faults, WrongType
from oriel.pipeline.decoding.formats import SchemaRegistry, value_reader
from oriel.pipeline.decoding.headers import header_columns
from oriel.pipeline.decoding.json_lines import (
    BlockReader,
    decode_line,
    infinite_rows,
    suspicious_lines,
)
from oriel.pipeline.decoding.keys import read_keys
from oriel.pipeline.decoding.times import field_times_ms, judge_times, message_times_ms
from oriel.pipeline.decoding.values import ValueReader
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import MESSAGE, decoded_schema
from oriel.pipeline.language import JSON_RECORDS, Consumed, FieldTimestamp, arrow_schema

#: The size of a block. The start of a parse is a small part of its time, and a block fits into the
#: cache of a processor.
_BLOCK_BYTES = 1 << 20
#: The first block of a batch is small. It shows whether the batch has invalid lines.
_FIRST_BLOCK_BYTES = 1 << 15
#: A block with at most this many lines and bytes is parsed line by line.
_FEW_LINES = 32
_FEW_BYTES = 1 << 13

_NOTHING = pa.scalar(b"", pa.binary())


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
        decoded = []
        careful = False
        for block in _blocks(raw):
            table, careful = self._decoded(block, careful=careful)
            decoded.append(table)
        return pa.concat_tables(decoded) if decoded else self.schema.empty_table()

    def _decoded(self, block: pa.RecordBatch, *, careful: bool) -> tuple[pa.Table, bool]:
        """Return the records of a block, and whether Arrow's reader rejected a line."""
        texts = block["raw"]
        faults, refused = Faults(len(texts)), False
        if not self.has_envelope:
            # Only the first error of a row counts. As in Spark's decoder, the key is checked first.
            key, time_ms, headers = self._of_message(block, faults)
            message = _message(block, time_ms)
        if self.values is not None:
            value = self.values.read(texts, faults)
        else:
            text_field = "key" if self.has_envelope else None
            value, refused = _read(texts, self.line_type, text_field, faults, careful=careful)
        if self.has_envelope:
            if value.null_count:  # JSON's null is not an object
                faults.set(np.asarray(value.is_null()), Reason.WRONG_TYPE)
            key, time_ms, headers, value = self._opened(value)
            message = pa.nulls(len(texts), MESSAGE.type)
        count, timestamp = faults.count, self.consumed.timestamp
        if isinstance(timestamp, FieldTimestamp):
            time_ms = field_times_ms(timestamp, value, time_ms, faults)
        judge_times(time_ms, faults, timestamp)
        if headers:
            fields, mask = list(self.schema.field("value").type), value.is_null()
            value = pa.StructArray.from_arrays([*value.flatten(), *headers], None, fields, mask)
        if faults.count > count or not self.has_envelope:
            bad = pa.array(faults.bad)
            key, time_ms, value = (
                pc.if_else(bad, pa.scalar(None, column.type), column)
                for column in (key, time_ms, value)
            )
        decoded = {
            "partition": block["partition"],
            "offset": block["offset"],
            "raw": pc.coalesce(texts, _NOTHING) if texts.null_count else texts,
            MESSAGE.name: message,
            "key": key,
            "timestamp_ms": time_ms,
            "value": value,
            "reason": faults.reasons(),
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
            of_lines = pc.struct_field(rows, "headers")
            headers = [pc.struct_field(of_lines, name) for name in self.consumed.headers]
        return key, time_ms, headers, value

    def _of_message(
        self, block: pa.RecordBatch, faults: Faults
    ) -> tuple[pa.Array, pa.Array, list[pa.Array]]:
        """Return the key, time and headers of Kafka messages."""
        consumed = self.consumed
        key = read_keys(consumed.key_serde.name, block["key"], faults)
        clock = "ingested" if consumed.timestamp == "ingestion" else "timestamp"
        headers = header_columns(block["headers"], consumed.headers) if consumed.headers else []
        return key, message_times_ms(block[clock]), headers


def _message(block: pa.RecordBatch, time_ms: pa.Array) -> pa.StructArray:
    """Return the column ``MESSAGE``: key, time and headers of each message, for dead letters."""
    key, _, headers = MESSAGE.type
    given = block["headers"].cast(headers.type) if "headers" in block.schema.names else None
    columns = [
        block["key"].cast(key.type),
        time_ms,
        pa.nulls(len(block), headers.type) if given is None else given,
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
    value_schema: str,
    consumed: Consumed = JSON_RECORDS,
    registry: SchemaRegistry | None = None,
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
    return value_type if _is_readable(value_type) else None


def _is_readable(value_type: pa.StructType) -> bool:
    """Return False if Spark's decoder has to read the schema (maps), or to report its error.

    Spark's decoder rejects TINYINT, names that differ only in case, and some names that begin with
    a digit.
    """
    for each in _types_in(value_type):
        if pa.types.is_map(each) or pa.types.is_int8(each):
            return False
        names = [field.name.lower() for field in each] if pa.types.is_struct(each) else []
        if len(set(names)) < len(names) or any(name[0].isdigit() for name in names):
            return False
    return True


def _types_in(column_type: pa.DataType) -> Iterator[pa.DataType]:
    yield column_type
    for number in range(column_type.num_fields):
        yield from _types_in(column_type.field(number).type)


def _blocks(raw: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield blocks of at most ``_BLOCK_BYTES``, or of one longer line.

    The first block is smaller. If it has invalid lines, the others probably have them also.
    """
    lengths = pc.fill_null(pc.binary_length(raw["raw"]), 0)
    ends = np.cumsum(np.asarray(lengths), dtype=np.int64)
    start, size = 0, _FIRST_BLOCK_BYTES
    while start < len(ends):
        begun = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, begun + size, side="right")))
        yield raw[start:end]
        start, size = end, _BLOCK_BYTES


def _read(
    texts: pa.BinaryArray,
    row_type: pa.StructType,
    text_field: str | None,
    faults: Faults,
    *,
    careful: bool,
) -> tuple[pa.StructArray, bool]:
    """Return the rows of ``texts``, and whether Arrow's reader rejected a line.

    The row of a null or invalid text is null. An invalid text sets the reason of its row.

    Args:
        texts: JSON texts.
        row_type: The type of the rows.
        text_field: See ``decode_line``.
        faults: The reasons of invalid rows, which this function adds to.
        careful: See ``BlockReader.read``.
    """
    are_few = len(texts) <= _FEW_LINES and texts.nbytes <= _FEW_BYTES
    # Arrow's reader does not support maps.
    if are_few or any(map(pa.types.is_map, _types_in(row_type))):
        found = _read_slowly(texts, range(len(texts)), row_type, text_field, faults)
        return pa.array(list(found.values()), row_type), False
    no_text = np.asarray(texts.is_null())
    lines = texts.fill_null(b"") if no_text.any() else texts
    has_floats = any(map(pa.types.is_floating, _types_in(row_type)))
    suspicious = suspicious_lines(lines, has_floats=has_floats)
    rows, unread = BlockReader(row_type).read(lines, suspicious, careful=careful)
    refused = bool((unread & ~suspicious).any())
    if has_floats and (infinite := infinite_rows(rows)).any():
        # JSON has no infinity. Arrow's reader rounds a number that is out of range to infinity.
        rows = pc.if_else(pa.array(infinite), pa.scalar(None, row_type), rows)
        unread = unread | infinite
    slow = np.flatnonzero(unread & ~no_text)
    found = _read_slowly(texts, slow.tolist(), row_type, text_field, faults)
    good = slow[[found[number] is not None for number in slow.tolist()]]
    if len(good):
        order = np.arange(len(texts))
        order[good] = len(texts) + np.arange(len(good))
        read_slowly = pa.array([found[number] for number in good.tolist()], row_type)
        rows = pa.concat_arrays([rows, read_slowly]).take(pa.array(order))
    return rows, refused


def _read_slowly(
    texts: pa.BinaryArray,
    numbers: Iterable[int],
    row_type: pa.StructType,
    text_field: str | None,
    faults: Faults,
) -> dict[int, dict[str, Any] | None]:
    """Return index -> row for lines that are parsed one by one, None for null and invalid lines.

    An invalid line sets the reason of its row.
    """
    found = {}
    for number in numbers:
        line = texts[number].as_py()
        row = None if line is None else decode_line(line, row_type, text_field)
        if isinstance(row, WrongType):
            faults.set_one(number, Reason.WRONG_TYPE, row.detail)
            row = None
        elif isinstance(row, Reason):
            faults.set_one(number, row)
            row = None
        found[number] = row
    return found
