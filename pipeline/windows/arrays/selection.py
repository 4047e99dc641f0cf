"""Order statistics of many overlapping ranges of values together, without a sort of each range.

The ranks of values are in a wavelet matrix (Claude, Navarro and Ordonez, 2015). It has one level
per bit, from the highest bit to the lowest. On each level, the rows with a 0 are moved before the
rows with a 1, and both keep their order. A range of rows becomes two ranges, and their sizes show
which of the two has the k-th least value. A query therefore needs one step per bit for a range of
any length, and each step processes all ranges together.
"""

from collections.abc import Iterator

import numpy as np

from oriel.pipeline.windows.arrays.order import lexsort, run_starts
from oriel.pipeline.windows.arrays.ranges import Ints, Ranges, prefix_sums


def kth_least(order: Ints, ranges: Ranges, k: Ints) -> Ints:
    """Return the row of the ``k``-th least value in each range, counted from 0.

    ``order`` has all rows in the order of their values. Each range has more than ``k`` rows.
    """
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    # If no range contains both a row and the next one, the rows before and after are independent.
    # Ranks then restart at the next row, and have fewer bits.
    first_row = _first_rows(len(order), ranges)
    by_rank = lexsort((rank, first_row))
    rank[by_rank] = np.arange(len(order))
    low, high, k = ranges.low, ranges.high, k.copy()
    found = first_row[low]
    for bit, zeros_before in _levels(rank - first_row):
        low_zeros, high_zeros = zeros_before[low], zeros_before[high]
        zeros = high_zeros - low_zeros
        is_one = k >= zeros
        k -= np.where(is_one, zeros, 0)
        found += is_one.astype(np.int64) << bit
        # The rows with a 1 are after all rows with a 0.
        low = np.where(is_one, zeros_before[-1] + low - low_zeros, low_zeros)
        high = np.where(is_one, zeros_before[-1] + high - high_zeros, high_zeros)
    return by_rank[found]


def distinct_counts(codes: Ints, ranges: Ranges) -> Ints:
    """Return the number of different ``codes`` in each range. Each row has a code."""
    counts = np.zeros(len(ranges.low), dtype=np.int64)
    filled = ~ranges.empty
    non_empty = ranges.keep(filled)
    first_row = _first_rows(len(codes), non_empty)
    # Each code is counted at its first row in a range. The previous row with the code, if any, is
    # before the start of the range.
    order = lexsort((codes,))
    is_repeated = ~run_starts(codes[order])
    after_last = np.zeros(len(codes), dtype=np.int64)
    after_last[order[is_repeated]] = order[np.flatnonzero(is_repeated) - 1] + 1
    after_last = np.maximum(after_last - first_row, 0)
    low, high = non_empty.low, non_empty.high
    bound = np.minimum(low - first_row[low], after_last.max(initial=0))
    found = np.zeros(len(low), dtype=np.int64)
    for bit, zeros_before in _levels(after_last):
        low_zeros, high_zeros = zeros_before[low], zeros_before[high]
        is_one = (bound >> bit & 1) == 1
        # If the bound has a 1, all rows with a 0 are less than the bound.
        found += np.where(is_one, high_zeros - low_zeros, 0)
        low = np.where(is_one, zeros_before[-1] + low - low_zeros, low_zeros)
        high = np.where(is_one, zeros_before[-1] + high - high_zeros, high_zeros)
    # The remaining rows are equal to the bound.
    counts[filled] = found + high - low
    return counts


def _first_rows(length: int, ranges: Ranges) -> Ints:
    """Return for each row the first row that is connected to it by overlapping ranges."""
    begun = np.bincount(ranges.low + 1, minlength=length + 1)
    ended = np.bincount(ranges.high, minlength=length + 1)
    is_connected = np.cumsum(begun - ended)[:length] > 0
    first: Ints = np.maximum.accumulate(np.where(is_connected, 0, np.arange(length)))
    return first


def _levels(ranks: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each bit, from the highest, and the number of rows with a 0 before each row."""
    for bit in reversed(range(int(ranks.max(initial=0)).bit_length())):
        is_zero = (ranks >> bit & 1) == 0
        yield bit, prefix_sums(is_zero)
        ranks = np.concatenate([ranks[is_zero], ranks[~is_zero]])
