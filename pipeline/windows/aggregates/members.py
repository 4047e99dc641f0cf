"""The members of many windows at once: index ranges into rows in canonical order.

Row order inside a window is (timestamp, partition, offset). Aggregates ask for a column
and get its values without nulls plus the ranges moved accordingly; both are made once a
column, however many aggregates read it.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Floats, Ints, Ranges, ranked
from oriel.pipeline.windows.exact import RangeSums, finite_or_zero, odd_flags, with_odd


class Values:
    """One column's non-null values and where each window's lie among them."""

    def __init__(self, column: pa.Array, ranges: Ranges) -> None:
        """Take nulls out of ``column`` and move ``ranges`` accordingly."""
        self._all = len(column)
        self._present: Flags | None = None
        if column.null_count:
            present = self._present = np.asarray(column.is_valid())
            ranges = ranges.among(present)
            column = column.drop_null()
        self.column = column
        self.ranges = ranges

    @cached_property
    def rows(self) -> Ints:
        """The row of each value."""
        if self._present is None:
            return np.arange(self._all, dtype=np.int64)
        return np.flatnonzero(self._present)

    @cached_property
    def integers(self) -> Ints:
        """The values as int64."""
        return np.asarray(self.column.cast(pa.int64()))

    @cached_property
    def doubles(self) -> Floats:
        """The values as doubles; -0.0 reads as 0.0, so that equal numbers have equal bits."""
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
    def sums(self) -> Floats:
        """The exactly rounded sum of each range; NaN and infinities add up as IEEE 754 says."""
        sums = RangeSums(finite_or_zero(self.doubles)).sums(self.ranges.low, self.ranges.high)
        if np.isfinite(self.doubles).all():
            return sums
        return with_odd(sums, *map(self.ranges.totals, odd_flags(self.doubles)))

    @cached_property
    def ordered(self) -> tuple[Ints, pa.Array]:
        """(rank of each value, the distinct values by rank): any ordered type as integers.

        NaN ranks above every number (Spark's rule), strings by their UTF-8 bytes.
        """
        column = pa.array(self.doubles) if self.is_floating else self.column
        return ranked(column.dictionary_encode())

    def take(self, rows: Ints) -> pa.Array:
        """Values at ``rows``; null where the window has no value."""
        return self.column.take(pa.array(rows, mask=self.ranges.empty))


class Members:
    """The members of each window: ranges over the rows of a table in canonical order."""

    def __init__(self, rows: pa.Table, ranges: Ranges) -> None:
        """``rows`` has the value columns; ``ranges`` one non-empty range a window."""
        self._rows = rows
        self._values: dict[str, Values] = {}
        self.ranges = ranges

    def values(self, column: str) -> Values:
        """The non-null values of ``column``."""
        if column not in self._values:
            chunks = self._rows.column(column)
            self._values[column] = Values(chunks.combine_chunks(), self.ranges)
        return self._values[column]

    def place(self, name: str, rows: Ints) -> pa.Array:
        """One column of the records' places (time, partition, offset, suborder), by row."""
        if name not in self._rows.column_names:
            return pa.array(np.zeros(len(rows), dtype=np.int64))
        return self._rows.column(name).combine_chunks().take(pa.array(rows))
