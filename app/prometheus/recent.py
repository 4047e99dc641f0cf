"""The columns of the recent windows of stores, in memory.

A panel reads the same windows again each second, although few windows have changed. The first query
keeps the columns of its windows. A later query reads only the rows that later versions changed.
Small reads keep nothing, because the index is fast enough for them.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.app.prometheus.metrics import metrics_of
from oriel.app.prometheus.windows import columns_of
from oriel.app.reads import ChangeReader, Changes
from oriel.storage import LATEST_MS, ScanRange, StoreDefinition
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexState

#: Fewer windows are read from the index each time.
ROWS_MIN = 10_000
#: The most windows of all stores that are kept.
ROWS_MAX = 1_000_000

#: Reads the columns of the windows of a range from the snapshot of a query.
Read = Callable[[ScanRange], Awaitable[pa.Table]]


class _Kept(NamedTuple):
    """Columns of a version.

    Attributes:
        state: The version.
        low_ms: The columns have all windows that start at this time or later. Sessions: that end.
        high_ms: The greatest start of their windows.
        columns: The columns.
    """

    state: IndexState
    low_ms: int
    high_ms: int
    columns: pa.Table


class RecentColumns:
    """The columns of one store. The lock is held while they change."""

    def __init__(self, log: DeltaLog, changes: ChangeReader) -> None:
        """Keep nothing yet."""
        self.lock = asyncio.Lock()
        self._log = log
        self._changes = changes
        self.kept: _Kept | None = None

    def is_newer_than(self, state: IndexState) -> bool:
        """Return whether the columns have a newer version."""
        kept = self.kept
        return kept is not None and kept.state.version > state.version

    async def read(self, state: IndexState, wanted: ScanRange, read: Read) -> pa.Table:
        """Return the columns of the windows of a range. The caller has the lock.

        Args:
            state: The version to read.
            wanted: The range, of all keys.
            read: Reads a range of this version.
        """
        low_ms = max(wanted.from_ms, wanted.earliest_end_ms)
        kept = await self._followed(state, low_ms, wanted.to_ms)
        if kept is None:
            kept = await self._built(state, low_ms, wanted, read)
        self.kept = kept if ROWS_MIN <= len(kept.columns) <= ROWS_MAX else None
        return await asyncio.to_thread(_selected, kept, wanted)

    async def _built(self, state: IndexState, low_ms: int, wanted: ScanRange, read: Read) -> _Kept:
        high_ms = wanted.to_ms
        if state.observed_ms - high_ms <= high_ms - low_ms:
            # The windows after the range are few, and the next queries need them.
            high_ms = LATEST_MS
        return _Kept(state, low_ms, high_ms, await read(wanted._replace(to_ms=high_ms)))

    async def _followed(self, state: IndexState, low_ms: int, high_ms: int) -> _Kept | None:
        """Return the kept columns at a version, or None if they do not have the range."""
        kept = self.kept
        if kept is None or low_ms < kept.low_ms or high_ms > kept.high_ms:
            return None
        if kept.state == state:
            return kept
        changes = await self._changes.between(self._log, kept.state, state)
        if changes is None:
            return None
        columns = await asyncio.to_thread(_merged, kept, changes, state.definition)
        return kept._replace(state=state, columns=columns)


class RecentColumnsOfStores:
    """The columns of all stores of a worker. The least recently used ones are dropped."""

    def __init__(self, changes: ChangeReader) -> None:
        """Keep nothing yet."""
        self._changes = changes
        self._stores: OrderedDict[str, RecentColumns] = OrderedDict()

    def of(self, store: str, log: DeltaLog) -> RecentColumns:
        """Return the columns of a store."""
        recent = self._stores.setdefault(store, RecentColumns(log, self._changes))
        self._stores.move_to_end(store)
        self._drop_unused()
        return recent

    def _drop_unused(self) -> None:
        rows = 0
        for recent in reversed(self._stores.values()):
            rows += 0 if recent.kept is None else len(recent.kept.columns)
            if rows > ROWS_MAX:
                recent.kept = None


def _selected(kept: _Kept, wanted: ScanRange) -> pa.Table:
    """Return the visible windows of a range."""
    definition, columns = kept.state.definition, kept.columns
    starts, ends = (np.asarray(columns[name]) for name in ("window_start_ms", "window_end_ms"))
    times = ends if definition.window.kind.expires_by_end else starts
    low_ms = max(wanted.from_ms, wanted.earliest_end_ms, kept.state.earliest_ms)
    return columns.filter(pa.array((times >= low_ms) & (starts <= wanted.to_ms)))


def _merged(kept: _Kept, changes: Sequence[Changes], definition: StoreDefinition) -> pa.Table:
    """Return the columns with the rows that later versions changed."""
    metrics = metrics_of(definition)
    tables = [kept.columns, *(columns_of(each.windows, definition, metrics) for each in changes)]
    is_deleted = np.concatenate(
        [np.zeros(len(kept.columns), np.bool_), *(each.deleted for each in changes)]
    )
    columns = pa.concat_tables(tables).combine_chunks()
    codes = np.asarray(columns["key"].combine_chunks().dictionary_encode().indices)
    starts, ends = (np.asarray(columns[name]) for name in ("window_start_ms", "window_end_ms"))
    # The sort is stable, so the newest row of a window is the last one.
    order = np.lexsort((ends, starts, codes))
    identities = np.stack([codes, starts, ends])[:, order]
    is_newest = np.append((identities[:, 1:] != identities[:, :-1]).any(axis=0), True)
    times = ends if definition.window.kind.expires_by_end else starts
    is_in_range = (times >= kept.low_ms) & (starts <= kept.high_ms)
    rows = order[is_newest & (is_in_range & ~is_deleted)[order]]
    return columns.take(pa.array(rows))
