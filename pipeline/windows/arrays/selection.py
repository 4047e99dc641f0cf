"""What a range of values would tell if it were sorted, for many overlapping ranges at once.

The ranks of values stand in a wavelet matrix (Claude, Navarro and Ordonez, 2015): for one bit after
the other, the highest first, the rows with a 0 are put before those with a 1, and both keep their
order. What was one range of rows then are two, and the sizes of these tell in which of them
the k-th least value is. So a question takes a step for each bit, however long its range is, and
all ranges take each step together.
"""

from collections.abc import Iterator

import numpy as np

from oriel.pipeline.windows.arrays.order import heads, lexsort
from oriel.pipeline.windows.arrays.ranges import Ints, Ranges, prefix_sums


def kth_least(order: Ints, ranges: Ranges, k: Ints) -> Ints:
    """The row of the ``k``-th least value, counted from 0, in each range.

    ``order`` are all rows in the order of their values. Each range has more than ``k`` rows.
    """
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    # Where no range leads on from a row to the next, nothing on one side matters to the other:
    # ranks are counted anew from there, and have fewer bits.
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
        # The ones stand behind all zeros.
        low = np.where(is_one, zeros_before[-1] + low - low_zeros, low_zeros)
        high = np.where(is_one, zeros_before[-1] + high - high_zeros, high_zeros)
    return by_rank[found]


def distinct_counts(codes: Ints, ranges: Ranges) -> Ints:
    """How many different ``codes``, one for each row, are in each range."""
    counts = np.zeros(len(ranges.low), dtype=np.int64)
    filled = ~ranges.empty
    own = ranges.keep(filled)
    first_row = _first_rows(len(codes), own)
    # A code counts in a range at its first row there, which is where the row behind the last one
    # that had it, if any, is at most the range's first.
    order = lexsort((codes,))
    again = ~heads(codes[order])
    behind_last = np.zeros(len(codes), dtype=np.int64)
    behind_last[order[again]] = order[np.flatnonzero(again) - 1] + 1
    behind_last = np.maximum(behind_last - first_row, 0)
    low, high = own.low, own.high
    bound = np.minimum(low - first_row[low], behind_last.max(initial=0))
    found = np.zeros(len(low), dtype=np.int64)
    for bit, zeros_before in _levels(behind_last):
        low_zeros, high_zeros = zeros_before[low], zeros_before[high]
        is_one = (bound >> bit & 1) == 1
        # All that have a 0 where the bound has a 1 are below it.
        found += np.where(is_one, high_zeros - low_zeros, 0)
        low = np.where(is_one, zeros_before[-1] + low - low_zeros, low_zeros)
        high = np.where(is_one, zeros_before[-1] + high - high_zeros, high_zeros)
    # What is left is equal to the bound.
    counts[filled] = found + high - low
    return counts


def _first_rows(length: int, ranges: Ranges) -> Ints:
    """For each row, from where on ranges lead to it: each has it and the row before, and so on."""
    begun = np.bincount(ranges.low + 1, minlength=length + 1)
    ended = np.bincount(ranges.high, minlength=length + 1)
    led_to = np.cumsum(begun - ended)[:length] > 0
    first: Ints = np.maximum.accumulate(np.where(led_to, 0, np.arange(length)))
    return first


def _levels(ranks: Ints) -> Iterator[tuple[int, Ints]]:
    """Each bit, the highest first, and how many rows with a 0 stand before each row there."""
    for bit in reversed(range(int(ranks.max(initial=0)).bit_length())):
        is_zero = (ranks >> bit & 1) == 0
        yield bit, prefix_sums(is_zero)
        ranks = np.concatenate([ranks[is_zero], ranks[~is_zero]])
