"""Columns that do not change, with the order of their rows by single columns.

The first rows of an order are read from its begin, so a read costs the same for a thousand rows and
for a million.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.reads.ranked.read import RankedRead
from oriel.app.selection import OrderColumn, first_rows, rows_after

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: A read examines this many rows in an order. If it needs more, it examines all rows at once.
_EXAMINED_MAX = 1 << 16
#: A read that examines more rows than this runs in a thread. This many rows need about 1 ms.
_QUICK_MAX = 1 << 11
_BLOCK = 1 << 8


class SortedColumns:
    """Columns of items, and their rows in the order of each column that a read has used."""

    def __init__(self, columns: pa.Table) -> None:
        """Sort nothing yet. Each column must have at most one chunk."""
        self.columns = columns
        self._orders: dict[OrderColumn, Rows] = {}

    def size_bytes(self) -> int:
        """Return the memory in bytes."""
        return int(self.columns.nbytes) + sum(rows.nbytes for rows in self._orders.values())

    def first_rows(self, read: RankedRead, is_newest: Mask) -> Rows:
        """Return the first rows of a read, in any order, among the rows of a mask."""
        rows = self._in_order(read, is_newest, _EXAMINED_MAX)
        if rows is None:
            rows = np.flatnonzero(is_newest & is_selected(read, self.columns))
        return first_rows(self.columns, read.order, rows, read.rows + 1)

    def first_rows_quickly(self, read: RankedRead, is_newest: Mask) -> Rows | None:
        """Return the rows of ``first_rows``, or None if it would examine many rows or sort."""
        if read.order[0] not in self._orders:
            return None
        rows = self._in_order(read, is_newest, _QUICK_MAX)
        return None if rows is None else first_rows(self.columns, read.order, rows, read.rows + 1)

    def _in_order(self, read: RankedRead, is_newest: Mask, examined_max: int) -> Rows | None:
        """Return all first rows of a read, or None if it would examine more rows."""
        order, wanted = self._order(read.order[0]), read.rows + 1
        values = self.columns[read.order[0].name]
        found = np.zeros(0, np.int64)
        examined, size = 0, max(_BLOCK, wanted)
        while examined < len(order):
            if examined + size > examined_max:
                return None
            block = order[examined : examined + size]
            examined += len(block)
            newest = block[is_newest[block]]
            mask = is_selected(read, self.columns.take(pa.array(newest)))
            found = np.concatenate([found, newest[mask]])
            # The next columns of the order decide between rows with the value of the last one.
            if len(found) >= wanted and not values[found[wanted - 1]].equals(values[block[-1]]):
                break
            size *= 2
        return found

    def _order(self, column: OrderColumn) -> Rows:
        """Return all rows in the order of one column, with the nulls as in Spark."""
        order = self._orders.get(column)
        if order is None:
            direction = "descending" if column.descending else "ascending"
            nulls = "at_end" if column.descending else "at_start"
            values = self.columns[column.name]
            indexes = pc.array_sort_indices(values, order=direction, null_placement=nulls)
            order = self._orders[column] = np.asarray(indexes).astype(np.int64)
        return order


def is_selected(read: RankedRead, columns: pa.Table) -> Mask:
    """Return for each row whether the read selects it, after the place of its cursor."""
    mask = read.selected_rows(columns)
    if read.place is not None:
        mask &= rows_after(columns, read.order, read.place)
    return mask
