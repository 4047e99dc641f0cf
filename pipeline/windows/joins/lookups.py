"""A stream with a table: each record of the stream with the row that its key has in the table.

The left side is the stream, the right one the table. All table records of a batch take effect
first, then the stream's records look up. A stream record is joined with the table as of now
(semantics.md#5-3: right b@50, then left a@10 gives (a,b)@10), not as of its own time (see
``versions`` for that). So what a stream finds depends on what arrived when; which record of a key
counts in the table does not (see ``sides``).
"""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    TABLE_FIELDS,
    Clocks,
    JoinEngine,
    JoinResult,
    SideRows,
    TableRecords,
    in_effect_order,
    joined_values,
    split_by_key,
)
from oriel.pipeline.windows.records import NULL_VALUE, PLACE_FIELDS, SUBORDER

LookupHow = Literal["inner", "left"]


class TableLookupEngine(JoinEngine):
    """Join of a stream with a table.

    The state is the table's records (``TableRecords.newest``). A result is the stream's record,
    in the stream's order, with its own time (semantics.md#5-1), place and stream time; it finds
    one row at most, so it needs no suborder, and keeps the one that it has. An inner join filters
    those that find none.
    """

    keeps_records = keeps_order = True

    def __init__(
        self,
        how: LookupHow,
        stream: pa.Schema,
        table: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: tuple[SideRows, SideRows] = (RECORDS, RECORDS),
    ) -> None:
        """Join columns as ``JoinEngine`` says; the table is the right side.

        ``rows`` are what the sides' records are; how the stream's are told apart stays as it is.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE)
        values = joined_values(how, LookupHow, own, carried, (stream, table))
        self._inner = how == "inner"
        self._table_rows = rows[RIGHT]
        self._stream_values, self._table_values = stream.names, table.names
        numbers, order = rows[LEFT].places.fields, self._table_rows.order_fields
        beside = (*dict.fromkeys((*numbers, *order)), NULL_VALUE)
        self.record_schema = pa.schema([*SIDE_FIELDS, *beside, *(carried or ()), *values])
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ()), *values[len(stream) :]])
        # Rows behind have a suborder in any case.
        numbers = numbers or [SUBORDER]
        self.result_schema = pa.schema([*PLACE_FIELDS, *numbers, STREAM_TIME, *values])

    def reads_table(self, side: int) -> bool:
        return side == RIGHT

    def waits_for(self, side: int) -> bool:
        # The table is read as it is.
        return side == LEFT

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:
        """The keys of the table's records: what a stream record looks up stays as it is."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Apply the table's records, then look up the stream's."""
        batch = self._read(batch)
        of_table = pc.equal(batch["side"], RIGHT)
        stream = batch.filter(pc.invert(of_table))
        state, late = self._applied(state, batch.filter(of_table), times.after)
        rows, row_number = self._looked_up(state, stream, times.after)
        filtered = 0
        if self._inner:
            filtered = row_number.null_count
            stream, row_number = stream.filter(row_number.is_valid()), row_number.drop_null()
        # A null row number takes a null: a left join's record without a row.
        columns = {
            SUBORDER.name: pa.nulls(len(stream), SUBORDER.type),
            **{name: stream[name] for name in stream.column_names},
            **{name: rows[name].take(row_number) for name in self._table_values},
        }
        results = pa.table([columns[name] for name in self.result_schema.names], self.result_schema)
        return JoinResult(state.combine_chunks(), [results], late=(0, late), filtered=(filtered,))

    def _applied(self, state: pa.Table, arrived: pa.Table, clocks: Clocks) -> tuple[pa.Table, int]:
        """The state with the table's records, and how many of these came too late."""
        del clocks
        if self._table_rows.tell_rows:
            state, arrived = in_effect_order(state, arrived)
        other_keys, touched = split_by_key(state, arrived["key"])
        records = TableRecords.of(pa.concat_tables([touched, arrived.select(state.column_names)]))
        return pa.concat_tables([other_keys, records.take(records.newest())]), 0

    def _looked_up(
        self, state: pa.Table, stream: pa.Table, clocks: Clocks
    ) -> tuple[pa.Table, pa.ChunkedArray]:
        """Rows of the table, and which of them each of the stream's records finds, null: none."""
        del clocks
        table = TableRecords.of(split_by_key(state, stream["key"])[1])
        counting = table.counting(np.arange(len(table.rows)))
        rows = table.take(counting[0][table.has_row(counting)[0]])
        return rows, pc.index_in(stream["key"], value_set=rows["key"])
