"""The members of many windows at once: index ranges into rows in canonical order.

The order of rows inside a window is (timestamp, partition, offset, suborder), whatever the
order of arrival. Aggregates ask for a column and get its values without nulls, and where each
window's values lie among them; both are worked out once a column, however many aggregates
read it.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Floats, Ints, Ranges, heads, prefix_sums, ranked
from oriel.pipeline.windows.exact import rounded_sums
from oriel.pipeline.windows.records import PARTNERS, takes_away


class Values:
    """One column's non-null values, and where each window's lie among them."""

    def __init__(self, column: pa.Array, ranges: Ranges, records: pa.Table | None = None) -> None:
        """Take nulls out of ``column`` and move ``ranges`` accordingly.

        ``records`` are the rows that the values come from, for ``coordinate``.
        """
        self._records = records
        self._length = len(column)
        self._valid: Flags | None = None
        if column.null_count:
            valid = self._valid = np.asarray(column.is_valid())
            ranges = ranges.among(valid)
            column = column.drop_null()
        self.column = column
        self.ranges = ranges

    @cached_property
    def rows(self) -> Ints:
        """The row of each value."""
        if self._valid is None:
            return np.arange(self._length, dtype=np.int64)
        return np.flatnonzero(self._valid)

    @cached_property
    def integers(self) -> Ints:
        """The values as int64."""
        return np.asarray(self.column.cast(pa.int64()))

    @cached_property
    def doubles(self) -> Floats:
        """The values as doubles; -0.0 reads as 0.0, so that equal numbers have equal bits."""
        # -0.0 + 0.0 is 0.0, and every other double plus 0.0 is itself.
        return np.asarray(self.column.cast(pa.float64(), safe=False)) + 0.0

    @property
    def numbers(self) -> Ints | Floats:
        """The values as int64, or as doubles where the column holds floating point numbers."""
        return self.doubles if self.is_floating else self.integers

    @cached_property
    def is_floating(self) -> bool:
        """Whether the column holds floating point numbers."""
        return bool(pa.types.is_floating(self.column.type))

    @cached_property
    def signs(self) -> Ints:
        """Of changes of a table, -1 for each value of an old row and 1 for each of a new one."""
        assert self._records is not None, "parts of changes are merged, not worked out again"
        signs: Ints = np.where(takes_away(self._records), -1, 1)[self.rows]
        return signs

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, which ``numbers`` gives."""
        return self.is_floating or bool(pa.types.is_integer(self.column.type))

    @cached_property
    def sums(self) -> Floats:
        """The exactly rounded sum of each window's doubles, shared by ``sum`` and ``avg``."""
        return rounded_sums(self.doubles, self.ranges)

    @cached_property
    def ordered(self) -> tuple[Ints, pa.Array]:
        """(rank of each value, the distinct values by rank): any ordered type as integers.

        Strings rank by their UTF-8 bytes. Numbers need no ranks: they can be compared themselves.
        """
        return ranked(self.column.dictionary_encode())

    @cached_property
    def codes(self) -> Ints:
        """A number for each value, the same for equal values; all NaN are one value."""
        if not self.is_number:
            return np.asarray(self.column.dictionary_encode().indices).astype(np.int64)
        if self.is_floating:
            # Equal numbers have equal bits, once every NaN is the same one.
            numbers = np.where(np.isnan(self.doubles), np.nan, self.doubles).view(np.int64)
        else:
            numbers = self.integers
        order = np.argsort(numbers)
        codes = np.empty_like(order)
        codes[order] = prefix_sums(heads(numbers[order]))[1:]
        return codes

    def take(self, indices: Ints) -> pa.Array:
        """One value for each window, by its number; null where the window has no value."""
        return self.column.take(pa.array(indices, mask=self.ranges.empty))

    def has_coordinate(self, name: str) -> bool:
        """Whether the values' records have a coordinate: not all have partners."""
        return self._records is not None and name in self._records.column_names

    def coordinate(self, name: str, indices: Ints) -> pa.Array:
        """One coordinate (timestamp_ms, partition, offset, suborder, partners) of their records.

        0, or empty, where a record has none: results of a join and elements have a suborder.
        """
        if self._records is None or name not in self._records.column_names:
            return pa.array(np.zeros(len(indices), dtype=np.int64))
        column = self._records.column(name).combine_chunks()
        none = b"" if name == PARTNERS.name else 0
        return pc.fill_null(column.take(pa.array(self.rows[indices])), none)


class Members:
    """The members of each window: ranges over the rows of a table in canonical order."""

    def __init__(self, rows: pa.Table, ranges: Ranges) -> None:
        """``rows`` has the value columns; ``ranges`` one non-empty range a window."""
        self._rows = rows
        self._ranges = ranges
        self._values: dict[str | None, Values] = {}

    def values(self, column: str | None) -> Values:
        """The non-null values of ``column``; without a column each record counts as a value."""
        if column not in self._values:
            if column is None:
                array = pa.array(np.zeros(self._rows.num_rows, dtype=np.int8))
            else:
                array = self._rows.column(column).combine_chunks()
            self._values[column] = Values(array, self._ranges, self._rows)
        return self._values[column]
