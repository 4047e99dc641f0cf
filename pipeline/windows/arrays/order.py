"""Keys and times as ordered integers, for sorts, searches and runs of equal rows.

Engines process all keys together. A key is therefore its rank (its code), and a (key, time) pair is
one integer on an axis on which the keys follow each other.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays.ranges import Flags, Ints, Ranges

#: Positions on a shorter axis fit into an int64, also for searches beyond its ends.
_MAX_AXIS = 2**62

#: At most this many distinct values fit into an int64 that is not negative.
_MAX_DISTINCT = 2**63 - 1


def coded_keys(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Return the codes of the keys of several columns, and the key of each code.

    All columns share the codes, which are in the order of the UTF-8 bytes of the keys.
    """
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # More than 2**31 bytes of strings remain in chunks, but their dictionary fits into one.
        encoded = encoded.combine_chunks()
    codes, keys = ranked(encoded)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(codes, ends[:-1]), keys


def ranked(encoded: pa.DictionaryArray) -> tuple[Ints, pa.Array]:
    """Return (rank of each value, the distinct values by rank).

    The order of strings is the order of their UTF-8 bytes.
    """
    # Only the distinct values are sorted. The other values read their rank.
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], encoded.dictionary.take(order)


def run_starts(*columns: Ints) -> Flags:
    """Return which rows start a run of equal rows, in columns that are sorted together."""
    length = len(columns[0])
    head = np.ones(length, dtype=np.bool_)
    if length:
        head[1:] = False
        for column in columns:
            head[1:] |= column[1:] != column[:-1]
    return head


def run_ends(head: Flags) -> Flags:
    """Return which rows end a run. ``head`` marks the start of each run."""
    return np.append(head[1:], True)[: len(head)]


def positions_in_runs(head: Flags) -> Ints:
    """Return the position of each row in its run, from 0. ``head`` marks the start of each run."""
    number = np.arange(len(head))
    return number - np.maximum.accumulate(np.where(head, number, 0))


def running_max(values: Ints, head: Flags) -> Ints:
    """Return the greatest value so far within each run. ``head`` marks the start of each run."""
    # One accumulate covers all runs, because each run is lifted above all earlier values.
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    run = np.cumsum(head) - 1
    if (int(run[-1]) + 1) * span < _MAX_AXIS:
        offset_values = np.maximum.accumulate(run * span + (values - lowest))
        running: Ints = offset_values - run * span + lowest
        return running
    # The values do not fit, but their ranks fit.
    distinct, rank = np.unique(values, return_inverse=True)
    offset_values = np.maximum.accumulate(run * len(distinct) + rank)
    ranked: Ints = distinct[offset_values - run * len(distinct)]
    return ranked


def pair_order(code: Ints, time: Ints) -> Ints:
    """Return the stable order of (code, time) pairs as indices."""
    return lexsort((time, code))


def lexsort(keys: Sequence[Ints]) -> Ints:
    """Return the same order as ``np.lexsort``: stable, with the last key as the most significant.

    If the keys of a row fit into 63 bits, they are sorted as one integer. If the index of the row
    also fits, it is part of the integer. numpy sorts integers with vector instructions, which is
    three times as fast as an argsort. An argsort is three times as fast as a sort by several keys.
    """
    length = len(keys[0])
    if not length:
        return np.zeros(0, dtype=np.int64)
    packed = np.zeros(length, dtype=np.int64)
    distinct = 1
    for key in reversed(keys):
        least = int(key.min())
        span = int(key.max()) - least + 1
        # ``distinct`` is a Python integer, so the product does not wrap before it is compared.
        distinct *= span
        if distinct > _MAX_DISTINCT:
            order: Ints = np.lexsort(tuple(keys))
            return order
        packed = packed * span + (key.astype(np.int64, copy=False) - least)
    # Records are often sorted by time already. This test is one pass over the rows, which costs
    # less than the sort.
    if (packed[1:] >= packed[:-1]).all():
        return np.arange(length)
    row_bits = length.bit_length()
    if distinct << row_bits > _MAX_DISTINCT:
        return np.argsort(packed, kind="stable")
    rows = packed << row_bits | np.arange(length)
    rows.sort()
    return rows & ((1 << row_bits) - 1)


class Timeline:
    """Records sorted by (key code, time), which you can search by (code, time) for any time.

    The position of a pair on the axis is ``code * span + time``. If this exceeds 64 bits, each
    time is replaced by its rank among the times that occur.
    """

    def __init__(self, code: Ints, time: Ints) -> None:
        """Index the key codes and times of records, sorted by code, then time."""
        self._distinct_times: Ints | None = None
        self._first = int(time.min(initial=0))
        self._last = int(time.max(initial=0))
        # One position more than the number of times. A search beyond the last time of a key ends
        # there, which is still before the first time of the next key.
        self._span = self._last - self._first + 2
        if (int(code.max(initial=0)) + 1) * self._span >= _MAX_AXIS:
            # 2**31 keys with 2**31 different times still fit.
            self._distinct_times = np.unique(time)
            self._span = len(self._distinct_times) + 1
        self._positions = self._position(code, time)

    def first_at_or_after(self, code: Ints, time: Ints) -> Ints:
        """Return the index at which the records of ``code`` at or after ``time`` start."""
        return np.searchsorted(self._positions, self._position(code, time), side="left")

    def first_after(self, code: Ints, time: Ints) -> Ints:
        """Return the index at which the records of ``code`` after ``time`` start."""
        return self.first_at_or_after(code, time + 1)

    def within(self, code: Ints, first: Ints, last: Ints) -> Ranges:
        """Return the records of ``code`` from the time ``first`` to ``last``, both inclusive."""
        return Ranges(self.first_at_or_after(code, first), self.first_after(code, last))

    def _position(self, code: Ints, time: Ints) -> Ints:
        """Return the position on the axis of a first record at or after (code, time)."""
        if self._distinct_times is None:
            # No record is beyond the first and the last time, so the time is clipped.
            within = np.clip(time, self._first, self._last + 1) - self._first
        else:
            within = np.searchsorted(self._distinct_times, time, side="left")
        return code * self._span + within
