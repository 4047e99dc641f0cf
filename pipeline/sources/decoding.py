"""Provisional."""


import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from oriel.pipeline.hops import decoded_schema
from oriel.pipeline.language import arrow_schema


class BlockDecoder:
    """Provisional."""

    def __init__(self, value_schema: str, kafka: bool) -> None:
        self.value_type = pa.struct(list(arrow_schema(value_schema)))
        self.schema = decoded_schema(self.value_type)
        self.kafka = kafka
        self.parse_schema = (
            pa.schema(list(self.value_type))
            if kafka
            else pa.schema(
                [("key", pa.string()), ("value", self.value_type), ("timestamp_ms", pa.int64())]
            )
        )

    def decode(self, raw: pa.RecordBatch) -> pa.Table:
        lines = raw["raw"]
        n = len(lines)
        if not n:
            return self.schema.empty_table()
        listed = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), lines)
        text = pc.binary_join(listed, b"\n")[0].as_buffer()
        parsed = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=self.parse_schema, unexpected_field_behavior="ignore"
            ),
        )
        assert len(parsed) == n
        if self.kafka:
            key = raw["key"].cast(pa.string())
            time_ms = pc.cast(raw["timestamp"].cast(pa.int64()), pa.int64())
            time_ms = pc.divide(time_ms, 1000)
            value = parsed.to_struct_array()
        else:
            key, value, time_ms = parsed["key"], parsed["value"], parsed["timestamp_ms"]
        return pa.table(
            [raw["partition"], raw["offset"], lines, key, time_ms, value, pa.nulls(n, pa.string())],
            schema=self.schema,
        )


def event_log_decoder(value_schema: str) -> BlockDecoder | None:
    return BlockDecoder(value_schema, False)


def kafka_decoder(value_schema: str) -> BlockDecoder | None:
    return BlockDecoder(value_schema, True)
