"""Arrays of numbers and flags, and many index ranges into them at once.

A window's members are an index range into sorted rows. What is asked of all windows is
asked here of all ranges, without a loop over them.
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
    def of_each(cls, length: int) -> "Ranges":
        """Each of so many rows alone."""
        return cls.side_by_side(np.ones(length, dtype=np.int64))

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
        """For each row that ``rows`` lists, the number of its range."""
        return np.repeat(np.arange(len(self.low)), self.sizes)

    def keep(self, chosen: Flags) -> "Ranges":
        """The ranges where ``chosen`` is set."""
        return Ranges(self.low[chosen], self.high[chosen])

    def among(self, chosen: Flags) -> "Ranges":
        """The same ranges counted in the chosen rows only; ``chosen`` has a flag for each row."""
        before = prefix_sums(chosen)
        return Ranges(before[self.low], before[self.high])

    def covered(self, length: int) -> Flags:
        """Which of ``length`` rows are in a range."""
        # More ranges have begun than have ended.
        begun = np.bincount(self.low, minlength=length + 1)
        ended = np.bincount(self.high, minlength=length + 1)
        covered: Flags = np.cumsum(begun - ended)[:length] > 0
        return covered

    def totals(self, numbers: Ints | Flags) -> Ints:
        """The sum of ``numbers``, one for each row, in each range (wrapping in 64 bits)."""
        before = prefix_sums(numbers)
        # Right also where a prefix wraps: 64-bit integers are a ring, so the difference is the
        # range's own sum modulo 2**64. For doubles it would not be, hence the exact sums.
        return before[self.high] - before[self.low]

    def any_of(self, flags: Flags) -> Flags:
        """Whether a flag of ``flags``, one for each row, is set in each range."""
        return self.totals(flags) > 0

    def pairs(self) -> list[tuple[int, int]]:
        """(low, high) of each range as plain numbers, for loops in Python."""
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))

    def rows(self) -> tuple[Ints, Ints]:
        """Return (offsets, indices): the rows of all ranges, one range after the other.

        ``offsets`` bound each range's indices, one offset more than ranges.
        """
        offsets = prefix_sums(self.sizes)
        # Output position p of range i is row low[i] + (p - offsets[i]).
        starts = np.repeat(self.low - offsets[:-1], self.sizes)
        return offsets, starts + np.arange(offsets[-1], dtype=np.int64)

    @property
    def levels(self) -> int:
        """How many sizes of blocks, 1, 2, 4, ..., ranges may be taken apart into."""
        return int(self.sizes.max(initial=0)).bit_length()

    def blocks(self, level: int) -> tuple[Ints, Ints]:
        """Of the ranges taken apart into aligned blocks, the blocks of ``2**level`` rows.

        Returns the number of the range and of the block for each of them; block b begins at row
        ``b * 2**level``. A range has two blocks of each size at most, and together they are it,
        as a segment tree takes it apart.
        """
        first, end = -(-self.low >> level), self.high >> level
        inside = first < end
        # A block at an odd number at the beginning, or at an even one at the end, is no half of
        # a larger block within the range.
        at_low = np.flatnonzero(inside & (first & 1 == 1))
        at_high = np.flatnonzero(inside & (end & 1 == 1))
        return (
            np.concatenate([at_low, at_high]),
            np.concatenate([first[at_low], end[at_high] - 1]),
        )

    def pieces(self, length: int) -> Iterator[tuple[int, "Ranges"]]:
        """Cut what ``rows`` lists into pieces of ``length`` rows, the last one of fewer.

        Yields the number of each piece's first range, and the ranges, which are those of the
        following numbers, the first and the last of them cut. Many rows are in many pieces,
        so no array needs to be as long as all of them together.
        """
        offsets = prefix_sums(self.sizes)
        for begin in range(0, int(offsets[-1]), length):
            end = min(begin + length, int(offsets[-1]))
            first = int(np.searchsorted(offsets, begin, side="right")) - 1
            behind = int(np.searchsorted(offsets, end, side="left"))
            low, high = self.low[first:behind].copy(), self.high[first:behind].copy()
            low[0] += begin - offsets[first]
            high[-1] -= offsets[behind] - end
            yield first, Ranges(low, high)


def lists(offsets: Ints, items: "pa.Array | NDArray[np.generic]") -> pa.Array:
    """A list array: list i has the ``items`` from ``offsets[i]`` up to ``offsets[i + 1]``."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(items))


def range_extremes(values: NDArray[Number], ranges: Ranges, pick: np.ufunc) -> NDArray[Number]:
    """What ``pick`` makes of the values in each range, 0 for an empty one.

    ``pick`` gives the lesser or the greater of two values: ``np.minimum``, ``np.fmin``,
    ``np.maximum``. Takes O(n log m) for n values and ranges of at most m, in log m steps.
    """
    sizes = ranges.sizes
    # A dyadic table: after step k, table[i] is the extreme of values[i : i + 2**k]. A range of
    # size s with 2**k <= s < 2**(k+1) is covered by two entries of step k, one from its
    # beginning and one up to its end. They may overlap, since pick(a, a) = a.
    # frexp gives s = f * 2**e with 1/2 <= f < 1, so k = e - 1.
    steps = np.frexp(sizes.astype(np.float64))[1] - 1
    extremes = np.zeros(len(sizes), dtype=values.dtype)
    table = values
    for step in range(int(steps.max(initial=-1)) + 1):
        if step:
            half = 1 << (step - 1)
            table = pick(table[:-half], table[half:])
        covered = np.flatnonzero((steps == step) & (sizes > 0))
        from_low = table[ranges.low[covered]]
        extremes[covered] = pick(from_low, table[ranges.high[covered] - (1 << step)])
    return extremes
