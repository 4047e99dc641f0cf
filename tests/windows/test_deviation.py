"""The sample standard deviation of any doubles and whole numbers, against fractions."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline import windows as w
from oriel.pipeline.windows import Ranges
from oriel.pipeline.windows.aggregates import Members

STDDEV = w.stddev("v")
MOST = 1.7976931348623157e308
LEAST = 5e-324

_ANY_DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
_EDGES = st.sampled_from([0.0, -0.0, MOST, -MOST, LEAST, -LEAST, 2.3e-308, 1e154, 1e-162, 0.1])
_BIGINT = st.integers(-(2**63), 2**63 - 1)
_BIGINT_EDGES = st.sampled_from([-(2**63), 2**63 - 1, 2**31, -(2**31), 2**32 - 1, 2**53 + 1, 0])


@st.composite
def _close_doubles(draw: st.DrawFn) -> list[float]:
    """Draw values that differ from one value of any size by a few units in the last place."""
    middle = draw(_ANY_DOUBLE | _EDGES)
    # A step up from the greatest double is infinite.
    steps = draw(st.lists(st.integers(-1000, 1000), min_size=2, max_size=12))
    values = (middle + step * math.ulp(middle) for step in steps)
    return [value if math.isfinite(value) else middle for value in values]


@st.composite
def _close_integers(draw: st.DrawFn) -> list[int]:
    """Draw integers of 64 bits that are close to each other."""
    middle = draw(_BIGINT | _BIGINT_EDGES)
    steps = draw(st.lists(st.integers(-1000, 1000), min_size=2, max_size=12))
    return [min(max(middle + step, -(2**63)), 2**63 - 1) for step in steps]


_DOUBLES = st.lists(_ANY_DOUBLE | _EDGES, min_size=2, max_size=12) | _close_doubles()
_INTEGERS = st.lists(_BIGINT | _BIGINT_EDGES, min_size=2, max_size=12) | _close_integers()


def _table(values: Sequence[float | None], column_type: pa.DataType) -> pa.Table:
    return pa.table({"v": pa.array(values, column_type)})


def _members(table: pa.Table, *ranges: tuple[int, int]) -> Members:
    low, high = (np.array([r[i] for r in ranges], dtype=np.int64) for i in range(2))
    return Members(table, Ranges(low, high))


def _stddev(values: Sequence[float | None], column_type: pa.DataType) -> float | None:
    """Return the result for one window with all values."""
    deviation: list[float | None] = STDDEV.of(
        _members(_table(values, column_type), (0, len(values)))
    ).to_pylist()
    return deviation[0]


def _check(deviation: float | None, values: Sequence[float]) -> None:
    """Check for an error of at most two units in the last place, by comparing exact squares."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    variance = sum(((x - mean) ** 2 for x in exact), Fraction(0)) / (len(exact) - 1)
    assert deviation is not None
    message = f"{deviation!r} of {values}"
    finite = Fraction(min(deviation, MOST))
    slack = 2 * Fraction(math.ulp(min(deviation, MOST)))
    assert max(finite - slack, Fraction(0)) ** 2 <= variance, message
    assert deviation == math.inf or variance <= (finite + slack) ** 2, message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e16, 1e16 + 2, 1e16 + 4], 2.0),
        ([1e15, 1000000000000000.4], 0.2651650429449553),
        ([1e200, -1e200], 1.4142135623730951e200),
        ([1e200, 1e200], 0.0),
        ([1e154, -1e154], 1.414213562373095e154),
        ([1e-200, 3e-200], 1.4142135623730951e-200),
        ([LEAST, -LEAST, LEAST, -LEAST, LEAST, -LEAST], LEAST),
        ([MOST, MOST, 0.0], 1.0378986153331002e308),
        ([MOST, -MOST], math.inf),
        ([0.1, 0.1, 0.1], 0.0),
        ([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 2.138089935299395),
    ],
)
def test_large_small_and_close_doubles(values: list[float], expected: float) -> None:
    """The result is right for squares beyond the range of doubles and for tiny differences."""
    deviation = _stddev(values, pa.float64())
    assert deviation == expected
    _check(deviation, values)


@pytest.mark.parametrize(
    ("values", "column_type", "expected"),
    [
        ([10**18, 10**18 + 1, 10**18 + 2], pa.int64(), 1.0),
        ([1_700_000_000_000_000_000, 1_700_000_000_000_000_010], pa.int64(), 7.0710678118654755),
        ([-(2**63), -(2**63)], pa.int64(), 0.0),
        ([-(2**63), 2**63 - 1], pa.int64(), 1.3043817825332783e19),
        ([2**63 - 1, 2**63 - 2, 2**63 - 3], pa.int64(), 1.0),
        ([-128, 127, None], pa.int8(), 180.31222920256963),
        ([0.5, None, 1.5], pa.float32(), 0.7071067811865476),
    ],
)
def test_whole_numbers_never_become_doubles(
    values: list[int | None], column_type: pa.DataType, expected: float
) -> None:
    """All digits of whole numbers above 2**53 count, and nulls are skipped."""
    assert _stddev(values, column_type) == expected


@given(_DOUBLES)
def test_any_doubles(values: list[float]) -> None:
    """Any finite doubles, also close ones far from 0, have the real number's deviation."""
    _check(_stddev(values, pa.float64()), values)


@given(_INTEGERS)
def test_any_whole_numbers(values: list[int]) -> None:
    """Any 64-bit integers have the real number's deviation."""
    _check(_stddev(values, pa.int64()), values)


@given(_DOUBLES, _DOUBLES)
def test_other_windows_do_not_change_a_window(values: list[float], others: list[float]) -> None:
    """A window of several has the same bits as the only window."""
    column = [*values, *others]
    table = _table(column, pa.float64())
    ends = (0, len(values)), (len(values), len(column)), (1, len(column))
    together = STDDEV.of(_members(table, *ends)).to_pylist()
    assert together == [_stddev(column[low:high], pa.float64()) for low, high in ends]


@pytest.mark.parametrize("column_type", [pa.float64(), pa.int64()])
@given(st.data())
def test_no_cut_and_no_order_of_merging_changes_a_bit(
    column_type: pa.DataType, data: st.DataObject
) -> None:
    """Partial aggregates, merged in any order and grouping, equal the aggregate of all values."""
    non_finite = st.sampled_from([math.nan, math.inf, -math.inf])
    doubles = st.lists(_ANY_DOUBLE | _EDGES | non_finite, min_size=2, max_size=12) | _DOUBLES
    strategy: st.SearchStrategy[Any] = doubles if pa.types.is_floating(column_type) else _INTEGERS
    values: list[float] = data.draw(strategy)
    random = Random(data.draw(st.integers(0, 2**32)))
    whole = [
        part.of(_members(_table(values, column_type), (0, len(values))))
        for part in STDDEV.parts(column_type)
    ]
    merged = _merged_somehow(values, column_type, random)
    assert merged == whole
    bits = [repr(STDDEV.rule(column_type).finish(*parts).to_pylist()) for parts in (whole, merged)]
    assert bits[0] == bits[1]


def _merged_somehow(
    values: Sequence[float], column_type: pa.DataType, random: Random
) -> list[pa.Array]:
    """Cut shuffled values into batches, and merge adjacent ones until there is one row."""
    shuffled = random.sample(values, len(values))
    cuts = sorted({0, len(values), *random.choices(range(len(values)), k=4)})
    ranges = pairwise(cuts)
    parts = STDDEV.parts(column_type)
    # A batch does not know how large the values of the other batches are.
    tables = [_table(shuffled[low:high], column_type) for low, high in ranges]
    rows = [
        pa.concat_arrays([part.of(_members(table, (0, len(table)))) for table in tables])
        for part in parts
    ]
    while len(rows[0]) > 1:
        sizes = [random.randint(1, 3)]
        while sum(sizes) < len(rows[0]):
            sizes.append(min(random.randint(1, 3), len(rows[0]) - sum(sizes)))
        sizes[-1] += len(rows[0]) - sum(sizes)
        adjacent = Ranges.side_by_side(np.array(sizes, dtype=np.int64))
        rows = [part.merged(row, adjacent) for part, row in zip(parts, rows, strict=True)]
    return rows


def test_a_count_beyond_32_bits() -> None:
    """A table without windows can count more values than fit into 32 bits."""
    parts = STDDEV.parts(pa.float64())
    members = _members(_table([1e9, 1e9 + 1, 1e9 + 5], pa.float64()), (0, 3))
    rows = [part.of(members) for part in parts]
    for _ in range(40):
        both = Ranges.side_by_side(np.array([2]))
        twice = [pa.concat_arrays([row, row]) for row in rows]
        rows = [part.merged(row, both) for part, row in zip(parts, twice, strict=True)]
    (deviation,) = STDDEV.rule(pa.float64()).finish(*rows).to_pylist()
    n = 3 * 2**40
    assert math.isclose(deviation, math.sqrt(14 / 3 * (n / (n - 1))), rel_tol=4e-16)


@pytest.mark.parametrize("non_finite", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_gives_nan(non_finite: float) -> None:
    """With NaN or infinities, the deviation is NaN. With one value, it is null."""
    table = _table([1.0, 2.0, non_finite, 4.0, None], pa.float64())
    of_two, alone, of_numbers = STDDEV.of(_members(table, (1, 3), (2, 3), (0, 2))).to_pylist()
    assert math.isnan(of_two)
    assert alone is None
    assert of_numbers == math.sqrt(0.5)
