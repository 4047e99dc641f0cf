"""The columns of the newest window, or of the row, of each key of a store, in memory.

The first ranked read builds the columns from the index. Each later one reads only the keys that the
versions since then have changed. Arrow selects the first rows from the columns in a thread. For a
million keys, this needs milliseconds instead of seconds.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.contract import RANKED_RECORDS_MAX
from oriel.app.guards import Turns
from oriel.app.reads.changes import ChangeReader
from oriel.app.reads.ranked.read import SECONDS_MAX, RankedRead, reject_after
from oriel.app.reads.ranked.sorted_columns import SortedColumns, is_selected
from oriel.app.selection import first_rows, item_columns, ranked_columns, rows_of_keys
from oriel.storage import UNBOUNDED, ScanPage, ScanRange
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexSnapshot, IndexState, KeyValueSnapshot, WindowSnapshot

#: Keys that one step reads. The worker serves other requests between the steps.
_STEP = 512
#: If a larger share of the keys has changed, the changed rows are moved to the base.
_CHANGED_SHARE = 0.02
#: With more changed rows, a selection runs in a thread.
_CHANGED_QUICK = 1 << 13
#: The maximum memory of the columns of one store in bytes. A larger store has no columns.
BYTES_MAX = 256 << 20
#: The maximum memory of the columns of all stores of a worker in bytes.
TOTAL_BYTES_MAX = 512 << 20


class NewestColumns:
    """The columns of one store, for one read of the newest item of each key."""

    def __init__(self, log: DeltaLog, changes: ChangeReader, read: str) -> None:
        """Build nothing yet.

        Args:
            log: The log of the store's table.
            changes: Reads the keys that a version has changed.
            read: The method of the snapshot that reads the item of a key: ``latest``, ``current``
                or ``get``.
        """
        self._log = log
        self._changes = changes
        self._read = read
        #: Held while the columns change, and while their snapshot is opened.
        self.lock = asyncio.Lock()
        self._state: IndexState | None = None
        #: The columns of an earlier version.
        self._base = SortedColumns(pa.table({}))
        #: Whether each row of the base is still the newest item of its key.
        self._is_newest: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        #: The columns of the keys that have changed since then.
        self._changed: pa.Table = pa.table({})
        #: False after the columns were larger than ``BYTES_MAX``.
        self.fits = True

    def size_bytes(self) -> int:
        """Return the memory of the columns in bytes."""
        return self._base.size_bytes() + int(self._changed.nbytes)

    async def follow(self, snapshot: IndexSnapshot, turns: Turns) -> None:
        """Change the columns to the version of a snapshot. The caller has the lock.

        Raises:
            RequestTooSlow: it takes longer than the maximum duration of a ranked read.
        """
        state, before = snapshot.state, self._state
        if state == before:
            return
        ends = time.monotonic() + SECONDS_MAX
        # If this call is cancelled or fails, the next one builds the columns again.
        self._state = None
        keys = None if before is None else await self._changed_keys(before, state)
        if keys is None:
            await self._build(snapshot, turns, ends)
        else:
            await self._update(snapshot, keys, turns, ends)
        self.fits = self._base.columns.nbytes + self._changed.nbytes <= BYTES_MAX
        if self.fits:
            self._state = state
        else:
            self._base, self._changed = SortedColumns(pa.table({})), pa.table({})

    def select_quickly(self, read: RankedRead) -> pa.Table | None:
        """Return the rows of ``select``, or None if this needs a thread."""
        if len(self._changed) > _CHANGED_QUICK:
            return None
        rows = self._base.first_rows_quickly(read, self._is_newest)
        if rows is None:
            return None
        return _with_changed(read, self._base, rows, self._changed)

    def select(self, read: RankedRead) -> Callable[[], pa.Table]:
        """Return a function that returns the rows of the first items of a read, for a thread.

        The rows have no order. The function uses the columns of now, although they can change
        before it is called.
        """
        return partial(_first_rows, read, self._base, self._is_newest, self._changed)

    def items(self, snapshot: IndexSnapshot, keys: Sequence[str]) -> Iterator[list[bytes]]:
        """Yield the items of keys, step by step."""
        read = getattr(snapshot, self._read)
        for begin in range(0, len(keys), _STEP):
            found = map(read, keys[begin : begin + _STEP])
            yield [item for item in found if item is not None]

    async def _changed_keys(self, before: IndexState, state: IndexState) -> list[str] | None:
        """Return the keys whose newest item can have changed since ``before``, None if unknown."""
        versions = await self._changes.between(self._log, before, state)
        if versions is None:
            return None
        keys = {key for changes in versions for key in changes.codes}
        return [*keys, *self._expired_keys(before, state)]

    def _expired_keys(self, before: IndexState, state: IndexState) -> Iterator[str]:
        """Yield the keys whose item has expired, because time has advanced (semantics.md#7)."""
        if state.earliest_ms <= before.earliest_ms:
            return
        kind = state.definition.window.kind
        name = "window_end_ms" if kind.expires_by_end else "window_start_ms"
        for table in (self._base.columns, self._changed):
            is_expired = pc.less(table[name], state.earliest_ms)
            yield from map(str, table["key"].filter(is_expired).to_pylist())

    async def _build(self, snapshot: IndexSnapshot, turns: Turns, ends: float) -> None:
        scan = self._scan(snapshot)
        every = ScanRange(limit=UNBOUNDED, records_max=_STEP)
        tables: list[pa.Table] = []
        rows, after = 0, None
        while rows <= RANKED_RECORDS_MAX:
            page = await turns.run(partial(scan, every._replace(after=after)))
            tables.append(_columns(page.entries, snapshot.state))
            rows += len(page.entries)
            after = page.next_after
            if after is None:
                break
            reject_after(ends)
        # A store with more keys than a read can order exceeds the memory.
        self._use_base(pa.concat_tables(tables))

    def _use_base(self, columns: pa.Table) -> None:
        self._base = SortedColumns(columns.combine_chunks())
        self._is_newest = np.ones(len(columns), np.bool_)
        self._changed = columns.slice(0, 0)

    def _scan(self, snapshot: IndexSnapshot) -> Callable[[ScanRange], ScanPage]:
        if isinstance(snapshot, KeyValueSnapshot):
            return snapshot.scan
        assert isinstance(snapshot, WindowSnapshot)
        return snapshot.latest_all if self._read == "latest" else snapshot.current_all

    async def _update(
        self, snapshot: IndexSnapshot, keys: Collection[str], turns: Turns, ends: float
    ) -> None:
        keys = list(dict.fromkeys(keys))
        steps, tables = self.items(snapshot, keys), []
        while (items := await turns.run(partial(next, steps, None))) is not None:
            tables.append(_columns(items, snapshot.state))
            reject_after(ends)
        if keys:
            await asyncio.to_thread(self._replace, keys, tables)

    def _replace(self, keys: Sequence[str], tables: Sequence[pa.Table]) -> None:
        """Replace the rows of keys by the rows of tables."""
        base = self._base.columns
        self._is_newest = self._is_newest & ~rows_of_keys(base, keys)
        others = self._changed.filter(pa.array(~rows_of_keys(self._changed, keys)))
        self._changed = pa.concat_tables([others, *tables]).combine_chunks()
        if len(self._changed) > _CHANGED_SHARE * len(base):
            newest = base.filter(pa.array(self._is_newest))
            self._use_base(pa.concat_tables([newest, self._changed]))


class NewestColumnsOfStores:
    """The columns of all stores of a worker. The ones that were used least recently are dropped."""

    def __init__(self, changes: ChangeReader) -> None:
        """Build nothing yet."""
        self._changes = changes
        self._columns: OrderedDict[tuple[str, str], NewestColumns] = OrderedDict()

    def of(self, store: str, log: DeltaLog, read: str) -> NewestColumns:
        """Return the columns of a store for a read, as in ``NewestColumns``."""
        columns = self._columns.setdefault((store, read), NewestColumns(log, self._changes, read))
        self._columns.move_to_end((store, read))
        return columns

    def drop_unused(self) -> None:
        """Drop columns until the others fit into the memory for all stores."""
        size = sum(columns.size_bytes() for columns in self._columns.values())
        while size > TOTAL_BYTES_MAX and len(self._columns) > 1:
            _, columns = self._columns.popitem(last=False)
            size -= columns.size_bytes()

    def clear(self) -> None:
        """Drop all columns."""
        self._columns.clear()


def _columns(items: Sequence[bytes], state: IndexState) -> pa.Table:
    return ranked_columns(item_columns(items, state.definition), state.definition)


def _first_rows(
    read: RankedRead, base: SortedColumns, is_newest: npt.NDArray[np.bool_], changed: pa.Table
) -> pa.Table:
    """Return the rows of the first items of a read. The read orders them later."""
    return _with_changed(read, base, base.first_rows(read, is_newest), changed)


def _with_changed(
    read: RankedRead, base: SortedColumns, rows: npt.NDArray[np.int64], changed: pa.Table
) -> pa.Table:
    """Return rows of the base, and the first changed rows."""
    of_base = base.columns.take(pa.array(rows))
    if not len(changed):
        return of_base
    selected = np.flatnonzero(is_selected(read, changed))
    first = first_rows(changed, read.order, selected, read.rows + 1)
    return pa.concat_tables([of_base, changed.take(pa.array(first))])
