"""Tumbling, hopping and no windows as one grid, and what their engines share.

The i-th window is ``[i * advance, i * advance + size)``, i >= 0. Without windows there is one
that holds every time: size and advance are ``FOREVER_MS``.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import FOREVER_MS, EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import WindowEngine


class WindowGrid:
    """Where the windows of a record lie; a window is named by its number, i."""

    def __init__(self, windows: TimeWindows | NoWindows) -> None:
        """Take the size and the advance of ``windows``."""
        self._size_ms = self.advance_ms = FOREVER_MS
        if isinstance(windows, TimeWindows):
            self._size_ms, self.advance_ms = windows.size_ms, windows.advance_ms

    @property
    def overlap(self) -> bool:
        """Whether a record can be in several windows."""
        return self.advance_ms < self._size_ms

    def starts(self, number: Ints) -> Ints:
        """The start of each numbered window, in ms."""
        return number * self.advance_ms

    def ends(self, start_ms: Ints) -> Ints:
        """The end of the windows with these starts, in ms."""
        return start_ms + self._size_ms

    def first_windows(self, time_ms: Ints) -> Ints:
        """The number of the first window that each record lies in."""
        first: Ints = np.maximum((time_ms - self._size_ms) // self.advance_ms + 1, 0)
        return first

    def last_windows(self, time_ms: Ints) -> Ints:
        """The number of the last window that each record lies in."""
        return time_ms // self.advance_ms

    def open_windows(self, time_ms: Ints, close_ms: Ints) -> tuple[Ints, Ints]:
        """The first and the last window of each record that is open for it; none: first > last."""
        # The least i with i * advance + size - 1 >= close.
        first_open = -((self._size_ms - 1 - close_ms) // self.advance_ms)
        return np.maximum(self.first_windows(time_ms), first_open), self.last_windows(time_ms)


class GridEngine(WindowEngine):
    """What the engines of tumbling, hopping and no windows share: when windows are open."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        carried: Iterable[pa.Field] | None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Keep ``carried`` columns of the key; tell windows when ``emit`` says."""
        self._rule = windows.rule
        self._grid = WindowGrid(windows)
        self._carried = list(carried or ())
        self._emit_final_only = emit.is_on_close

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Which records have no open window."""
        first, last = self._grid.open_windows(timestamp_ms, close_ms)
        late: Flags = first > last
        return late

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each row's window."""
        return self._rule.last_ms(self._grid.ends(np.asarray(state["window_start_ms"])))

    def _is_open(self, start_ms: Ints, close_ms: int) -> Flags:
        """Which of the windows with these starts are not final."""
        return self._rule.is_open(self._grid.ends(start_ms), close_ms)
