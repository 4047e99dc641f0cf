"""Rank items by their columns, and keep the first ones.

Nulls are first in ascending order and last in descending order, as in Spark. Items with equal
values are in the order of the store: by key, start and end.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from oriel.app.contract import InvalidParameter
from oriel.app.selection.columns import item_columns, item_schema
from oriel.app.selection.filters import matching_rows
from oriel.storage import InvalidCursor, StoreDefinition
from oriel.storage.expressions import Expression
from oriel.storage.index import record_keys

#: The rows that are collected before they are sorted, for each row that is kept.
_COLLECTED = 4
_COLLECTED_MIN = 4_096

_RECORD, _ITEM, _IS_LAST = "record", "item", "is_last"


class OrderColumn(NamedTuple):
    """One column of an order."""

    name: str
    descending: bool


def parse_order(texts: Sequence[str], columns: pa.Schema) -> tuple[OrderColumn, ...]:
    """Return the columns of ``order_by``. A minus before a name is the descending order.

    Raises:
        InvalidParameter: a column does not exist, is a list, or is repeated.
    """
    order = tuple(OrderColumn(text.removeprefix("-"), text.startswith("-")) for text in texts)
    for column in order:
        if column.name not in columns.names:
            known = ", ".join(columns.names)
            message = f"order_by: column {column.name[:80]!r} does not exist. Use one of: {known}."
            raise InvalidParameter(message)
        if pa.types.is_list(columns.field(column.name).type):
            message = f"order_by: column {column.name!r} is a list, which has no order."
            raise InvalidParameter(message)
    if not order or len({column.name for column in order}) < len(order):
        message = "order_by must name at least one column, and each column once."
        raise InvalidParameter(message)
    return order


class Ranking:
    """The first items in an order, out of all items that are added."""

    def __init__(
        self,
        definition: StoreDefinition,
        order: Sequence[OrderColumn],
        rows: int,
        condition: Expression | None = None,
        after: bytes | None = None,
    ) -> None:
        """Keep the first ``rows`` items, and one more to know whether items follow.

        Args:
            definition: The definition of the store.
            order: The columns of the order.
            rows: The maximum number of items.
            condition: The condition that the items must meet.
            after: The place of the last item of the previous page.

        Raises:
            InvalidCursor: ``after`` is not a place in this order.
        """
        self._definition = definition
        self._order = order
        self._rows = rows
        self._condition = condition
        self._after = None if after is None else self._place_row(after)
        self._best: pa.Table | None = None
        self._collected: list[pa.Table] = []
        self._collected_rows = 0

    def add(self, items: Sequence[bytes]) -> None:
        """Add JSON items with all fields."""
        if not items:
            return
        columns = item_columns(items, self._definition)
        rows = self._ranked_rows(columns).append_column(_ITEM, pa.array(items, pa.binary()))
        if self._condition is not None:
            rows = rows.filter(pa.array(matching_rows(columns, self._condition)))
        self._collected.append(rows)
        self._collected_rows += len(rows)
        if self._collected_rows >= max(_COLLECTED * self._rows, _COLLECTED_MIN):
            self._sort()

    def items(self) -> list[bytes]:
        """Return the first items in order: one more than ``rows`` if more items exist."""
        self._sort()
        return [] if self._best is None else self._best[_ITEM].to_pylist()

    def place(self, index: int) -> bytes:
        """Return the place of an item of ``items`` for a cursor, after which a page continues."""
        assert self._best is not None
        values = [self._best[name][index].as_py() for name in self._names()]
        return orjson.dumps([*values, self._best[_RECORD][index].as_py().hex()])

    def _names(self) -> list[str]:
        return [f"value_{index}" for index in range(len(self._order))]

    def _ranked_rows(self, columns: pa.Table) -> pa.Table:
        """Return the columns of the order, and the record keys, of some items."""
        key = columns["key"].cast(pa.string()).combine_chunks()
        zeros = pa.array([0] * len(columns), pa.int64())
        is_windowed = self._definition.window.is_windowed
        starts, ends = (
            (columns[name] if is_windowed else zeros).to_numpy()
            for name in ("window_start_ms", "window_end_ms")
        )
        values = [columns[column.name] for column in self._order]
        records = record_keys(key, starts, ends, self._definition.keys)
        return pa.table([*values, records], [*self._names(), _RECORD])

    def _sort(self) -> None:
        if not self._collected:
            return
        tables = [*self._collected, *([] if self._best is None else [self._best])]
        rows = pa.concat_tables(tables)
        if self._after is not None:
            rows = rows.append_column(_IS_LAST, pa.array(np.zeros(len(rows), np.bool_)))
            rows = pa.concat_tables([rows, self._after.select(rows.column_names)])
        rows = self._in_order(rows)
        if self._after is not None:
            place = int(np.asarray(rows[_IS_LAST]).argmax())
            rows = rows.slice(place + 1).drop_columns([_IS_LAST])
        self._best = rows.slice(0, self._rows + 1).combine_chunks()
        self._collected, self._collected_rows = [], 0

    def _place_row(self, place: bytes) -> pa.Table:
        """Return the last item of the previous page as a row. Only its place is known."""
        schema = item_schema(self._definition)
        types = [schema.field(column.name).type for column in self._order]
        try:
            *values, record = orjson.loads(place)
            arrays = [pa.array([v], t) for v, t in zip(values, types, strict=True)]
            arrays += [pa.array([bytes.fromhex(record)], pa.binary()), pa.array([b""], pa.binary())]
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            message = "cursor: the text is not a cursor of this service. Start again without it."
            raise InvalidCursor(message) from error
        return pa.table([*arrays, [True]], [*self._names(), _RECORD, _ITEM, _IS_LAST])

    def _in_order(self, rows: pa.Table) -> pa.Table:
        keys = []
        for name, column in zip(self._names(), self._order, strict=True):
            direction = "descending" if column.descending else "ascending"
            # A boolean before each value sorts the nulls: first in ascending order.
            rows = rows.append_column(f"{name}_is_valid", rows[name].is_valid())
            keys += [(f"{name}_is_valid", direction), (name, direction)]
        keys.append((_RECORD, "ascending"))
        if self._after is not None:
            # The item of the previous page precedes its own place, so it is not repeated.
            keys.append((_IS_LAST, "ascending"))
        rows = rows.sort_by(keys)
        return rows.drop_columns([name for name in rows.column_names if name.endswith("_is_valid")])
