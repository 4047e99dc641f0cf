"""Find the first rows of columns in an order, without sorting all rows."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.selection.ranking import OrderColumn

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def first_rows(columns: pa.Table, order: Sequence[OrderColumn], rows: Rows, count: int) -> Rows:
    """Return the first ``count`` of some rows in an order, in any order.

    Rows that are equal in all columns of the order are chosen arbitrarily.

    Args:
        columns: The columns of all rows.
        order: The columns of the order.
        rows: The indexes of the rows to choose from.
        count: The number of rows to return. It must be positive.
    """
    chosen: list[Rows] = []
    for column in order:
        if len(rows) <= count:
            break
        values = columns[column.name].take(pa.array(rows)).combine_chunks()
        is_before, is_equal = _divided(values, column, count)
        chosen.append(rows[is_before])
        count -= len(chosen[-1])
        rows = rows[is_equal]
    return np.concatenate([*chosen, rows[:count]])


def rows_after(columns: pa.Table, order: Sequence[OrderColumn], place: Sequence[object]) -> Mask:
    """Return for each row whether it is after a place in an order.

    Args:
        columns: The columns of all rows.
        order: The columns of the order.
        place: The value of each column at the place.
    """
    # From the last column to the first: the value of the row is after the value of the place, or it
    # is equal and the later columns decide.
    result = np.zeros(len(columns), np.bool_)
    for column, value in reversed(list(zip(order, place, strict=True))):
        values = columns[column.name]
        is_null = np.asarray(values.is_null())
        if value is None:
            is_equal, is_after = is_null, ~is_null & (not column.descending)
        else:
            compare = pc.less if column.descending else pc.greater
            at_place = pa.scalar(value, values.type)
            is_after = _mask(compare(values, at_place)) | (is_null & column.descending)
            is_equal = _mask(pc.equal(values, at_place))
        result = is_after | (is_equal & result)
    return result


def rows_of_keys(columns: pa.Table, keys: Sequence[str]) -> Mask:
    """Return for each row whether it has one of some keys."""
    values = pa.array(keys, pa.string()).cast(columns["key"].type)
    return _mask(pc.is_in(columns["key"], value_set=values))


def _divided(values: pa.Array, column: OrderColumn, count: int) -> tuple[Mask, Mask]:
    """Return which values are before the ``count``-th one in an order, and which are equal."""
    is_null = np.asarray(values.is_null())
    nulls = int(is_null.sum())
    # Nulls are first in ascending order.
    if not column.descending and nulls >= count:
        return np.zeros(len(values), np.bool_), is_null
    if column.descending and len(values) - nulls < count:
        return ~is_null, is_null
    needed = count if column.descending else count - nulls
    direction = "descending" if column.descending else "ascending"
    table = pa.table({"value": values.drop_null()})
    chosen = table["value"].take(pc.select_k_unstable(table, needed, [("value", direction)]))
    last = (pc.min if column.descending else pc.max)(chosen)
    compare = pc.greater if column.descending else pc.less
    is_before = _mask(compare(values, last)) | (is_null & (not column.descending))
    return is_before, _mask(pc.equal(values, last))


def _mask(values: pa.ChunkedArray | pa.Array) -> Mask:
    mask: Mask = np.asarray(pc.fill_null(values, fill_value=False))
    return mask
