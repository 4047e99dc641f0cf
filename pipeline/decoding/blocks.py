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
from oriel.pipeline.decoding.arrow_json import BlockReader
from oriel.pipeline.decoding.lines import decode_line
from oriel.pipeline.decoding.suspicious import suspicious_lines
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import decoded_schema
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.windows import MAX_TIMESTAMP_MS, Flags

#: So many bytes are parsed at once: enough that the start of a parse costs nothing beside it, and
#: so few that they stay in a processor's cache.
_BLOCK_BYTES = 1 << 20
#: The first block of a batch shows whether its lines are good.
_FIRST_BLOCK_BYTES = 1 << 15
#: So few lines, and no more bytes, are read one by one.
_FEW_LINES = 32
_FEW_BYTES = 1 << 13

#: Reasons by their codes; 0 is none.
_REASONS = [None, *Reason]
_CODES = {reason: code for code, reason in enumerate(_REASONS)}
_REASON_NAMES = pa.array([reason and reason.value for reason in _REASONS], pa.string())

_NOTHING = pa.scalar(b"", pa.binary())


@dataclass(frozen=True)
class BlockDecoder:
    """Decodes batches of raw rows; made once per source, without state between calls.

    ``value_type`` has the columns of the value. Where ``has_envelope`` a line is
    ``{"key": ..., "value": {...}, "timestamp_ms": ...}``, else it is the value alone, and key and
    timestamp are columns of the batch.
    """

    value_type: pa.StructType
    has_envelope: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of decoded records."""
        return decoded_schema(self.value_type)

    def decode(self, raw: pa.RecordBatch) -> pa.Table:
        """Turn raw rows into records, each with its value or the reason why not.

        ``raw`` has the columns partition, offset and raw; without an envelope also key (binary)
        and timestamp (in microseconds). A bad record's key, time and value are null.
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
        text_field = "key" if self.has_envelope else None
        rows, reasons, refused = _read(texts, self.line_type, text_field, careful=careful)
        if self.has_envelope:
            key, time_ms, value = (
                pc.struct_field(rows, name) for name in ("key", "timestamp_ms", "value")
            )
            if rows.null_count:  # a line that is null is no object
                _set_reason(reasons, np.asarray(rows.is_null()), Reason.WRONG_TYPE)
        else:
            key, value, time_ms = _keys(block["key"], reasons), rows, _times_ms(block["timestamp"])
        have_bad_times = _judge_times(time_ms, reasons)
        if have_bad_times or not self.has_envelope:
            bad = pa.array(reasons != 0)
            key, time_ms, value = (
                pc.if_else(bad, pa.scalar(None, column.type), column)
                for column in (key, time_ms, value)
            )
        columns = {
            "partition": block["partition"],
            "offset": block["offset"],
            "raw": pc.coalesce(texts, _NOTHING) if texts.null_count else texts,
            "key": key,
            "timestamp_ms": time_ms,
            "value": value,
            "reason": _REASON_NAMES.take(pa.array(reasons)),
        }
        return pa.table(columns, schema=self.schema), refused

    @property
    def line_type(self) -> pa.StructType:
        """What a line holds: the envelope, or the columns of the value."""
        if not self.has_envelope:
            return self.value_type
        return pa.struct([
            ("key", pa.string()), ("timestamp_ms", pa.int64()), ("value", self.value_type),
        ])  # fmt: skip


def event_log_decoder(value_schema: str) -> BlockDecoder | None:
    """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``.

    None: ``value_schema`` has a type that only Spark's reader reads as Spark does, or a fault that
    Spark's decoder names.
    """
    value_type = _value_type(value_schema)
    return None if value_type is None else BlockDecoder(value_type, has_envelope=True)


def kafka_decoder(value_schema: str) -> BlockDecoder | None:
    """Decode Kafka messages: key as text, JSON value, the message's timestamp.

    A message without a value, or whose text is ``null``, is a tombstone: its value is null.
    None: see ``event_log_decoder``.
    """
    value_type = _value_type(value_schema)
    return None if value_type is None else BlockDecoder(value_type, has_envelope=False)


def _value_type(value_schema: str) -> pa.StructType | None:
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
    texts: pa.BinaryArray, row_type: pa.StructType, text_field: str | None, *, careful: bool
) -> tuple[pa.StructArray, np.ndarray, bool]:
    """Rows of ``texts``, null where there is none; the codes of the reasons why not.

    And whether Arrow's reader refused one of them; ``careful`` if it is likely to.
    """
    reasons = np.zeros(len(texts), np.int8)
    are_few = len(texts) <= _FEW_LINES and texts.nbytes <= _FEW_BYTES
    # Arrow's reader knows no maps.
    if are_few or any(map(pa.types.is_map, _types_in(row_type))):
        found = _read_slowly(texts, range(len(texts)), row_type, text_field, reasons)
        return pa.array(list(found.values()), row_type), reasons, False
    no_text = np.asarray(texts.is_null())
    lines = texts.fill_null(b"") if no_text.any() else texts
    has_floats = any(map(pa.types.is_floating, _types_in(row_type)))
    suspicious = suspicious_lines(lines, has_floats=has_floats)
    rows, unread = BlockReader(row_type).read(lines, suspicious, careful=careful)
    slow = np.flatnonzero(unread & ~no_text)
    found = _read_slowly(texts, slow.tolist(), row_type, text_field, reasons)
    good = slow[[found[number] is not None for number in slow.tolist()]]
    if len(good):
        order = np.arange(len(texts))
        order[good] = len(texts) + np.arange(len(good))
        read_slowly = pa.array([found[number] for number in good.tolist()], row_type)
        rows = pa.concat_arrays([rows, read_slowly]).take(pa.array(order))
    return rows, reasons, bool((unread & ~suspicious).any())


def _read_slowly(
    texts: pa.BinaryArray,
    numbers: Iterable[int],
    row_type: pa.StructType,
    text_field: str | None,
    reasons: np.ndarray,
) -> dict[int, dict[str, Any] | None]:
    """The rows of some lines by their numbers, None without one; a bad one sets its reason."""
    found = {}
    for number in numbers:
        line = texts[number].as_py()
        row = None if line is None else decode_line(line, row_type, text_field)
        if isinstance(row, Reason):
            reasons[number] = _CODES[row]
            row = None
        found[number] = row
    return found


def _keys(keys: pa.BinaryArray, reasons: np.ndarray) -> pa.StringArray:
    """The keys of messages as text; a reason where one is no UTF-8."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = []
        for number, key in enumerate(keys.to_pylist()):
            try:
                texts.append(None if key is None else key.decode())
            except UnicodeDecodeError:
                texts.append(None)
                reasons[number] = _CODES[Reason.NOT_UTF8]
        return pa.array(texts, pa.string())


def _times_ms(timestamps: pa.Array) -> pa.Array:
    """Milliseconds, rounded down like Spark's ``unix_millis``, before 1970, too."""
    microseconds = timestamps.cast(pa.timestamp("us", timestamps.type.tz)).cast(pa.int64())
    values = np.floor_divide(np.asarray(microseconds.fill_null(0)), 1000)
    return pa.array(values, mask=np.asarray(timestamps.is_null()))


def _judge_times(time_ms: pa.Int64Array, reasons: np.ndarray) -> bool:
    """Set the reason of each record, if it has none, whose time is no time; whether one is set."""
    values = np.asarray(time_ms.fill_null(0))
    cases = (
        (np.asarray(time_ms.is_null()), Reason.MISSING_TIMESTAMP),
        (values < 0, Reason.NEGATIVE_TIMESTAMP),
        (values > MAX_TIMESTAMP_MS, Reason.TIMESTAMP_TOO_LARGE),
    )
    before = np.count_nonzero(reasons)
    for fault, reason in cases:
        _set_reason(reasons, fault, reason)
    return bool(np.count_nonzero(reasons) > before)


def _set_reason(reasons: np.ndarray, fault: Flags, reason: Reason) -> None:
    """Set the reason where there is a fault and no reason as yet."""
    reasons[fault & (reasons == 0)] = _CODES[reason]
