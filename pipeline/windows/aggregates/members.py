"""The members of many windows at once: index ranges into rows in canonical order.

The canonical order of rows inside a window is timestamp, partition, offset and lineage, for any
order of arrival. An aggregate reads the values of a column without nulls, and the range of values
of each window. Both are computed once per column for all aggregates.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import (
    Flags,
    Floats,
    Ints,
    Ranges,
    prefix_sums,
    ranked,
    run_starts,
)
from oriel.pipeline.windows.exact import rounded_sums
from oriel.pipeline.windows.records import LINEAGE, are_retractions


class Values:
    """The values of a column that are not null, with the range of values of each window."""

    def __init__(self, column: pa.Array, ranges: Ranges, records: pa.Table | None = None) -> None:
        """Drop the nulls of ``column`` and adjust ``ranges``.

        Args:
            column: The values, with nulls.
            ranges: The range of each window.
            records: The rows of the values, for ``coordinate``.
        """
        self._records = records
        self._length = len(column)
        self._valid: Flags | None = None
        if column.null_count:
            valid = self._valid = np.asarray(column.is_valid())
            # Positions among the values that are not null replace the rows, so that the ranges fit
            # the shorter column.
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
        """The values as doubles. -0.0 is read as 0.0, so that equal numbers have equal bits."""
        # -0.0 + 0.0 is 0.0, and every other double plus 0.0 is itself.
        # A safe cast rejects integers that a double cannot represent, for example 2**53 + 1.
        return np.asarray(self.column.cast(pa.float64(), safe=False)) + 0.0

    @property
    def numbers(self) -> Ints | Floats:
        """The values as int64, or as doubles if the column has floating-point numbers."""
        return self.doubles if self.is_floating else self.integers

    @cached_property
    def is_floating(self) -> bool:
        """True if the column has floating-point numbers."""
        return bool(pa.types.is_floating(self.column.type))

    @cached_property
    def signs(self) -> Ints:
        """For changes of a table: -1 for each value of an old row, 1 for a new row."""
        assert self._records is not None, "aggregates of changes are merged, not computed"
        signs: Ints = np.where(are_retractions(self._records), -1, 1)[self.rows]
        return signs

    @property
    def is_number(self) -> bool:
        """True if the column has numbers."""
        return self.is_floating or bool(pa.types.is_integer(self.column.type))

    @cached_property
    def sums(self) -> Floats:
        """The exactly rounded sum of each window's doubles, shared by ``sum`` and ``avg``."""
        return rounded_sums(self.doubles, self.ranges)

    @cached_property
    def ordered(self) -> tuple[Ints, pa.Array]:
        """(rank of each value, the distinct values by rank), for any type with an order.

        Strings rank by their UTF-8 bytes. Numbers need no ranks, because they are compared
        directly.
        """
        return ranked(self.column.dictionary_encode())

    @cached_property
    def codes(self) -> Ints:
        """An integer per value, equal for equal values. All NaN have one integer."""
        # Only equality of codes counts, so the values need no sort.
        if not self.is_number:
            return np.asarray(self.column.dictionary_encode().indices).astype(np.int64)
        if self.is_floating:
            # Equal numbers have equal bits if every NaN has the same bits.
            numbers = np.where(np.isnan(self.doubles), np.nan, self.doubles).view(np.int64)
        else:
            numbers = self.integers
        # Equal numbers receive one code, so the sort does not have to be stable.
        order = np.argsort(numbers)
        codes = np.empty_like(order)
        codes[order] = prefix_sums(run_starts(numbers[order]))[1:]
        return codes

    def take(self, indices: Ints) -> pa.Array:
        """Return one value per window by its index, or null for a window without a value."""
        return self.column.take(pa.array(indices, mask=self.ranges.empty))

    def has_coordinate(self, name: str) -> bool:
        """Return whether the records of the values have a coordinate."""
        return self._records is not None and name in self._records.column_names

    def coordinate(self, name: str, indices: Ints) -> pa.Array:
        """Return one coordinate of the records of the values.

        Args:
            name: ``timestamp_ms``, ``partition``, ``offset``, or the column of the lineage, which
                is empty for records of a source.
            indices: The indices of the values.
        """
        assert self._records is not None, "values of records have coordinates"
        column = self._records.column(name).combine_chunks().take(pa.array(self.rows[indices]))
        return pc.fill_null(column, b"") if name == LINEAGE.name else column


class Members:
    """The members of each window: ranges over the rows of a table in canonical order."""

    def __init__(self, rows: pa.Table, ranges: Ranges) -> None:
        """Remember the value columns ``rows`` and one range per window, which is not empty."""
        self._rows = rows
        self._ranges = ranges
        self._values: dict[str | None, Values] = {}

    def values(self, column: str | None) -> Values:
        """Return the values of ``column`` that are not null, or one value per record for None."""
        if column not in self._values:
            if column is None:
                # ``count()`` counts records also if all of their columns are null.
                array = pa.array(np.zeros(self._rows.num_rows, dtype=np.int8))
            else:
                array = self._rows.column(column).combine_chunks()
            self._values[column] = Values(array, self._ranges, self._rows)
        return self._values[column]
