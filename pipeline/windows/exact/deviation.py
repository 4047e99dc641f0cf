"""The standard deviation from exact sums: exact up to the last division and root."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Floats, Ints
from oriel.pipeline.windows.exact import limb_codes
from oriel.pipeline.windows.exact.sums import LIMB_BITS, LimbSums

#: Limbs without a sign: the product of two fills 64 bits.
_Words = NDArray[np.uint64]
_SHIFT = np.uint64(LIMB_BITS)
_MASK = np.uint64(2**LIMB_BITS - 1)


def sample_deviation(sizes: Ints, sums: pa.Array, squares: pa.Array) -> Floats:
    """sqrt((n * sum(x*x) - sum(x)**2) / (n * (n-1))), NaN where a value is not finite.

    The difference is exact, however much of it cancels. It is rounded once, and so are
    the divisor, the quotient and the root: the relative error is below 2**-51. Its exponent
    is kept apart, since squares of doubles leave the range of doubles.
    """
    total, odd = limb_codes.decoded(sums)
    square, _ = limb_codes.decoded(squares)
    numerator = _difference(_product(LimbSums(0, sizes[None]), square), _product(total, total))
    significand, exponent = numerator.leading()
    n = sizes.astype(np.float64)
    divisor = np.maximum(n * (n - 1.0), 1.0)
    variance = np.ldexp(significand, exponent & 1) / divisor
    with np.errstate(over="ignore"):
        deviation: Floats = np.ldexp(np.sqrt(variance), exponent >> 1)
    deviation[odd] = np.nan
    return deviation


def _words(sums: LimbSums) -> tuple[int, _Words]:
    """The number of the first limb that is used, and the limbs of the magnitudes from there."""
    digits, _ = sums.magnitudes()
    used = np.flatnonzero(digits.any(axis=1))
    low, high = (used[0], used[-1] + 1) if len(used) else (0, 1)
    return sums.first + int(low), digits[low:high].astype(np.uint64)


def _product(left: LimbSums, right: LimbSums) -> LimbSums:
    """The product of the magnitudes of each sum of ``left`` and the same of ``right``."""
    left_first, left_words = _words(left)
    right_first, right_words = _words(right)
    size = len(right_words)
    limbs = np.zeros((len(left_words) + size, left_words.shape[1]), dtype=np.uint64)
    for place, word in enumerate(left_words):
        whole = word * right_words
        limbs[place : place + size] += whole & _MASK
        limbs[place + 1 : place + 1 + size] += whole >> _SHIFT
    return LimbSums(left_first + right_first, limbs.astype(np.int64))


def _difference(left: LimbSums, right: LimbSums) -> LimbSums:
    """``left - right``, limb by limb."""
    first = min(left.first, right.first)
    last = max(sums.first + len(sums.limbs) for sums in (left, right))
    limbs = np.zeros((last - first, left.limbs.shape[1]), dtype=np.int64)
    for sums, sign in ((left, 1), (right, -1)):
        begin = sums.first - first
        limbs[begin : begin + len(sums.limbs)] += sums.limbs * sign
    return LimbSums(first, limbs)
