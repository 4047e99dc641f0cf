"""Rank items by their columns, and keep the first ones.

Nulls are first in ascending order and last in descending order, as in Spark. Items with equal
values are in the order of the store: by key, start and end.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from oriel.app.contract import InvalidParameter
from oriel.app.selection.columns import item_columns, item_schema
from oriel.app.selection.filters import matching_rows
from oriel.storage import InvalidCursor, StoreDefinition
from oriel.storage.expressions import Expression
from oriel.storage.index import record_keys

#: The column with the record keys of items.
RECORD = "record"

#: The rows that are collected before they are sorted, for each row that is kept.
_COLLECTED = 4
_COLLECTED_MIN = 4_096

_ITEM, _IS_PLACE = "item", "is_place"

#: The value of an item in each column of an order.
Place = tuple[Any, ...]


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


def ranked_columns(columns: pa.Table, definition: StoreDefinition) -> pa.Table:
    """Return the columns of items that an order can have, and their record keys.

    The bytes of record keys have the order of the store.
    """
    keys = columns["key"].cast(pa.string()).combine_chunks()
    if definition.window.is_windowed:
        starts, ends = (columns[name].to_numpy() for name in ("window_start_ms", "window_end_ms"))
    else:
        starts = ends = np.zeros(len(columns), np.int64)
    scalars = [field.name for field in columns.schema if not pa.types.is_list(field.type)]
    records = record_keys(keys, starts, ends, definition.keys)
    return columns.select(scalars).append_column(RECORD, records)


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
            after: The place of the last item of the previous page, as ``place`` returned it.

        Raises:
            InvalidCursor: ``after`` is not a place in this order.
        """
        self._definition = definition
        #: The order. Its last column is the record key, so no two items are equal.
        self.order = (*order, OrderColumn(RECORD, descending=False))
        #: The place after which the items are.
        self.after = None if after is None else self._place_of(after)
        self._rows = rows
        self._condition = condition
        self._best: pa.Table | None = None
        self._collected: list[pa.Table] = []
        self._collected_rows = 0

    def add(self, items: Sequence[bytes]) -> None:
        """Add JSON items with all fields."""
        if not items:
            return
        columns = item_columns(items, self._definition)
        rows = self._with_items(ranked_columns(columns, self._definition), items)
        if self._condition is not None:
            rows = rows.filter(pa.array(matching_rows(columns, self._condition)))
        self._collect(rows)

    def add_rows(self, rows: pa.Table, items: Sequence[bytes]) -> None:
        """Add JSON items for which the condition is true, and their ``ranked_columns``."""
        self._collect(self._with_items(rows, items))

    def _with_items(self, rows: pa.Table, items: Sequence[bytes]) -> pa.Table:
        rows = rows.select([column.name for column in self.order])
        return rows.append_column(_ITEM, pa.array(items, pa.binary()))

    def _collect(self, rows: pa.Table) -> None:
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
        *values, record = (self._best[column.name][index].as_py() for column in self.order)
        return orjson.dumps([*values, record.hex()])

    def _place_of(self, text: bytes) -> Place:
        schema = item_schema(self._definition)
        try:
            *values, record = orjson.loads(text)
            for column, value in zip(self.order[:-1], values, strict=True):
                # An error if the value does not have the type of the column.
                pa.array([value], schema.field(column.name).type)
            return (*values, bytes.fromhex(record))
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            message = "cursor: the text is not a cursor of this service. Start again without it."
            raise InvalidCursor(message) from error

    def _sort(self) -> None:
        if not self._collected:
            return
        tables = [*self._collected, *([] if self._best is None else [self._best])]
        rows = pa.concat_tables(tables)
        if self.after is not None:
            rows = rows.append_column(_IS_PLACE, pa.array(np.zeros(len(rows), np.bool_)))
            values = (*self.after, b"", True)
            place = [pa.array([v], f.type) for v, f in zip(values, rows.schema, strict=True)]
            rows = pa.concat_tables([rows, pa.table(place, schema=rows.schema)])
        rows = self._in_order(rows)
        if self.after is not None:
            index = int(np.asarray(rows[_IS_PLACE]).argmax())
            rows = rows.slice(index + 1).drop_columns([_IS_PLACE])
        self._best = rows.slice(0, self._rows + 1).combine_chunks()
        self._collected, self._collected_rows = [], 0

    def _in_order(self, rows: pa.Table) -> pa.Table:
        names, keys = rows.column_names, []
        for index, column in enumerate(self.order):
            direction = "descending" if column.descending else "ascending"
            # A boolean before each value sorts the nulls: first in ascending order.
            rows = rows.append_column(f"{index} is valid", rows[column.name].is_valid())
            keys += [(f"{index} is valid", direction), (column.name, direction)]
        if self.after is not None:
            # The last item of the previous page is equal to its place, and precedes it here.
            keys.append((_IS_PLACE, "ascending"))
        return rows.sort_by(keys).select(names)
