"""Exactly rounded sums over many index ranges together: of doubles, integers and their squares.

The sum of a window must be the same to the last bit for all batches, so it can depend only on the
members of the window. It is the exact real sum, rounded once to the nearest double, as
``math.fsum`` computes it. The order of the additions has no influence, and prefix sums can be
subtracted without cancellation.

Each number is an integer times a power of two. On a fixed grid of 32-bit limbs, a column of numbers
is a few columns of int64 with exact prefix sums. Limbs are below 2**35, so 2**28 rows fit. The sum
of the limbs of a range is the difference of two prefix sums. The rounding to doubles is vectorized
over all ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oriel.pipeline.windows.arrays import Flags, Floats, Ints, Ranges

LIMB_BITS = 32
_MASK = np.int64(2**LIMB_BITS - 1)
_MANTISSA_BITS = 53
#: The bits of an int64 that a plain integer prefix sum can use.
_PLAIN_BITS = 62
#: Greater than the magnitude of every exponent of a double (-1126 to 1024).
_BEYOND = 2**12


def rounded_sums(values: Floats, ranges: Ranges) -> Floats:
    """Return the exact sum of each range of doubles, rounded once to the nearest double.

    NaN and infinities follow IEEE 754. The sum of an empty range is 0.
    """
    finite = np.isfinite(values)
    all_finite = bool(finite.all())
    scaled = Scaled.of_doubles(values if all_finite else np.where(finite, values, 0.0))
    if scaled.is_plain:
        whole = ranges.totals(scaled.whole).astype(np.float64)
        with np.errstate(over="ignore"):
            # The conversion rounds, and ldexp is exact, also for subnormal doubles. The exponent
            # belongs to the last place of a double, so it is at least -1074.
            sums: Floats = np.ldexp(whole, scaled.exponent)
    else:
        sums = limb_sums([scaled], ranges).rounded()
    if all_finite:
        return sums
    return with_non_finite(sums, *map(ranges.totals, non_finite_flags(values)))


def limb_sums(terms: Sequence["Scaled"], ranges: Ranges) -> "LimbSums":
    """Return the exact sum of each range of numbers. Each number is the sum of its ``terms``."""
    if len(terms) == 1 and terms[0].is_plain:
        totals = ranges.totals(terms[0].whole)
        limbs, first = Scaled(totals, terms[0].exponent).limbs()
        return LimbSums(int(first[0]), limbs)
    # One grid of limbs has the sum of all terms of each number.
    pieces = [term.limbs() for term in terms]
    lowest = min(int(number.min()) for _, number in pieces)
    highest = max(int(number.max()) for _, number in pieces)
    grid = np.zeros((highest - lowest + 3, len(terms[0].whole)), dtype=np.int64)
    columns = np.arange(grid.shape[1])
    for limbs, number in pieces:
        row = number - lowest
        for k, limb in enumerate(limbs):
            if len(row) == 1:
                grid[row[0] + k] += limb
            else:
                # Each column occurs once, so no addition overwrites another.
                grid[row + k, columns] += limb
    return LimbSums(lowest, np.stack([ranges.totals(limb) for limb in grid]))


@dataclass(frozen=True)
class Scaled:
    """Numbers ``whole * 2**exponent``. ``exponent`` has one entry, or one entry per number."""

    whole: Ints
    exponent: Ints

    @classmethod
    def of_integers(cls, values: Ints) -> "Scaled":
        """Return integers with the exponent 0."""
        return cls(values, np.zeros(1, dtype=np.int64))

    @classmethod
    def of_doubles(cls, values: Floats) -> "Scaled":
        """Return finite doubles, with one exponent for all if they are close in size.

        Counts, quarters and measurements around 100 are close in size. Values around 0 usually are
        not.
        """
        nonzero = values != 0
        if not nonzero.any():
            return cls.of_integers(np.zeros(len(values), dtype=np.int64))
        # value = mantissa * 2**shift, with a mantissa of 53 bits at most.
        fraction, exponent = np.frexp(values)
        mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
        shift = exponent.astype(np.int64) - _MANTISSA_BITS
        # m & -m is the lowest set bit of m, a power of two, and frexp returns its exponent.
        trailing_zeros = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1
        # On the scale of the lowest bit of all, every value is an integer.
        scale = (shift + trailing_zeros).min(where=nonzero, initial=_BEYOND)
        if int(exponent.max(where=nonzero, initial=-_BEYOND)) - scale <= _PLAIN_BITS:
            # Every |value| is below 2**(greatest exponent), so the integers fit into 62 bits.
            return cls(np.ldexp(values, -scale).astype(np.int64), np.array([scale]))
        # A zero has no exponent. The least exponent is used here, which does not widen the grid.
        return cls(mantissa, np.where(nonzero, shift, shift.min(where=nonzero, initial=_BEYOND)))

    def squares(self) -> list["Scaled"]:
        """Return the exact square of each number as one to three terms to add."""
        # whole = high * 2**32 + low with a signed low: -2**31 <= low < 2**31. If this subtracts
        # 2**32 from the lower half, high is 1 greater. Both are then within 2**31, and each
        # product is at most 2**62.
        low = ((self.whole & _MASK) ^ 2**31) - 2**31
        high = (self.whole >> LIMB_BITS) + (low < 0)
        double = self.exponent * 2
        lowest = Scaled(low * low, double)
        if not high.any():
            return [lowest]
        # (a + b)**2 = a*a + 2*a*b + b*b. The factor 2 and the weights are in the exponents.
        middle = Scaled(low * high, double + (LIMB_BITS + 1))
        return [lowest, middle, Scaled(high * high, double + 2 * LIMB_BITS)]

    @property
    def is_plain(self) -> bool:
        """True if all sums of the numbers fit into 62 bits with their one exponent."""
        # |sum| <= most * n < 2**(bits of most + bits of n).
        most = max(int(self.whole.max(initial=0)), -int(self.whole.min(initial=0)))
        bits = most.bit_length() + len(self.whole).bit_length()
        return len(self.exponent) == 1 and bits <= _PLAIN_BITS

    def limbs(self) -> tuple[Ints, Ints]:
        """Return three signed limbs per number, lowest first, and the index of the first limb."""
        # divmod rounds down, so exponent = 32 * number + bits with 0 <= bits < 32.
        number, bits = np.divmod(self.exponent, LIMB_BITS)
        low = (self.whole & _MASK) << bits
        # The upper half has at most 31 bits and a sign, so it stays in range after the shift.
        high = (self.whole >> LIMB_BITS) << bits
        # The middle limb is below 2**33. It is not carried here, but once for sums of limbs.
        middle = (low >> LIMB_BITS) + (high & _MASK)
        return np.stack([low & _MASK, middle, high >> LIMB_BITS]), number


@dataclass(frozen=True)
class LimbSums:
    """Exact sums: column ``i`` of the limbs, lowest first, is sum i.

    Limb ``k`` has the weight ``2 ** (32 * k)``. The same sum therefore has the same digits for any
    first limb.
    """

    #: The index of the lowest limb.
    first: int
    limbs: Ints

    def rounded(self) -> Floats:
        """Return each sum of doubles or integers as the nearest double, ties to even."""
        significand, exponent = self.leading()
        with np.errstate(over="ignore"):
            # For subnormal doubles, ldexp does not round again. Sums of doubles are multiples of
            # 2**-1074, so such sums have fewer than 53 bits.
            rounded: Floats = np.ldexp(significand, exponent)
        return rounded

    def leading(self) -> tuple[Floats, Ints]:
        """Return each sum rounded to 53 bits, ties to even, as ``significand * 2**exponent``."""
        digits, negative = self.magnitudes()
        # With two empty limbs below, three limbs from the top one down always exist.
        stack = np.concatenate([np.zeros_like(digits, shape=(2, digits.shape[1])), digits])
        nonzero = stack != 0
        top = np.maximum(len(stack) - 1 - np.argmax(nonzero[::-1], axis=0), 2)
        any_at_or_below = nonzero.copy()
        # A loop over the few limbs is faster than ``accumulate``, which processes flag by flag.
        for below, row in pairwise(any_at_or_below):
            np.logical_or(row, below, out=row)
        columns = np.arange(stack.shape[1])
        first, second, third = (stack[top - k, columns].astype(np.uint64) for k in range(3))
        sticky = (top >= 3) & any_at_or_below[top - 3, columns]
        # The word is the three highest limbs in 64 bits with the highest bit set. It is shifted up
        # by ``free`` bits from the weight of ``second``.
        limb_bits = np.uint64(LIMB_BITS)
        # frexp of an integer below 2**53 is exact: its exponent is the number of bits.
        length = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
        free = np.where(first == 0, np.uint64(0), limb_bits - length)
        rest = limb_bits - free
        word = (((first << limb_bits) | second) << free) | (third >> rest)
        lost = (third & ((np.uint64(1) << rest) - np.uint64(1))) != 0
        # The conversion of 64 bits to a double drops 11 bits. The bits below the word only decide
        # whether the value is a tie, so the lowest bit of the word is set if any lower bit is set.
        significand = (word | (lost | sticky).astype(np.uint64)).astype(np.float64)
        # stack[i] is limb self.first + i - 2, and the unit of the word is the unit of ``second``.
        exponent = LIMB_BITS * (self.first + top.astype(np.int64) - 3) - free.astype(np.int64)
        return np.where(negative, -significand, significand), exponent

    def magnitudes(self) -> tuple[Ints, Flags]:
        """Return the limbs in [0, 2**32) with one more limb, and which sums are negative."""
        # Carried digits are not negative, so the carry above them has the sign of the sum.
        digits, left = _carried(self.limbs)
        negative = left < 0
        if negative.any():
            digits[:, negative] = _carried(-self.limbs[:, negative])[0]
        return digits, negative

    def digits(self) -> Ints:
        """Return the limbs with sign and magnitude: each in (-2**32, 2**32), all of one sign.

        The digits depend only on the sum, not on the limbs that were added.
        """
        digits, negative = self.magnitudes()
        return digits * np.where(negative, np.int64(-1), np.int64(1))


def _carried(limbs: Ints) -> tuple[Ints, Ints]:
    """Carry signed limb sums upward. Return limbs in [0, 2**32) and the carry above the top."""
    digits = np.empty((len(limbs) + 1, limbs.shape[1]), dtype=np.int64)
    carry = np.zeros(limbs.shape[1], dtype=np.int64)
    for limb, digit in zip(limbs, digits[:-1], strict=True):
        carry += limb
        # The mask and the arithmetic shift both round down. A value is carry * 2**32 + digit
        # with 0 <= digit < 2**32, also if it is negative.
        np.bitwise_and(carry, _MASK, out=digit)
        carry >>= LIMB_BITS
    digits[-1] = carry & _MASK
    return digits, carry >> LIMB_BITS


def non_finite_flags(values: Floats) -> tuple[Flags, Flags, Flags]:
    """Return which values are NaN, infinity and minus infinity."""
    return np.isnan(values), values == np.inf, values == -np.inf


def with_non_finite(sums: Floats, nans: Ints, infinities: Ints, negatives: Ints) -> Floats:
    """Add the given counts of NaN, infinities and minus infinities to each sum.

    By IEEE 754, a sum with infinities of one sign is this infinity. With NaN or with infinities of
    both signs, it is NaN.
    """
    sums = np.where(infinities > 0, np.inf, np.where(negatives > 0, -np.inf, sums))
    return np.where((nans > 0) | ((infinities > 0) & (negatives > 0)), np.nan, sums)
