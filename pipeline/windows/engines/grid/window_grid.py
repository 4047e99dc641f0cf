"""Tumbling, hopping and no windows as one grid: where a record's windows lie, which are open.

The i-th window is ``[i * advance, i * advance + size)``, i >= 0 (semantics section 3). Without
windows there is one that holds every time: size and advance are ``FOREVER_MS``.
"""

import numpy as np

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import FOREVER_MS, NoWindows, TimeWindows


class WindowGrid:
    """Where the windows of a record lie; a window is named by its number, i."""

    def __init__(self, windows: TimeWindows | NoWindows) -> None:
        """Take the rule, the size and the advance of ``windows``."""
        self._rule = windows.rule
        self._size_ms = self.advance_ms = FOREVER_MS
        if isinstance(windows, TimeWindows):
            self._size_ms, self.advance_ms = windows.size_ms, windows.advance_ms

    def starts(self, number: Ints) -> Ints:
        """The start of each numbered window, in ms."""
        return number * self.advance_ms

    def ends(self, start_ms: Ints) -> Ints:
        """The end of the windows with these starts, in ms."""
        return start_ms + self._size_ms

    def last_ms(self, start_ms: Ints) -> Ints:
        """The greatest record time in the windows with these starts."""
        return self._rule.last_ms(self.ends(start_ms))

    def is_open(self, start_ms: Ints, close_ms: int) -> Flags:
        """Which of the windows with these starts are not final at this close time."""
        return self._rule.is_open(self.ends(start_ms), close_ms)

    def first_windows(self, time_ms: Ints) -> Ints:
        """The number of the first window that each record lies in, open or not."""
        # The least i with t < i * A + S. No window starts below 0.
        first: Ints = np.maximum((time_ms - self._size_ms) // self.advance_ms + 1, 0)
        return first

    def last_windows(self, time_ms: Ints) -> Ints:
        """The number of the last window that each record lies in."""
        return time_ms // self.advance_ms

    def first_open_windows(self, time_ms: Ints, close_ms: Ints) -> Ints:
        """The number of the first window of each record that is open for it.

        Ends ascend with the numbers, so the open windows of a record are those from this one to
        its last one. For a late record this one is behind the last.
        """
        # The least i whose end, i * A + S, is open: a quotient rounded up.
        first_open = -((self._size_ms - self._rule.first_open_end_ms(close_ms)) // self.advance_ms)
        first: Ints = np.maximum(self.first_windows(time_ms), first_open)
        return first
