"""What each record changes of a table, or of several joined by key, as a stream for group_by.

A record that replaces a row gives two results, the old row and behind it the new one; the first
row of a key only itself, a deletion only what it deletes. Behind them the old row is subtracted
from its group and the new one added to its own (``takes_away`` tells them apart), as Kafka Streams
does it with both values of a ``Change``.

A key of one table has a row in each partition that it comes from, as in Kafka, whose tasks have a
store each. So every result follows from its own partition's log alone, in the order of offsets,
whatever the batches and however partitions interleave. (Elsewhere the newest of several
partitions' rows counts, see ``sides``. Here that would make results of which partition was read
first, and no partition's functions could subtract just what they have added.) The rows of joined
tables change as ``updates`` says, and by its rules which cut into batches matters. So do those of
an aggregation, which is one of all partitions.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags
from oriel.pipeline.windows.joins.sides import SideRows
from oriel.pipeline.windows.joins.tables import TableJoin
from oriel.pipeline.windows.joins.updates import Histories, TableUpdatesEngine, Told


class TableChangesEngine(TableUpdatesEngine):
    """The changes of a table, or of several joined by key.

    Both results of a record have its place, its stream time and the time that an update of
    ``TableUpdatesEngine`` has. Suborders are those of updates, twice: 0 and 1, of the second
    table's records 2 and 3, and so on; or 0 and 1 are one number more (``joins.places``). Records
    that neither take a row away nor put one there are filtered.
    """

    def __init__(
        self,
        join: TableJoin | int,
        tables: Sequence[pa.Schema],
        carried: pa.Schema | None = None,
        filtered: frozenset[int] = frozenset(),
        *,
        rows: Sequence[SideRows] = (),
    ) -> None:
        """See ``TableUpdatesEngine``; of one table ``join`` is its number, 0."""
        super().__init__(join, tables, carried, filtered, rows=rows, asks_for_old=True)
        # Of one topic; an aggregation's row is one of all partitions.
        self._by_partition = isinstance(join, int) and not any(each.tell_rows for each in rows)
        values = [self.result_schema.field(name) for table in tables for name in table.names]
        self._places = self._places.of_changes()
        # Each result is a row.
        self.result_schema = self._joined_schema = pa.schema([*self._result_fields, *values])

    def _results(self, histories: Histories, told: Told) -> tuple[pa.Table, Flags]:
        """For each new record the row before it and the row after it, where there is one."""
        is_row = np.stack([told.tells & told.had, told.tells & told.has])
        is_after, numbers = np.nonzero(is_row)
        of_tables = np.where(is_after, histories.after[:, numbers], histories.before[:, numbers])
        new = histories.new[numbers]
        places = self._logs.update_numbers(histories.records.take(pa.array(new)))
        if self._places.numbers > 1:
            places = np.column_stack([places, is_after])
        else:
            places = 2 * places + is_after[:, np.newaxis]
        rows, time_ms = self._rows(of_tables), told.time_ms[numbers]
        results = self._joined(histories.records, new, rows, time_ms, places)
        return results, is_row[0] | is_row[1]
