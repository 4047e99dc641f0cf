"""Exact sums as lists of integers, so that state can keep them and any two can be added.

A sum is the list of its limbs that aren't 0, each one int64: limb number and digit. The
empty list is 0. NaN and infinities are counted under limb numbers of their own. Adding
sums is adding digits of equal limb number: exact, in any order, however often.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.windows.exact_sum import Floats, Ints, LimbGrid, LimbSums, RangeSums, prefix_sums
from pipeline.windows.members import Ranges

CODES = pa.list_(pa.int64())

_DIGIT_BITS = 40
_DIGIT_BIAS = 2 ** (_DIGIT_BITS - 1)
#: Added to limb numbers: those of doubles lie between -36 and 35.
_NUMBER_BIAS = 64
_LIMB_BITS = 32
#: Limb numbers under which what is not finite is counted.
_NAN, _UP, _DOWN = 100, 101, 102


def codes_of(values: Floats, ranges: Ranges) -> pa.Array:
    """The exact sum of each range of ``values``."""
    finite = np.isfinite(values)
    sums = RangeSums(np.where(finite, values, 0.0)).limb_sums(ranges.low, ranges.high)
    digits = sums.digits()
    first = sums.grid.base_exponent // _LIMB_BITS
    numbers = list(range(first, first + len(digits)))
    if not finite.all():
        odd = ((_NAN, np.isnan(values)), (_UP, values == np.inf), (_DOWN, values == -np.inf))
        for number, found in odd:
            before = prefix_sums(found.astype(np.int64))
            numbers.append(number)
            digits.append(before[ranges.high] - before[ranges.low])
    return _encoded(numbers, digits)


def merged_codes(codes: pa.Array, ranges: Ranges) -> pa.Array:
    """Add the sums of each range of rows."""
    sums, odd = _added(codes, ranges)
    digits = sums.digits()
    first = sums.grid.base_exponent // _LIMB_BITS
    numbers = [*range(first, first + len(digits)), *odd]
    return _encoded(numbers, [*digits, *odd.values()])


def rounded(codes: pa.Array) -> Floats:
    """Each sum as the nearest double; NaN and infinities add up as IEEE 754 says."""
    sums, odd = _added(codes, _each(len(codes)))
    nan, up, down = (odd.get(number, 0) for number in (_NAN, _UP, _DOWN))
    result = sums.rounded()
    if odd:
        result = np.where(up, np.inf, np.where(down, -np.inf, result))
        result = np.where(_both(nan, up, down), np.nan, result)
    return result


def double_doubles(codes: pa.Array) -> tuple[Floats, Floats]:
    """The finite part of each sum as ``head + tail`` (106 bits)."""
    return _added(codes, _each(len(codes)))[0].double_doubles()


def _both(nan: Ints | int, up: Ints | int, down: Ints | int) -> NDArray[np.bool_]:
    undefined: NDArray[np.bool_] = np.greater(nan, 0) | (np.greater(up, 0) & np.greater(down, 0))
    return undefined


def _each(length: int) -> Ranges:
    places = np.arange(length, dtype=np.int64)
    return Ranges(places, places + 1)


def _encoded(numbers: list[int], digits: list[Ints]) -> pa.Array:
    table = np.stack(digits, axis=1)
    used = table != 0
    keyed = ((np.array(numbers, dtype=np.int64) + _NUMBER_BIAS) << _DIGIT_BITS) + _DIGIT_BIAS
    offsets = prefix_sums(used.sum(axis=1))
    values = (table + keyed)[used]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int64()))


def _added(codes: pa.Array, ranges: Ranges) -> tuple[LimbSums, dict[int, Ints]]:
    """Add digits by limb number: the finite limbs as sums, and counts of what is not finite."""
    offsets = np.asarray(codes.offsets).astype(np.int64)
    low, high = offsets[ranges.low], offsets[ranges.high]
    packed = np.asarray(codes.values)
    number = (packed >> _DIGIT_BITS) - _NUMBER_BIAS
    digit = (packed & (2**_DIGIT_BITS - 1)) - _DIGIT_BIAS
    inside = number[offsets[0] : offsets[-1]]
    found = (np.flatnonzero(np.bincount(inside + _NUMBER_BIAS)) - _NUMBER_BIAS).tolist()
    totals = {n: _totals(np.where(number == n, digit, 0), low, high) for n in found}
    odd = {n: total for n, total in totals.items() if n >= _NAN}
    finite = [n for n in found if n < _NAN] or [0]
    grid = LimbGrid(finite[0] * _LIMB_BITS, finite[-1] - finite[0] + 3)
    zeros = np.zeros(len(low), dtype=np.int64)
    limbs = [totals.get(finite[0] + place, zeros) for place in range(grid.limbs)]
    return LimbSums(grid, limbs), odd


def _totals(digits: Ints, low: Ints, high: Ints) -> Ints:
    before = prefix_sums(digits)
    return before[high] - before[low]
