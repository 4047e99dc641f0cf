"""The k-th least value and the distinct values of any ranges, against plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows import Ranges
from oriel.pipeline.windows.arrays import distinct_counts, kth_least

_VALUES = st.lists(st.integers(-4, 4), max_size=40)


def _drawn(data: st.DataObject, length: int) -> list[tuple[int, int]]:
    ends = st.tuples(st.integers(0, length), st.integers(0, length))
    return [(min(e), max(e)) for e in data.draw(st.lists(ends, max_size=8))]


def _ranges(pairs: list[tuple[int, int]]) -> Ranges:
    return Ranges(*(np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2)))


@given(_VALUES, st.data())
def test_the_kth_least_value_of_any_range(values: list[int], data: st.DataObject) -> None:
    """Ranges can overlap, repeat, contain each other and omit rows."""
    pairs = [(low, high) for low, high in _drawn(data, len(values)) if low < high]
    k = [data.draw(st.integers(0, high - low - 1)) for low, high in pairs]
    order = np.argsort(np.array(values, dtype=np.int64))
    rows = kth_least(order, _ranges(pairs), np.array(k, dtype=np.int64)).tolist()
    chosen = zip(rows, pairs, strict=True)
    assert [(row, (low, high)) for row, (low, high) in chosen if not low <= row < high] == []
    expected = [sorted(values[low:high])[n] for (low, high), n in zip(pairs, k, strict=True)]
    assert [values[row] for row in rows] == expected


@given(_VALUES, st.data())
def test_the_distinct_values_of_any_range(values: list[int], data: st.DataObject) -> None:
    """Empty ranges have no values, also after the last row."""
    pairs = [*_drawn(data, len(values)), (len(values), len(values))]
    counts = distinct_counts(np.array(values, dtype=np.int64), _ranges(pairs))
    assert counts.tolist() == [len(set(values[low:high])) for low, high in pairs]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_long_ranges_that_slide(size: int) -> None:
    """All windows of one size over thousands of rows are right. Their ranks have many bits."""
    values = np.random.default_rng(size).integers(0, 700, 3000)
    low = np.arange(len(values) - size + 1)
    ranges = Ranges(low, low + size)
    middle = kth_least(np.argsort(values), ranges, np.full(len(low), size // 2))
    slid = np.lib.stride_tricks.sliding_window_view(values, size)
    np.testing.assert_array_equal(values[middle], np.sort(slid, axis=1)[:, size // 2])
    ordered = np.sort(slid, axis=1)
    expected = 1 + (np.diff(ordered, axis=1) != 0).sum(axis=1)
    np.testing.assert_array_equal(distinct_counts(values, ranges), expected)
