"""The columns of records, of states and of changed rows, and the two orders of records.

Arrival is (partition, offset, suborder): what users' functions see. Inside a window the order is
(timestamp, partition, offset, suborder); where one suborder is not enough, ``partners`` go on.
Both are properties of the log, so lists, ``first`` and ``last`` and the last bits of float sums are
equal however the log was cut into batches and its partitions interleaved (guarantees.md#1).
Updates of joined tables come of several logs and arrive in the order in which they take effect
(``EFFECT``).
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, lexsort, pair_order, prefix_sums

#: Whether the record has no value (semantics.md#1-2); its value columns are then all null.
NULL_VALUE = pa.field("null_value", pa.bool_())

#: A record's key, time and place in the log.
PLACE_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
#: The columns that every engine of windows reads of a record; ``close_ms`` is the stream time of
#: the record's partition when it came, less the windows' ``close_delay_ms``.
RECORD_FIELDS = (*PLACE_FIELDS, pa.field("close_ms", pa.int64()))

#: Which stream of a cogroup a record is from, counted from 0.
INPUT = pa.field("input", pa.int8())
#: The order of rows that share a record's place: results of a join that share their left record,
#: the elements of a record that was flattened, or changes of a table that it makes; null in a
#: record by itself.
SUBORDER = pa.field("suborder", pa.int64())
#: The order behind ``suborder`` of what is made of three records and more (``joins.places``):
#: bytes that are compared as they are; null or empty in all else. No value has a name like this.
PARTNERS = pa.field("__partners", pa.binary())
#: Of each number in them.
PARTNER_BYTES = 8
#: The place of an update of joined tables in the order in which they take effect; null in any other
#: record. No value column has such a name.
EFFECT = pa.field("__effect", pa.int64())
#: Records that a user's function raised on, altogether or in some window; ``detail`` says where
#: and how.
REJECTED_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    INPUT,
    SUBORDER,
    *PLACE_FIELDS[:2],
    pa.field("detail", pa.string()),
])  # fmt: skip


def rows_schema(
    place: Iterable[pa.Field], carried: Iterable[pa.Field], aggregates: Iterable[pa.Field]
) -> pa.Schema:
    """A state of rows a window: key, ``place`` (window, partition), ``carried``, aggregates, time.

    ``aggregates`` are the columns that results are computed from, ``timestamp_ms`` is the greatest
    time of the row's records.
    """
    key, timestamp = PLACE_FIELDS[:2]
    return pa.schema([key, *place, *carried, *aggregates, timestamp])


def with_column(rows: pa.Table, field: pa.Field, column: pa.Array) -> pa.Table:
    """``rows`` with a column, in place of one of that name if there is one."""
    if field.name in rows.column_names:
        return rows.set_column(rows.column_names.index(field.name), field, column)
    return rows.append_column(field, column)


def arrival_keys(records: pa.Table) -> tuple[Ints, ...]:
    """Sort keys of arrival, the last first as ``lexsort`` takes them.

    A log of records alone has no column ``suborder``; a record beside a join's results or
    elements has a null there, which counts as 0. So has one beside updates of joined tables.
    """
    keys = ("suborder", "offset", "partition", EFFECT.name)
    names = [name for name in keys if name in records.column_names]
    numbers = (np.asarray(pc.fill_null(records[name], 0)) for name in names)
    if PARTNERS.name not in records.column_names:
        return tuple(numbers)
    return (partners_ranks(records[PARTNERS.name]), *numbers)


def partners_ranks(partners: pa.Array | pa.ChunkedArray) -> Ints:
    """Numbers in the order of ``partners``, the same for equal ones."""
    return np.asarray(pc.rank(pc.fill_null(partners, b""), tiebreaker="dense")).astype(np.int64)


def takes_away(changes: pa.Table) -> Flags:
    """Which of a table's changes take an old row away; the others put a new one there.

    The last number beside their place says so: it is even, or odd (``joins.places``).
    """
    if PARTNERS.name in changes.column_names:
        last = pc.binary_slice(changes[PARTNERS.name], -1)
        return np.asarray(pc.equal(last, pa.scalar(b"\0", last.type)))
    old: Flags = np.asarray(changes[SUBORDER.name]) % 2 == 0
    return old


def change_places(changes: pa.Table) -> tuple[Ints, ...]:
    """What the old row and the new one of an update have in common, and no two updates."""
    places = tuple(np.asarray(changes[name]) for name in ("partition", "offset"))
    suborder = np.asarray(changes[SUBORDER.name])
    if PARTNERS.name in changes.column_names:
        in_front = pc.binary_slice(changes[PARTNERS.name], 0, -PARTNER_BYTES)
        return (partners_ranks(in_front), suborder, *places)
    return (suborder // 2, *places)


def window_order(group: Ints, records: pa.Table) -> Ints:
    """The order of records by ``group``, and within a group as inside a window.

    ``group`` has a number from 0 on for each record: the code of its key, usually.
    """
    time = np.asarray(records["timestamp_ms"])
    # One sort of single integers for all; only equal times of a group need the other keys, and
    # these stand side by side, so sorting them by their rank first leaves each where it belongs.
    order = pair_order(group, time)
    equal_next: Flags = (np.diff(group[order]) == 0) & (np.diff(time[order]) == 0)
    if equal_next.any():
        tied = np.append(equal_next, False) | np.append(False, equal_next)
        rows, rank = order[tied], prefix_sums(~equal_next)[tied]
        arrival = (key[rows] for key in arrival_keys(records))
        order[tied] = rows[lexsort((*arrival, rank))]
    return order


#: A changed row's columns in front of the aggregates, and behind them.
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
    """Put changed rows together, one for each entry of ``key``.

    ``window_ms`` has the windows' starts and ends, ``timestamp_ms`` the greatest time of their
    records (KIP-259; of a session its end), each an array as long as ``key``. ``final`` rows are
    of windows that never change again; ``deleted`` rows take a window away, and count as not
    final whatever ``final`` says. Where a flag is not given, it is false in each row.
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
