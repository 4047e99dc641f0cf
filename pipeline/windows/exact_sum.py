"""Exactly rounded sums of doubles over many index ranges at once.

A window's sum has to be the same to the last bit however the log was cut into batches,
so it may depend on the window's members only. The sum here is the exact real number,
rounded once to the nearest double (what ``math.fsum`` returns): order and association
can't matter, and prefix sums can be subtracted without cancellation.

How: each double is an integer times a power of two. Written on a fixed grid of 32-bit
limbs, a column of doubles is a few columns of int64; their prefix sums are exact
(limbs stay below 2**33, so 2**29 rows fit). A range's limbs are two lookups and a
subtraction, and rounding them to a double is vectorised over all ranges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_LIMB_BITS = 32
_MASK = np.int64(2**_LIMB_BITS - 1)
_MANTISSA_BITS = 53
#: Bits of an int64 that a plain integer prefix sum may use.
_PLAIN_BITS = 62


@dataclass(frozen=True)
class LimbGrid:
    """The limbs in use: limb ``j`` weighs ``2 ** (base_exponent + 32 * j)``."""

    base_exponent: int
    limbs: int

    @classmethod
    def covering(cls, values: Floats) -> "LimbGrid":
        """The smallest grid that holds every finite value and the carries of their sum.

        Limb boundaries are multiples of 32 whatever the values, so that the same sum has
        the same limbs on every grid.
        """
        _, exponent = np.frexp(values[values != 0])
        if not len(exponent):
            return cls(0, 1)
        lowest = int(exponent.min()) - _MANTISSA_BITS
        base = lowest // _LIMB_BITS * _LIMB_BITS
        return cls(base, (int(exponent.max()) - base) // _LIMB_BITS + 3)

    def split(self, values: Floats) -> list[Ints]:
        """Write each value as signed limbs, lowest first: ``limbs`` arrays as long as values."""
        fraction, exponent = np.frexp(values)
        mantissa = np.ldexp(np.abs(fraction), _MANTISSA_BITS).astype(np.int64)
        shift = np.where(mantissa == 0, 0, exponent - _MANTISSA_BITS - self.base_exponent)
        place, bits = np.divmod(shift.astype(np.int64), _LIMB_BITS)
        low = (mantissa & _MASK) << bits
        high = (mantissa >> _LIMB_BITS) << bits
        sign = np.where(values < 0, np.int64(-1), np.int64(1))
        parts = [
            (low & _MASK) * sign,
            ((low >> _LIMB_BITS) + (high & _MASK)) * sign,
            (high >> _LIMB_BITS) * sign,
        ]
        limbs = np.zeros((self.limbs, len(values)), dtype=np.int64)
        columns = np.arange(len(values))
        for k, part in enumerate(parts):
            limbs[place + k, columns] = part
        return list(limbs)

    def to_double(self, limbs: list[Ints]) -> Floats:
        """Round each column of signed limb sums to the nearest double, ties to even."""
        negative = _carried(limbs)[1] < 0
        sign = np.where(negative, np.int64(-1), np.int64(1))
        digits, _ = _carried([limb * sign for limb in limbs])
        stack = np.stack([np.zeros_like(digits[0]), np.zeros_like(digits[0]), *digits])
        used = stack != 0
        top = np.maximum(len(stack) - 1 - np.argmax(used[::-1], axis=0), 2)
        any_below = np.logical_or.accumulate(used, axis=0)
        columns = np.arange(stack.shape[1])
        first, second, third = (stack[top - k, columns].astype(np.uint64) for k in range(3))
        sticky = (top >= 3) & any_below[top - 3, columns]
        word, shifted = _leading_word(first, second, third, sticky)
        weight = self.base_exponent + _LIMB_BITS * (top.astype(np.int64) - 3) - shifted
        with np.errstate(over="ignore"):
            rounded: Floats = np.ldexp(word.astype(np.float64), weight)
        return np.where(negative, -rounded, rounded)


def _carried(limbs: list[Ints]) -> tuple[list[Ints], Ints]:
    """Carry signed limb sums upwards: limbs in [0, 2**32), and what is left above the top."""
    digits: list[Ints] = []
    carry = np.zeros_like(limbs[0])
    for limb in limbs:
        value = limb + carry
        digits.append(value & _MASK)
        carry = value >> _LIMB_BITS
    digits.append(carry & _MASK)
    return digits, carry >> _LIMB_BITS


def _leading_word(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    third: NDArray[np.uint64],
    sticky: NDArray[np.bool_],
) -> tuple[NDArray[np.uint64], Ints]:
    """Put the three highest limbs into 64 bits with the highest bit set.

    Whatever doesn't fit is folded into the lowest bit, which is enough for the hardware's
    conversion to double to round right. Returns the word and by how many bits it was
    shifted up from the weight of ``second``.
    """
    limb_bits = np.uint64(_LIMB_BITS)
    length = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
    free = np.where(first == 0, np.uint64(0), limb_bits - length)
    rest = limb_bits - free
    word = (((first << limb_bits) | second) << free) | (third >> rest)
    lost = (third & ((np.uint64(1) << rest) - np.uint64(1))) != 0
    return word | (lost | sticky).astype(np.uint64), free.astype(np.int64)


def prefix_sums(values: Ints) -> Ints:
    """Return the sums of the first 0, 1, ... n values (wrapping in 64 bits)."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


class RangeSums:
    """Exactly rounded sums of ``values[low:high]`` for many ranges; values must be finite."""

    def __init__(self, values: Floats) -> None:
        """Take the column once; each query then costs two look-ups per limb."""
        scale = _plain_scale(values)
        self._scale = scale
        if scale is None:
            self._grid = LimbGrid.covering(values)
            self._prefixes = [prefix_sums(limb) for limb in self._grid.split(values)]
        else:
            self._prefixes = [prefix_sums(np.ldexp(values, -scale).astype(np.int64))]

    def sums(self, low: Ints, high: Ints) -> Floats:
        """Return the sum of each range, rounded once."""
        limbs = self._limbs(low, high)
        if self._scale is None:
            return self._grid.to_double(limbs)
        with np.errstate(over="ignore"):
            rounded: Floats = np.ldexp(limbs[0].astype(np.float64), self._scale)
        return rounded

    def double_doubles(self, low: Ints, high: Ints) -> tuple[Floats, Floats]:
        """Return each sum as ``head + tail``: the rounded sum and the rounded rest (106 bits)."""
        return self.limb_sums(low, high).double_doubles()

    def limb_sums(self, low: Ints, high: Ints) -> "LimbSums":
        """Return the exact sum of each range."""
        limbs = self._limbs(low, high)
        if self._scale is None:
            return LimbSums(self._grid, limbs)
        return LimbSums(*_on_the_grid(limbs[0], self._scale))

    def _limbs(self, low: Ints, high: Ints) -> list[Ints]:
        return [prefix[high] - prefix[low] for prefix in self._prefixes]


@dataclass(frozen=True)
class LimbSums:
    """Exact sums: column ``i`` of the limbs is the i-th sum."""

    grid: LimbGrid
    limbs: list[Ints]

    def rounded(self) -> Floats:
        """Each sum as the nearest double."""
        return self.grid.to_double(self.limbs)

    def double_doubles(self) -> tuple[Floats, Floats]:
        """Each sum as ``head + tail``: the rounded sum and the rounded rest (106 bits)."""
        head = self.rounded()
        finite = np.where(np.isfinite(head), head, 0.0)
        parts = self.grid.split(finite)
        rest = [limb - part for limb, part in zip(self.limbs, parts, strict=True)]
        return head, self.grid.to_double(rest)

    def digits(self) -> list[Ints]:
        """The limbs with sign and magnitude: each in (-2**32, 2**32), all of one sign."""
        sign = np.where(_carried(self.limbs)[1] < 0, np.int64(-1), np.int64(1))
        return [digit * sign for digit in _carried([limb * sign for limb in self.limbs])[0]]


def _on_the_grid(values: Ints, scale: int) -> tuple[LimbGrid, list[Ints]]:
    """Write ``values * 2**scale`` as limbs: the grid's limbs begin at multiples of 32 bits."""
    bits = scale % _LIMB_BITS
    low = (values & _MASK) << bits
    high = (values >> _LIMB_BITS) << bits
    # The upper half has at most 31 bits and a sign, so it stays in range after the shift.
    limbs = [low & _MASK, (low >> _LIMB_BITS) + (high & _MASK), high >> _LIMB_BITS]
    return LimbGrid(scale - bits, len(limbs)), limbs


def _plain_scale(values: Floats) -> int | None:
    """Return e if every value is an integer times 2**e and no sum of them leaves 62 bits.

    Counts, whole seconds or quarters pass this test; most decimal fractions don't.
    """
    used = values[values != 0]
    if not len(used):
        return 0
    fraction, exponent = np.frexp(used)
    mantissa = np.ldexp(np.abs(fraction), _MANTISSA_BITS).astype(np.int64)
    lowest_bit = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1
    scale = int((exponent - _MANTISSA_BITS + lowest_bit).min())
    bits = int(exponent.max()) - scale + len(used).bit_length()
    return scale if bits <= _PLAIN_BITS else None
