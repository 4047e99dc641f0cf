"""Exactly rounded sums over many index ranges at once: of doubles, integers, their squares.

A window's sum has to be the same to the last bit however the log was cut into batches,
so it may depend on the window's members only. The sum here is the exact real number,
rounded once to the nearest double (what ``math.fsum`` returns): order and association
can't matter, and prefix sums can be subtracted without cancellation.

How: each number is an integer times a power of two. Written on a fixed grid of 32-bit
limbs, a column of numbers is a few columns of int64; their prefix sums are exact
(limbs stay below 2**35, so 2**28 rows fit). A range's limbs are two lookups and a
subtraction, and rounding them to a double is vectorised over all ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Floats, Ints, prefix_sums

LIMB_BITS = 32
_MASK = np.int64(2**LIMB_BITS - 1)
_MANTISSA_BITS = 53
#: Bits of an int64 that a plain integer prefix sum may use.
_PLAIN_BITS = 62


@dataclass(frozen=True)
class Scaled:
    """Numbers ``whole * 2**exponent``; ``exponent`` has one entry, or one for each number."""

    whole: Ints
    exponent: Ints

    @classmethod
    def of_integers(cls, values: Ints) -> "Scaled":
        """Integers as they are."""
        return cls(values, np.zeros(1, dtype=np.int64))

    @classmethod
    def of_doubles(cls, values: Floats) -> "Scaled":
        """Finite doubles, with one exponent for all of them where they are close in size.

        Counts, quarters and measurements around 100 are; values around 0 mostly not.
        """
        used = values != 0
        if not used.any():
            return cls.of_integers(np.zeros(len(values), dtype=np.int64))
        fraction, exponent = np.frexp(values)
        mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
        zeros = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1
        shift = exponent.astype(np.int64) - _MANTISSA_BITS
        scale = (shift + zeros).min(where=used, initial=2**12)
        if int(exponent.max(where=used, initial=-(2**12))) - scale <= _PLAIN_BITS:
            return cls(np.ldexp(values, -scale).astype(np.int64), np.array([scale]))
        return cls(mantissa, np.where(used, shift, shift.min(where=used, initial=2**12)))

    def squares(self) -> list["Scaled"]:
        """The exact square of each number, as one to three terms to be added.

        With ``whole = high * 2**32 + low``, both within 32 bits and a sign, no product has
        more than 62 bits.
        """
        low = ((self.whole & _MASK) ^ 2**31) - 2**31
        high = (self.whole >> LIMB_BITS) + (low < 0)
        double = self.exponent * 2
        lowest = Scaled(low * low, double)
        if not high.any():
            return [lowest]
        middle = Scaled(low * high, double + (LIMB_BITS + 1))
        return [lowest, middle, Scaled(high * high, double + 2 * LIMB_BITS)]

    @property
    def is_plain(self) -> bool:
        """Whether no sum of these numbers leaves 62 bits on their one exponent."""
        most = max(int(self.whole.max(initial=0)), -int(self.whole.min(initial=0)))
        bits = most.bit_length() + len(self.whole).bit_length()
        return len(self.exponent) == 1 and bits <= _PLAIN_BITS

    def limbs(self) -> tuple[Ints, Ints]:
        """Each number as three signed limbs, lowest first, and the first one's limb number."""
        number, bits = np.divmod(self.exponent, LIMB_BITS)
        low = (self.whole & _MASK) << bits
        # The upper half has at most 31 bits and a sign, so it stays in range after the shift.
        high = (self.whole >> LIMB_BITS) << bits
        middle = (low >> LIMB_BITS) + (high & _MASK)
        return np.stack([low & _MASK, middle, high >> LIMB_BITS]), number


@dataclass(frozen=True)
class LimbSums:
    """Exact sums: column ``i`` of the limbs, lowest first, is the i-th sum.

    Limb number ``k`` weighs ``2 ** (32 * k)``, whatever the numbers, so that the same sum
    has the same digits wherever its limbs begin.
    """

    first: int
    limbs: Ints

    def rounded(self) -> Floats:
        """Each sum as the nearest double, ties to even."""
        significand, exponent = self.leading()
        with np.errstate(over="ignore"):
            rounded: Floats = np.ldexp(significand, exponent)
        return rounded

    def leading(self) -> tuple[Floats, Ints]:
        """Each sum rounded to 53 bits, ties to even, as ``significand * 2**exponent``."""
        digits, negative = self.magnitudes()
        stack = np.concatenate([np.zeros_like(digits, shape=(2, digits.shape[1])), digits])
        used = stack != 0
        top = np.maximum(len(stack) - 1 - np.argmax(used[::-1], axis=0), 2)
        any_below = np.logical_or.accumulate(used, axis=0)
        columns = np.arange(stack.shape[1])
        first, second, third = (stack[top - k, columns].astype(np.uint64) for k in range(3))
        sticky = (top >= 3) & any_below[top - 3, columns]
        word, shifted = _leading_word(first, second, third, sticky)
        exponent = LIMB_BITS * (self.first + top.astype(np.int64) - 3) - shifted
        significand = word.astype(np.float64)
        return np.where(negative, -significand, significand), exponent

    def magnitudes(self) -> tuple[Ints, NDArray[np.bool_]]:
        """The limbs in [0, 2**32), one more of them, and which sums are negative."""
        negative = _carried(self.limbs)[1] < 0
        return _carried(self.limbs * np.where(negative, np.int64(-1), np.int64(1)))[0], negative

    def digits(self) -> Ints:
        """The limbs with sign and magnitude: each in (-2**32, 2**32), all of one sign."""
        digits, negative = self.magnitudes()
        return digits * np.where(negative, np.int64(-1), np.int64(1))


def _carried(limbs: Ints) -> tuple[Ints, Ints]:
    """Carry signed limb sums upwards: limbs in [0, 2**32), and what is left above the top."""
    digits = np.empty((len(limbs) + 1, limbs.shape[1]), dtype=np.int64)
    carry = np.zeros(limbs.shape[1], dtype=np.int64)
    for limb, digit in zip(limbs, digits[:-1], strict=True):
        value = limb + carry
        np.bitwise_and(value, _MASK, out=digit)
        carry = value >> LIMB_BITS
    digits[-1] = carry & _MASK
    return digits, carry >> LIMB_BITS


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
    limb_bits = np.uint64(LIMB_BITS)
    length = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
    free = np.where(first == 0, np.uint64(0), limb_bits - length)
    rest = limb_bits - free
    word = (((first << limb_bits) | second) << free) | (third >> rest)
    lost = (third & ((np.uint64(1) << rest) - np.uint64(1))) != 0
    return word | (lost | sticky).astype(np.uint64), free.astype(np.int64)


def finite_or_zero(values: Floats) -> Floats:
    """``values`` with 0 in place of NaN and infinities."""
    return np.where(np.isfinite(values), values, 0.0)


def odd_flags(values: Floats) -> tuple[NDArray[np.bool_], ...]:
    """Which values are NaN, which infinity, which minus infinity."""
    return np.isnan(values), values == np.inf, values == -np.inf


def with_odd(sums: Floats, nan: Ints, up: Ints, down: Ints) -> Floats:
    """Add to each sum so many NaNs, infinities and minus infinities, as IEEE 754 says."""
    sums = np.where(up > 0, np.inf, np.where(down > 0, -np.inf, sums))
    return np.where((nan > 0) | ((up > 0) & (down > 0)), np.nan, sums)


class RangeSums:
    """Exact sums of ``values[low:high]`` for many ranges."""

    def __init__(self, values: Floats | Sequence[Scaled]) -> None:
        """Take finite doubles, or columns of terms that make up the values together.

        Each query then costs two look-ups per limb.
        """
        terms = [Scaled.of_doubles(values)] if isinstance(values, np.ndarray) else values
        self._scale = terms[0].exponent if len(terms) == 1 and terms[0].is_plain else None
        if self._scale is None:
            self._first, limbs = _on_one_grid(terms)
            self._prefixes = [prefix_sums(limb) for limb in limbs]
        else:
            self._prefixes = [prefix_sums(terms[0].whole)]

    def sums(self, low: Ints, high: Ints) -> Floats:
        """Return the sum of each range, rounded once."""
        if self._scale is None:
            return self.limb_sums(low, high).rounded()
        whole = self._prefixes[0][high] - self._prefixes[0][low]
        with np.errstate(over="ignore"):
            rounded: Floats = np.ldexp(whole.astype(np.float64), self._scale)
        return rounded

    def limb_sums(self, low: Ints, high: Ints) -> LimbSums:
        """Return the exact sum of each range."""
        limbs = np.stack([prefix[high] - prefix[low] for prefix in self._prefixes])
        if self._scale is None:
            return LimbSums(self._first, limbs)
        limbs, number = Scaled(limbs[0], self._scale).limbs()
        return LimbSums(int(number[0]), limbs)


def _on_one_grid(terms: Sequence[Scaled]) -> tuple[int, Ints]:
    """The limbs of the sum of all terms, one column for each value, and the first's number."""
    pieces = [term.limbs() for term in terms]
    first = min(int(number.min()) for _, number in pieces)
    last = max(int(number.max()) for _, number in pieces)
    table = np.zeros((last - first + 3, len(terms[0].whole)), dtype=np.int64)
    columns = np.arange(table.shape[1])
    for limbs, number in pieces:
        places = number - first
        for k, limb in enumerate(limbs):
            if len(places) == 1:
                table[places[0] + k] += limb
            else:
                table[places + k, columns] += limb
    return first, table
