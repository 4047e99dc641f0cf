"""The columns of the tables: Arrow and Delta types, and rows from the changes of the engine.

In the tables, times are TIMESTAMPs (UTC, microseconds). In other places, they are integer ms.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

TIMESTAMP = pa.timestamp("us", tz="UTC")

#: Delta's name of each scalar type that an aggregate can have.
_DELTA_NAMES = {
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
}
_ARROW_TYPES = {name: column_type for column_type, name in _DELTA_NAMES.items()}

#: The parts of a message other than its value: key, time and headers, with the types of Spark's
#: Kafka source and sink.
DEAD_LETTER_MESSAGE_FIELDS = (
    pa.field("key", pa.binary()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("headers", pa.list_(pa.field("element", pa.struct([
        pa.field("key", pa.string()), pa.field("value", pa.binary()),
    ])))),
)  # fmt: skip

#: The columns of the dead-letter table. ``store`` is null if the record is invalid for every store.
#: Key, time and headers are null if they are unknown. They are the last columns, because that is
#: where an existing table without them gets them.
DEAD_LETTER_SCHEMA = pa.schema([
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("store", pa.string()),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("detail", pa.string(), nullable=False),
    pa.field("raw", pa.binary(), nullable=False),
    pa.field("revision", pa.int64(), nullable=False),
    *DEAD_LETTER_MESSAGE_FIELDS,
])  # fmt: skip


def delta_type(column_type: pa.DataType) -> str:
    """Return Delta's name of an aggregate's Arrow type (``long``, ``array<double>`` ...)."""
    if pa.types.is_list(column_type):
        return f"array<{delta_type(column_type.value_type)}>"
    return _DELTA_NAMES[column_type]


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of an aggregate column from Delta's name of the type."""
    if name.startswith("array<"):
        return pa.list_(arrow_type(name.removeprefix("array<").removesuffix(">")))
    return _ARROW_TYPES[name]


def store_schema(aggregates: Mapping[str, pa.DataType], *, windowed: bool = True) -> pa.Schema:
    """Return the Arrow schema of a store's table. Without windows, it does not have window columns.

    Key and window are the first columns, because Delta has statistics of the leading columns.

    Args:
        aggregates: The Arrow type of each aggregate column.
        windowed: True if the store has windows.
    """
    window = ["window_start", "window_end"] if windowed else []
    final = ["final"] if windowed else []
    return pa.schema([
        pa.field("key", pa.string(), nullable=False),
        *(pa.field(name, TIMESTAMP, nullable=False) for name in window),
        *(pa.field(name, column_type) for name, column_type in aggregates.items()),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        *(pa.field(name, pa.bool_(), nullable=False) for name in final),
        pa.field("deleted", pa.bool_(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
    ])  # fmt: skip


def table_rows(
    changes: pa.Table,
    aggregates: Mapping[str, pa.DataType],
    batch: int,
    *,
    windowed: bool = True,
) -> pa.Table:
    """Turn the changed windows of the engine into rows of the store's table.

    Args:
        changes: The result of the engine, with times in ms (int64). Without a column ``deleted``,
            no row is a removal.
        aggregates: The Arrow type of each aggregate column.
        batch: The batch, which becomes the ``revision`` of the rows.
        windowed: True if the store has windows.
    """
    all_false = pa.repeat(pa.scalar(value=False), len(changes))
    columns = {
        "key": changes["key"],
        **{name: changes[name] for name in aggregates},
        "timestamp": _timestamps(changes["timestamp_ms"]),
        "deleted": changes["deleted"] if "deleted" in changes.column_names else all_false,
        "revision": pa.repeat(pa.scalar(batch, pa.int64()), len(changes)),
    }
    if windowed:
        columns["window_start"] = _timestamps(changes["window_start_ms"])
        columns["window_end"] = _timestamps(changes["window_end_ms"])
        columns["final"] = changes["final"]
    schema = store_schema(aggregates, windowed=windowed)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _timestamps(times_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(times_ms, 1000).cast(TIMESTAMP)  # ms to microseconds
