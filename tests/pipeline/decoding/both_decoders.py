"""Lines decoded by Spark, by blocks, and one by one. All three results must be equal."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.sources.spark_decoding import (
    SparkDecoder,
    spark_event_log_decoder,
    spark_kafka_decoder,
)
from oriel.pipeline.stage_columns import MESSAGE

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
    return [decoder.decode(rows[n : n + 1]).to_pylist()[0] for n in range(len(rows))]


def _decoded(
    spark: SparkSession, rows: pa.RecordBatch, theirs: SparkDecoder, ours: BlockDecoder | None
) -> list[Row]:
    assert ours is not None
    raw = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
    found = theirs.decode(raw).orderBy("offset").collect()
    by_blocks = ours.decode(rows).to_pylist()
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
    message = record[MESSAGE.name]
    if message is not None and message["key"] is not None:
        message["key"] = bytes(message["key"])
    return record | {"raw": bytes(row.raw)}


def _places(count: int) -> dict[str, pa.Array]:
    return {"partition": pa.array([0] * count, pa.int32()), "offset": pa.array(range(count))}
