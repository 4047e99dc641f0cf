"""Arrays of numbers and flags, and many index ranges into them at once.

The members of a window are an index range into sorted rows. These functions process the ranges of
all windows together, without a loop in Python.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)


def prefix_sums(values: Ints | Flags) -> Ints:
    """Return the sums of the first 0, 1, ... n values, which wrap in 64 bits. A flag is 0 or 1."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


@dataclass(frozen=True)
class Ranges:
    """Index ranges: ``low[i]:high[i]`` is range i. Ranges can be empty and can overlap."""

    low: Ints
    high: Ints

    @classmethod
    def side_by_side(cls, sizes: Ints) -> "Ranges":
        """Return adjacent ranges with the given sizes, from row 0."""
        bounds = prefix_sums(sizes)
        return cls(bounds[:-1], bounds[1:])

    @classmethod
    def of_each(cls, length: int) -> "Ranges":
        """Return a range for each of ``length`` rows."""
        return cls.side_by_side(np.ones(length, dtype=np.int64))

    @classmethod
    def of_runs(cls, head: Flags) -> "Ranges":
        """Return the runs of rows. ``head`` marks the first row of each run."""
        bounds = np.append(np.flatnonzero(head), len(head))
        return cls(bounds[:-1], bounds[1:])

    @property
    def sizes(self) -> Ints:
        """The number of rows of each range."""
        return self.high - self.low

    @property
    def empty(self) -> Flags:
        """True for each range without a row."""
        return self.high <= self.low

    @property
    def owners(self) -> Ints:
        """The index of the range of each row in ``rows``."""
        return np.repeat(np.arange(len(self.low)), self.sizes)

    def keep(self, chosen: Flags) -> "Ranges":
        """Return the ranges for which ``chosen`` is set."""
        return Ranges(self.low[chosen], self.high[chosen])

    def among(self, chosen: Flags) -> "Ranges":
        """Return the ranges as positions among the chosen rows. ``chosen`` has a flag per row."""
        before = prefix_sums(chosen)
        return Ranges(before[self.low], before[self.high])

    def contained(self, length: int) -> Flags:
        """Return which of ``length`` rows are in a range."""
        # A row is in a range if more ranges have started than ended.
        begun = np.bincount(self.low, minlength=length + 1)
        ended = np.bincount(self.high, minlength=length + 1)
        is_contained: Flags = np.cumsum(begun - ended)[:length] > 0
        return is_contained

    def totals(self, numbers: Ints | Flags) -> Ints:
        """Return the sum of the ``numbers`` of the rows in each range, which wraps in 64 bits."""
        before = prefix_sums(numbers)
        # A prefix can wrap. The difference is still the sum of the range modulo 2**64, because
        # 64-bit integers are a ring. Doubles are not, so they have exact sums.
        return before[self.high] - before[self.low]

    def any_of(self, flags: Flags) -> Flags:
        """Return for each range whether one of its rows has a flag."""
        return self.totals(flags) > 0

    def pairs(self) -> list[tuple[int, int]]:
        """Return (low, high) of each range as Python integers, for loops in Python."""
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))

    def rows(self) -> tuple[Ints, Ints]:
        """Return (offsets, indices): the rows of all ranges, one range after the other.

        ``offsets`` are the bounds of the indices of each range.
        """
        offsets = prefix_sums(self.sizes)
        # Output position p of range i is row low[i] + (p - offsets[i]).
        starts = np.repeat(self.low - offsets[:-1], self.sizes)
        return offsets, starts + np.arange(offsets[-1], dtype=np.int64)

    @property
    def levels(self) -> int:
        """The number of block sizes (1, 2, 4, ...) that the ranges can consist of."""
        return int(self.sizes.max(initial=0)).bit_length()

    def blocks(self, level: int) -> tuple[Ints, Ints]:
        """Split the ranges into aligned blocks, and return the blocks of ``2**level`` rows.

        Block b starts at row ``b * 2**level``. A range has at most two blocks of each size, as in a
        segment tree.

        Returns:
            For each block, the index of its range and the index of the block.
        """
        first, end = -(-self.low >> level), self.high >> level
        inside = first < end
        # A block with an odd index at the start of the range, or with an even index at its end, is
        # not half of a larger block in the range.
        at_low = np.flatnonzero(inside & (first & 1 == 1))
        at_high = np.flatnonzero(inside & (end & 1 == 1))
        return (
            np.concatenate([at_low, at_high]),
            np.concatenate([first[at_low], end[at_high] - 1]),
        )

    def pieces(self, length: int) -> Iterator[tuple[int, "Ranges"]]:
        """Split the rows of all ranges into pieces of ``length`` rows. The last one can be shorter.

        A row can be in many ranges, so an array of all rows could be very long.

        Yields:
            The index of the first range of a piece, and the ranges of the piece. Its first and last
            range can be a part of a range.
        """
        offsets = prefix_sums(self.sizes)
        for begin in range(0, int(offsets[-1]), length):
            end = min(begin + length, int(offsets[-1]))
            first = int(np.searchsorted(offsets, begin, side="right")) - 1
            last = int(np.searchsorted(offsets, end, side="left"))
            low, high = self.low[first:last].copy(), self.high[first:last].copy()
            low[0] += begin - offsets[first]
            high[-1] -= offsets[last] - end
            yield first, Ranges(low, high)


def lists(offsets: Ints, items: "pa.Array | NDArray[np.generic]") -> pa.Array:
    """Return a list array. List i has the ``items`` from ``offsets[i]`` to ``offsets[i + 1]``."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(items))


def range_extremes(values: NDArray[Number], ranges: Ranges, pick: np.ufunc) -> NDArray[Number]:
    """Return the extreme of the values in each range, 0 for an empty range.

    ``pick`` returns the lesser or the greater of two values, for example ``np.minimum`` or
    ``np.maximum``. The time is O(n log m) for n values and ranges of at most m values, in log m
    steps.
    """
    sizes = ranges.sizes
    # A dyadic table: after step k, table[i] is the extreme of values[i : i + 2**k]. Two entries of
    # step k cover a range of size s with 2**k <= s < 2**(k+1): one at its start and one at its end.
    # They can overlap, because pick(a, a) = a. frexp returns f and e with s = f * 2**e and
    # 1/2 <= f < 1, so k = e - 1.
    steps = np.frexp(sizes.astype(np.float64))[1] - 1
    extremes = np.zeros(len(sizes), dtype=values.dtype)
    table = values
    for step in range(int(steps.max(initial=-1)) + 1):
        if step:
            half = 1 << (step - 1)
            table = pick(table[:-half], table[half:])
        chosen = np.flatnonzero((steps == step) & (sizes > 0))
        from_low = table[ranges.low[chosen]]
        extremes[chosen] = pick(from_low, table[ranges.high[chosen] - (1 << step)])
    return extremes
