"""How each hot read reads a snapshot: one function a read, paired with its record.

A function is given a snapshot of a store that the read fits, and a request whose path and query
have been checked. It gives back finished JSON, a whole page of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from oriel.app.contract import (
    OPERATIONS,
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    SCAN_RECORDS_MAX,
    InvalidParameter,
    Operation,
    PageCursors,
    PathParameter,
    RowNotFound,
    WindowNotFound,
)
from oriel.storage import (
    LATEST_MS,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowPage,
    WindowRange,
)
from oriel.storage.index import IndexSnapshot, KeyValueSnapshot, SessionSnapshot

#: Characters of a key that an error message shows.
_SHOWN = 200

#: Records that one step of a read looks at: the first, which most reads don't exceed, and each
#: further one. A step takes about 2 microseconds a record, in which no other request is answered.
_FIRST_STEP, _STEP = 256, 1024


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


def _fetch(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_windows(snapshot.fetch, snapshot, request)


def _backward_fetch(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_windows(snapshot.backward_fetch, snapshot, request)


def _covering(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    instant_ms, key = request.path
    window = snapshot.state.definition.window
    if isinstance(snapshot, SessionSnapshot):
        bounds = (key, instant_ms, instant_ms)
        return _page(snapshot.find_sessions, SessionRange, bounds, snapshot, request)
    # The rules table of semantics 2.2 and 3: whether a window holds a record at its end.
    first_ms = instant_ms - window.size_ms + (not window.kind.has_inclusive_end)
    return _page(snapshot.fetch, WindowRange, (key, first_ms, instant_ms), snapshot, request)


def _find_sessions(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_sessions(snapshot.find_sessions, snapshot, request)


def _backward_find_sessions(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_sessions(snapshot.backward_find_sessions, snapshot, request)


def _scan(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_keys(snapshot.scan, snapshot, request)


def _backward_scan(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_keys(snapshot.backward_scan, snapshot, request)


def _all(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    if isinstance(snapshot, KeyValueSnapshot) and request.query["final"] is not None:
        message = f"store {request.store!r} has no windows, and a row is never final; leave it out"
        raise InvalidParameter(message)
    return _scan(snapshot, request)


def _latest_all(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_keys(snapshot.latest_all, snapshot, request)


def _current_all(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_keys(snapshot.current_all, snapshot, request)


def _latest(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    (key,) = request.path
    window = snapshot.latest(key)
    if window is None:
        message = f"key {key[:_SHOWN]!r} has no window in store {request.store!r}"
        raise WindowNotFound(message)
    return _one(window, snapshot, request)


def _current(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    (key,) = request.path
    window = snapshot.current(key)
    if window is None:
        message = f"key {key[:_SHOWN]!r} has no window in store {request.store!r}"
        raise WindowNotFound(message)
    return _one(window, snapshot, request)


def _window(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    start_ms, key = request.path
    window = snapshot.fetch_window(key, start_ms)
    if window is None:
        # Retention counts sessions by their end, other windows by their start (semantics 7).
        retained_by = "end" if isinstance(snapshot, SessionSnapshot) else "start"
        message = (
            f"key {key[:_SHOWN]!r} has no window starting at {start_ms} in "
            f"store {request.store!r} (earliest visible {retained_by}: {snapshot.earliest_ms})"
        )
        raise WindowNotFound(message)
    return _one(window, snapshot, request)


def _session(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    start_ms, end_ms, key = request.path
    session = snapshot.fetch_session(key, start_ms, end_ms)
    if session is None:
        message = (
            f"key {key[:_SHOWN]!r} has no session from {start_ms} to {end_ms} in "
            f"store {request.store!r} (earliest visible end: {snapshot.earliest_ms})"
        )
        raise WindowNotFound(message)
    return _one(session, snapshot, request)


def _get(snapshot: KeyValueSnapshot, request: ReadRequest) -> ReadPage:
    (key,) = request.path
    row = snapshot.get(key)
    if row is None:
        message = f"key {key[:_SHOWN]!r} has no row in store {request.store!r}"
        raise RowNotFound(message)
    return _one(row, snapshot, request)


def _page_of_windows(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page in the direction of ``fetch``, a method of the snapshot."""
    (key,) = request.path
    bounds = (key, request.query["from_ms"], request.query["to_ms"])
    return _page(fetch, WindowRange, bounds, snapshot, request)


def _page_of_sessions(
    find: Callable[[SessionRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page in the direction of ``find``, a method of the snapshot."""
    (key,) = request.path
    bounds = (key, request.query["earliest_end_ms"], request.query["latest_start_ms"])
    return _page(find, SessionRange, bounds, snapshot, request)


def _page_of_keys(
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
    return _page(scan, ScanRange, bounds, snapshot, request)


def _page(
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
    cursors = _cursors(snapshot, request)
    is_of_keys = range_type is ScanRange
    after, budget = request.after, request.budget
    if budget is None:
        budget = _whole_budget(query["limit"])
        cursor = query["cursor"]
        after = cursors.read_place(cursor) if is_of_keys else cursors.read_window(cursor)
    page_bounds = (budget.rows, after, query.get("final"), budget.bytes, budget.step)
    items, place = read(range_type(*bounds, *page_bounds))
    chosen = _with_columns(items, snapshot, request)
    if place is None:
        return ReadPage(chosen)
    write = cursors.after_place if is_of_keys else cursors.after_window
    return ReadPage(chosen, write(place), _rest(request, budget, items, place))


def _whole_budget(limit: int) -> Budget:
    return Budget(limit, PAGE_BYTES_MAX, SCAN_RECORDS_MAX, _FIRST_STEP)


def _rest(
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


def _one(item: bytes, snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return ReadPage(_with_columns([item], snapshot, request))


def _with_columns(items: list[bytes], snapshot: IndexSnapshot, request: ReadRequest) -> list[bytes]:
    """The items with those aggregates only that the request names, if it names any."""
    chosen = request.query["columns"]
    if chosen is None:
        return items
    known = {aggregate.name for aggregate in snapshot.state.definition.aggregates}
    unknown = [name for name in chosen if name not in known]
    if unknown:
        columns = ", ".join(sorted(known))
        message = f"store {request.store!r} has no column {unknown[0][:80]!r}; it has: {columns}"
        raise InvalidParameter(message)
    left_out = known.difference(chosen)
    return [
        orjson.dumps(
            {name: value for name, value in orjson.loads(item).items() if name not in left_out}
        )
        for item in items
    ]


def _cursors(snapshot: IndexSnapshot, request: ReadRequest) -> PageCursors:
    """The cursors of a read that has pages: they hold for the same read, path and bounds."""
    bounds = (request.query[name] for name in request.read.operation.query.bounds)
    return PageCursors(request.store, snapshot.state, request.read.name, *request.path, *bounds)


def _keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    query = request.query
    cursors = _cursors(snapshot, request)
    after, budget = request.after, request.budget
    if budget is None:
        budget = _whole_budget(query["limit"])
        after = cursors.read_key(query["cursor"])
    page = snapshot.keys(query["prefix"], budget.rows, after, budget.step)
    items = [orjson.dumps(key) for key in page.keys]
    if page.next_after is None:
        return ReadPage(items)
    rest = _rest(request, budget, items, page.next_after)
    return ReadPage(items, cursors.after_key(page.next_after), rest)


def _latest_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_listed(_one_window(snapshot.latest), snapshot, request)


def _current_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_listed(_one_window(snapshot.current), snapshot, request)


def _get_of_keys(snapshot: KeyValueSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_listed(_one_window(snapshot.get), snapshot, request)


def _fetch_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_listed(snapshot.fetch, snapshot, request)


def _backward_fetch_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_listed(snapshot.backward_fetch, snapshot, request)


def _one_window(read: Callable[[str], bytes | None]) -> Callable[[WindowRange], WindowPage]:
    """A read of one window as a read of a range that has no other."""

    def fetch(window_range: WindowRange) -> WindowPage:
        window = read(window_range.key)
        return WindowPage([] if window is None else [window], None)

    return fetch


def _page_of_listed(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One step of a page of the keys that the body lists, in its order, each with all it has."""
    (keys,) = request.path
    query = request.query
    cursors = _cursors(snapshot, request)
    budget = request.budget
    if budget is None:
        budget = _whole_budget(query.get("limit", PAGE_ROWS_MAX))
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
    rest = _rest(request, budget, items, (at, after))
    return ReadPage(chosen, cursors.after_listed(at, after), rest)


_FUNCTIONS: Mapping[str, ReadFunction] = {
    "fetch": _fetch,
    "backwardFetch": _backward_fetch,
    "latest": _latest,
    "window": _window,
    "findSessions": _find_sessions,
    "backwardFindSessions": _backward_find_sessions,
    "session": _session,
    "get": _get,
    "current": _current,
    "covering": _covering,
    "fetchRange": _scan,
    "backwardFetchRange": _backward_scan,
    "fetchAll": _scan,
    "backwardFetchAll": _backward_scan,
    "all": _all,
    "backwardAll": _backward_scan,
    "latestAll": _latest_all,
    "currentAll": _current_all,
    "findSessionsRange": _scan,
    "backwardFindSessionsRange": _backward_scan,
    "fetchSession": _session,
    "range": _scan,
    "reverseRange": _backward_scan,
    "prefixScan": _scan,
    "reverseAll": _backward_scan,
}

_UNPAIRED = _FUNCTIONS.keys() ^ {name for name, record in OPERATIONS.items() if record.is_hot}
assert not _UNPAIRED, f"hot reads need a record and a function: {sorted(_UNPAIRED)}"

#: Every hot read by its name in the path.
HOT_READS: Mapping[bytes, HotRead] = {
    name.encode(): bind(OPERATIONS[name], function) for name, function in _FUNCTIONS.items()
}

#: Reads that routes of FastAPI answer, by the operation's name; ``path`` of those of listed keys is
#: the list.
COLD_READS: Mapping[str, HotRead] = {
    name: bind(OPERATIONS[name], function)
    for name, function in (
        ("listKeys", _keys),
        ("latestOfKeys", _latest_of_keys),
        ("currentOfKeys", _current_of_keys),
        ("fetchOfKeys", _fetch_of_keys),
        ("backwardFetchOfKeys", _backward_fetch_of_keys),
        ("getOfKeys", _get_of_keys),
    )
}
