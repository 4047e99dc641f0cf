"""One version of a store's table as the read-only stores of Kafka Streams.

Each read is a condition on keys and window times, which skips files and row groups. The read
determines the windows that count among the matching rows, in the order of key, start and end, and
returns a slice. It reads all matching rows, not only those of the page. So these stores serve
only versions that the index does not have.
"""

from functools import partial

import numpy as np
import pyarrow.compute as pc

from oriel.storage.contracts import (
    LATEST_MS,
    UNBOUNDED,
    KeyPage,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowPage,
    WindowRange,
    fits_request,
)
from oriel.storage.definition import StoreKind
from oriel.storage.index import IndexState
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import (
    EVERYTHING,
    Condition,
    of_key,
    of_keys,
    of_prefix,
    of_times,
)
from oriel.storage.table_store.pages import (
    current_of_each,
    each_key_page,
    last_ending_of_each,
    latest_of_each,
    newest_keys,
    newest_version_page,
    of_scan,
    scan_page,
    version_page,
    window_page,
)
from oriel.storage.table_store.version_rows import LiveRows, VersionRows


class TableStore:
    """The common base of the stores: a version, its visible windows, and its keys."""

    def __init__(self, rows: VersionRows, budget: ReadBudget) -> None:
        """Create a store over the rows. The budget limits all its reads together."""
        self._rows = rows
        self._budget = budget
        self.state: IndexState = rows.state
        self.earliest_ms = rows.state.earliest_ms
        self._key_type = rows.state.definition.keys

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``. Long keys are also in the order of all their bytes.

        The budget limits the examined rows instead of ``records_max``.
        """
        del records_max
        found: list[str] = []
        while len(found) <= limit:
            # One key more than the limit shows whether a next page exists.
            candidates = self._first_keys(prefix, after, limit + 1)
            if not candidates:
                return KeyPage(found, None)
            # A key with only removed or expired windows is not listed.
            of_these = of_prefix(prefix, self._key_type)
            of_these &= of_keys(after, candidates[-1], self._key_type)
            listed = self._visible(of_these).keys()
            found += sorted(filter(fits_request, listed), key=self._key_type.escaped)
            after = candidates[-1]
        return KeyPage(found[:limit], found[limit - 1])

    def scan(self, scan_range: ScanRange) -> ScanPage:
        return scan_page(self._scanned(scan_range), scan_range, backward=False)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        return scan_page(self._scanned(scan_range), scan_range, backward=True)

    def window_count(self) -> int:
        """Return the number of visible windows or rows."""
        return len(self._visible(EVERYTHING))

    def _scanned(self, scan_range: ScanRange) -> LiveRows:
        windowed = self.state.definition.window.kind.is_windowed
        condition = of_scan(scan_range, self._key_type, windowed=windowed)
        return self._visible(condition, with_partials=scan_range.with_partials)

    def _visible(self, condition: Condition, *, with_partials: bool = False) -> LiveRows:
        """Return the matching windows that are not removed or expired (semantics.md#7)."""
        if self.earliest_ms > 0:
            by_end = self.state.definition.window.kind.expires_by_end
            time_column = "window_end" if by_end else "window_start"
            condition = condition & of_times(time_column, self.earliest_ms, LATEST_MS)
        return self._rows.live(condition, self._budget, with_partials=with_partials)

    def _first_keys(self, prefix: str, after: str | None, count: int) -> list[str]:
        """Return the first keys that have any rows, also removed or expired ones."""
        first: list[str] = []
        condition = of_prefix(prefix, self._key_type) & of_keys(after, None, self._key_type)
        for batch in self._rows.batches(condition, self._budget, ["key"]):
            keys = {*first, *pc.unique(batch["key"]).to_pylist()}
            first = sorted(keys, key=self._key_type.escaped)[:count]
        return first


class TableWindowStore(TableStore):
    """One version of a table as a ``ReadOnlyWindowStore``."""

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        page = self.fetch(WindowRange(key, window_start_ms, window_start_ms, 1))
        return page.windows[0] if page.windows and window_start_ms >= 0 else None

    def fetch(self, window_range: WindowRange) -> WindowPage:
        return window_page(self._by_start(window_range), window_range, backward=False)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        return window_page(self._by_start(window_range), window_range, backward=True)

    def latest(self, key: str) -> bytes | None:
        page = self.backward_fetch(WindowRange(key, limit=1))
        return page.windows[0] if page.windows else None

    def current(self, key: str) -> bytes | None:
        page = self.current_all(ScanRange(key, key, limit=1))
        return page.entries[0] if page.entries else None

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        return each_key_page(self._of_keys(scan_range), scan_range, latest_of_each)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        last_ms = 0 if self.state.definition.window.kind.has_inclusive_end else 1
        choose = partial(current_of_each, last_ms=last_ms)
        return each_key_page(self._of_keys(scan_range), scan_range, choose)

    def _of_keys(self, scan_range: ScanRange) -> LiveRows:
        """Return all visible windows of the keys in a range, at any time."""
        return self._visible(of_scan(scan_range, self._key_type, windowed=False))

    def _by_start(self, window_range: WindowRange) -> LiveRows:
        starts = of_times("window_start", max(window_range.from_ms, 0), window_range.to_ms)
        condition = of_key(window_range.key, self._key_type) & starts
        return self._visible(condition, with_partials=window_range.with_partials)


class TableSessionStore(TableWindowStore):
    """One version of a table as a ``ReadOnlySessionStore``."""

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        starts = of_times("window_start", window_start_ms, window_start_ms)
        ends = of_times("window_end", window_end_ms, window_end_ms)
        session = self._visible(of_key(key, self._key_type) & starts & ends)
        return session.json(np.zeros(1, np.int64))[0] if len(session) else None

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        return each_key_page(self._of_keys(scan_range), scan_range, last_ending_of_each)

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        return window_page(self._by_overlap(session_range), session_range, backward=False)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        return window_page(self._by_overlap(session_range), session_range, backward=True)

    def _by_overlap(self, session_range: SessionRange) -> LiveRows:
        starts = of_times("window_start", 0, session_range.latest_start_ms)
        ends = of_times("window_end", max(session_range.earliest_end_ms, 0), LATEST_MS)
        return self._visible(of_key(session_range.key, self._key_type) & starts & ends)


class TableKeyValueStore(TableStore):
    """One version of a table as a ``ReadOnlyKeyValueStore``."""

    def get(self, key: str) -> bytes | None:
        row = self._visible(of_key(key, self._key_type))
        return row.json(np.zeros(1, np.int64))[0] if len(row) else None

    def approximate_num_entries(self) -> int:
        return self.window_count()


class TableVersionedStore(TableKeyValueStore):
    """One version of a table as a ``ReadOnlyVersionedStore``."""

    def get(self, key: str) -> bytes | None:
        page = self.scan(ScanRange(key, key, limit=1))
        return page.entries[0] if page.entries else None

    def get_as_of(self, key: str, time_ms: int) -> bytes | None:
        page = self.versions(WindowRange(key, time_ms, time_ms, 1))
        return page.windows[0] if page.windows else None

    def versions(self, version_range: WindowRange) -> WindowPage:
        return version_page(self._of_key(version_range.key), version_range, backward=False)

    def backward_versions(self, version_range: WindowRange) -> WindowPage:
        return version_page(self._of_key(version_range.key), version_range, backward=True)

    def scan(self, scan_range: ScanRange) -> ScanPage:
        return newest_version_page(self._scanned(scan_range), scan_range, backward=False)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        return newest_version_page(self._scanned(scan_range), scan_range, backward=True)

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``. A key whose newest version is a tombstone is not listed."""
        del records_max
        rows = self._visible(
            of_prefix(prefix, self._key_type) & of_keys(after, None, self._key_type)
        )
        listed = sorted(filter(fits_request, newest_keys(rows)), key=self._key_type.escaped)
        return KeyPage(listed[:limit], listed[limit - 1] if len(listed) > limit else None)

    def _of_key(self, key: str) -> LiveRows:
        return self._visible(of_key(key, self._key_type))


def table_store(rows: VersionRows, budget: ReadBudget) -> TableStore:
    """Return a version as the store class that matches its kind of windows."""
    kind = rows.state.definition.window.kind
    if kind.is_session:
        return TableSessionStore(rows, budget)
    if kind is StoreKind.VERSIONED:
        return TableVersionedStore(rows, budget)
    return TableWindowStore(rows, budget) if kind.is_windowed else TableKeyValueStore(rows, budget)
