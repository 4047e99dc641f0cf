"""The final rows of a store as the records of a stream, for stores that read them (decision 0066).

Windows become final in the order of their ends, for all cuts into batches. So the final rows have
the same order in each run: by end, start and key. They are the records of one partition, and their
offsets count them. Kafka Streams emits them in the same order when windows close.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline import stage_columns

#: The value columns of a record in addition to the aggregates.
_WINDOW = (pa.field("window_start_ms", pa.int64()), pa.field("window_end_ms", pa.int64()))


def final_row_fields(aggregates: Mapping[str, pa.DataType]) -> list[pa.Field]:
    """Return the value columns of records that are rows of a store with these ``aggregates``."""
    return [*(pa.field(name, column_type) for name, column_type in aggregates.items()), *_WINDOW]


def final_records(
    changes: Iterable[pa.Table], aggregates: Mapping[str, pa.DataType], first_offset: int
) -> pa.Table:
    """Return the final rows of a batch as decoded records of partition 0.

    The time of a record is the time of its row (KIP-259). The raw bytes of a record are empty.

    Args:
        changes: The rows that the batch changed, in the columns of the engine.
        aggregates: The aggregate columns: name -> type.
        first_offset: The offset of the first record.
    """
    fields = final_row_fields(aggregates)
    schema = pa.schema([("key", pa.string()), ("timestamp_ms", pa.int64()), *fields])
    tables = [
        # A final row that is deleted has no value to forward. For example, its function has
        # returned null.
        table.filter(pc.and_not(table["final"], table["deleted"])).select(schema.names).cast(schema)
        for table in changes
    ]
    rows = pa.concat_tables([schema.empty_table(), *tables])
    # A key has at most one row with these bounds, so the order is total. Each run therefore assigns
    # the same offset to a row, whatever the order of tasks and files is.
    order = ("window_end_ms", "window_start_ms", "key")
    rows = rows.sort_by([(name, "ascending") for name in order])
    columns = [rows[field.name].combine_chunks() for field in fields]
    value = pa.StructArray.from_arrays(columns, fields=fields)
    key, timestamp_ms = rows["key"].combine_chunks(), rows["timestamp_ms"].combine_chunks()
    # A dead letter reads key and time from the message. The empty bytes of the record do not
    # contain them.
    message_fields = {"key": key.cast(pa.binary()), "timestamp_ms": timestamp_ms}
    message = pa.StructArray.from_arrays(
        [
            message_fields.get(field.name, pa.nulls(len(rows), field.type))
            for field in stage_columns.MESSAGE.type
        ],
        fields=list(stage_columns.MESSAGE.type),
    )
    computed = {
        # One partition, because only one partition has an order over all keys (decision 0066).
        "partition": pa.array(np.zeros(len(rows), np.int32)),
        # Offsets count final rows since the store began. So the offsets of a later batch continue
        # after the offsets of this batch.
        "offset": pa.array(np.arange(first_offset, first_offset + len(rows))),
        "raw": pa.repeat(pa.scalar(b"", pa.binary()), len(rows)),
        stage_columns.MESSAGE.name: message,
        "key": key,
        "timestamp_ms": timestamp_ms,
        "value": value,
        "reason": pa.nulls(len(rows), pa.string()),
    }
    decoded = stage_columns.decoded_schema(value.type)
    return pa.table([computed[name] for name in decoded.names], schema=decoded)
