"""Keys and times as integers in their order: to sort by, to search, to find runs of.

Engines work on all keys at once, so a key is the number of its rank (its code), and a
(key, time) pair is one integer on an axis on which all keys lie one after the other.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays.ranges import Flags, Ints, Ranges

#: Axes shorter than this fit into an int64 with room for the searches beyond their ends.
_MAX_AXIS = 2**62

#: So many different values, and their number, fit into an int64 that is not negative.
_MAX_PLACES = 2**63 - 1


def coded_keys(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Number the keys of several columns alike, in the order of their UTF-8 bytes.

    Returns the codes of each column, and the key of each code.
    """
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # More text than one array can hold (2**31 bytes) stays in chunks; its dictionary fits.
        encoded = encoded.combine_chunks()
    codes, keys = ranked(encoded)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(codes, ends[:-1]), keys


def ranked(encoded: pa.DictionaryArray) -> tuple[Ints, pa.Array]:
    """Return (rank of each value, the distinct values by rank).

    Strings go by their UTF-8 bytes.
    """
    # Only the distinct values are sorted; the others look their rank up.
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], encoded.dictionary.take(order)


def heads(*columns: Ints) -> Flags:
    """Where a run of equal rows begins, in columns sorted together."""
    length = len(columns[0])
    head = np.ones(length, dtype=np.bool_)
    if length:
        head[1:] = False
        for column in columns:
            head[1:] |= column[1:] != column[:-1]
    return head


def tails(head: Flags) -> Flags:
    """Where the runs end that begin where ``head`` is set."""
    return np.append(head[1:], True)[: len(head)]


def places_in_runs(head: Flags) -> Ints:
    """The place of each row in its run, from 0; ``head`` marks where runs begin."""
    number = np.arange(len(head))
    return number - np.maximum.accumulate(np.where(head, number, 0))


def running_max(values: Ints, head: Flags) -> Ints:
    """The greatest value so far within each run; ``head`` marks where runs begin."""
    # One accumulate serves all runs: each is lifted above all values of the runs before it.
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    run = np.cumsum(head) - 1
    if (int(run[-1]) + 1) * span < _MAX_AXIS:
        lifted = np.maximum.accumulate(run * span + (values - lowest))
        running: Ints = lifted - run * span + lowest
        return running
    # Values are spread too far for that; their ranks aren't.
    distinct, rank = np.unique(values, return_inverse=True)
    lifted = np.maximum.accumulate(run * len(distinct) + rank)
    ranked: Ints = distinct[lifted - run * len(distinct)]
    return ranked


def pair_order(code: Ints, time: Ints) -> Ints:
    """The stable order of (code, time) pairs, as indices."""
    return lexsort((time, code))


def lexsort(keys: Sequence[Ints]) -> Ints:
    """What ``np.lexsort`` gives: the stable order of rows by ``keys``, the last first.

    Where a row's keys fit into 63 bits together, they are sorted as one integer; where its number
    fits beside them, that is part of the integer. numpy sorts integers with the processor's
    vectors, three times as fast as it finds an order of them, and that is again three times as
    fast as an order by several keys.
    """
    length = len(keys[0])
    if not length:
        return np.zeros(0, dtype=np.int64)
    packed = np.zeros(length, dtype=np.int64)
    places = 1
    for key in reversed(keys):
        least = int(key.min())
        span = int(key.max()) - least + 1
        places *= span
        if places > _MAX_PLACES:
            order: Ints = np.lexsort(tuple(keys))
            return order
        packed = packed * span + (key.astype(np.int64, copy=False) - least)
    if (packed[1:] >= packed[:-1]).all():
        return np.arange(length)
    row_bits = length.bit_length()
    if places << row_bits > _MAX_PLACES:
        return np.argsort(packed, kind="stable")
    rows = packed << row_bits | np.arange(length)
    rows.sort()
    return rows & ((1 << row_bits) - 1)


class Timeline:
    """Records sorted by (key code, time), searchable by (code, time) for any times.

    The position of a pair on the axis is ``code * span + time``. Where times are spread so far
    that this leaves 64 bits, a time is replaced by its rank among the times that occur.
    """

    def __init__(self, code: Ints, time: Ints) -> None:
        """Take the records' key codes and times in ms, sorted by code, then time."""
        self._distinct_times: Ints | None = None
        self._first = int(time.min(initial=0))
        self._last = int(time.max(initial=0))
        # One position more than there are times: where a search beyond a key's last one ends,
        # which is still before the next key's first.
        self._span = self._last - self._first + 2
        if (int(code.max(initial=0)) + 1) * self._span >= _MAX_AXIS:
            # 2**31 keys with as many different times still fit.
            self._distinct_times = np.unique(time)
            self._span = len(self._distinct_times) + 1
        self._positions = self._position(code, time)

    def first_at_or_after(self, code: Ints, time: Ints) -> Ints:
        """Index of the first record of ``code`` at or after ``time`` (or where it would be)."""
        return np.searchsorted(self._positions, self._position(code, time), side="left")

    def first_after(self, code: Ints, time: Ints) -> Ints:
        """Index of the first record of ``code`` after ``time`` (or where it would be)."""
        return self.first_at_or_after(code, time + 1)

    def within(self, code: Ints, first: Ints, last: Ints) -> Ranges:
        """The records of ``code`` from the time ``first`` to ``last``, both with it."""
        return Ranges(self.first_at_or_after(code, first), self.first_after(code, last))

    def _position(self, code: Ints, time: Ints) -> Ints:
        """Where on the axis a first record at or after (code, time) would stand."""
        if self._distinct_times is None:
            # No record lies beyond the first and last time: to ask there is to ask at the edge.
            within = np.clip(time, self._first, self._last + 1) - self._first
        else:
            within = np.searchsorted(self._distinct_times, time, side="left")
        return code * self._span + within
