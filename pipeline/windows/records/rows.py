"""The columns of records, of states and of changed rows, and the two orders of records.

User functions see records in the order of arrival: partition, offset, lineage. Inside a window, the
order is timestamp, partition, offset, lineage. Both orders are properties of the log. Lists,
``first``, ``last`` and the last bits of sums are therefore the same for all batches and all
interleavings of partitions (guarantees.md#1). Updates of joined tables are from several logs and
arrive in their apply order (``APPLY_ORDER``).
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, lexsort, pair_order, prefix_sums
from oriel.pipeline.windows.records.lineage import LINEAGE, lineage_keys

#: True for a null value (semantics.md#1-2). The value columns are then all null.
NULL_VALUE = pa.field("null_value", pa.bool_())

#: The key, the time and the record id of a record.
RECORD_ID_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
#: The columns of a record that every engine reads. ``close_ms`` is the stream time of the record's
#: partition at its arrival, less ``close_delay_ms`` of the windows.
RECORD_FIELDS = (*RECORD_ID_FIELDS, pa.field("close_ms", pa.int64()))

#: The index of the input of the store that a record is from.
INPUT = pa.field("input", pa.int8())
#: The position of an update of joined tables in the apply order. Null in any other record. No value
#: column has such a name.
APPLY_ORDER = pa.field("__effect", pa.int64())
#: Records on which a user's function raised, in all windows or in one. ``detail`` has the step and
#: the error.
REJECTED_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    INPUT,
    LINEAGE,
    *RECORD_ID_FIELDS[:2],
    pa.field("detail", pa.string()),
])  # fmt: skip


#: The encoded partial aggregates of a changed row, if the store is mergeable.
PARTIALS = pa.field("__partials", pa.binary())


def rows_schema(
    place: Iterable[pa.Field], carried: Iterable[pa.Field], aggregates: Iterable[pa.Field]
) -> pa.Schema:
    """Return the schema of state rows: key, window or partition, carried columns, aggregates, time.

    Args:
        place: The columns of the window or the partition.
        carried: Further columns of the records.
        aggregates: The columns from which results are computed. ``timestamp_ms`` is the greatest
            time of the records of a row.
    """
    key, timestamp = RECORD_ID_FIELDS[:2]
    return pa.schema([key, *place, *carried, *aggregates, timestamp])


def with_column(rows: pa.Table, field: pa.Field, column: pa.Array) -> pa.Table:
    """Return ``rows`` with a column, which replaces a column of the same name."""
    if field.name in rows.column_names:
        return rows.set_column(rows.column_names.index(field.name), field, column)
    return rows.append_column(field, column)


def arrival_keys(records: pa.Table) -> tuple[Ints, ...]:
    """Return the sort keys of arrival, with the most significant key last as for ``lexsort``.

    Records of a source have neither a lineage nor an apply order. If they are in one table with
    other rows, these columns are null, and the records are first.
    """
    names = ("offset", "partition", APPLY_ORDER.name)
    keys = [
        np.asarray(pc.fill_null(records[name], 0)) for name in names if name in records.column_names
    ]
    if LINEAGE.name in records.column_names:
        keys = [*lineage_keys(records[LINEAGE.name]), *keys]
    return tuple(keys)


def window_order(group: Ints, records: pa.Table) -> Ints:
    """Return the order of records by ``group``, and inside a group as inside a window.

    ``group`` has an integer from 0 per record, usually the code of its key.
    """
    time = np.asarray(records["timestamp_ms"])
    # One sort of single integers orders all records. Only equal times of a group need the other
    # keys. Such records are adjacent, so a sort by their rank first keeps each group in place.
    order = pair_order(group, time)
    equal_next: Flags = (np.diff(group[order]) == 0) & (np.diff(time[order]) == 0)
    if equal_next.any():
        tied = np.append(equal_next, False) | np.append(False, equal_next)
        rows, rank = order[tied], prefix_sums(~equal_next)[tied]
        arrival = (key[rows] for key in arrival_keys(records))
        order[tied] = rows[lexsort((*arrival, rank))]
    return order


#: The columns of a changed row before the aggregates, and after them.
WINDOW_COLUMNS = ("key", "window_start_ms", "window_end_ms")
STATUS_COLUMNS = ("timestamp_ms", "final", "deleted")


def changed_rows(
    key: pa.Array | pa.ChunkedArray,
    window_ms: tuple[Ints, Ints],
    aggregates: Mapping[str, pa.Array | pa.ChunkedArray],
    timestamp_ms: Ints,
    *,
    final: Flags | None = None,
    deleted: Flags | None = None,
) -> pa.Table:
    """Return the table of changed rows, one per entry of ``key``.

    Args:
        key: The keys.
        window_ms: The starts and the ends of the windows.
        aggregates: The columns of the aggregates.
        timestamp_ms: The greatest time of the records (KIP-259), for a session its end.
        final: True for windows that never change again. Default: False.
        deleted: True for windows that are removed. They are never final. Default: False.
    """
    no_row = np.zeros(len(key), dtype=np.bool_)
    final, deleted = (no_row if flags is None else flags for flags in (final, deleted))
    start_ms, end_ms = window_ms
    window = (key, pa.array(start_ms), pa.array(end_ms))
    status = (pa.array(timestamp_ms), pa.array(final & ~deleted), pa.array(deleted))
    return pa.table({
        **dict(zip(WINDOW_COLUMNS, window, strict=True)),
        **aggregates,
        **dict(zip(STATUS_COLUMNS, status, strict=True)),
    })  # fmt: skip
