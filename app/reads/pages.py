"""What hot reads have in common: requests, pages of one step, and what ends a page.

A function of ``oriel.app.reads.snapshot_reads`` says what a read reads; here is how much of it one
step takes, which columns it gives and where it goes on.
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
from oriel.app.reads.columns import left_out_columns, without_columns
from oriel.storage import (
    LATEST_MS,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowPage,
    WindowRange,
)
from oriel.storage.index import IndexSnapshot

#: Records that one step of a read looks at: the first, which most reads don't exceed, and each
#: further one. No other request is answered within a step: 0.3 microseconds a record of a scan, up
#: to 4 a key where it skips from key to key (docs/decisions/0042).
_FIRST_STEP, _STEP = 256, 512


class Budget(NamedTuple):
    """What a page may still take: items, their bytes, looks at records; ``step``: of these now."""

    rows: int
    bytes: int
    records: int
    step: int


class ReadRequest(NamedTuple):
    """What is asked of one store: the values in the path behind the read's name, and the query.

    The path's values are in the path's order (``start_ms, key``); the query has a value for each
    of its parameters, the default where the request says nothing. A request that goes on within
    a page has what is left of its budget, and where the step before ended.
    """

    store: str
    read: "HotRead"
    path: tuple[Any, ...]
    query: Mapping[str, Any]
    budget: Budget | None = None
    after: Any = None


class ReadPage(NamedTuple):
    """Windows or rows as finished JSON, and the cursor of the next page; None: there is none.

    ``rest`` is the request for more items of this page, None when it is full or at its end.
    """

    items: list[bytes]
    next_cursor: str | None = None
    rest: ReadRequest | None = None


#: The snapshot's class depends on the kind of store, so its type is that of the function's own.
ReadFunction = Callable[[Any, ReadRequest], ReadPage]


class HotRead(NamedTuple):
    """One hot read, with what a request needs of its record worked out beforehand.

    ``name`` is how the path has it; ``path_parameters`` are those behind the name.
    """

    operation: Operation
    name: bytes
    path_parameters: tuple[PathParameter, ...]
    function: ReadFunction


def bind(operation: Operation, function: ReadFunction) -> HotRead:
    """Pair a record with its function."""
    _store, *own = operation.path_parameters
    return HotRead(operation, operation.name.encode(), tuple(own), function)


def page_of_windows(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page in the direction of ``fetch``, a method of the snapshot."""
    (key,) = request.path
    bounds = (key, request.query["from_ms"], request.query["to_ms"])
    return page_of_range(fetch, WindowRange, bounds, snapshot, request)


def page_of_sessions(
    find: Callable[[SessionRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page in the direction of ``find``, a method of the snapshot."""
    (key,) = request.path
    bounds = (key, request.query["earliest_end_ms"], request.query["latest_start_ms"])
    return page_of_range(find, SessionRange, bounds, snapshot, request)


def page_of_keys(
    scan: Callable[[ScanRange], ScanPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page of many keys in the direction of ``scan``, by those bounds that the read has."""
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
    """One step of a page: what ``read`` gives of a range, as far as the budget reaches.

    ``bounds`` are the first fields of the range; the others are the same in all ranges.
    """
    query = request.query
    cursors = cursors_of(snapshot, request)
    is_of_keys = range_type is ScanRange
    after, budget = request.after, request.budget
    if budget is None:
        budget = whole_budget(query["limit"])
        cursor = query["cursor"]
        after = cursors.read_place(cursor) if is_of_keys else cursors.read_window(cursor)
    page_bounds = (budget.rows, after, query.get("final"), budget.bytes, budget.step)
    items, place = read(range_type(*bounds, *page_bounds))
    chosen = _with_columns(items, snapshot, request)
    if place is None:
        return ReadPage(chosen)
    write = cursors.after_place if is_of_keys else cursors.after_window
    return ReadPage(chosen, write(place), rest_of(request, budget, items, place))


def whole_budget(limit: int) -> Budget:
    """What a page of at most ``limit`` items may take, and its first step."""
    return Budget(limit, PAGE_BYTES_MAX, SCAN_RECORDS_MAX, _FIRST_STEP)


def rest_of(
    request: ReadRequest, budget: Budget, items: list[bytes], place: object
) -> ReadRequest | None:
    """The request that goes on behind a step of a page; None when its budget is used up."""
    rows = budget.rows - len(items)
    records = budget.records - budget.step
    if rows <= 0 or records <= 0:
        return None
    size = budget.bytes - sum(map(len, items))
    if size <= 0:
        return None
    left = Budget(rows, size, records, min(_STEP, records))
    return request._replace(budget=left, after=place)


def page_of_one(item: bytes, snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    """The page of a read that answers one item."""
    return ReadPage(_with_columns([item], snapshot, request))


def _with_columns(items: list[bytes], snapshot: IndexSnapshot, request: ReadRequest) -> list[bytes]:
    """The items with those aggregates only that the request names, if it names any."""
    chosen = request.query["columns"]
    if chosen is None:
        return items
    left_out = left_out_columns(request.store, snapshot.state.definition, chosen)
    return without_columns(items, left_out)


def cursors_of(snapshot: IndexSnapshot, request: ReadRequest) -> PageCursors:
    """The cursors of a read that has pages: they hold for the same read, path and bounds."""
    bounds = (request.query[name] for name in request.read.operation.query.bounds)
    return PageCursors(request.store, snapshot.state, request.read.name, *request.path, *bounds)


def one_window(read: Callable[[str], bytes | None]) -> Callable[[WindowRange], WindowPage]:
    """A read of one window as a read of a range that has no other."""

    def fetch(window_range: WindowRange) -> WindowPage:
        window = read(window_range.key)
        return WindowPage([] if window is None else [window], None)

    return fetch


def page_of_listed(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One step of a page of the keys that the body lists, in its order, each with all it has."""
    budget = request.budget
    if budget is None:
        # Once, in front of all steps.
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
    rows, size, looks = budget.rows, budget.bytes, budget.step
    while at < len(keys) and rows > 0 and size > 0 and looks > 0:
        page = fetch(WindowRange(keys[at], *bounds_ms, rows, after, None, size, looks))
        items += page.windows
        rows -= len(page.windows)
        size -= sum(map(len, page.windows))
        looks -= 1 + len(page.windows)
        after = page.next_after
        at += after is None
    chosen = _with_columns(items, snapshot, request)
    if at >= len(keys):
        return ReadPage(chosen)
    rest = rest_of(request, budget, items, (at, after))
    return ReadPage(chosen, cursors.after_listed(at, after), rest)
