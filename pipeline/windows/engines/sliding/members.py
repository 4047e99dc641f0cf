"""The members of sliding windows, without a list of them for each window.

A record at ``t`` is a member of the windows around it that are open when it comes, so of those
with an end from its *entry* on:

    entry    max(t, the least end of a window that is open at the record's close time)
    member   start <= t and entry <= end

Records stand by key and time, so those in a window's bounds are a range of rows. One that enters
after the window's end makes a hole in it. A window without a hole is such a range. Any other is
taken apart into pieces, each a range in some order of the records: the rows in front of its first
hole, and blocks of the order by entry (docs/decisions/0023).
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
    heads,
    pair_order,
    running_max,
)
from oriel.pipeline.windows.definitions import WindowRule

#: How many records are listed at a time.
LISTED = 2**20


@dataclass(frozen=True)
class SlidingEntries:
    """Records in window order: key code, time and entry in ms of each."""

    code: Ints
    time_ms: Ints
    entry_ms: Ints

    @classmethod
    def of(cls, code: Ints, time_ms: Ints, close_ms: Ints, rule: WindowRule) -> "SlidingEntries":
        """Records by their close times: a window is open for one from its least end on."""
        return cls(code, time_ms, np.maximum(time_ms, rule.first_open_end_ms(close_ms)))

    @cached_property
    def order(self) -> Ints:
        """The rows by key and entry."""
        return pair_order(self.code, self.entry_ms)

    @cached_property
    def timeline(self) -> Timeline:
        """Where an entry stands in ``order``."""
        return Timeline(self.code, self.entry_ms[self.order])


@dataclass(frozen=True)
class WindowMembers:
    """The members of each window, as rows of ``entries``.

    ``in_bounds`` are the rows in the window's bounds; up to ``hole``, the first row of them that
    is no member, all are members. Without a hole that is the end of the bounds.
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
        """Find the holes of windows by their key codes, ends in ms and rows in their bounds."""
        hole = in_bounds.high
        if (entries.entry_ms > entries.time_ms).any():
            # The first record of the key that enters after the window's end. It is in the bounds
            # or behind them: a record is accepted only if t + D >= c (semantics.md#0-3), so it
            # enters all windows that begin after it.
            highest_ms = running_max(entries.entry_ms, heads(entries.code))
            hole = np.minimum(hole, Timeline(entries.code, highest_ms).first_after(code, end_ms))
        return cls(entries, code, end_ms, in_bounds, hole)

    def keep(self, chosen: Flags) -> "WindowMembers":
        """The windows where ``chosen`` is set."""
        return WindowMembers(
            self.entries,
            self.code[chosen],
            self.end_ms[chosen],
            self.in_bounds.keep(chosen),
            self.hole[chosen],
        )

    @property
    def front(self) -> Ranges:
        """The members in front of the first hole."""
        return Ranges(self.in_bounds.low, self.hole)

    @property
    def holed(self) -> Flags:
        """Which windows have a hole."""
        return self.hole < self.in_bounds.high

    def last_of(self, chosen: Flags | None = None) -> Ints:
        """The last member of each window, or the last one where ``chosen`` is set; -1 for none."""
        holed = self.holed
        if chosen is None:
            last = self.in_bounds.high - 1
        else:
            last = _last_before(chosen, self.in_bounds.high)
        if holed.any():
            # All that entered the key's windows up to the end: as keys ascend with the rows, the
            # greatest row of these is one of the key itself, or no row of the bounds.
            order = self.entries.order
            entered = order if chosen is None else np.where(chosen[order], order, -1)
            greatest = np.maximum.accumulate(entered)
            last[holed] = np.append(greatest, -1)[self._entered(holed) - 1]
        return np.where(last >= self.in_bounds.low, last, -1)

    def listed(self) -> Iterator[Pieces]:
        """All members of the windows, in order, for some windows at a time.

        That takes an array as long as the members of all windows together, but never more of it
        at a time than for one window, or for ``LISTED`` records in bounds.
        """
        end = self.in_bounds.sizes.cumsum()
        begin = 0
        while begin < len(end):
            listed = end[begin - 1] if begin else 0
            behind = max(int(np.searchsorted(end, listed + LISTED, side="right")), begin + 1)
            window = np.arange(begin, behind)
            in_bounds = Ranges(self.in_bounds.low[window], self.in_bounds.high[window])
            candidate, owner = in_bounds.rows()[1], in_bounds.owners
            is_member = self.entries.entry_ms[candidate] <= self.end_ms[window][owner]
            sizes = np.bincount(owner[is_member], minlength=len(window))
            yield Pieces(window, candidate[is_member], Ranges.side_by_side(sizes))
            begin = behind

    def pieces(self) -> Iterator[Pieces]:
        """All members of the windows, each once; no range is empty.

        So many pieces of a window are in proportion to the logarithm of its size. All of them
        together need an array as long as the records at a time.
        """
        rows = len(self.entries.code)
        yield _filled(np.arange(len(self.hole)), np.arange(rows), self.front)
        holed = np.flatnonzero(self.holed)
        # Who is behind the hole has its time or a later one, and enters no earlier.
        hole = self.hole[holed]
        behind = Ranges(
            self.entries.timeline.first_at_or_after(self.code[holed], self.entries.time_ms[hole]),
            self._entered(holed),
        )
        place, behind = covered(rows, behind)
        row, place = self.entries.order[place], np.arange(len(place))
        for level in range(behind.levels):
            which, block = behind.blocks(level)
            # With the rows of each block in ascending order, those behind the hole are its end.
            in_blocks = np.sort((place >> level) * rows + row)
            low = np.searchsorted(in_blocks, block * rows + hole[which])
            yield _filled(holed[which], in_blocks % rows, Ranges(low, (block + 1) << level))

    def _entered(self, chosen: Flags | Ints) -> Ints:
        """How many rows of ``entries.order`` entered up to the end of each chosen window."""
        return self.entries.timeline.first_after(self.code[chosen], self.end_ms[chosen])


def covered(length: int, ranges: Ranges) -> tuple[Ints, Ranges]:
    """The rows, of ``length``, that some range covers, and the ranges counted in these only."""
    is_covered = ranges.covered(length)
    return np.flatnonzero(is_covered), ranges.among(is_covered)


def _filled(window: Ints, row: Ints, ranges: Ranges) -> Pieces:
    """The ranges that have a row, and the rows that they cover."""
    filled = ~ranges.empty
    place, ranges = covered(len(row), ranges.keep(filled))
    return Pieces(window[filled], row[place], ranges)


def _last_before(chosen: Flags, end: Ints) -> Ints:
    """The last chosen row in front of each end, which is 1 or more; -1 for none."""
    last: Ints = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))[end - 1]
    return last
