"""The members of many windows at once: index ranges into rows in canonical order.

Row order inside a window is (timestamp, partition, offset). Aggregates ask for a column
and get its values without nulls plus the ranges moved accordingly; both are made once a
column, however many aggregates read it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.windows.engine import Flags, ranked
from pipeline.windows.exact_sum import (
    Floats,
    Ints,
    RangeSums,
    finite_or_zero,
    odd_flags,
    prefix_sums,
    with_odd,
)


@dataclass(frozen=True)
class Ranges:
    """``low[i]:high[i]`` is the i-th range; ranges may be empty and may overlap."""

    low: Ints
    high: Ints

    @classmethod
    def side_by_side(cls, sizes: Ints) -> "Ranges":
        """Ranges of these sizes, one after the other from row 0 on."""
        bounds = prefix_sums(sizes)
        return cls(bounds[:-1], bounds[1:])

    @classmethod
    def of_runs(cls, head: Flags) -> "Ranges":
        """The runs that rows are divided into; ``head`` marks the first row of each."""
        bounds = np.append(np.flatnonzero(head), len(head))
        return cls(bounds[:-1], bounds[1:])

    @property
    def sizes(self) -> Ints:
        """How many rows each range has."""
        return self.high - self.low

    @property
    def empty(self) -> Flags:
        """Which ranges have no row."""
        return self.high <= self.low

    @property
    def owners(self) -> Ints:
        """For each row of ``rows``, the number of its range."""
        return np.repeat(np.arange(len(self.low)), self.sizes)

    def keep(self, chosen: Flags) -> "Ranges":
        """The ranges where ``chosen`` is set."""
        return Ranges(self.low[chosen], self.high[chosen])

    def among(self, chosen: Flags) -> "Ranges":
        """The same ranges counted in the chosen rows only; ``chosen`` has a flag for each row."""
        before = prefix_sums(chosen)
        return Ranges(before[self.low], before[self.high])

    def totals(self, numbers: Ints | Flags) -> Ints:
        """The sum of ``numbers``, one for each row, in each range (wrapping in 64 bits)."""
        before = prefix_sums(numbers)
        return before[self.high] - before[self.low]

    def any_of(self, flags: Flags) -> Flags:
        """Whether a flag of ``flags``, one for each row, is set in each range."""
        return self.totals(flags) > 0

    def pairs(self) -> list[tuple[int, int]]:
        """(low, high) of each range as plain numbers, for loops in Python."""
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))

    def rows(self) -> tuple[Ints, Ints]:
        """Return (offsets, indices): the rows of all ranges, one range after the other."""
        offsets = prefix_sums(self.sizes)
        starts = np.repeat(self.low - offsets[:-1], self.sizes)
        return offsets, starts + np.arange(offsets[-1], dtype=np.int64)


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


def lists(offsets: Ints, items: "pa.Array | NDArray[np.generic]") -> pa.Array:
    """A list for each range of ``items`` between two neighbours of ``offsets``."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(items))


def range_minima(values: Ints, ranges: Ranges) -> Ints:
    """Return the least of ``values`` in each range, 0 for an empty one.

    A dyadic table: after step k, ``table[i]`` is the least of ``values[i : i + 2**k]``,
    so any range is covered by two (overlapping) entries of the step below its length.
    """
    sizes = ranges.sizes
    steps = np.frexp(sizes.astype(np.float64))[1] - 1
    minima = np.zeros(len(sizes), dtype=np.int64)
    table = values
    for step in range(int(steps.max(initial=-1)) + 1):
        if step:
            half = 1 << (step - 1)
            table = np.minimum(table[:-half], table[half:])
        here = np.flatnonzero((steps == step) & (sizes > 0))
        left = table[ranges.low[here]]
        minima[here] = np.minimum(left, table[ranges.high[here] - (1 << step)])
    return minima
