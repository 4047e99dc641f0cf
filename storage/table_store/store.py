"""One version of a store's table as Kafka's read-only stores, read from the table itself.

Each read is a condition on keys and window times, by which files and row groups are skipped, and a
slice of the windows that count among the rows found, which are in order of key, start and end. So
it costs what these rows cost, not what the page costs: it is for what the index does not have.
"""

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from oriel.storage.contracts import (
    LATEST_MS,
    KeyPage,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
)
from oriel.storage.index import IndexState
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import Condition, of_key, of_keys, of_prefix, of_times
from oriel.storage.table_store.version_rows import LiveRows, VersionRows


class TableStore:
    """What the stores of all kinds share: a version, its visible windows, its keys."""

    def __init__(self, rows: VersionRows, budget: ReadBudget) -> None:
        """Read these rows; all reads of this object together are within the budget."""
        self._rows = rows
        self._budget = budget
        self.state: IndexState = rows.state
        self.earliest_ms = rows.state.earliest_ms

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """See ``ReadOnlyWindowStore``; long keys are in order of all their bytes, too."""
        found: list[str] = []
        while len(found) <= limit:
            # One more than the page may have tells whether there is a next page.
            candidates = self._first_keys(prefix, after, limit + 1)
            if not candidates:
                return KeyPage(found, None)
            # A key is listed for a window that is visible, not for a removed or expired one.
            of_these = of_prefix(prefix) & of_keys(after, candidates[-1])
            found += sorted(self._visible(of_these).keys(), key=str.encode)
            after = candidates[-1]
        return KeyPage(found[:limit], found[limit - 1])

    def _visible(self, condition: Condition) -> LiveRows:
        """The windows of a condition that are there and have not expired (semantics 7)."""
        if self.earliest_ms > 0:
            by_end = self.state.definition.window.kind.expires_by_end
            clock = "window_end" if by_end else "window_start"
            condition = condition & of_times(clock, self.earliest_ms, LATEST_MS)
        return self._rows.live(condition, self._budget)

    def _first_keys(self, prefix: str, after: str | None, count: int) -> list[str]:
        """The first keys that have rows at all."""
        first: list[str] = []
        condition = of_prefix(prefix) & of_keys(after, None)
        for batch in self._rows.batches(condition, self._budget, ["key"]):
            keys = {*first, *pc.unique(batch["key"]).to_pylist()}
            first = sorted(keys, key=str.encode)[:count]
        return first


class TableWindowStore(TableStore):
    """One version of a table as a ``ReadOnlyWindowStore``."""

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        page = self.fetch(WindowRange(key, window_start_ms, window_start_ms, 1))
        return page.windows[0] if page.windows and window_start_ms >= 0 else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return _page(self._by_start(window_range), window_range, backward=False)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return _page(self._by_start(window_range), window_range, backward=True)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        page = self.backward_fetch(WindowRange(key, limit=1))
        return page.windows[0] if page.windows else None

    def _by_start(self, window_range: WindowRange) -> LiveRows:
        starts = of_times("window_start", max(window_range.from_ms, 0), window_range.to_ms)
        return self._visible(of_key(window_range.key) & starts)


class TableSessionStore(TableWindowStore):
    """One version of a table as a ``ReadOnlySessionStore``."""

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        starts = of_times("window_start", window_start_ms, window_start_ms)
        ends = of_times("window_end", window_end_ms, window_end_ms)
        session = self._visible(of_key(key) & starts & ends)
        return session.json(np.zeros(1, np.int64))[0] if len(session) else None

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        return _page(self._by_overlap(session_range), session_range, backward=False)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        return _page(self._by_overlap(session_range), session_range, backward=True)

    def _by_overlap(self, session_range: SessionRange) -> LiveRows:
        starts = of_times("window_start", 0, session_range.latest_start_ms)
        ends = of_times("window_end", max(session_range.earliest_end_ms, 0), LATEST_MS)
        return self._visible(of_key(session_range.key) & starts & ends)


class TableKeyValueStore(TableStore):
    """One version of a table as a ``ReadOnlyKeyValueStore``."""

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        row = self._visible(of_key(key))
        return row.json(np.zeros(1, np.int64))[0] if len(row) else None


def table_store(rows: VersionRows, budget: ReadBudget) -> TableStore:
    """The store of a version, of the class that its kind of windows has."""
    kind = rows.state.definition.window.kind
    if kind.is_session:
        return TableSessionStore(rows, budget)
    return TableWindowStore(rows, budget) if kind.is_windowed else TableKeyValueStore(rows, budget)


def _page(
    windows: LiveRows, read_range: WindowRange | SessionRange, *, backward: bool
) -> WindowPage:
    """The page of windows of one key that comes behind ``after``, in its direction."""
    starts_ms, ends_ms = windows.starts_ms, windows.ends_ms
    places: npt.NDArray[np.int64] = np.arange(len(windows))
    if backward:
        places = places[::-1]
    if read_range.after is not None:
        start_ms, end_ms = read_range.after
        if backward:
            is_behind = (starts_ms < start_ms) | ((starts_ms == start_ms) & (ends_ms < end_ms))
        else:
            is_behind = (starts_ms > start_ms) | ((starts_ms == start_ms) & (ends_ms > end_ms))
        places = places[is_behind[places]]
    page = places[: read_range.limit]
    if len(places) == len(page):
        return WindowPage(windows.json(page), None)
    last = WindowId(int(starts_ms[page[-1]]), int(ends_ms[page[-1]]))
    return WindowPage(windows.json(page), last)
