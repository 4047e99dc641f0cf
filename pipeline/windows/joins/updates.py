"""The updates of two joined tables as a stream: what the joined row is after each record.

A record replaces what its key had on its own side, one without a value deletes it. What the
joined row is then comes out with the greater time of the record and of the row that the
other side has; where there is no joined row after it, nothing comes out (Kafka Streams sends
a record without a value there, and a grouping drops it).

Records take effect as they arrive, batch after batch and within a batch in the order
(stream time, side, partition, offset). So results depend on how the two topics are cut into
batches against each other, as they depend on the arrival in Kafka; that is the price of
telling of each update. Cuts don't matter for one topic alone, nor for records of one side
between the same records of the other. That holds for a key that comes from one partition
of each topic, as keyed records do; where it comes from several, their cuts against each
other matter, too. (``table_joins`` keeps the joined table as a function of the two logs.)

The state is the newest row of each key and side; a deletion leaves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys, heads
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.sides import RESULT_FIELDS, SIDE, SIDE_FIELDS, TwoTables
from oriel.pipeline.windows.records import NULL_VALUE


@dataclass(frozen=True)
class TableUpdatesResult:
    """What one batch made of the state.

    ``results`` has the joined row after each record, in the order in which they took effect:
    key, timestamp_ms (the greater of the record's and the other row's), partition, offset and
    stream_time_ms (the record's), suborder (its side), the columns of both sides.
    ``dropped`` counts the records after which there was no joined row.
    """

    state: pa.Table
    results: pa.Table
    dropped: int


@dataclass(frozen=True)
class _Rows:
    """Old rows and new records by key, each key's in the order of effect; ``new`` says which.

    ``last`` marks the last of each key. ``left`` and ``right`` are, for each of them, the
    number of the row that its key has on that side after it; -1 where there is none.
    """

    table: pa.Table
    new: Flags
    last: Flags
    left: Ints
    right: Ints


class TableUpdatesEngine(TwoTables):
    """The updates of two joined tables."""

    own_fields = (*RESULT_FIELDS, SIDE, NULL_VALUE)

    def _set_schemas(self, carried: Sequence[pa.Field], values: Sequence[pa.Field]) -> None:
        """See ``TwoTables``; the state is the newest record of each key and side."""
        self.record_schema = pa.schema([*SIDE_FIELDS, NULL_VALUE, *carried, *values])
        self.state_schema = self.record_schema
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])

    def process(self, state: pa.Table, batch: pa.Table) -> TableUpdatesResult:
        """Let the records of ``batch`` take effect and tell of each joined row after them."""
        batch = batch.select(self.record_schema.names).cast(self.record_schema)
        touched = pc.is_in(state["key"], value_set=pc.unique(batch["key"]))
        rows = _in_order(state.filter(touched), batch)
        told = rows.new & self._exists(rows.left >= 0, rows.right >= 0)
        kept = np.concatenate([side[rows.last & (side >= 0)] for side in (rows.left, rows.right)])
        state = pa.concat_tables(
            [state.filter(pc.invert(touched)), rows.table.take(pa.array(kept))]
        )
        results = self._results(rows, np.flatnonzero(told))
        return TableUpdatesResult(state.combine_chunks(), results, len(batch) - len(results))

    def _results(self, rows: _Rows, told: Ints) -> pa.Table:
        """The joined rows after the records ``told``."""
        told = told[np.lexsort(_order_of_effect(rows.table.take(pa.array(told))))]
        records = rows.table.take(pa.array(told))
        time = np.asarray(rows.table["timestamp_ms"])
        left, right = (
            pa.array(side[told], mask=side[told] < 0) for side in (rows.left, rows.right)
        )
        is_left = np.asarray(records["side"]) == LEFT
        other = np.where(is_left, rows.right[told], rows.left[told])
        columns = [
            records["key"],
            np.maximum(time[told], np.where(other < 0, -1, time[other])),
            records["partition"],
            records["offset"],
            records["side"].cast(pa.int64()),
            records["stream_time_ms"],
            *(rows.table[name].take(left) for name in self._left.names),
            *(rows.table[name].take(right) for name in self._right.names),
        ]
        return pa.table(columns, schema=self.result_schema)


def _in_order(old: pa.Table, batch: pa.Table) -> _Rows:
    """Sort old rows and new records by (key, order of effect), and find both sides' newest."""
    table = pa.concat_tables([old, batch]).combine_chunks()
    (code,), _ = coded_keys(table["key"])
    new = np.arange(len(table)) >= len(old)
    order = np.lexsort((*_order_of_effect(table), new, code))
    table, code = table.take(pa.array(order)), code[order]
    head = heads(code)
    number = np.arange(len(table))
    first = np.maximum.accumulate(np.where(head, number, 0))
    side, deletes = np.asarray(table["side"]), np.asarray(table[NULL_VALUE.name])
    left, right = (_newest(number, first, side == which, deletes) for which in (LEFT, RIGHT))
    return _Rows(
        table,
        new[order],
        np.append(head[1:], True)[: len(head)],
        left,
        right,
    )


def _newest(number: Ints, first: Ints, mine: Flags, deletes: Flags) -> Ints:
    """For each row the newest of ``mine`` up to it, from ``first`` on; -1: none, or deleted."""
    if not len(number):
        return number
    newest = np.maximum.accumulate(np.where(mine, number, -1))
    return np.where((newest < first) | deletes[newest], -1, newest)


def _order_of_effect(records: pa.Table) -> tuple[Ints, ...]:
    """Sort keys, the last first as in ``np.lexsort``."""
    names = ("offset", "partition", "side", "stream_time_ms")
    return tuple(np.asarray(records[name]) for name in names)
