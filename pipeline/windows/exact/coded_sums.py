"""Exact sums as lists of integers, so that state can keep them and any two can be added.

A sum is the list of its limbs that aren't 0, each one int64: limb number and digit. The
empty list is 0. NaN and infinities are counted under limb numbers of their own. Adding
sums is adding digits of equal limb number: exact, in any order, however often.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Floats, Ints, Ranges, lists, prefix_sums
from oriel.pipeline.windows.exact.sums import (
    LimbSums,
    RangeSums,
    Scaled,
    finite_or_zero,
    odd_flags,
    with_odd,
)

CODES = pa.list_(pa.int64())

_DIGIT_BITS = 40
_DIGIT_BIAS = 2 ** (_DIGIT_BITS - 1)
#: Added to limb numbers. Those of doubles lie between -36 and 35, those of their squares
#: between -71 and 68: below -64 the packed number is negative, which does no harm.
_NUMBER_BIAS = 64
#: Limb numbers under which NaN, infinity and minus infinity are counted.
_ODD = (100, 101, 102)


def sum_codes(numbers: NDArray[Any], ranges: Ranges) -> pa.Array:
    """The exact sum of each range of numbers; whole numbers never become doubles."""
    sums = RangeSums([_scaled(numbers)]).limb_sums(ranges.low, ranges.high)
    if numbers.dtype.kind == "i" or np.isfinite(numbers).all():
        return _encoded(sums, {})
    counts = map(ranges.totals, odd_flags(numbers))
    return _encoded(sums, dict(zip(_ODD, counts, strict=True)))


def square_codes(numbers: NDArray[Any], ranges: Ranges) -> pa.Array:
    """The exact sum of the squares of each range's finite numbers."""
    sums = RangeSums(_scaled(numbers).squares())
    return _encoded(sums.limb_sums(ranges.low, ranges.high), {})


def merged_codes(codes: pa.Array, ranges: Ranges) -> pa.Array:
    """Add the sums of each range of rows."""
    return _encoded(*_added(codes, ranges))


def rounded(codes: pa.Array) -> Floats:
    """Each sum as the nearest double; NaN and infinities add up as IEEE 754 says."""
    sums, odd = _added(codes, _each(len(codes)))
    if not odd:
        return sums.rounded()
    none = np.zeros(len(codes), dtype=np.int64)
    return with_odd(sums.rounded(), *(odd.get(number, none) for number in _ODD))


def decoded(codes: pa.Array) -> tuple[LimbSums, Flags]:
    """The finite part of each sum, and which sums hold something that isn't finite."""
    sums, odd = _added(codes, _each(len(codes)))
    flags = np.zeros(len(codes), dtype=np.bool_)
    for count in odd.values():
        flags |= count > 0
    return sums, flags


def _scaled(numbers: NDArray[Any]) -> Scaled:
    if numbers.dtype.kind == "f":
        return Scaled.of_doubles(finite_or_zero(numbers))
    return Scaled.of_integers(numbers)


def _each(length: int) -> Ranges:
    return Ranges.side_by_side(np.ones(length, dtype=np.int64))


def _encoded(sums: LimbSums, odd: Mapping[int, Ints]) -> pa.Array:
    digits = sums.digits()
    numbers = np.array([*range(sums.first, sums.first + len(digits)), *odd], dtype=np.int64)
    table = np.stack([*digits, *odd.values()], axis=1)
    used = table != 0
    keyed = ((numbers + _NUMBER_BIAS) << _DIGIT_BITS) + _DIGIT_BIAS
    return lists(prefix_sums(used.sum(axis=1)), (table + keyed)[used])


def _added(codes: pa.Array, ranges: Ranges) -> tuple[LimbSums, dict[int, Ints]]:
    """Add digits by limb number: the finite limbs as sums, and counts of what is not finite."""
    packed = np.asarray(codes.flatten())
    number = (packed >> _DIGIT_BITS) - _NUMBER_BIAS
    least = int(number.min(initial=0))
    found = np.flatnonzero(np.bincount(number - least)) + least
    table = np.zeros((len(found), len(codes)), dtype=np.int64)
    row = Ranges.side_by_side(np.diff(np.asarray(codes.offsets)).astype(np.int64)).owners
    table[np.searchsorted(found, number), row] = (packed & (2**_DIGIT_BITS - 1)) - _DIGIT_BIAS
    totals = dict(zip(found.tolist(), map(ranges.totals, table), strict=True))
    odd = {n: totals.pop(n) for n in _ODD if n in totals}
    first, last = min(totals, default=0), max(totals, default=0)
    limbs = np.zeros((last - first + 1, len(ranges.low)), dtype=np.int64)
    for n, total in totals.items():
        limbs[n - first] = total
    return LimbSums(first, limbs), odd
