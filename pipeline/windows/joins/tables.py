"""A table as a store: a topic's newest row of each key, or several such tables joined by key.

The store's rows are the table's own: nothing is aggregated, nothing closes, nothing is late.
Which record of a key counts is a property of the records alone (see ``sides``), so the rows are
a function of the logs, whatever the batch cuts.

A row of joined tables has the greatest timestamp of the records that count for its key, a
deletion's included. Where all come in order of time, this is Kafka Streams' max(updating record,
other row) (semantics.md#5-1); elsewhere Kafka's time depends on which table's record came last,
and this one does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import FOREVER_MS, NoWindows
from oriel.pipeline.windows.engines import EngineResult, Times, WindowEngine
from oriel.pipeline.windows.joins.sides import (
    SIDE,
    TABLE_FIELDS,
    How,
    TableRecords,
    replaced,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.records import (
    INPUT,
    NULL_VALUE,
    RECORD_FIELDS,
    SUBORDER,
    arrival_keys,
    changed_rows,
)

#: The suborders of responses (``foreign_keys``): the subscriber left, the right key has no row, or
#: has one. Of those of one batch the greatest counts: who left one key has subscribed to another,
#: or to none.
LEFT_BEHIND, WITHOUT_ROW, WITH_ROW = 0, 1, 2
#: The column by which a changed row says that it is gone.
_DELETED = pa.field("deleted", pa.bool_())


@dataclass(frozen=True)
class TableJoin:
    """Tables joined by key: ``left`` with ``right``, each a table by its number, or a join."""

    how: How
    left: "TableJoin | int"
    right: "TableJoin | int"

    def __str__(self) -> str:
        """The join with the tables' numbers, from 1."""
        left, right = (
            f"({part})" if isinstance(part, TableJoin) else str(part + 1)
            for part in (self.left, self.right)
        )
        return f"{left} {self.how} {right}"


def table_rows(part: TableJoin | int, has_row: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which tables' rows the row of each key is made of; none where there is no row.

    ``has_row`` says by [table, key] whether a table has one, and so is what is returned.
    """
    if isinstance(part, int):
        only = np.zeros_like(has_row)
        only[part] = has_row[part]
        return only
    left, right = table_rows(part.left, has_row), table_rows(part.right, has_row)
    exists = has_joined_row(part.how, np.any(left, axis=0), np.any(right, axis=0))
    # An inner join has no row of one table alone, also within another join.
    rows: NDArray[np.bool_] = (left | right) & exists
    return rows


def has_joined_row(how: How, left: Flags, right: Flags) -> Flags:
    """Whether two tables have a joined row, where each side does or doesn't have a row."""
    joined: Flags = {"inner": left & right, "left": left, "outer": left | right}[how]
    return joined


class TableRowsEngine(WindowEngine):
    """The rows of one table, or of several joined by key.

    The state is all tables' records (``TableRecords.newest``), told apart by ``side``; those of
    one table have nulls in the others' columns.
    """

    def __init__(
        self,
        join: TableJoin | int,
        tables: Sequence[pa.Schema],
        carried: pa.Schema | None = None,
        responses: tuple[int, ...] = (),
        updates: tuple[int, ...] = (),
    ) -> None:
        """``tables`` are the value columns of the inputs, by whose numbers ``join`` joins them.

        ``responses`` are those that have the rows of a table by the keys of others (see
        ``foreign_keys``), ``updates`` those whose records tell rows (``SideRows.tell_rows``) and
        arrive in the order in which they take effect.

        Raises:
            IllegalArgument: two columns have one name.
        """
        values = values_beside((*TABLE_FIELDS, SIDE, _DELETED), carried, tables)
        self.windows = NoWindows()
        self._join = join
        self._responses, self._updates = responses, updates
        self._values_of = [table.names for table in tables]
        self.aggregate_types = {field.name: field.type for field in values}
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), INPUT, NULL_VALUE, *values]
        )
        self.state_schema = pa.schema([*TABLE_FIELDS, SIDE, *(carried or ()), *values])

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """See ``WindowEngine``; a table knows no close time.

        A row changes when a record comes that counts, though its values may be the same. One
        that came and went within the batch is not among the changes.
        """
        del times
        batch = self._read(batch)
        # The number of a store's input is that of its table.
        arrived = pa.table(
            [batch[INPUT.name if name == SIDE.name else name] for name in self.state_schema.names],
            schema=self.state_schema,
        )
        other_keys, touched = split_by_key(state, arrived["key"])
        if self._responses:
            suborder = np.asarray(pc.fill_null(batch[SUBORDER.name], 0))
            touched, arrived = _as_records(touched, arrived, suborder, self._responses)
        if self._updates:
            place = np.argsort(np.lexsort(arrival_keys(batch)))
            of_state, of_batch = (
                np.isin(np.asarray(rows[SIDE.name]), self._updates) for rows in (touched, arrived)
            )
            touched = replaced(touched, {"offset": -1}, of_state)
            arrived = replaced(arrived, {"partition": 0, "offset": place}, of_batch)
        records = TableRecords.of(pa.concat_tables([touched, arrived]))
        newest = records.newest()
        # The state's rows stand first, and there is one of each key, side and partition.
        before, after = (
            records.counting(rows, len(self._values_of))
            for rows in (np.arange(len(touched)), newest)
        )
        # Of which tables a row is: one that is gone has no values, though some may have theirs.
        had, has = (table_rows(self._join, records.has_row(rows)) for rows in (before, after))
        existed, exists = np.any(had, axis=0), np.any(has, axis=0)

        # Codes go by the keys' bytes, and changes come in that order.
        codes = np.flatnonzero((before != after).any(axis=0) & (existed | exists))
        after, deleted = after[:, codes], ~exists[codes]
        values = {
            name: records.rows[name].take(pa.array(after[table], mask=~has[table, codes]))
            for table, names in enumerate(self._values_of)
            for name in names
        }
        changes = changed_rows(
            records.keys.take(pa.array(codes)),
            (np.zeros(len(codes), dtype=np.int64), np.full(len(codes), FOREVER_MS)),
            values,
            np.where(after < 0, -1, records.timestamp_ms[after]).max(axis=0),
            deleted=deleted,
        )
        state = pa.concat_tables([other_keys, records.take(newest)]).combine_chunks()
        return EngineResult(state, changes)


def _as_records(
    state: pa.Table, batch: pa.Table, suborder: Ints, tables: tuple[int, ...]
) -> tuple[pa.Table, pa.Table]:
    """The rows of a table of responses, ``side`` in ``tables``, as records of one partition.

    Their offsets say which counts: one of ``batch`` before one of ``state``, and of one batch that
    of the greatest ``suborder``. Whoever has no row is without a value.
    """
    of_state, of_batch = (np.isin(np.asarray(rows[SIDE.name]), tables) for rows in (state, batch))
    values = {"partition": 0, "offset": suborder, NULL_VALUE.name: suborder != WITH_ROW}
    return replaced(state, {"offset": -1}, of_state), replaced(batch, values, of_batch)
