"""One axis for all keys: (key, time) pairs as sorted integers, for binary search over many keys.

Usually ``code * span + time`` fits into 64 bits. Where times are spread so far that it
doesn't, times are replaced by their rank among the times that occur, which always fits.
"""

import numpy as np

from oriel.pipeline.windows.arrays.types import Ints

_FITS = 2**62


class Timeline:
    """Records sorted by (key code, time), searchable by (code, time) for any times."""

    def __init__(self, code: Ints, time: Ints) -> None:
        """Take the records' key codes and times, sorted by code, then time."""
        self._times: Ints | None = None
        self._first = int(time.min(initial=0))
        self._last = int(time.max(initial=0))
        self._span = self._last - self._first + 2
        if (int(code.max(initial=0)) + 1) * self._span >= _FITS:
            self._times = np.unique(time)
            self._span = len(self._times) + 1
        self._places = self._place(code, time)

    def _place(self, code: Ints, time: Ints) -> Ints:
        """Where a first record at or after (code, time) would stand."""
        if self._times is None:
            clipped = np.clip(time, self._first, self._last + 1) - self._first
        else:
            clipped = np.searchsorted(self._times, time, side="left")
        return code * self._span + clipped

    def first_at_or_after(self, code: Ints, time: Ints) -> Ints:
        """Index of the first record of ``code`` at or after ``time`` (or where it would be)."""
        return np.searchsorted(self._places, self._place(code, time), side="left")

    def first_after(self, code: Ints, time: Ints) -> Ints:
        """Index of the first record of ``code`` after ``time`` (or where it would be)."""
        return self.first_at_or_after(code, time + 1)


def pair_order(code: Ints, time: Ints) -> Ints:
    """Stable order of (code, time) pairs."""
    lowest = int(time.min(initial=0))
    span = int(time.max(initial=0)) - lowest + 1
    if (int(code.max(initial=0)) + 1) * span >= _FITS:
        return np.lexsort((time, code))
    return np.argsort(code * span + (time - lowest), kind="stable")
