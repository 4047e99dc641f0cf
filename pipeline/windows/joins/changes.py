"""What each record changes of a table, or of two joined by key, as a stream for group_by.

A record that replaces a row gives two results, the old row and behind it the new one; the first
row of a key only itself, a deletion only what it deletes. Behind them the old row is subtracted
from its group and the new one added to its own (``takes_away`` tells them apart), as Kafka Streams
does it with both values of a ``Change``.

A key of one table has a row in each partition that it comes from, as in Kafka, whose tasks have a
store each. So every result follows from its own partition's log alone, in the order of offsets,
whatever the batches and however partitions interleave. (Elsewhere the newest of several
partitions' rows counts, see ``sides``. Here that would make results of which partition was read
first, and no partition's functions could subtract just what they have added.) The rows of two
tables change as ``updates`` says, and by its rules which cut into batches matters.
"""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints
from oriel.pipeline.windows.joins.sides import How, has_joined_row
from oriel.pipeline.windows.joins.updates import Histories, TableUpdatesEngine, histories_of


class TableChangesEngine(TableUpdatesEngine):
    """The changes of a table, or with ``is_joined`` of two joined by key.

    Both results of a record have its place, its stream time and the time that an update of
    ``TableUpdatesEngine`` has. Suborders are 0 and 1, of a right side's records 2 and 3. Records
    that neither take a row away nor put one there are filtered.
    """

    def __init__(
        self,
        how: How,
        left: pa.Schema,
        right: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        is_joined: bool,
    ) -> None:
        """Join columns as ``JoinEngine`` says; one table is the left side, the right is empty.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        super().__init__(how, left, right, carried)
        self._is_joined = is_joined

    def _histories(self, old_rows: pa.Table, batch: pa.Table) -> Histories:
        """The histories of each key, of one table in each of its partitions."""
        return histories_of(old_rows, batch, by_partition=not self._is_joined)

    def _told(self, histories: Histories) -> tuple[Ints, Ints, Ints]:
        """For each new record the row before it and the row after it, where there is one."""
        new = np.flatnonzero(histories.new)
        after = histories.newest[:, new]
        # What stands in front of a record in its history is what its key had before.
        before = np.where(histories.head[new], -1, histories.newest[:, new - 1])
        side = np.asarray(histories.records["side"])[new].astype(np.int64)
        told, rows, suborders = [], [], []
        for is_after, of_key in enumerate((before, after)):
            exists = has_joined_row(self._how, *(of_key >= 0))
            told.append(new[exists])
            rows.append(of_key[:, exists])
            suborders.append(2 * side[exists] + is_after)
        return np.concatenate(told), np.concatenate(rows, axis=1), np.concatenate(suborders)
