"""Exactly rounded sums, against fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows import Ranges
from oriel.pipeline.windows.exact import rounded_sums

_ANY_DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
_AWKWARD = st.sampled_from([
    1e308, -1e308, 1e-300, 5e-324, -5e-324, 2.0**53, 1.0, -1.0, 0.0, 0.1, 0.2, 3 * 2.0**60,
])  # fmt: skip
_COLUMNS = st.lists(_ANY_DOUBLE | _AWKWARD | st.integers(-1000, 1000).map(float), max_size=30)


def _rounded(total: Fraction) -> float:
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(_COLUMNS, st.data())
def test_each_range_is_the_real_sum_rounded_once(values: list[float], data: st.DataObject) -> None:
    """A range's sum is its exact sum rounded to the nearest double, overflow to infinity."""
    low = data.draw(st.integers(0, len(values)))
    high = data.draw(st.integers(low, len(values)))
    total = sum(map(Fraction, values[low:high]), Fraction(0))
    ranges = Ranges(np.array([low]), np.array([high]))
    sums = rounded_sums(np.array(values, dtype=np.float64), ranges)
    assert sums[0] == _rounded(total)


def test_other_values_do_not_change_the_sum_of_a_range() -> None:
    """Huge values before a range do not change its sum, as differences of prefix sums would."""
    values = np.array([1e300, 0.1, 0.2, -1e300, 1e-300])
    sums = rounded_sums(values, Ranges(np.array([1, 4, 2]), np.array([3, 5, 2])))
    assert sums.tolist() == [0.1 + 0.2, 1e-300, 0.0]
