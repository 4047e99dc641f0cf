"""Exact sums as state keeps them, and what is read of them: the sum, the standard deviation.

A sum is coded as the list of its limbs that aren't 0, each one int64: limb number and digit.
The empty list is 0. NaN and infinities are counted under limb numbers of their own. Adding
sums is adding digits of equal limb number: exact, in any order, however often. It is rounded
only when a result is read.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Floats, Ints, Ranges, lists, prefix_sums
from oriel.pipeline.windows.exact.sums import (
    LIMB_BITS,
    LimbSums,
    Scaled,
    limb_sums,
    non_finite_flags,
    with_non_finite,
)

#: The type of a state column of exact sums.
CODES = pa.list_(pa.int64())

#: Digits are within 32 bits and a sign, and counts of what is not finite below 2**39: with the
#: bias they are not negative and fill the lower 40 bits, above which the limb number stands.
_DIGIT_BITS = 40
_DIGIT_BIAS = 2 ** (_DIGIT_BITS - 1)
#: Added to limb numbers. Those of doubles lie between -36 and 35, those of their squares
#: between -71 and 68: below -64 the packed number is negative, which does no harm.
_NUMBER_BIAS = 64
#: Limb numbers under which NaN, infinity and minus infinity are counted.
_NON_FINITE = (100, 101, 102)

#: Limbs without a sign: the product of two fills 64 bits.
_Words = NDArray[np.uint64]
_WORD_SHIFT = np.uint64(LIMB_BITS)
_WORD_MASK = np.uint64(2**LIMB_BITS - 1)


def sum_codes(numbers: NDArray[Any], ranges: Ranges) -> pa.Array:
    """The exact sum of each range of int64 or doubles; whole numbers never become doubles."""
    sums = limb_sums([_scaled(numbers)], ranges)
    if numbers.dtype.kind == "i" or np.isfinite(numbers).all():
        return _encoded(sums, {})
    counts = map(ranges.totals, non_finite_flags(numbers))
    return _encoded(sums, dict(zip(_NON_FINITE, counts, strict=True)))


def square_codes(numbers: NDArray[Any], ranges: Ranges) -> pa.Array:
    """The exact sum of the squares of each range's finite numbers."""
    return _encoded(limb_sums(_scaled(numbers).squares(), ranges), {})


def net_sum_codes(numbers: NDArray[Any], signs: Ints, ranges: Ranges) -> pa.Array:
    """The exact sum of each range of int64 or doubles, each taken with its sign, 1 or -1.

    What isn't finite is counted with its sign, too: infinity that is taken away again is gone.
    """
    added, gone = _by_sign(numbers, signs)
    sums = _difference(limb_sums([added], ranges), limb_sums([gone], ranges))
    if numbers.dtype.kind == "i" or np.isfinite(numbers).all():
        return _encoded(sums, {})
    counts = (ranges.totals(flags * signs) for flags in non_finite_flags(numbers))
    return _encoded(sums, dict(zip(_NON_FINITE, counts, strict=True)))


def net_square_codes(numbers: NDArray[Any], signs: Ints, ranges: Ranges) -> pa.Array:
    """The exact sum of the squares of each range's finite numbers, each with its number's sign."""
    added, gone = _by_sign(numbers, signs)
    return _encoded(
        _difference(limb_sums(added.squares(), ranges), limb_sums(gone.squares(), ranges)), {}
    )


def merged_codes(codes: pa.Array, ranges: Ranges) -> pa.Array:
    """Add the sums of each range of rows."""
    return _encoded(*_added(codes, ranges))


def rounded(codes: pa.Array) -> Floats:
    """Each sum as the nearest double; NaN and infinities add up as IEEE 754 says."""
    sums, counts = _added(codes, Ranges.of_each(len(codes)))
    if not counts:
        return sums.rounded()
    none = np.zeros(len(codes), dtype=np.int64)
    return with_non_finite(sums.rounded(), *(counts.get(number, none) for number in _NON_FINITE))


def sample_deviation(sizes: Ints, totals: pa.Array, squares: pa.Array) -> Floats:
    """The standard deviation of each set of values, NaN where one is not finite.

    ``sizes`` are the numbers of values, ``totals`` and ``squares`` the codes of the sums of them
    and of their squares. The relative error is below 2**-51. For fewer than two values the
    result has no meaning.
    """
    each = Ranges.of_each(len(sizes))
    total, counts = _added(totals, each)
    square, _ = _added(squares, each)
    deviation = _deviation(sizes, total, square)
    for count in counts.values():
        deviation[count > 0] = np.nan
    return deviation


def sample_deviations(numbers: NDArray[Any], ranges: Ranges) -> Floats:
    """``sample_deviation`` of each range of int64 or doubles, to the same bits."""
    scaled = _scaled(numbers)
    total, square = limb_sums([scaled], ranges), limb_sums(scaled.squares(), ranges)
    deviation = _deviation(ranges.sizes, total, square)
    if numbers.dtype.kind == "f":
        deviation[ranges.any_of(~np.isfinite(numbers))] = np.nan
    return deviation


def _deviation(sizes: Ints, total: LimbSums, square: LimbSums) -> Floats:
    """sqrt((n * sum(x*x) - sum(x)**2) / (n * (n-1)))."""
    # The difference is exact, however much of it cancels, and never negative (Cauchy and
    # Schwarz). It is rounded once, and so are the divisor, the quotient and the root.
    n_square = _product(LimbSums(0, sizes[None]), square)
    significand, exponent = _difference(n_square, _product(total, total)).leading()
    n = sizes.astype(np.float64)
    divisor = np.maximum(n * (n - 1.0), 1.0)
    # Squares of doubles leave the range of doubles, their roots do not: the exponent is kept
    # apart, and halved for the root once an odd one has given 1 to the significand.
    variance = np.ldexp(significand, exponent & 1) / divisor
    with np.errstate(over="ignore"):
        deviation: Floats = np.ldexp(np.sqrt(variance), exponent >> 1)
    return deviation


def _scaled(numbers: NDArray[Any]) -> Scaled:
    if numbers.dtype.kind == "f":
        return Scaled.of_doubles(np.where(np.isfinite(numbers), numbers, 0.0))
    return Scaled.of_integers(numbers)


def _by_sign(numbers: NDArray[Any], signs: Ints) -> tuple[Scaled, Scaled]:
    """The numbers to add and those to subtract; 0 in the place of the others.

    Not the numbers times their signs: the least int64 has no negative one.
    """
    return _scaled(np.where(signs > 0, numbers, 0)), _scaled(np.where(signs < 0, numbers, 0))


def _encoded(sums: LimbSums, counts: Mapping[int, Ints]) -> pa.Array:
    """Sums, and counts of what is not finite by limb number, as lists of packed integers."""
    digits = sums.digits()
    numbers = np.array([*range(sums.first, sums.first + len(digits)), *counts], dtype=np.int64)
    table = np.stack([*digits, *counts.values()], axis=1)
    nonzero = table != 0
    packed_zeros = ((numbers + _NUMBER_BIAS) << _DIGIT_BITS) + _DIGIT_BIAS
    return lists(prefix_sums(nonzero.sum(axis=1)), (table + packed_zeros)[nonzero])


def _added(codes: pa.Array, ranges: Ranges) -> tuple[LimbSums, dict[int, Ints]]:
    """Add digits by limb number: the finite limbs as sums, and counts of what is not finite."""
    packed = np.asarray(codes.flatten())
    number = (packed >> _DIGIT_BITS) - _NUMBER_BIAS
    least = int(number.min(initial=0))
    # Few limb numbers occur: one row of the table for each.
    numbers = np.flatnonzero(np.bincount(number - least)) + least
    table = np.zeros((len(numbers), len(codes)), dtype=np.int64)
    column = Ranges.side_by_side(np.diff(np.asarray(codes.offsets)).astype(np.int64)).owners
    # A list has each limb number once, so assigning loses nothing.
    table[np.searchsorted(numbers, number), column] = (packed & (2**_DIGIT_BITS - 1)) - _DIGIT_BIAS
    totals = dict(zip(numbers.tolist(), map(ranges.totals, table), strict=True))
    counts = {number: totals.pop(number) for number in _NON_FINITE if number in totals}
    first, last = min(totals, default=0), max(totals, default=0)
    limbs = np.zeros((last - first + 1, len(ranges.low)), dtype=np.int64)
    for limb_number, total in totals.items():
        limbs[limb_number - first] = total
    return LimbSums(first, limbs), counts


def _product(left: LimbSums, right: LimbSums) -> LimbSums:
    """The product of the magnitudes of each sum of ``left`` and the same of ``right``."""
    left_first, left_words = _words(left)
    right_first, right_words = _words(right)
    size = len(right_words)
    limbs = np.zeros((len(left_words) + size, left_words.shape[1]), dtype=np.uint64)
    for shift, word in enumerate(left_words):
        # Two limbs of 32 bits make at most 64. Split in halves, a limb of the product adds up
        # at most two halves for each word: nothing carries over 64 bits.
        whole = word * right_words
        limbs[shift : shift + size] += whole & _WORD_MASK
        limbs[shift + 1 : shift + 1 + size] += whole >> _WORD_SHIFT
    return LimbSums(left_first + right_first, limbs.astype(np.int64))


def _words(sums: LimbSums) -> tuple[int, _Words]:
    """The number of the first limb that is not 0, and the limbs of the magnitudes from there."""
    digits, _ = sums.magnitudes()
    nonzero = np.flatnonzero(digits.any(axis=1))
    low, high = (nonzero[0], nonzero[-1] + 1) if len(nonzero) else (0, 1)
    return sums.first + int(low), digits[low:high].astype(np.uint64)


def _difference(left: LimbSums, right: LimbSums) -> LimbSums:
    """``left - right``, limb by limb."""
    first = min(left.first, right.first)
    last = max(sums.first + len(sums.limbs) for sums in (left, right))
    limbs = np.zeros((last - first, left.limbs.shape[1]), dtype=np.int64)
    for sums, sign in ((left, 1), (right, -1)):
        begin = sums.first - first
        limbs[begin : begin + len(sums.limbs)] += sums.limbs * sign
    return LimbSums(first, limbs)
