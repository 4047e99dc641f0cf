"""The columns of items: the fields of their JSON, with the types of Spark."""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.json as pj

from oriel.storage import StoreDefinition
from oriel.storage.delta import arrow_type


@lru_cache(maxsize=256)
def item_schema(definition: StoreDefinition) -> pa.Schema:
    """Return the fields that a condition or an order can name, in the order of the JSON.

    A key of the type ``long`` is a number, as in the topology. Every other key is a string.
    """
    times = ["window_start_ms", "window_end_ms"] if definition.window.is_windowed else []
    final = ["final"] if definition.window.is_windowed else []
    return pa.schema([
        pa.field("key", pa.int64() if definition.key_type == "long" else pa.string()),
        *(pa.field(name, pa.int64()) for name in times),
        *(pa.field(each.name, arrow_type(each.type)) for each in definition.aggregates),
        pa.field("timestamp_ms", pa.int64()),
        *(pa.field(name, pa.bool_()) for name in final),
    ])  # fmt: skip


def item_columns(items: Sequence[bytes], definition: StoreDefinition) -> pa.Table:
    """Return the columns of ``item_schema`` of JSON items. NaN and infinities are null."""
    schema = item_schema(definition)
    if not items:
        return schema.empty_table()
    # In JSON, a key is always a string.
    plain = schema.set(0, pa.field("key", pa.string()))
    lines = b"\n".join(items)
    # One block, because one line can be longer than any fixed block.
    options = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    by_schema = pj.ParseOptions(explicit_schema=plain, unexpected_field_behavior="ignore")
    return pj.read_json(pa.BufferReader(lines), options, by_schema).cast(schema)
