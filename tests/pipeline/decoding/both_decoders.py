"""Lines decoded by Spark, by blocks, and one by one. All three results must be equal."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.sources.spark_decoding import (
    SparkDecoder,
    spark_event_log_decoder,
    spark_kafka_decoder,
)

#: Lines after the tested lines, enough that a block is not decoded line by line.
_GOOD_LINES = [b'{"key":"good","timestamp_ms":1}'] * 64

#: A Kafka message: key, value, timestamp in microseconds.
Message = tuple[bytes | None, bytes | None, int | None]


def decoded_log(spark: SparkSession, lines: Sequence[bytes], schema: str) -> list[Row]:
    """Decode `lines` as one partition of a log, in order, compare decoders, return Spark's rows."""
    theirs = spark_event_log_decoder(schema)
    return _decoded(spark, log_rows([*lines, *_GOOD_LINES]), theirs, event_log_decoder(schema))[
        : len(lines)
    ]


def decoded_messages(spark: SparkSession, messages: Sequence[Message], schema: str) -> list[Row]:
    """Decode messages of one Kafka partition, compare the decoders, and return Spark's rows."""
    rows = message_rows([*messages, *((b"good", b"{}", 1) for _ in _GOOD_LINES)])
    found = _decoded(spark, rows, spark_kafka_decoder(schema), kafka_decoder(schema))
    return found[: len(messages)]


def log_rows(lines: Sequence[bytes]) -> pa.RecordBatch:
    """Return raw rows of an event log."""
    return pa.record_batch({**_places(len(lines)), "raw": pa.array(lines, pa.binary())})


def message_rows(messages: Sequence[Message]) -> pa.RecordBatch:
    """Return raw rows of Kafka."""
    keys, values, times = zip(*messages, strict=True)
    return pa.record_batch({
        "key": pa.array(keys, pa.binary()),
        "raw": pa.array(values, pa.binary()),
        **_places(len(messages)),
        "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
    })  # fmt: skip


def alone(decoder: BlockDecoder, rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Decode each row in a batch of its own."""
    return [plain_rows(decoder.decode(rows[n : n + 1]))[0] for n in range(len(rows))]


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dicts, with dates as days since 1970. Python lacks dates of some years."""
    fields = [pa.field(field.name, _with_days(field.type)) for field in table.schema]
    rows: list[dict[str, Any]] = table.cast(pa.schema(fields)).to_pylist()
    return rows


def _with_days(column_type: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(column_type):
        return pa.struct([(field.name, _with_days(field.type)) for field in column_type])
    if types.is_list(column_type):
        return pa.list_(_with_days(column_type.value_type))
    if types.is_map(column_type):
        return pa.map_(column_type.key_type, _with_days(column_type.item_type))
    return pa.int32() if types.is_date(column_type) else column_type


def _row(fields: dict[str, Any]) -> Row:
    value = fields["value"]
    return Row(**fields | {"value": None if value is None else Row(**value)})


def _decoded(
    spark: SparkSession, rows: pa.RecordBatch, theirs: SparkDecoder, ours: BlockDecoder | None
) -> list[Row]:
    assert ours is not None
    raw = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
    by_spark = theirs.decode(raw).orderBy("offset").withColumn("key", F.make_valid_utf8("key"))
    found = [_row(row) for row in plain_rows(by_spark.toArrow())]
    by_blocks = plain_rows(ours.decode(rows))
    for row, block, line in zip(found, by_blocks, alone(ours, rows), strict=True):
        # As strings, because -0.0 equals 0.0.
        assert repr(block) == repr(line)
        # Spark's reason has the field of a number that is out of range, but not the number.
        reason = block["reason"] or ""
        code, _, detail = (row.reason or "").partition(": ")
        assert reason.partition(": ")[0] == code
        assert not detail or reason.startswith(f"{row.reason}, not ")
        assert repr(_record(row)) == repr(block | {"reason": row.reason})
    return found


def _record(row: Row) -> dict[str, Any]:
    """Return a row of Spark's decoder, without key, time and value if the record is invalid."""
    record = row.asDict(recursive=True)
    if row.reason is not None:
        record.update(key=None, timestamp_ms=None, value=None)
    return record


def _places(count: int) -> dict[str, pa.Array]:
    return {"partition": pa.array([0] * count, pa.int32()), "offset": pa.array(range(count))}
