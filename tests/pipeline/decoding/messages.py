"""Kafka messages as raw rows, and the rows that the decoder returns for them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oriel.pipeline.decoding import SchemaRegistry, kafka_decoder
from oriel.pipeline.language import Consumed

#: Headers as Spark returns them.
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def raw_rows(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    times_us: Sequence[int | None] | None = None,
    headers: Sequence[Any] | None = None,
) -> pa.RecordBatch:
    """Return raw rows of one partition. Default: keys `k`, times of 1 ms, no headers."""
    count = len(values)
    return pa.record_batch({
        "key": pa.array(keys if keys is not None else [b"k"] * count, pa.binary()),
        "raw": pa.array(values, pa.binary()),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array(times_us or [1000] * count, pa.timestamp("us", tz="UTC")),
        "headers": pa.array(headers if headers is not None else [None] * count, HEADERS),
        "ingested": pa.array([7000] * count, pa.timestamp("us", tz="UTC")),
    })  # fmt: skip


def decoded(
    rows: pa.RecordBatch,
    schema: str,
    consumed: Consumed,
    registry: SchemaRegistry | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of the block decoder. The detail of a reason is in `detail`."""
    decoder = kafka_decoder(schema, consumed, registry)
    assert decoder is not None
    found: list[dict[str, Any]] = decoder.decode(rows).to_pylist()
    for row in found:
        if row["reason"] is not None:
            row["reason"], _, row["detail"] = row["reason"].partition(": ")
    return found


def values_of(
    values: Sequence[bytes | None],
    schema: str,
    consumed: Consumed,
    registry: SchemaRegistry | None = None,
) -> list[Any]:
    """Return the value of each message, or the reason why it is invalid."""
    found = decoded(raw_rows(values), schema, consumed, registry)
    return [row["reason"] or row["value"] for row in found]
