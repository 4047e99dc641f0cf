"""How each hot read reads a snapshot: one function a read, paired with its record.

A function is given a snapshot of a store that the read fits, and a request whose path and query
have been checked. It gives back finished JSON, a whole page of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oriel.app.contract import (
    OPERATIONS,
    Operation,
    PageCursors,
    PathParameter,
    RowNotFound,
    WindowNotFound,
)
from oriel.storage import SessionRange, WindowPage, WindowRange
from oriel.storage.index import IndexSnapshot, KeyValueSnapshot, SessionSnapshot

#: Characters of a key that an error message shows.
_SHOWN = 200


class ReadRequest(NamedTuple):
    """What is asked of one store: the values in the path behind the read's name, and the query.

    The path's values are in the path's order (``start_ms, key``); the query has a value for each
    of its parameters, the default where the request says nothing.
    """

    store: str
    read: "HotRead"
    path: tuple[Any, ...]
    query: Mapping[str, Any]


class ReadPage(NamedTuple):
    """Windows or rows as finished JSON, and the cursor of the next page; None: there is none."""

    items: list[bytes]
    next_cursor: str | None = None


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


def _find_sessions(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_sessions(snapshot.find_sessions, snapshot, request)


def _backward_find_sessions(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    return _page_of_sessions(snapshot.backward_find_sessions, snapshot, request)


def _latest(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    (key,) = request.path
    window = snapshot.latest(key)
    if window is None:
        message = f"key {key[:_SHOWN]!r} has no window in store {request.store!r}"
        raise WindowNotFound(message)
    return ReadPage([window])


def _window(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    start_ms, key = request.path
    window = snapshot.fetch_window(key, start_ms)
    if window is None:
        # Retention counts sessions by their end, other windows by their start (semantics 7).
        kind = snapshot.state.definition.window.kind
        retained_by = "end" if kind.expires_by_end else "start"
        message = (
            f"key {key[:_SHOWN]!r} has no window starting at {start_ms} in "
            f"store {request.store!r} (earliest visible {retained_by}: {snapshot.earliest_ms})"
        )
        raise WindowNotFound(message)
    return ReadPage([window])


def _session(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    start_ms, end_ms, key = request.path
    session = snapshot.fetch_session(key, start_ms, end_ms)
    if session is None:
        message = (
            f"key {key[:_SHOWN]!r} has no session from {start_ms} to {end_ms} in "
            f"store {request.store!r} (earliest visible end: {snapshot.earliest_ms})"
        )
        raise WindowNotFound(message)
    return ReadPage([session])


def _get(snapshot: KeyValueSnapshot, request: ReadRequest) -> ReadPage:
    (key,) = request.path
    row = snapshot.get(key)
    if row is None:
        message = f"key {key[:_SHOWN]!r} has no row in store {request.store!r}"
        raise RowNotFound(message)
    return ReadPage([row])


def _page_of_windows(
    fetch: Callable[[WindowRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page in the direction of ``fetch``, a method of the snapshot."""
    (key,) = request.path
    query = request.query
    cursors = _cursors(snapshot, request)
    after = cursors.read_window(query["cursor"])
    page = fetch(WindowRange(key, query["from_ms"], query["to_ms"], query["limit"], after))
    return ReadPage(page.windows, cursors.after_window(page.next_after))


def _page_of_sessions(
    find: Callable[[SessionRange], WindowPage], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """One page in the direction of ``find``, a method of the snapshot."""
    (key,) = request.path
    query = request.query
    cursors = _cursors(snapshot, request)
    after = cursors.read_window(query["cursor"])
    bounds_ms = query["earliest_end_ms"], query["latest_start_ms"]
    page = find(SessionRange(key, *bounds_ms, query["limit"], after))
    return ReadPage(page.windows, cursors.after_window(page.next_after))


def _cursors(snapshot: IndexSnapshot, request: ReadRequest) -> PageCursors:
    """The cursors of a read that has pages: they hold for the same read, path and bounds."""
    bounds = (request.query[name] for name in request.read.operation.query.bounds)
    return PageCursors(request.store, snapshot.state, request.read.name, *request.path, *bounds)


_FUNCTIONS: Mapping[str, ReadFunction] = {
    "fetch": _fetch,
    "backwardFetch": _backward_fetch,
    "latest": _latest,
    "window": _window,
    "findSessions": _find_sessions,
    "backwardFindSessions": _backward_find_sessions,
    "session": _session,
    "get": _get,
}

_UNPAIRED = _FUNCTIONS.keys() ^ {name for name, record in OPERATIONS.items() if record.is_hot}
assert not _UNPAIRED, f"hot reads need a record and a function: {sorted(_UNPAIRED)}"

#: Every hot read by its name in the path.
HOT_READS: Mapping[bytes, HotRead] = {
    name.encode(): bind(OPERATIONS[name], function) for name, function in _FUNCTIONS.items()
}
