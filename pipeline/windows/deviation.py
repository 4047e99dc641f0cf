"""The variance from exact sums, in double-double arithmetic (numbers of 106 bits)."""

import numpy as np
import pyarrow as pa

from pipeline.windows import limb_codes
from pipeline.windows.exact_sum import Floats, Ints


def sample_variance(sizes: Ints, sums: pa.Array, squares: pa.Array) -> Floats:
    """(n * sum(x*x) - sum(x)**2) / (n * (n-1)), the difference in double-double arithmetic."""
    square, square_rest = limb_codes.double_doubles(squares)
    head, tail = limb_codes.double_doubles(sums)
    n = sizes.astype(np.float64)
    scaled, scaled_error = product(square, n)
    squared, squared_error = product(head, head)
    difference = scaled - squared
    recovered = difference - scaled
    rest = (scaled - (difference - recovered)) - (squared + recovered)
    rest += (scaled_error + square_rest * n) - (squared_error + 2.0 * head * tail)
    variance = (difference + rest) / np.maximum(n * (n - 1.0), 1.0)
    return np.maximum(variance, 0.0)


def product(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The product and its exact rounding error (Dekker's two-product)."""
    result = left * right
    left_high, left_low = _halves(left)
    right_high, right_low = _halves(right)
    error = ((left_high * right_high - result) + left_high * right_low + left_low * right_high) + (
        left_low * right_low
    )
    return result, error


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Split each double in two of 26 bits (Veltkamp)."""
    scaled = values * 134_217_729.0
    high = scaled - (scaled - values)
    return high, values - high
