"""A table as a store: a topic's newest row of each key, or two such tables joined by key.

The store's rows are the table's own: nothing is aggregated, nothing closes, nothing is late.
Which record of a key counts is a property of the records alone (see ``sides``), so the rows are
a function of the two logs, whatever the batch cuts.

A row of two joined tables has the greatest timestamp of the two records that count for its
key, a deletion's included. Where both sides come in order of time, this is Kafka Streams'
max(updating record, other row) (semantics 5); elsewhere Kafka's time depends on which side came
last, and this one does not.
"""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.definitions import FOREVER_MS, LEFT, RIGHT, NoWindows
from oriel.pipeline.windows.engines import EngineResult, WindowEngine
from oriel.pipeline.windows.joins.sides import (
    SIDE,
    TABLE_FIELDS,
    How,
    TableRecords,
    has_joined_row,
    joined_values,
    split_by_key,
)
from oriel.pipeline.windows.records import INPUT, NULL_VALUE, RECORD_FIELDS, changed_rows

#: The column by which a changed row says that it is gone.
_DELETED = pa.field("deleted", pa.bool_())


class TableRowsEngine(WindowEngine):
    """The rows of one table (``right`` has no columns then), or of two joined by key.

    The state is both tables' records (``TableRecords.newest``), told apart by ``side``; those
    of one side have nulls in the other side's columns.
    """

    def __init__(
        self, how: How, left: pa.Schema, right: pa.Schema, carried: pa.Schema | None = None
    ) -> None:
        """``left`` and ``right`` are the value columns of the inputs 0 and 1.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        own = (*TABLE_FIELDS, SIDE, _DELETED)
        values = joined_values(how, How, own, carried, (left, right))
        self.windows = NoWindows()
        self._how = how
        self._values_of_side = (left.names, right.names)
        self.aggregate_types = {field.name: field.type for field in values}
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), INPUT, NULL_VALUE, *values]
        )
        self.state_schema = pa.schema([*TABLE_FIELDS, SIDE, *(carried or ()), *values])

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; a table knows no close time.

        A row changes when a record comes that counts, though its values may be the same. One
        that came and went within the batch is not among the changes.
        """
        del previous_close_ms, close_ms
        batch = self._read(batch)
        # The store's input 0 is the left side, 1 the right one.
        arrived = pa.table(
            [batch[INPUT.name if name == SIDE.name else name] for name in self.state_schema.names],
            schema=self.state_schema,
        )
        other_keys, touched = split_by_key(state, arrived["key"])
        records = TableRecords.of(pa.concat_tables([touched, arrived]))
        newest = records.newest()
        # The state's rows stand first, and there is one of each key, side and partition.
        before, after = records.counting(np.arange(len(touched))), records.counting(newest)
        had_row, has_row = records.has_row(before), records.has_row(after)
        existed = has_joined_row(self._how, had_row[LEFT], had_row[RIGHT])
        exists = has_joined_row(self._how, has_row[LEFT], has_row[RIGHT])

        # Codes go by the keys' bytes, and changes come in that order.
        codes = np.flatnonzero((before != after).any(axis=0) & (existed | exists))
        after, deleted = after[:, codes], ~exists[codes]
        # A row that is gone has no values, though one of its sides may still have some.
        has_values = has_row[:, codes] & ~deleted
        values = {
            name: records.rows[name].take(pa.array(after[side], mask=~has_values[side]))
            for side in (LEFT, RIGHT)
            for name in self._values_of_side[side]
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
