"""Many index ranges at once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays.types import Flags, Ints


def prefix_sums(values: Ints | NDArray[np.bool_]) -> Ints:
    """Return the sums of the first 0, 1, ... n values (wrapping in 64 bits); a flag is 0 or 1."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


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
