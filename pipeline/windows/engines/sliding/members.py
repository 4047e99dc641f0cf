"""The members of sliding windows, without a list of members per window.

A record at ``t`` is a member of the windows around it that are open when it arrives. These are the
windows with an end at or after the *entry* of the record:

    entry    max(t, the least end of a window that is open at the record's close time)
    member   start <= t and entry <= end

Records are sorted by key and time, so the records within the bounds of a window are a range of
rows. A record in this range whose entry is after the end of the window is a *hole*. The members of
a window without a hole are the range. Any other window is split into pieces: the rows before its
first hole, and blocks of the order by entry. Each piece is a range in some order of the records
(docs/decisions/0023).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oriel.pipeline.windows.aggregates import Pieces
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    pair_order,
    run_starts,
    running_max,
)
from oriel.pipeline.windows.definitions import WindowRule

#: The number of records to list at a time. One array of their indexes has 8 MB.
LISTED_RECORDS = 2**20


@dataclass(frozen=True)
class SlidingEntries:
    """Records in window order: key code, time and entry in milliseconds."""

    code: Ints
    time_ms: Ints
    entry_ms: Ints

    @classmethod
    def of(cls, code: Ints, time_ms: Ints, close_ms: Ints, rule: WindowRule) -> "SlidingEntries":
        """Return records with the entry that follows from their close times."""
        return cls(code, time_ms, np.maximum(time_ms, rule.first_open_end_ms(close_ms)))

    @cached_property
    def order(self) -> Ints:
        """The rows by key and entry."""
        return pair_order(self.code, self.entry_ms)

    @cached_property
    def timeline(self) -> Timeline:
        """The positions of entries in ``order``."""
        return Timeline(self.code, self.entry_ms[self.order])


@dataclass(frozen=True)
class WindowMembers:
    """The members of each window, as rows of ``entries``.

    Attributes:
        entries: The records.
        code: The code of the key of each window.
        end_ms: The end of each window.
        in_bounds: The rows within the bounds of each window.
        hole: The first row in bounds that is not a member, or the end of ``in_bounds``. All rows
            before it are members.
    """

    entries: SlidingEntries
    code: Ints
    end_ms: Ints
    in_bounds: Ranges
    hole: Ints

    @classmethod
    def of(
        cls, entries: SlidingEntries, code: Ints, end_ms: Ints, in_bounds: Ranges
    ) -> "WindowMembers":
        """Return windows with their holes, from key codes, ends and rows in bounds."""
        hole = in_bounds.high
        # Without a partly late record, each entry is the time of its record, and no window has a
        # hole.
        if (entries.entry_ms > entries.time_ms).any():
            # The hole is the first record of the key that enters after the end of the window. It is
            # not before the bounds. A record is accepted only if t + D >= c (semantics.md#0-3), so
            # its entry is not after the end of a window that starts after the record.
            highest_ms = running_max(entries.entry_ms, run_starts(entries.code))
            hole = np.minimum(hole, Timeline(entries.code, highest_ms).first_after(code, end_ms))
        return cls(entries, code, end_ms, in_bounds, hole)

    def keep(self, chosen: Flags) -> "WindowMembers":
        """Return the windows for which ``chosen`` is set."""
        return WindowMembers(
            self.entries,
            self.code[chosen],
            self.end_ms[chosen],
            self.in_bounds.keep(chosen),
            self.hole[chosen],
        )

    @property
    def front(self) -> Ranges:
        """The members before the first hole."""
        return Ranges(self.in_bounds.low, self.hole)

    @property
    def holed(self) -> Flags:
        """True for each window with a hole."""
        return self.hole < self.in_bounds.high

    def last_of(self, chosen: Flags | None = None) -> Ints:
        """Return the last member of each window, or its last chosen member, or -1."""
        holed = self.holed
        if chosen is None:
            last = self.in_bounds.high - 1
        else:
            # The last chosen row before each end, which is at least 1, or -1.
            rows = np.where(chosen, np.arange(len(chosen)), -1)
            last = np.maximum.accumulate(rows)[self.in_bounds.high - 1]
        if holed.any():
            # The records that entered windows of the key up to the end. Keys ascend with the rows,
            # so the greatest row is a row of the key itself, or is outside the bounds.
            order = self.entries.order
            entered = order if chosen is None else np.where(chosen[order], order, -1)
            greatest = np.maximum.accumulate(entered)
            # If no record has entered, the index is -1 and reads the appended -1.
            last[holed] = np.append(greatest, -1)[self._entered(holed) - 1]
        return np.where(last >= self.in_bounds.low, last, -1)

    def listed(self) -> Iterator[Pieces]:
        """Yield all members of the windows, in order, for some windows at a time.

        The windows of one item have at most ``LISTED_RECORDS`` records in bounds, or the item is
        one window. The members of all windows are therefore never in memory together.
        """
        end = self.in_bounds.sizes.cumsum()
        begin = 0
        while begin < len(end):
            listed = end[begin - 1] if begin else 0
            # ``begin + 1`` is for a window that alone exceeds the limit. Otherwise the loop would
            # not end.
            stop = max(int(np.searchsorted(end, listed + LISTED_RECORDS, side="right")), begin + 1)
            window = np.arange(begin, stop)
            in_bounds = Ranges(self.in_bounds.low[window], self.in_bounds.high[window])
            candidate, owner = in_bounds.rows()[1], in_bounds.owners
            is_member = self.entries.entry_ms[candidate] <= self.end_ms[window][owner]
            sizes = np.bincount(owner[is_member], minlength=len(window))
            yield Pieces(window, candidate[is_member], Ranges.side_by_side(sizes))
            begin = stop

    def pieces(self) -> Iterator[Pieces]:
        """Yield all members of the windows, each once, without empty ranges.

        The number of pieces of a window is proportional to the logarithm of its size. Each item
        needs an array as long as the records.
        """
        rows = len(self.entries.code)
        yield _non_empty(np.arange(len(self.hole)), np.arange(rows), self.front)
        holed = np.flatnonzero(self.holed)
        # In the order by entry, the members after the hole are a range that can also contain rows
        # before the hole. These rows are already in ``front``.
        # A record after the hole has the same time or a later one, so its entry is not before the
        # time of the hole.
        hole = self.hole[holed]
        after = Ranges(
            self.entries.timeline.first_at_or_after(self.code[holed], self.entries.time_ms[hole]),
            self._entered(holed),
        )
        position, after = rows_in_ranges(rows, after)
        row, position = self.entries.order[position], np.arange(len(position))
        for level in range(after.levels):
            which, block = after.blocks(level)
            # The rows of each block are in ascending order, so the rows after the hole are at its
            # end.
            # Block and row are one integer, so one sort orders all blocks. It is less than rows**2,
            # which fits into 63 bits for 3 * 10**9 rows.
            in_blocks = np.sort((position >> level) * rows + row)
            low = np.searchsorted(in_blocks, block * rows + hole[which])
            yield _non_empty(holed[which], in_blocks % rows, Ranges(low, (block + 1) << level))

    def _entered(self, chosen: Flags | Ints) -> Ints:
        """Return how many rows of ``entries.order`` entered up to the end of each chosen window."""
        return self.entries.timeline.first_after(self.code[chosen], self.end_ms[chosen])


def rows_in_ranges(length: int, ranges: Ranges) -> tuple[Ints, Ranges]:
    """Return which of ``length`` rows are in a range, and the ranges as positions among them."""
    is_contained = ranges.contained(length)
    return np.flatnonzero(is_contained), ranges.among(is_contained)


def _non_empty(window: Ints, row: Ints, ranges: Ranges) -> Pieces:
    """Return the ranges that are not empty, and the rows that they contain."""
    filled = ~ranges.empty
    position, ranges = rows_in_ranges(len(row), ranges.keep(filled))
    return Pieces(window[filled], row[position], ranges)
