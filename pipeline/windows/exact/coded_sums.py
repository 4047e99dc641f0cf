"""Exact sums in the format of the state, with rounded sums and standard deviations as results.

A sum is a list of its limbs that are not 0. Each limb is one int64 with the index and the digit of
the limb. The empty list is 0. NaN and infinities are counted under separate indices. To add sums,
the digits of equal indices are added, which is exact in any order. A sum is rounded only when a
result is computed.
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
ENCODED_SUM_TYPE = pa.list_(pa.int64())

#: Digits have 32 bits and a sign, and counts of NaN and infinities are below 2**39. With the bias,
#: they are not negative and fill the lower 40 bits. The index of the limb is above them.
_DIGIT_BITS = 40
_DIGIT_BIAS = 2 ** (_DIGIT_BITS - 1)
#: Added to the indices of limbs. Limbs of doubles are between -36 and 35, limbs of their squares
#: between -71 and 68. Below -64, the packed number is negative, which works as well.
_NUMBER_BIAS = 64
#: The indices under which NaN, infinity and minus infinity are counted.
_NON_FINITE = (100, 101, 102)

#: Unsigned limbs. The product of two limbs has up to 64 bits.
_Words = NDArray[np.uint64]
_WORD_SHIFT = np.uint64(LIMB_BITS)
_WORD_MASK = np.uint64(2**LIMB_BITS - 1)


def sum_codes(numbers: NDArray[Any], ranges: Ranges) -> pa.Array:
    """Return the exact sum of each range of int64 or doubles. Integers stay integers."""
    sums = limb_sums([_scaled(numbers)], ranges)
    if numbers.dtype.kind == "i" or np.isfinite(numbers).all():
        return _encoded(sums, {})
    counts = map(ranges.totals, non_finite_flags(numbers))
    return _encoded(sums, dict(zip(_NON_FINITE, counts, strict=True)))


def square_codes(numbers: NDArray[Any], ranges: Ranges) -> pa.Array:
    """Return the exact sum of the squares of the finite numbers of each range."""
    return _encoded(limb_sums(_scaled(numbers).squares(), ranges), {})


def net_sum_codes(numbers: NDArray[Any], signs: Ints, ranges: Ranges) -> pa.Array:
    """Return the exact sum of each range of int64 or doubles, each with its sign, 1 or -1.

    NaN and infinities are also counted with their sign, so each can be subtracted again.
    """
    added, subtracted = _by_sign(numbers, signs)
    sums = _difference(limb_sums([added], ranges), limb_sums([subtracted], ranges))
    if numbers.dtype.kind == "i" or np.isfinite(numbers).all():
        return _encoded(sums, {})
    counts = (ranges.totals(flags * signs) for flags in non_finite_flags(numbers))
    return _encoded(sums, dict(zip(_NON_FINITE, counts, strict=True)))


def net_square_codes(numbers: NDArray[Any], signs: Ints, ranges: Ranges) -> pa.Array:
    """Return the exact sum of the squares of the finite numbers of each range, with their signs."""
    added, subtracted = _by_sign(numbers, signs)
    return _encoded(
        _difference(limb_sums(added.squares(), ranges), limb_sums(subtracted.squares(), ranges)), {}
    )


def merged_sums(codes: pa.Array, ranges: Ranges) -> pa.Array:
    """Return the sum of the sums of each range of rows."""
    return _encoded(*_added(codes, ranges))


def rounded(codes: pa.Array) -> Floats:
    """Return each sum as the nearest double. NaN and infinities follow IEEE 754."""
    sums, counts = _added(codes, Ranges.of_each(len(codes)))
    if not counts:
        return sums.rounded()
    none = np.zeros(len(codes), dtype=np.int64)
    return with_non_finite(
        sums.rounded(), *(counts.get(limb_index, none) for limb_index in _NON_FINITE)
    )


def sample_deviation(sizes: Ints, totals: pa.Array, squares: pa.Array) -> Floats:
    """Return the standard deviation of each set of values, NaN if a value is not finite.

    ``sizes`` has the numbers of values. ``totals`` and ``squares`` have the codes of the sums of
    the values and of their squares. The relative error is below 2**-51. The result for fewer than
    two values is undefined.
    """
    each = Ranges.of_each(len(sizes))
    total, counts = _added(totals, each)
    square, _ = _added(squares, each)
    deviation = _deviation(sizes, total, square)
    for count in counts.values():
        deviation[count > 0] = np.nan
    return deviation


def sample_deviations(numbers: NDArray[Any], ranges: Ranges) -> Floats:
    """Return the same bits as ``sample_deviation`` for each range of int64 or doubles."""
    scaled = _scaled(numbers)
    total, square = limb_sums([scaled], ranges), limb_sums(scaled.squares(), ranges)
    deviation = _deviation(ranges.sizes, total, square)
    if numbers.dtype.kind == "f":
        deviation[ranges.any_of(~np.isfinite(numbers))] = np.nan
    return deviation


def _deviation(sizes: Ints, total: LimbSums, square: LimbSums) -> Floats:
    """Return sqrt((n * sum(x*x) - sum(x)**2) / (n * (n-1)))."""
    # The difference is exact for any cancellation, and never negative (Cauchy and Schwarz). It is
    # rounded once, and so are the divisor, the quotient and the root.
    n_square = _product(LimbSums(0, sizes[None]), square)
    significand, exponent = _difference(n_square, _product(total, total)).leading()
    n = sizes.astype(np.float64)
    divisor = np.maximum(n * (n - 1.0), 1.0)
    # Squares of doubles can exceed the range of doubles, but their roots do not. The exponent is
    # therefore separate. The root has half of the exponent. If the exponent is odd, one factor of 2
    # is moved to the significand first.
    variance = np.ldexp(significand, exponent & 1) / divisor
    with np.errstate(over="ignore"):
        deviation: Floats = np.ldexp(np.sqrt(variance), exponent >> 1)
    return deviation


def _scaled(numbers: NDArray[Any]) -> Scaled:
    if numbers.dtype.kind == "f":
        return Scaled.of_doubles(np.where(np.isfinite(numbers), numbers, 0.0))
    return Scaled.of_integers(numbers)


def _by_sign(numbers: NDArray[Any], signs: Ints) -> tuple[Scaled, Scaled]:
    """Return the numbers to add and the numbers to subtract, with 0 for the others.

    A product with the signs would be wrong, because the least int64 has no negative.
    """
    return _scaled(np.where(signs > 0, numbers, 0)), _scaled(np.where(signs < 0, numbers, 0))


def _encoded(sums: LimbSums, counts: Mapping[int, Ints]) -> pa.Array:
    """Return sums, and counts of NaN and infinities by index, as lists of packed integers."""
    digits = sums.digits()
    numbers = np.array([*range(sums.first, sums.first + len(digits)), *counts], dtype=np.int64)
    table = np.stack([*digits, *counts.values()], axis=1)
    nonzero = table != 0
    packed_zeros = ((numbers + _NUMBER_BIAS) << _DIGIT_BITS) + _DIGIT_BIAS
    # A mask selects row by row, so the limbs of a sum stay adjacent, in ascending order of their
    # indexes.
    return lists(prefix_sums(nonzero.sum(axis=1)), (table + packed_zeros)[nonzero])


def _added(codes: pa.Array, ranges: Ranges) -> tuple[LimbSums, dict[int, Ints]]:
    """Add digits by index. Return the finite sums, and the counts of NaN and infinities."""
    packed = np.asarray(codes.flatten())
    limb_index = (packed >> _DIGIT_BITS) - _NUMBER_BIAS
    least = int(limb_index.min(initial=0))
    # Few indices occur, so the table has one row per index.
    numbers = np.flatnonzero(np.bincount(limb_index - least)) + least
    table = np.zeros((len(numbers), len(codes)), dtype=np.int64)
    column = Ranges.side_by_side(np.diff(np.asarray(codes.offsets)).astype(np.int64)).owners
    # A list has each index once, so the assignment loses nothing.
    table[np.searchsorted(numbers, limb_index), column] = (
        packed & (2**_DIGIT_BITS - 1)
    ) - _DIGIT_BIAS
    totals = dict(zip(numbers.tolist(), map(ranges.totals, table), strict=True))
    counts = {
        limb_index: totals.pop(limb_index) for limb_index in _NON_FINITE if limb_index in totals
    }
    first, last = min(totals, default=0), max(totals, default=0)
    limbs = np.zeros((last - first + 1, len(ranges.low)), dtype=np.int64)
    for limb_number, total in totals.items():
        limbs[limb_number - first] = total
    return LimbSums(first, limbs), counts


def _product(left: LimbSums, right: LimbSums) -> LimbSums:
    """Return the product of the magnitudes of each sum of ``left`` and ``right``."""
    left_first, left_words = _words(left)
    right_first, right_words = _words(right)
    size = len(right_words)
    limbs = np.zeros((len(left_words) + size, left_words.shape[1]), dtype=np.uint64)
    for shift, word in enumerate(left_words):
        # The product of two limbs of 32 bits has at most 64 bits. Split into halves, a limb of the
        # product adds at most two halves per word, so no sum exceeds 64 bits.
        whole = word * right_words
        limbs[shift : shift + size] += whole & _WORD_MASK
        limbs[shift + 1 : shift + 1 + size] += whole >> _WORD_SHIFT
    return LimbSums(left_first + right_first, limbs.astype(np.int64))


def _words(sums: LimbSums) -> tuple[int, _Words]:
    """Return the index of the first limb that is not 0, and the limbs of the magnitudes from it."""
    digits, _ = sums.magnitudes()
    nonzero = np.flatnonzero(digits.any(axis=1))
    low, high = (nonzero[0], nonzero[-1] + 1) if len(nonzero) else (0, 1)
    return sums.first + int(low), digits[low:high].astype(np.uint64)


def _difference(left: LimbSums, right: LimbSums) -> LimbSums:
    """Return ``left - right``, limb by limb."""
    first = min(left.first, right.first)
    last = max(sums.first + len(sums.limbs) for sums in (left, right))
    limbs = np.zeros((last - first, left.limbs.shape[1]), dtype=np.int64)
    for sums, sign in ((left, 1), (right, -1)):
        begin = sums.first - first
        limbs[begin : begin + len(sums.limbs)] += sums.limbs * sign
    return LimbSums(first, limbs)
