"""One read of merged ranges: its parameters, and the ranges and windows that it has read."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypedDict

import orjson
import pyarrow as pa

from oriel.app.contract import (
    MERGED_WINDOWS_MAX,
    PAGE_BYTES_MAX,
    InvalidParameter,
    PageCursors,
    WrongStoreKind,
    reads_of_kind,
)
from oriel.app.reads.columns import excluded_columns
from oriel.app.reads.merged.partials import PartialMerge, partial_merge
from oriel.app.reads.merged.ranges import (
    OpenRange,
    Value,
    merged_columns,
    merged_definition,
    merged_names,
)
from oriel.app.reads.pages import (
    ReadPage,
    ReadRequest,
    StoreVersion,
    cursors_of,
    rest_of,
    whole_budget,
    with_listed_keys,
    wrong_kind,
)
from oriel.app.selection import item_schema, matching_items, parse_condition
from oriel.storage import (
    LATEST_MS,
    ScanRange,
    StoreDefinition,
    StoreKind,
    WindowId,
    WindowRange,
)
from oriel.storage.index import FINAL, IndexState, WindowSnapshot
from oriel.storage.table_store import TableWindowStore

#: The maximum number of windows of a step. To parse and merge a window costs up to 5 microseconds.
_STEP = 256
#: A step reads no more windows after these bytes of partial aggregates, because a quantile keeps
#: all values.
_STEP_BYTES = 1 << 18
#: The most bytes of the merged partial aggregates of a range.
_RANGE_BYTES_MAX = 1 << 26
#: To merge the partial aggregates of a few windows costs as much as of this number of windows.
_LEAST_MERGED = 64

WindowStore = WindowSnapshot | TableWindowStore


#: The reads whose items are ranges.
_MERGED_READS = frozenset({"merged", "mergedOfKeys", "mergedAll"})


def is_merged(request: ReadRequest) -> bool:
    """Return whether the items of a request are ranges."""
    return request.read.operation.name in _MERGED_READS


def item_definition(state: IndexState, request: ReadRequest) -> StoreDefinition:
    """Return the definition of the store with only the aggregates of the items of a request.

    Raises:
        WrongStoreKind: A request for ranges is for a store without tumbling windows.
        InvalidParameter: A request for ranges has an aggregate that cannot be merged.
    """
    definition = state.definition
    if not is_merged(request):
        return definition
    kind = definition.window.kind
    if not kind.is_windowed:
        raise wrong_kind(request.store, state, request.read.operation)
    if kind is not StoreKind.TUMBLING:
        overlap = "a session can change" if kind.is_session else "its windows overlap"
        message = (
            f"store {request.store!r}: it has {kind} windows, and {request.read.operation.name} "
            f"does not fit it, because {overlap}. Add a store with tumbling windows to the "
            f"topology, or use one of: {', '.join(reads_of_kind(kind))}."
        )
        raise WrongStoreKind(message)
    # As in the other reads, unknown columns are rejected.
    excluded_columns(request.store, definition, request.query["columns"])
    return merged_definition(definition, request.query["columns"])


def merged_windows(store: StoreVersion, request: ReadRequest) -> ReadPage:
    """Return the first step of a page of merged ranges of one key, listed keys or all keys.

    Raises:
        WrongStoreKind: The store does not have tumbling windows.
        InvalidParameter: ``step_ms`` does not fit the windows, or an aggregate cannot be merged.
        InvalidCursor: The cursor belongs to another request.
    """
    definition = item_definition(store.state, request)
    request = with_listed_keys(store.state, request)
    read = _ScanRead if "prefix" in request.query else _KeyRead
    return read(_window_store(store), definition, request).step(store, request)


def _window_store(store: StoreVersion) -> WindowStore:
    # The definition has tumbling windows.
    assert isinstance(store, (WindowSnapshot, TableWindowStore))
    return store


def _step_of(step_ms: int | None, store: str, size_ms: int) -> int:
    """Return the length of the ranges. By default, each window is a range.

    Raises:
        InvalidParameter: It is not a multiple of the window size, or has too many windows.
    """
    if step_ms is None:
        return size_ms
    if step_ms % size_ms:
        nearest = max(round(step_ms / size_ms), 1) * size_ms
        message = (
            f"step_ms must be a multiple of {size_ms}, the size of the windows of store {store!r}, "
            f"not {step_ms}. For example, send step_ms={nearest}."
        )
        raise InvalidParameter(message)
    if step_ms > MERGED_WINDOWS_MAX * size_ms:
        message = (
            f"step_ms must be at most {MERGED_WINDOWS_MAX * size_ms}, because a range must have at "
            f"most {MERGED_WINDOWS_MAX:,} windows of store {store!r}. Send a smaller step_ms, or "
            "add a store with longer windows."
        )
        raise InvalidParameter(message)
    return step_ms


class _Identity(TypedDict):
    """The fields of a window that select its range."""

    key: str
    window_start_ms: int


class _Complete(NamedTuple):
    """A range that is complete, and the number of windows of the page until its end."""

    merged: OpenRange
    windows: int


class _Merging:
    """A read in progress, whose object also reads the further steps of the page.

    A range can have more windows than a step reads, so ``_open`` has the range that is not
    complete. A cursor continues after the last complete range.
    """

    def __init__(
        self, store: WindowStore, definition: StoreDefinition, request: ReadRequest
    ) -> None:
        query, state = request.query, store.state
        size_ms = state.definition.window.size_ms
        self._step_ms = step_ms = _step_of(query["step_ms"], request.store, size_ms)
        self._columns = merged_columns(state.definition, query["columns"])
        # None: the results of windows are merged.
        self._partials: PartialMerge | None = None
        names = merged_names(state.definition, query["columns"])
        if state.definition.partials and names:
            self._partials = partial_merge(state.definition, names)
        self._bytes_max = PAGE_BYTES_MAX if self._partials is None else _STEP_BYTES
        self._windows_max = step_ms // size_ms
        self._close_ms = -1 if state.record is None else state.record.close_ms
        self._final = query["final"]
        self._definition = definition
        where = query["where"]
        self._condition = None if where is None else parse_condition(where, item_schema(definition))
        # The bounds are about the start of a range. If the first windows of a range have expired,
        # its values would be wrong, so it has expired with them.
        from_ms = -(-max(query["from_ms"], store.earliest_ms) // step_ms) * step_ms
        to_ms = query["to_ms"] // step_ms * step_ms + step_ms - 1
        self._from_ms, self._to_ms = min(from_ms, LATEST_MS), max(min(to_ms, LATEST_MS), -1)
        self._open: OpenRange | None = None
        # The step: its items, and the items and bytes that it can still add.
        self._items: list[bytes] = []
        self._rows_left = self._bytes_left = 0

    def step(self, store: StoreVersion, request: ReadRequest) -> ReadPage:
        """Return the next step of the page."""
        store = _window_store(store)
        budget = request.budget or whole_budget(request.query["limit"])
        self._items, self._rows_left, self._bytes_left = [], budget.rows, budget.bytes
        examined = min(budget.step, _STEP)
        records_left = self._read(store, examined)
        cursor = self._cursor(cursors_of(store.state, request))
        if cursor is None:
            return ReadPage(self._items)
        budget = budget._replace(step=examined - records_left)
        rest = rest_of(request, budget, self._items, cursor)
        if rest is not None:
            rest = rest._replace(read=request.read._replace(function=self.step))
        return ReadPage(self._items, cursor, rest)

    def _read(self, store: WindowStore, records_left: int) -> int:
        """Read windows until the step ends. Return the records that it did not need."""
        raise NotImplementedError

    def _cursor(self, cursors: PageCursors) -> str | None:
        """Return the cursor after the last complete range, None at the end of the read."""
        raise NotImplementedError

    def _is_full(self) -> bool:
        return self._rows_left <= 0 or self._bytes_left <= 0

    def _limit(self, records_max: int) -> int:
        """Return the number of windows to read, at most as many as the page needs."""
        return min(records_max, self._rows_left * self._windows_max + 1)

    def _merge(
        self, page: Sequence[bytes], partials: Sequence[bytes], *, is_last: bool
    ) -> list[_Complete]:
        """Add windows to their ranges, and return the ranges that are complete."""
        windows = orjson.loads(b"[%b]" % b",".join(page))
        groups = [(of, [*group]) for of, group in groupby(windows, self._range_of)]
        merged: Sequence[pa.Table] = ()
        if self._partials is not None and groups:
            merged = self._partials.merged(partials, [len(of_range) for _, of_range in groups])
        complete: list[_Complete] = []
        count = 0
        for place, ((key, start_ms), of_range) in enumerate(groups):
            if self._open is not None and (self._open.key, self._open.start_ms) != (key, start_ms):
                complete.append(_Complete(self._open, count))
                self._open = None
            if self._open is None:
                self._open = OpenRange(key, start_ms, self._columns)
            self._open.add(of_range)
            self._open.partials += merged[place : place + 1]
            if sum(each.nbytes for each in self._open.partials) > _RANGE_BYTES_MAX:
                message = (
                    f"step_ms={self._step_ms}: the partial aggregates of a range have more than "
                    f"{_RANGE_BYTES_MAX >> 20} MB, for example the values of a quantile. Send a "
                    "smaller step_ms, or send columns with other aggregates."
                )
                raise InvalidParameter(message)
            count += len(of_range)
        if is_last and self._open is not None:
            complete.append(_Complete(self._open, count))
            self._open = None
        return complete

    def _range_of(self, window: _Identity) -> tuple[str, int]:
        start_ms = window["window_start_ms"]
        return window["key"], start_ms - start_ms % self._step_ms

    def _add(self, complete: Sequence[_Complete]) -> int:
        """Add the selected ranges to the items, until the page is full.

        Returns:
            The number of ranges before the end of the page.
        """
        step_ms, close_ms = self._step_ms, self._close_ms
        ranges = [each.merged for each in complete]
        results: Sequence[Mapping[str, Value]] = [{}] * len(ranges)
        if self._partials is not None:
            results = self._partials.results([each.partials for each in ranges])
        items = [
            each.item(each.start_ms + step_ms, close_ms, of_range)
            for each, of_range in zip(ranges, results, strict=True)
        ]
        added = 0
        for index in self._selected(items):
            if self._is_full():
                return added
            self._items.append(items[index])
            self._rows_left -= 1
            self._bytes_left -= len(items[index])
            added = index + 1
        return len(complete)

    def _selected(self, items: Sequence[bytes]) -> Sequence[int]:
        """Return the indexes of the items that the request selects."""
        matching = (
            range(len(items))
            if self._condition is None
            else matching_items(items, self._definition, self._condition).tolist()
        )
        if self._final is None:
            return matching
        return [index for index in matching if items[index].endswith(FINAL) == self._final]


class _KeyRead(_Merging):
    """A read of one key, or of listed keys."""

    def __init__(
        self, store: WindowStore, definition: StoreDefinition, request: ReadRequest
    ) -> None:
        super().__init__(store, definition, request)
        path, cursors = request.path, cursors_of(store.state, request)
        self._keys = path["keys"] if "keys" in path else (path["key"],)
        # The index of the current key, and its last complete range.
        self._at, self._last = cursors.read_listed(request.query["cursor"])
        self._begin_ms = max(self._from_ms, 0 if self._last is None else self._last.end_ms)
        # The last window that was read of the key.
        self._after: WindowId | None = None

    def _read(self, store: WindowStore, records_left: int) -> int:
        least_work = 1 if self._partials is None else _LEAST_MERGED
        work_left = records_left
        while self._at < len(self._keys) and work_left > 0 and not self._is_full():
            key, bounds_ms = self._keys[self._at], (self._begin_ms, self._to_ms)
            limit = self._limit(work_left)
            page = store.fetch(
                WindowRange(
                    key, *bounds_ms, limit, self._after, bytes_max=self._bytes_max,
                    with_partials=self._partials is not None,
                )
            )  # fmt: skip
            records_left -= max(len(page.windows), 1)
            work_left -= max(len(page.windows), least_work)
            self._after, is_last = page.next_after, page.next_after is None
            complete = self._merge(page.windows, page.partials, is_last=is_last)
            added = self._add(complete)
            if added:
                start_ms = complete[added - 1].merged.start_ms
                self._last = WindowId(start_ms, start_ms + self._step_ms)
            if is_last and added == len(complete):
                self._at, self._last, self._begin_ms = self._at + 1, None, self._from_ms
        return records_left

    def _cursor(self, cursors: PageCursors) -> str | None:
        if self._at >= len(self._keys):
            return None
        return cursors.after_listed(self._at, self._last)


class _ScanRead(_Merging):
    """A read of many keys in their order."""

    def __init__(
        self, store: WindowStore, definition: StoreDefinition, request: ReadRequest
    ) -> None:
        super().__init__(store, definition, request)
        query = request.query
        self._range = ScanRange(
            query["key_from"], query["key_to"], query["prefix"], self._from_ms, self._to_ms,
            bytes_max=self._bytes_max, with_partials=self._partials is not None,
        )  # fmt: skip
        # The place after the last complete range, and after the last window. The cursor of the
        # first place has no bytes.
        place = cursors_of(store.state, request).read_bytes(query["cursor"])
        self._place = self._after = place or None
        self._is_done = False

    def _read(self, store: WindowStore, records_left: int) -> int:
        limit = self._limit(records_left)
        bounds = self._range._replace(after=self._after, limit=limit, records_max=records_left)
        page = store.scan(bounds)
        complete = self._merge(page.entries, page.partials, is_last=page.next_after is None)
        added = self._add(complete)
        self._is_done = page.next_after is None and added == len(complete)
        if added and not self._is_done:
            windows = complete[added - 1].windows
            # A store knows the places only at the end of its pages.
            bounds = bounds._replace(limit=windows, with_partials=False)
            ended = store.scan(bounds) if windows else None
            self._place = self._after if ended is None else ended.next_after
        elif not page.entries:
            # The windows between have other times.
            self._place = page.next_after if self._open is None else self._place
        self._after = page.next_after
        size = max(sum(map(len, page.entries)), sum(map(len, page.partials)))
        is_cut = len(page.entries) == limit or size >= self._bytes_max
        # Otherwise, the scan has examined all records that it was allowed to.
        return records_left - len(page.entries) if is_cut else 0

    def _cursor(self, cursors: PageCursors) -> str | None:
        return None if self._is_done else cursors.after_bytes(self._place or b"")
