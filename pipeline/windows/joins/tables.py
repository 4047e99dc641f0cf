"""A table as a store: the newest row of each key of a topic, or several tables joined by key.

The rows of the store are the rows of the table. It has no aggregation, no final rows and no late
records. The current record of a key depends only on the records (see ``inputs``), so the rows are a
function of the logs, for all batches.

A row of joined tables has the greatest timestamp of the current records of its key, including
tombstones. If all records arrive in the order of time, this is max(updating record, other row) of
Kafka Streams (semantics.md#5-1). Otherwise Kafka's time depends on the table whose record arrived
last, and this time does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import FOREVER_MS, NoWindows
from oriel.pipeline.windows.engines import EngineResult, Times, WindowEngine
from oriel.pipeline.windows.joins.inputs import (
    SIDE,
    TABLE_FIELDS,
    How,
    TableRecords,
    replaced,
    split_by_key,
    value_fields,
)
from oriel.pipeline.windows.records import (
    INPUT,
    NULL_VALUE,
    RECORD_FIELDS,
    Lineage,
    arrival_keys,
    changed_rows,
)

#: The lineages of responses (``foreign_keys``) have one index: the subscriber left the right key,
#: the right key has no row, or it has a row. Within a batch, the greatest one counts, because a
#: subscriber that left one key has subscribed to another key or to none.
RESPONSES = Lineage(length=1)
UNSUBSCRIBED, WITHOUT_ROW, WITH_ROW = 0, 1, 2
#: The column of deleted rows among changed rows.
_DELETED = pa.field("deleted", pa.bool_())


@dataclass(frozen=True)
class TableJoin:
    """Tables joined by key: ``left`` with ``right``, each the index of a table, or a join."""

    how: How
    left: "TableJoin | int"
    right: "TableJoin | int"

    def __str__(self) -> str:
        """Return the join with the indexes of the tables, from 1."""
        left, right = (
            f"({part})" if isinstance(part, TableJoin) else str(part + 1)
            for part in (self.left, self.right)
        )
        return f"{left} {self.how} {right}"


def table_rows(part: TableJoin | int, has_row: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return from which tables the row of each key is joined, by [table, key].

    ``has_row`` has by [table, key] whether a table has a row.
    """
    if isinstance(part, int):
        only = np.zeros_like(has_row)
        only[part] = has_row[part]
        return only
    left, right = table_rows(part.left, has_row), table_rows(part.right, has_row)
    exists = has_joined_row(part.how, np.any(left, axis=0), np.any(right, axis=0))
    # An inner join has no row from one table, also within another join.
    rows: NDArray[np.bool_] = (left | right) & exists
    return rows


def has_joined_row(how: How, left: Flags, right: Flags) -> Flags:
    """Return where two tables have a joined row, from where each table has a row."""
    joined: Flags = {"inner": left & right, "left": left, "outer": left | right}[how]
    return joined


class TableRowsEngine(WindowEngine):
    """The rows of one table, or of several tables joined by key.

    The state is the records of all tables (``TableRecords.newest``), with the index of the table in
    ``side``. The records of a table have nulls in the columns of the others.
    """

    def __init__(
        self,
        join: TableJoin | int,
        tables: Sequence[pa.Schema],
        carried: pa.Schema | None = None,
        *,
        responses: tuple[int, ...] = (),
        updates: tuple[int, ...] = (),
        expiring: tuple[int, ...] = (),
    ) -> None:
        """Join tables, or return the rows of one table.

        Args:
            join: The join of the tables by their indexes, or 0.
            tables: The value columns of each table.
            carried: Further columns of the records.
            responses: The tables that are responses of a foreign-key join (see ``foreign_keys``).
            updates: The tables whose records are updates (``InputRows.are_table_updates``), which
                arrive in their apply order.
            expiring: The tables whose keys expire (``ExpiryEngine``). Their records with a null
                value are not kept, so a removed key has no state.

        Raises:
            IllegalArgument: Two columns have one name.
        """
        values = value_fields((*TABLE_FIELDS, SIDE, _DELETED), carried, tables)
        self.windows = NoWindows()
        self._join = join
        self._responses, self._updates, self._expiring = responses, updates, expiring
        self._values_of = [table.names for table in tables]
        self.aggregate_types = {field.name: field.type for field in values}
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), INPUT, NULL_VALUE, *values]
        )
        self.state_schema = pa.schema([*TABLE_FIELDS, SIDE, *(carried or ()), *values])

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """Apply the records. A table has no close time.

        A row changes when its current record changes, also if the values are equal. A row that
        appears and disappears within the batch is not a change.
        """
        del times
        batch = self._read(batch)
        # The index of an input of the store is the index of its table.
        arrived = pa.table(
            [batch[INPUT.name if name == SIDE.name else name] for name in self.state_schema.names],
            schema=self.state_schema,
        )
        other_keys, working_set = split_by_key(state, arrived["key"])
        if self._responses:
            response = RESPONSES.read(batch)[:, 0]
            working_set, arrived = _as_records(working_set, arrived, response, self._responses)
        if self._updates:
            # The argsort of a permutation is its inverse. So ``place`` is the position of each
            # record in the apply order.
            place = np.argsort(np.lexsort(arrival_keys(batch)))
            of_state, of_batch = (
                np.isin(np.asarray(rows[SIDE.name]), self._updates)
                for rows in (working_set, arrived)
            )
            # The last update of a key is its row, whatever its time and partition. So the updates
            # of a batch are records of one partition that follow the rows of the state.
            working_set = replaced(working_set, {"offset": -1}, of_state)
            arrived = replaced(arrived, {"partition": 0, "offset": place}, of_batch)
        records = TableRecords.of(pa.concat_tables([working_set, arrived]))
        newest, removed_ms = records.newest(), np.full(len(records.keys), -1, dtype=np.int64)
        if self._expiring:
            newest, removed = records.without_removals(self._expiring)
            np.maximum.at(removed_ms, records.key_code[removed], records.timestamp_ms[removed])
        # The rows of the state are first, one of each key, table and partition.
        before, after = (
            records.counting(rows, len(self._values_of))
            for rows in (np.arange(len(working_set)), newest)
        )
        # A deleted row has no values, although some of its tables can have a row.
        had, has = (table_rows(self._join, records.has_row(rows)) for rows in (before, after))
        existed, exists = np.any(had, axis=0), np.any(has, axis=0)

        # Codes, and therefore changes, are in the order of the bytes of the keys.
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
            # A tombstone is a current record as well, so its time counts (semantics.md#5-1).
            np.maximum(
                np.where(after < 0, -1, records.timestamp_ms[after]).max(axis=0),
                np.where(deleted, removed_ms[codes], -1),
            ),
            deleted=deleted,
        )
        state = pa.concat_tables([other_keys, records.take(newest)]).combine_chunks()
        return EngineResult(state, changes)


def _as_records(
    state: pa.Table, batch: pa.Table, response: Ints, tables: tuple[int, ...]
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a table of responses, ``side`` in ``tables``, as records of one partition.

    The record with the greatest offset is the row of its key. So ``batch`` has greater offsets than
    ``state``, and within ``batch`` the greatest ``response`` counts. A response without a row is a
    tombstone.
    """
    of_state, of_batch = (np.isin(np.asarray(rows[SIDE.name]), tables) for rows in (state, batch))
    values = {"partition": 0, "offset": response, NULL_VALUE.name: response != WITH_ROW}
    return replaced(state, {"offset": -1}, of_state), replaced(batch, values, of_batch)
