"""Read the vectors of selectors from snapshots of the indexes, in steps of long reads.

All selectors of a query read one snapshot per store, so a query has one version of each store.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa

from oriel.app.contract import (
    QUERY_VALUES_MAX,
    QUERY_WINDOWS_MAX,
    InvalidParameter,
    QueryNotComputable,
    RequestTooSlow,
)
from oriel.app.guards import Access
from oriel.app.prometheus.expressions import Selector
from oriel.app.prometheus.metrics import NAME, Metric, metrics_of
from oriel.app.prometheus.recent import RecentColumnsOfStores
from oriel.app.prometheus.selections import Selection, keys_mask, possible_stores, select
from oriel.app.prometheus.windows import Grid, Vector, columns_of, joined, range_of, vector_of
from oriel.app.reads import StoreCatalog, StoreView
from oriel.storage import LATEST_MS, UNBOUNDED, ScanRange, StoreNotReady
from oriel.storage.index import IndexSnapshot

_EVERY_KEY = ScanRange()
#: The windows or keys that one step reads. The worker serves other requests between the steps.
_STEP = 512
#: The windows whose columns a thread parses at a time.
_CHUNK = 16_384
#: The maximum duration of a query in seconds. Meanwhile, the index file cannot reuse the pages of
#: the versions that are read.
_SECONDS_MAX = 20.0


class StoreReads:
    """The reads of one query. Use it in a ``with`` statement."""

    def __init__(
        self, catalog: StoreCatalog, recent: RecentColumnsOfStores, access: Access | None
    ) -> None:
        """Open nothing yet.

        Args:
            catalog: The stores.
            recent: The columns that earlier queries have read.
            access: The access of the request's token, None without tokens.
        """
        self._catalog = catalog
        self._recent = recent
        self._access = access
        self._stack = ExitStack()
        self._snapshots: dict[str, tuple[StoreView, IndexSnapshot]] = {}
        #: The stores whose snapshot was read, so that it must stay the same.
        self._read_stores: set[str] = set()
        self._windows_left = QUERY_WINDOWS_MAX
        self._values_left = QUERY_VALUES_MAX
        self._ends = time.monotonic() + _SECONDS_MAX

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def positions(self) -> bytes:
        """Return the position of each store that was read: ``STORE=VERSION-HISTORY``."""
        return b", ".join(
            f"{name}={snapshot.state.version}-{snapshot.state.place.history}".encode()
            for name, (_, snapshot) in sorted(self._snapshots.items())
        )

    async def vector(self, selector: Selector, grid: Grid) -> Vector:
        """Return the vector of a selector.

        Raises:
            QueryNotComputable: a limit is exceeded.
            RequestTooSlow: the query takes too long.
            StoreNotReady: a store that is selected cannot be read now.
            Forbidden: the token grants access to keys whose range cannot be read.
        """
        grid = grid.earlier(selector.offset_ms)
        vectors: list[Vector] = []
        for snapshot in self._selected(selector):
            definition = snapshot.state.definition
            selection = select(selector.matchers, definition, self._access)
            of_times = range_of(definition.window, grid, LATEST_MS)
            if of_times is None or not selection.ranges:
                continue
            if selection.ranges == [_EVERY_KEY]:
                columns = await self._recent_columns(definition.name, of_times)
            else:
                metrics, ranges = selection.metrics, selection.ranges
                columns = await self._columns(snapshot, metrics, ranges, of_times)
            arguments = columns, definition, selection.metrics, selection.matchers, grid
            vectors.append(await asyncio.to_thread(vector_of, *arguments))
            self._spend_values(vectors[-1])
        return joined(vectors, grid)

    async def keys(
        self, selector: Selector, limit: int
    ) -> list[tuple[IndexSnapshot, Selection, list[str]]]:
        """Return the selected keys of each selected store, at most ``limit`` of each.

        Stores that are not ready are left out.
        """
        found = []
        for snapshot in self.definitions():
            definition = snapshot.state.definition
            selection = select(selector.matchers, definition, self._access)
            keys: list[str] = []
            for each in selection.ranges:
                keys += await self._keys(snapshot, selection, each, limit - len(keys))
            found.append((snapshot, selection, keys))
        return found

    def definitions(self) -> Iterator[IndexSnapshot]:
        """Yield a snapshot of each store that is ready and that the token grants access to."""
        for name in self._names():
            try:
                yield self._snapshot(name)
            except StoreNotReady:
                continue

    def _names(self) -> list[str]:
        names = self._catalog.names()
        return [each for each in names if self._access is None or self._access.grants_store(each)]

    def _selected(self, selector: Selector) -> Iterator[IndexSnapshot]:
        """Yield a snapshot of each store that a selector can select."""
        for name in possible_stores(selector.matchers, self._names()):
            snapshot = self._snapshot(name)
            self._reject_rows(snapshot, selector)
            yield snapshot

    def _snapshot(self, name: str) -> IndexSnapshot:
        if name not in self._snapshots:
            view = self._catalog.view(name)
            self._snapshots[name] = view, self._stack.enter_context(view.snapshot())
        return self._snapshots[name][1]

    def _reject_rows(self, snapshot: IndexSnapshot, selector: Selector) -> None:
        """Reject a selector that names an aggregate of a store without windows."""
        definition = snapshot.state.definition
        names = [each.value for each in selector.matchers if each.label == NAME]
        if definition.window.is_windowed or not names or names[0] in self._metric_names():
            return
        prefix = f"{definition.name}_"
        if names[0].startswith(prefix) and names[0].removeprefix(prefix) in {
            each.name for each in definition.aggregates
        }:
            message = (
                f"query: store {definition.name!r} has no windows, so it has no metrics. Read its "
                f"rows with /v1/stores/{definition.name}/all."
            )
            raise InvalidParameter(message)

    def _metric_names(self) -> set[str]:
        return {
            metric.name
            for snapshot in self.definitions()
            for metric in metrics_of(snapshot.state.definition)
        }

    async def _recent_columns(self, name: str, of_times: ScanRange) -> pa.Table:
        """Return the columns of all keys, of windows that recent queries have also read."""
        view, snapshot = self._snapshots[name]
        metrics = metrics_of(snapshot.state.definition)
        recent = self._recent.of(name, view.log)

        async def read(of_range: ScanRange) -> pa.Table:
            return await self._columns(snapshot, metrics, [_EVERY_KEY], of_range)

        async with recent.lock:
            self._check_time()
            if recent.is_newer_than(snapshot.state):
                if name in self._read_stores:
                    # All selectors of a query read one version.
                    return await read(of_times)
                # The columns move forward only, so the query reads their version or a newer one.
                definition = snapshot.state.definition
                snapshot = self._stack.enter_context(view.snapshot())
                self._snapshots[name] = view, snapshot
                if snapshot.state.definition != definition:
                    message = f"store {name!r} is being replaced. Send the request again"
                    raise StoreNotReady(message)
            self._read_stores.add(name)
            return await recent.read(snapshot.state, of_times, read)

    async def _columns(
        self,
        snapshot: IndexSnapshot,
        metrics: Sequence[Metric],
        ranges: Sequence[ScanRange],
        of_times: ScanRange,
    ) -> pa.Table:
        definition = snapshot.state.definition
        self._read_stores.add(definition.name)
        tables, items = [columns_of([], definition, metrics)], list[bytes]()
        for keys in ranges:
            wanted = of_times._replace(
                key_from=keys.key_from, key_to=keys.key_to, prefix=keys.prefix,
                limit=UNBOUNDED, records_max=_STEP,
            )  # fmt: skip
            after, is_first = None, True
            while is_first or after is not None:
                step = partial(snapshot.scan, wanted._replace(after=after))
                page = await self._catalog.gate.steps.run(step)
                items += page.entries
                after, is_first = page.next_after, False
                self._spend(len(page.entries))
                if len(items) >= _CHUNK:
                    parse = partial(columns_of, items, definition, metrics)
                    tables.append(await asyncio.to_thread(parse))
                    items = []
        tables.append(columns_of(items, definition, metrics))
        return pa.concat_tables(tables)

    def _spend_values(self, vector: Vector) -> None:
        self._values_left -= vector.values.size
        if self._values_left < 0:
            message = (
                f"query: its selectors have more than {QUERY_VALUES_MAX:,} values. Select fewer "
                "keys, a shorter time range or a greater step."
            )
            raise QueryNotComputable(message)

    def _spend(self, windows: int) -> None:
        self._windows_left -= windows
        if self._windows_left < 0:
            message = (
                f"query: it reads more than {QUERY_WINDOWS_MAX:,} windows. Select fewer keys or a "
                "shorter time range."
            )
            raise QueryNotComputable(message)
        self._check_time()

    def _check_time(self) -> None:
        if time.monotonic() > self._ends:
            message = (
                f"query: it needs more than {_SECONDS_MAX:g} s. Select fewer keys or a shorter "
                "time range."
            )
            raise RequestTooSlow(message)

    async def _keys(
        self, snapshot: IndexSnapshot, selection: Selection, wanted: ScanRange, limit: int
    ) -> list[str]:
        """Return at most ``limit`` keys of a range that match."""
        definition = snapshot.state.definition
        if wanted.key_from is not None:
            first = partial(snapshot.scan, wanted._replace(limit=1))
            is_known = bool((await self._catalog.gate.steps.run(first)).entries)
            return [wanted.key_from] if is_known and limit > 0 else []
        found: list[str] = []
        after: str | None = None
        while len(found) < limit:
            step = partial(snapshot.keys, wanted.prefix, _STEP, after, _STEP)
            page = await self._catalog.gate.steps.run(step)
            arguments = page.keys, definition, selection.matchers
            is_selected = await asyncio.to_thread(keys_mask, *arguments)
            found += [page.keys[index] for index in np.flatnonzero(is_selected)]
            after = page.next_after
            self._check_time()
            if after is None:
                break
        return found[:limit]
