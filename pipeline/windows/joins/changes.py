"""The changes of a table, or of several tables joined by key, as a stream for group_by.

A record that replaces a row has two results, the old row and then the new row. The first row of a
key has one result, and so has a deletion. The downstream aggregation subtracts the old row from its
group and adds the new row to its group (``are_retractions``), as Kafka Streams does with both
values of a ``Change``.

A key of one table has one row per partition, as in Kafka Streams, whose tasks have one store each.
So the results depend only on the log of their partition, in the order of offsets, for all batches
and all interleavings.

In all other joins, the newest row of all partitions is the row (see ``inputs``). Here, results
would then depend on the partition that is read first. The functions of a partition could not
subtract exactly the row that they added.

The rows of joined tables change as in ``updates``, where the cut into batches can matter. The rows
of an aggregation do so as well, because an aggregation has one row for all partitions.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags
from oriel.pipeline.windows.joins.inputs import RESULT_FIELDS, InputRows
from oriel.pipeline.windows.joins.tables import TableJoin
from oriel.pipeline.windows.joins.updates import ForwardedUpdates, Histories, TableUpdatesEngine
from oriel.pipeline.windows.records import extended_by


class TableChangesEngine(TableUpdatesEngine):
    """The changes of a table, or of several joined by key.

    Both results of a record have its record id, its stream time, and the time of an update of
    ``TableUpdatesEngine``. Their lineage is the lineage of the update, with 0 for the old row or 1
    for the new row at the end. Records without an old and a new row are filtered.
    """

    def __init__(
        self,
        join: TableJoin | int,
        tables: Sequence[pa.Schema],
        carried: pa.Schema | None = None,
        filtered: frozenset[int] = frozenset(),
        *,
        rows: Sequence[InputRows] = (),
    ) -> None:
        """See ``TableUpdatesEngine``. For one table, ``join`` is 0."""
        super().__init__(join, tables, carried, filtered, rows=rows, needs_old_rows=True)
        # A table of a topic has one row per partition. An aggregation has one for all partitions.
        self._by_partition = isinstance(join, int) and not any(
            each.are_table_updates for each in rows
        )
        values = [self.result_schema.field(name) for table in tables for name in table.names]
        # Each result is a row.
        self.result_schema = self._joined_schema = pa.schema([*RESULT_FIELDS, *values])

    def _results(self, histories: Histories, forwarded: ForwardedUpdates) -> tuple[pa.Table, Flags]:
        """Return the row before each new record and the row after it, if they exist."""
        # An update can be dropped although both rows exist, for example if the foreign key of the
        # row does not change.
        is_row = np.stack(
            [forwarded.is_forwarded & forwarded.had, forwarded.is_forwarded & forwarded.has]
        )
        # All old rows are first here. The index ``is_after`` at the end of the lineage puts the old
        # row of each record directly before its new row. A group therefore subtracts before it adds
        # (semantics.md#9).
        is_after, numbers = np.nonzero(is_row)
        of_tables = np.where(is_after, histories.after[:, numbers], histories.before[:, numbers])
        new = histories.new[numbers]
        of_updates = self._logs.merged_lineages(histories.records.take(pa.array(new)))
        lineages = extended_by(of_updates, is_after)
        rows, time_ms = self._rows(of_tables), forwarded.time_ms[numbers]
        results = self._joined(histories.records, new, rows, time_ms, lineages)
        return results, is_row[0] | is_row[1]
