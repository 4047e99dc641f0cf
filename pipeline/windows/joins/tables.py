"""Joins with tables: a stream's records, or another table's rows, each with the row of its key.

A table record replaces what its key had; one without a value deletes it. Which record of
a key counts is a property of the records alone, so that batch cuts and interleaving can't
matter: of each source partition the one with the greatest offset, and of those the one with
the greatest (timestamp, partition). (A key normally has one partition, and then its last
record counts, as in Kafka Streams.) Deletions count like other records: the state keeps
them, as a deletion may be newer than what another partition is still to bring.

A stream record is joined with the table as of now: all table records of the batch first.

A row of two joined tables has the greatest timestamp of the two records that count for its
key, a deletion's included. Where both sides come in order of time, this is Kafka Streams'
max(updating record, other row); elsewhere it keeps the row a function of the two logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.sides import (
    SIDE,
    STREAM_TIME,
    TwoTables,
    check_how,
    joined_values,
)
from oriel.pipeline.windows.records import NULL_VALUE, PLACE_FIELDS

TableHow = Literal["inner", "left"]

#: A record of the stream side.
STREAM_FIELDS = (*PLACE_FIELDS, STREAM_TIME)
#: A record of a table; ``null_value`` marks a deletion.
TABLE_FIELDS = (*PLACE_FIELDS, NULL_VALUE)
_DELETED = pa.field("deleted", pa.bool_())


@dataclass(frozen=True)
class TableJoinResult:
    """What one batch made of the state.

    ``results`` has the stream's records in their order, with the table's columns;
    ``dropped`` counts those that an inner join left out.
    """

    state: pa.Table
    results: pa.Table
    dropped: int


@dataclass(frozen=True)
class TableTableJoinResult:
    """What one batch made of the state.

    ``changes`` has each row once for which a record came that counts: key, the columns of
    both sides, timestamp_ms, deleted. A row that came and went within the batch is not in it.
    """

    state: pa.Table
    changes: pa.Table


class TableJoinEngine:
    """Join of a stream with a table; holds no state between calls."""

    def __init__(
        self,
        how: TableHow,
        stream: pa.Schema,
        table: pa.Schema,
        carried: pa.Schema | None = None,
    ) -> None:
        """``stream`` and ``table`` are the value columns, without a name in common.

        ``carried`` are columns that the state keeps with each table record for the
        caller's use.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        check_how(how, get_args(TableHow))
        values = joined_values((*STREAM_FIELDS, NULL_VALUE), carried, stream, table)[len(stream) :]
        self._inner = how == "inner"
        self._table_values = table.names
        self.stream_schema = pa.schema([*STREAM_FIELDS, *stream])
        self.table_schema = pa.schema([*TABLE_FIELDS, *(carried or ()), *values])
        self.state_schema = self.table_schema
        self.result_schema = pa.schema([*self.stream_schema, *values])

    def empty_state(self) -> pa.Table:
        """The table before its first record."""
        return self.state_schema.empty_table()

    def process(
        self, state: pa.Table, stream_batch: pa.Table, table_batch: pa.Table
    ) -> TableJoinResult:
        """Apply ``table_batch`` to the table, then look up each record of ``stream_batch``."""
        stream = stream_batch.select(self.stream_schema.names).cast(self.stream_schema)
        arrived = table_batch.select(self.table_schema.names).cast(self.table_schema)
        rest, touched = _split(state, arrived.column("key"))
        records = _Records.of(pa.concat_tables([touched, arrived]))
        state = pa.concat_tables([rest, records.take(records.newest())])
        rows = _rows(_split(state, stream.column("key"))[1])
        found = pc.index_in(stream.column("key"), value_set=rows.column("key"))
        if self._inner:
            stream, found = stream.filter(found.is_valid()), found.drop_null()
        looked_up = [rows.column(name).take(found) for name in self._table_values]
        results = pa.table([*stream.columns, *looked_up], schema=self.result_schema)
        return TableJoinResult(state.combine_chunks(), results, len(stream_batch) - len(results))


class TableTableJoinEngine(TwoTables):
    """The rows of two tables, joined."""

    own_fields = (*TABLE_FIELDS, SIDE, _DELETED)

    def _set_schemas(self, carried: Sequence[pa.Field], values: Sequence[pa.Field]) -> None:
        """See ``TwoTables``; changes have the joined rows."""
        left, right = values[: len(self._left)], values[len(self._left) :]
        self.left_schema = pa.schema([*TABLE_FIELDS, *carried, *left])
        self.right_schema = pa.schema([*TABLE_FIELDS, *carried, *right])
        self.state_schema = pa.schema([*TABLE_FIELDS, SIDE, *carried, *values])
        key, time = PLACE_FIELDS[:2]
        self.change_schema = pa.schema([key, *values, time, _DELETED])

    def process(
        self, state: pa.Table, left_batch: pa.Table, right_batch: pa.Table
    ) -> TableTableJoinResult:
        """Apply both batches and list the joined rows that changed."""
        left = left_batch.select(self.left_schema.names).cast(self.left_schema)
        right = right_batch.select(self.right_schema.names).cast(self.right_schema)
        arrived = pa.concat_tables([self._of_side(left, LEFT), self._of_side(right, RIGHT)])
        rest, touched = _split(state, arrived.column("key"))
        records = _Records.of(pa.concat_tables([touched, arrived]))
        newest = records.newest()
        before = records.counting(np.arange(len(touched)))
        after = records.counting(newest)
        state = pa.concat_tables([rest, records.take(newest)])
        changes = self._changes(records, before, after)
        return TableTableJoinResult(state.combine_chunks(), changes)

    def _of_side(self, batch: pa.Table, side: int) -> pa.Table:
        """``batch`` with the columns of the state: those of the other side are null."""
        present = {name: batch.column(name) for name in batch.column_names}
        present[SIDE.name] = pa.repeat(pa.scalar(side, SIDE.type), len(batch))
        columns = [
            present.get(field.name, pa.nulls(len(batch), field.type)) for field in self.state_schema
        ]
        return pa.table(columns, schema=self.state_schema)

    def _changes(
        self, records: "_Records", before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> pa.Table:
        existed = self._exists(*records.has_value(before))
        alive = records.has_value(after)
        exists = self._exists(*alive)
        codes = np.flatnonzero((before != after).any(axis=0) & (existed | exists))
        after, deleted = after[:, codes], ~exists[codes]
        shown = alive[:, codes] & ~deleted
        left, right = (pa.array(after[side], mask=~shown[side]) for side in (LEFT, RIGHT))
        columns = [
            records.keys.take(pa.array(codes)),
            *(records.table.column(name).take(left) for name in self._left.names),
            *(records.table.column(name).take(right) for name in self._right.names),
            np.where(after < 0, -1, records.time[after]).max(axis=0),
            deleted,
        ]
        return pa.table(columns, schema=self.change_schema)


@dataclass(frozen=True)
class _Records:
    """Table records in any order, as arrays; the side of a table that is alone is 0."""

    table: pa.Table
    keys: pa.Array
    code: Ints
    side: Ints
    partition: Ints
    offset: Ints
    time: Ints
    deletes: Flags

    @classmethod
    def of(cls, table: pa.Table) -> "_Records":
        table = table.combine_chunks()
        (code,), keys = coded_keys(table["key"])
        side, partition, offset, time = (
            np.asarray(table.column(name)).astype(np.int64)
            if name in table.column_names
            else np.zeros(len(table), dtype=np.int64)
            for name in (SIDE.name, "partition", "offset", "timestamp_ms")
        )
        deletes = np.asarray(table.column("null_value"))
        return cls(table, keys, code, side, partition, offset, time, deletes)

    def take(self, rows: Ints) -> pa.Table:
        return self.table.take(pa.array(rows))

    def newest(self) -> Ints:
        """The last record of each key, side and partition."""
        return _greatest((self.code, self.side, self.partition), (self.offset,))

    def counting(self, rows: Ints) -> NDArray[np.int64]:
        """The record that counts for each side and key code; -1 where there is none.

        ``rows`` has one record for each key, side and partition.
        """
        groups = (self.code[rows], self.side[rows])
        chosen = rows[_greatest(groups, (self.time[rows], self.partition[rows]))]
        counting = np.full((2, len(self.keys)), -1, dtype=np.int64)
        counting[self.side[chosen], self.code[chosen]] = chosen
        return counting

    def has_value(self, counting: NDArray[np.int64]) -> Flags:
        """Which of these records are there and not deletions."""
        found: Flags = counting >= 0
        # Without any record there is nothing to look at, not even for the masked ones.
        return found & ~self.deletes[counting] if len(self.deletes) else found


def _split(table: pa.Table, keys: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The rows of other keys, and those of ``keys``."""
    touched = pc.is_in(table.column("key"), value_set=pc.unique(keys))
    return table.filter(pc.invert(touched)), table.filter(touched)


def _rows(table: pa.Table) -> pa.Table:
    """The rows of one table: the record that counts for each key, without deletions."""
    records = _Records.of(table)
    counting = records.counting(np.arange(len(table)))
    return records.take(counting[LEFT][records.has_value(counting)[LEFT]])


def _greatest(groups: tuple[Ints, ...], by: tuple[Ints, ...]) -> Ints:
    """The row with the greatest ``by`` in each group of rows equal in all of ``groups``."""
    order = np.lexsort((*by[::-1], *groups[::-1]))
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = np.logical_or.reduce([np.diff(group[order]) != 0 for group in groups])
    return order[last]
