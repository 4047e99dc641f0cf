"""From raw source rows to records, block by block: by Arrow, and line by line where it must be.

Both sources come out alike: ``partition, offset, raw, key, timestamp_ms, value, reason``. What is a
record and what is not is Spark's ``from_json`` hardened, as ``sources/spark_decoding.py`` says and
a test proves over hostile lines; this takes a fraction of its time and no JVM.
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

#: So many bytes are parsed at once: enough that the start of a parse costs nothing beside it, and
#: so few that they stay in a processor's cache.
_BLOCK_BYTES = 1 << 20
#: The first block of a batch shows whether its lines are good.
_FIRST_BLOCK_BYTES = 1 << 15
#: So few lines, and no more bytes, are read one by one.
_FEW_LINES = 32
_FEW_BYTES = 1 << 13

_NOTHING = pa.scalar(b"", pa.binary())


@dataclass(frozen=True)
class BlockDecoder:
    """Decodes batches of raw rows; made once per source, without state between calls.

    ``value_type`` has the columns of the value. Where ``has_envelope`` a line is
    ``{"key": ..., "value": {...}, "timestamp_ms": ..., "headers": {...}}``, else it is the value
    alone, and key, timestamp and headers are columns of the batch; then ``values`` reads values
    that are no JSON. ``consumed`` says what the keys are, which time counts, and which headers.
    """

    value_type: pa.StructType
    has_envelope: bool
    consumed: Consumed = JSON_RECORDS
    values: ValueReader | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of decoded records."""
        headers = [pa.field(name, pa.string()) for name in self.consumed.headers.values()]
        return decoded_schema(pa.struct([*self.value_type, *headers]))

    def decode(self, raw: pa.RecordBatch) -> pa.Table:
        """Turn raw rows into records, each with its value or the reason why not.

        ``raw`` has the columns partition, offset and raw; without an envelope also key (binary)
        and timestamp (in microseconds), and where they are wanted headers and ingested. A bad
        record's key, time and value are null.
        """
        decoded = []
        careful = False
        for block in _blocks(raw):
            table, careful = self._decoded(block, careful=careful)
            decoded.append(table)
        return pa.concat_tables(decoded) if decoded else self.schema.empty_table()

    def _decoded(self, block: pa.RecordBatch, *, careful: bool) -> tuple[pa.Table, bool]:
        """The records of a block, and whether Arrow's reader refused one."""
        texts = block["raw"]
        faults, refused = Faults(len(texts)), False
        if not self.has_envelope:
            # A bad key is told rather than a bad value, as Spark's decoder does.
            key, time_ms, headers = self._of_message(block, faults)
            message = _message(block, time_ms)
        if self.values is not None:
            value = self.values.read(texts, faults)
        else:
            text_field = "key" if self.has_envelope else None
            value, refused = _read(texts, self.line_type, text_field, faults, careful=careful)
        if self.has_envelope:
            if value.null_count:  # a line that is null is no object
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
        """What a line holds: the envelope, or the columns of the value."""
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
        """Key, time, headers and value of lines with an envelope."""
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
        """Key, time and headers of Kafka's messages."""
        consumed = self.consumed
        key = read_keys(consumed.key_serde.name, block["key"], faults)
        clock = "ingested" if consumed.timestamp == "ingestion" else "timestamp"
        headers = header_columns(block["headers"], consumed.headers) if consumed.headers else []
        return key, message_times_ms(block[clock]), headers


def _message(block: pa.RecordBatch, time_ms: pa.Array) -> pa.StructArray:
    """What messages had beside their values, whose columns are taken as they are."""
    key, _, headers = MESSAGE.type
    given = block["headers"].cast(headers.type) if "headers" in block.schema.names else None
    columns = [
        block["key"].cast(key.type),
        time_ms,
        pa.nulls(len(block), headers.type) if given is None else given,
    ]
    return pa.StructArray.from_arrays(columns, fields=list(MESSAGE.type))


def event_log_decoder(value_schema: str, consumed: Consumed = JSON_RECORDS) -> BlockDecoder | None:
    """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ..., "headers": {...}}``.

    None: ``value_schema`` has a type that only Spark's reader reads as Spark does, or a fault that
    Spark's decoder names. Where ``consumed`` says more than Spark's decoder knows, it is told here.

    Raises:
        InvalidTopology: ``consumed`` is given, and the schema can't be read.
    """
    value_type = _value_type(value_schema, consumed)
    return None if value_type is None else BlockDecoder(value_type, True, consumed)  # noqa: FBT003


def kafka_decoder(
    value_schema: str,
    consumed: Consumed = JSON_RECORDS,
    registry: SchemaRegistry | None = None,
) -> BlockDecoder | None:
    """Decode Kafka messages: key, value, time and headers as ``consumed`` says.

    A message without a value, or whose text is JSON's ``null``, is a tombstone: its value is null.
    ``registry`` is asked for the schemas of values that name them. None: see ``event_log_decoder``.

    Raises:
        InvalidTopology: ``consumed`` is given, and the schema can't be read or does not fit.
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
    """Whether each type is read alike: no maps, no TINYINT.

    Spark's decoder refuses TINYINT and names that differ by case only, and some that begin with
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
    """Cut a batch into blocks of at most ``_BLOCK_BYTES``, or of one longer line.

    The first one is smaller: if it has bad lines, so will the others.
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
    """Rows of ``texts``, null where there is none; a bad one sets its reason.

    And whether Arrow's reader refused one of them; ``careful`` if it is likely to.
    """
    are_few = len(texts) <= _FEW_LINES and texts.nbytes <= _FEW_BYTES
    # Arrow's reader knows no maps.
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
        # JSON has no infinity: Arrow's reader rounds a number that is out of range to it.
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
    """The rows of some lines by their numbers, None without one; a bad one sets its reason."""
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
