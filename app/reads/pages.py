"""The common parts of hot reads: requests, the steps of a page, and the limits of a page.

A function of ``oriel.app.reads.snapshot_reads`` defines the data of a read. This module limits each
step, selects the columns, and determines where the read continues.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oriel.app.contract import (
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    SCAN_RECORDS_MAX,
    Operation,
    PageCursors,
    PathParameter,
)
from oriel.app.reads.columns import excluded_columns, without_columns
from oriel.storage import (
    LATEST_MS,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowPage,
    WindowRange,
)
from oriel.storage.index import IndexSnapshot

#: The records that one step of a read examines: the first step, which is enough for most reads, and
#: each further step. During a step, the worker serves no other request. A scan costs 0.3
#: microseconds per record, or up to 4 per key if it skips from key to key (docs/decisions/0042).
_FIRST_STEP, _STEP = 256, 512


class Budget(NamedTuple):
    """The remaining limits of a page.

    Attributes:
        rows: The number of items.
        bytes: The bytes of the items.
        records: The number of records to examine.
        step: The number of records to examine in the next step.
    """

    rows: int
    bytes: int
    records: int
    step: int


class ReadRequest(NamedTuple):
    """A request to one store, or the rest of a request after a step.

    Attributes:
        store: The name of the store.
        read: The read.
        path: The values of the path after the read's name, in their order (``start_ms, key``).
        query: The value of each query parameter, or its default.
        budget: The remaining limits of the page, None before the first step.
        after: Where the previous step ended.
    """

    store: str
    read: "HotRead"
    path: tuple[Any, ...]
    query: Mapping[str, Any]
    budget: Budget | None = None
    after: Any = None


class ReadPage(NamedTuple):
    """A page, or a step of a page.

    Attributes:
        items: Windows or rows as finished JSON.
        next_cursor: The cursor of the next page, None on the last page.
        rest: The request for more items of this page, None if the page is complete.
    """

    items: list[bytes]
    next_cursor: str | None = None
    rest: ReadRequest | None = None


#: The class of the snapshot depends on the kind of store, so each function has its own type of it.
ReadFunction = Callable[[Any, ReadRequest], ReadPage]


class HotRead(NamedTuple):
    """One hot read, with precomputed parts of its record.

    Attributes:
        operation: The record of the operation.
        name: The name in the path.
        path_parameters: The path parameters after the name.
        function: The function that reads a step.
    """

    operation: Operation
    name: bytes
    path_parameters: tuple[PathParameter, ...]
    function: ReadFunction


def bind(operation: Operation, function: ReadFunction) -> HotRead:
    """Return the hot read of an operation and its function."""
    _store, *own = operation.path_parameters
    return HotRead(operation, operation.name.encode(), tuple(own), function)


def page_of_windows(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """Return a step of a page of windows, read by ``fetch``, a method of the snapshot."""
    (key,) = request.path
    bounds = (key, request.query["from_ms"], request.query["to_ms"])
    return page_of_range(fetch, WindowRange, bounds, snapshot, request)


def page_of_sessions(
    find: Callable[[SessionRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """Return a step of a page of sessions, read by ``find``, a method of the snapshot."""
    (key,) = request.path
    bounds = (key, request.query["earliest_end_ms"], request.query["latest_start_ms"])
    return page_of_range(find, SessionRange, bounds, snapshot, request)


def page_of_keys(
    scan: Callable[[ScanRange], ScanPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """Return a step of a page of many keys, read by ``scan``, a method of the snapshot."""
    query = request.query
    bounds = (
        query.get("key_from"),
        query.get("key_to"),
        query.get("prefix", ""),
        query.get("from_ms", 0),
        query.get("to_ms", query.get("latest_start_ms", LATEST_MS)),
        query.get("earliest_end_ms", 0),
    )
    return page_of_range(scan, ScanRange, bounds, snapshot, request)


def page_of_range(
    read: Callable[[Any], Any],
    range_type: Callable[..., WindowRange | SessionRange | ScanRange],
    bounds: tuple[Any, ...],
    snapshot: IndexSnapshot,
    request: ReadRequest,
) -> ReadPage:
    """Return a step of a page: the items that ``read`` returns for a range within the budget.

    Args:
        read: A method of the snapshot.
        range_type: The type of its argument.
        bounds: The first fields of the range. All types of ranges have the same other fields.
        snapshot: The snapshot.
        request: The request.
    """
    query = request.query
    cursors = cursors_of(snapshot, request)
    is_of_keys = range_type is ScanRange
    after, budget = request.after, request.budget
    if budget is None:
        budget = whole_budget(query["limit"])
        cursor = query["cursor"]
        after = cursors.read_bytes(cursor) if is_of_keys else cursors.read_window(cursor)
    page_bounds = (budget.rows, after, query.get("final"), budget.bytes, budget.step)
    items, position = read(range_type(*bounds, *page_bounds))
    chosen = _with_columns(items, snapshot, request)
    if position is None:
        return ReadPage(chosen)
    write = cursors.after_bytes if is_of_keys else cursors.after_window
    return ReadPage(chosen, write(position), rest_of(request, budget, items, position))


def whole_budget(limit: int) -> Budget:
    """Return the limits of a page with at most ``limit`` items, and of its first step."""
    return Budget(limit, PAGE_BYTES_MAX, SCAN_RECORDS_MAX, _FIRST_STEP)


def rest_of(
    request: ReadRequest, budget: Budget, items: list[bytes], position: object
) -> ReadRequest | None:
    """Return the request that continues after a step, None if the budget of the page is used."""
    rows = budget.rows - len(items)
    records = budget.records - budget.step
    if rows <= 0 or records <= 0:
        return None
    size = budget.bytes - sum(map(len, items))
    if size <= 0:
        return None
    left = Budget(rows, size, records, min(_STEP, records))
    return request._replace(budget=left, after=position)


def page_of_one(item: bytes, snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    """Return the page of a read with one item."""
    return ReadPage(_with_columns([item], snapshot, request))


def _with_columns(items: list[bytes], snapshot: IndexSnapshot, request: ReadRequest) -> list[bytes]:
    """Return the items with only the aggregates that the request selects, by default all."""
    chosen = request.query["columns"]
    if chosen is None:
        return items
    left_out = excluded_columns(request.store, snapshot.state.definition, chosen)
    return without_columns(items, left_out)


def cursors_of(snapshot: IndexSnapshot, request: ReadRequest) -> PageCursors:
    """Return the cursors of a request, which are valid for the same read, path and bounds."""
    bounds = (request.query[name] for name in request.read.operation.query.bounds)
    return PageCursors(request.store, snapshot.state, request.read.name, *request.path, *bounds)


def one_window(read: Callable[[str], bytes | None]) -> Callable[[WindowRange], WindowPage]:
    """Return a read of one window as a read of a range that contains only this window."""

    def fetch(window_range: WindowRange) -> WindowPage:
        window = read(window_range.key)
        return WindowPage([] if window is None else [window], None)

    return fetch


def page_of_listed(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """Return a step of a page with the items of the listed keys, in the order of the list."""
    budget = request.budget
    if budget is None:
        # Once, before all steps.
        key_type = snapshot.state.definition.keys
        request = request._replace(path=(tuple(map(key_type.written, request.path[0])),))
    (keys,) = request.path
    query = request.query
    cursors = cursors_of(snapshot, request)
    if budget is None:
        budget = whole_budget(query.get("limit", PAGE_ROWS_MAX))
        at, after = cursors.read_listed(query["cursor"])
    else:
        at, after = request.after
    bounds_ms = query.get("from_ms", 0), query.get("to_ms", LATEST_MS)
    items: list[bytes] = []
    rows, size, records_left = budget.rows, budget.bytes, budget.step
    while at < len(keys) and rows > 0 and size > 0 and records_left > 0:
        page = fetch(WindowRange(keys[at], *bounds_ms, rows, after, None, size, records_left))
        items += page.windows
        rows -= len(page.windows)
        size -= sum(map(len, page.windows))
        records_left -= 1 + len(page.windows)
        after = page.next_after
        at += after is None
    chosen = _with_columns(items, snapshot, request)
    if at >= len(keys):
        return ReadPage(chosen)
    rest = rest_of(request, budget, items, (at, after))
    return ReadPage(chosen, cursors.after_listed(at, after), rest)
