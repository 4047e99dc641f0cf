"""The functions of the hot reads, one per read.

The arguments of a function are a snapshot of a store that the read fits, and a request with checked
path and query. A function returns one step of a page as finished JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from oriel.app.contract import OPERATIONS, InvalidParameter, RowNotFound, WindowNotFound
from oriel.app.reads.pages import (
    HotRead,
    ReadFunction,
    ReadPage,
    ReadRequest,
    bind,
    cursors_of,
    one_window,
    page_of_keys,
    page_of_listed,
    page_of_one,
    page_of_range,
    page_of_sessions,
    page_of_windows,
    rest_of,
    whole_budget,
)
from oriel.storage import SessionRange, WindowRange
from oriel.storage.index import IndexSnapshot, KeyValueSnapshot, SessionSnapshot

#: Characters of a key that an error message shows.
_SHOWN = 200


def _fetch(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_windows(snapshot.fetch, snapshot, request)


def _backward_fetch(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_windows(snapshot.backward_fetch, snapshot, request)


def _covering(snapshot: Any, request: ReadRequest) -> ReadPage:
    instant_ms, key = request.path
    window = snapshot.state.definition.window
    if window.kind.is_session:
        bounds = (key, instant_ms, instant_ms)
        return page_of_range(snapshot.find_sessions, SessionRange, bounds, snapshot, request)
    # semantics.md#0-2: whether a window contains a record at its end.
    first_ms = instant_ms - window.size_ms + (not window.kind.has_inclusive_end)
    bounds = (key, first_ms, instant_ms)
    return page_of_range(snapshot.fetch, WindowRange, bounds, snapshot, request)


def _find_sessions(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_sessions(snapshot.find_sessions, snapshot, request)


def _backward_find_sessions(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_sessions(snapshot.backward_find_sessions, snapshot, request)


def _scan(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_keys(snapshot.scan, snapshot, request)


def _backward_scan(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_keys(snapshot.backward_scan, snapshot, request)


def _all(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    is_windowed = snapshot.state.definition.window.kind.is_windowed
    if not is_windowed and request.query["final"] is not None:
        message = (
            f"store {request.store!r}: it has no windows, and a row is never final. Send "
            "the request without final."
        )
        raise InvalidParameter(message)
    return _scan(snapshot, request)


def _latest_all(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_keys(snapshot.latest_all, snapshot, request)


def _current_all(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_keys(snapshot.current_all, snapshot, request)


def _latest(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _newest(snapshot.latest, snapshot, request)


def _current(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return _newest(snapshot.current, snapshot, request)


def _newest(
    read: Callable[[str], bytes | None], snapshot: IndexSnapshot, request: ReadRequest
) -> ReadPage:
    """Return the window of a key that ``read``, a method of the snapshot, returns."""
    (key,) = request.path
    window = read(key)
    if window is None:
        message = f"key {key[:_SHOWN]!r} has no window in store {request.store!r}"
        raise WindowNotFound(message)
    return page_of_one(window, snapshot, request)


def _window(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    start_ms, key = request.path
    window = snapshot.fetch_window(key, start_ms)
    if window is None:
        # Retention counts sessions by their end, other windows by their start (semantics.md#7).
        kind = snapshot.state.definition.window.kind
        retained_by = "end" if kind.expires_by_end else "start"
        message = (
            f"key {key[:_SHOWN]!r} has no window starting at {start_ms} in "
            f"store {request.store!r}. The earliest visible {retained_by} is "
            f"{snapshot.earliest_ms}."
        )
        raise WindowNotFound(message)
    return page_of_one(window, snapshot, request)


def _session(snapshot: SessionSnapshot, request: ReadRequest) -> ReadPage:
    start_ms, end_ms, key = request.path
    session = snapshot.fetch_session(key, start_ms, end_ms)
    if session is None:
        message = (
            f"key {key[:_SHOWN]!r} has no session from {start_ms} to {end_ms} in "
            f"store {request.store!r}. The earliest visible end is {snapshot.earliest_ms}."
        )
        raise WindowNotFound(message)
    return page_of_one(session, snapshot, request)


def _get(snapshot: KeyValueSnapshot, request: ReadRequest) -> ReadPage:
    (key,) = request.path
    row = snapshot.get(key)
    if row is None:
        message = f"key {key[:_SHOWN]!r} has no row in store {request.store!r}"
        raise RowNotFound(message)
    return page_of_one(row, snapshot, request)


def _keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    query = request.query
    cursors = cursors_of(snapshot, request)
    after, budget = request.after, request.budget
    if budget is None:
        budget = whole_budget(query["limit"])
        after = cursors.read_key(query["cursor"])
    page = snapshot.keys(query["prefix"], budget.rows, after, budget.step)
    items = [orjson.dumps(key) for key in page.keys]
    if page.next_after is None:
        return ReadPage(items)
    rest = rest_of(request, budget, items, page.next_after)
    return ReadPage(items, cursors.after_key(page.next_after), rest)


def _latest_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_listed(one_window(snapshot.latest), snapshot, request)


def _current_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_listed(one_window(snapshot.current), snapshot, request)


def _get_of_keys(snapshot: KeyValueSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_listed(one_window(snapshot.get), snapshot, request)


def _fetch_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_listed(snapshot.fetch, snapshot, request)


def _backward_fetch_of_keys(snapshot: IndexSnapshot, request: ReadRequest) -> ReadPage:
    return page_of_listed(snapshot.backward_fetch, snapshot, request)


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

#: All hot reads by their names in the path.
HOT_READS: Mapping[bytes, HotRead] = {
    name.encode(): bind(OPERATIONS[name], function) for name, function in _FUNCTIONS.items()
}

#: Reads that routes of FastAPI serve, by the name of the operation. For reads of listed keys,
#: ``path`` has the list.
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
