"""The join of a stream with a table: each record of the stream with the row of its key.

The left input is the stream, and the right input is the table. The records of the table in a batch
are applied first, and then the records of the stream are joined. A record of the stream is joined
with the current row, not with the row as of its own time (see ``versions`` for that). For example,
if right b@50 arrives before left a@10, the result is (a,b)@10 (semantics.md#5-3). The row that a
record finds therefore depends on the order of arrival. Which record of a key is the row of the
table does not depend on it (see ``inputs``).
"""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    TABLE_FIELDS,
    InputRows,
    InputStreamTimes,
    JoinEngine,
    JoinResult,
    TableRecords,
    in_apply_order,
    joined_values,
    split_by_key,
)
from oriel.pipeline.windows.records import LINEAGE, NULL_VALUE

StreamTableHow = Literal["inner", "left"]


class StreamTableJoinEngine(JoinEngine):
    """The join of a stream with a table.

    The state is the records of the table (``TableRecords.newest``). A result is the record of the
    stream with the columns of the table. It keeps its order, time (semantics.md#5-1), source offset
    and stream time. It also keeps its lineage, because it finds at most one row. An inner join
    filters records without a row.
    """

    keeps_records = keeps_order = True

    def __init__(
        self,
        how: StreamTableHow,
        stream: pa.Schema,
        table: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: tuple[InputRows, InputRows] = (RECORDS, RECORDS),
    ) -> None:
        """Join the columns of a stream and of a table. See ``JoinEngine``.

        Args:
            how: ``inner`` or ``left``.
            stream: The columns of the values of the stream.
            table: The columns of the values of the table.
            carried: Columns that the state keeps for the caller.
            rows: The rows of the stream and of the table. Results have the lineage of the stream.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE)
        values = joined_values(how, StreamTableHow, own, carried, (stream, table))
        self._inner = how == "inner"
        self._table_rows = rows[RIGHT]
        self._table_values = table.names
        # Both inputs can have lineages, but a schema has each column once. Unlike a set, a dict
        # keeps the order.
        order = dict.fromkeys((*rows[LEFT].lineage.fields, *self._table_rows.order_fields))
        own_fields = (*INPUT_FIELDS, *order, NULL_VALUE)
        self.record_schema = pa.schema([*own_fields, *(carried or ()), *values])
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ()), *values[len(stream) :]])
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])

    def reads_table(self, side: int) -> bool:
        return side == RIGHT

    def waits_for(self, side: int) -> bool:
        # A record of the stream finds the current row, so the stream time of the table has no
        # influence.
        return side == LEFT

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:
        """Return the keys of the records of the table. Records of the stream change no state."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Apply the records of the table, then join the records of the stream."""
        batch = self._read(batch)
        is_table_record = pc.equal(batch["side"], RIGHT)
        stream = batch.filter(pc.invert(is_table_record))
        state, late = self._applied(state, batch.filter(is_table_record), times.after)
        rows, row_number = self._looked_up(state, stream, times.after)
        filtered = 0
        if self._inner:
            filtered = row_number.null_count
            stream, row_number = stream.filter(row_number.is_valid()), row_number.drop_null()
        # In a left join, a record without a row has a null index, which selects nulls.
        columns = {
            # The lineages of the stream, if it has any, replace the nulls.
            LINEAGE.name: pa.nulls(len(stream), LINEAGE.type),
            **{name: stream[name] for name in stream.column_names},
            **{name: rows[name].take(row_number) for name in self._table_values},
        }
        results = pa.table([columns[name] for name in self.result_schema.names], self.result_schema)
        return JoinResult(state.combine_chunks(), [results], late=(0, late), filtered=(filtered,))

    def _applied(
        self, state: pa.Table, arrived: pa.Table, stream_times: InputStreamTimes
    ) -> tuple[pa.Table, int]:
        """Return the state after the records of the table, and the number of late records."""
        del stream_times
        # The updates of an aggregation have one order over all partitions. In a topic, each
        # partition has a candidate for the row of a key.
        if self._table_rows.are_table_updates:
            state, arrived = in_apply_order(state, arrived)
        other_keys, working_set = split_by_key(state, arrived["key"])
        records = TableRecords.of(
            pa.concat_tables([working_set, arrived.select(state.column_names)])
        )
        newest = records.newest()
        if self._table_rows.expire:
            newest, _ = records.without_removals((0,))
        return pa.concat_tables([other_keys, records.take(newest)]), 0

    def _looked_up(
        self, state: pa.Table, stream: pa.Table, stream_times: InputStreamTimes
    ) -> tuple[pa.Table, pa.ChunkedArray]:
        """Return rows of the table, and the index of the row of each record, null without a row."""
        del stream_times
        table = TableRecords.of(split_by_key(state, stream["key"])[1])
        # The state has only the newest record of each key and partition, so all of its rows are
        # candidates.
        newest_of_key = table.counting(np.arange(len(table.rows)))
        # Tombstones are not among ``rows``, so their keys have a null index, like unknown keys.
        rows = table.take(newest_of_key[0][table.has_row(newest_of_key)[0]])
        return rows, pc.index_in(stream["key"], value_set=rows["key"])
