"""The functions of the hot reads, one per read.

The arguments of a function are a store, the state of its version, and a request with checked path
and query. The type of the store is the contract of the kinds that the read fits
(``oriel.storage.contracts``), and ``_of`` checks the kind. A function returns one step of a page as
finished JSON.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import orjson

from oriel.app.contract import (
    OPERATIONS,
    InvalidParameter,
    RowNotFound,
    VersionNotValid,
    WindowNotFound,
)
from oriel.app.reads.merged import merged_windows
from oriel.app.reads.pages import (
    HotRead,
    ReadFunction,
    ReadPage,
    ReadRequest,
    StepFunction,
    StoreVersion,
    bind,
    cursors_of,
    one_window,
    page_of_key,
    page_of_keys,
    page_of_listed,
    page_of_one,
    page_of_sessions,
    page_of_windows,
    step_of_page,
    whole_budget,
    wrong_kind,
)
from oriel.storage import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyStore,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
    SessionRange,
    WindowRange,
)
from oriel.storage.index import (
    IndexSnapshot,
    IndexState,
    KeyValueSnapshot,
    SessionSnapshot,
    VersionedSnapshot,
    WindowSnapshot,
)
from oriel.storage.table_store import (
    TableKeyValueStore,
    TableSessionStore,
    TableStore,
    TableVersionedStore,
    TableWindowStore,
)

#: Characters of a key that an error message shows.
_SHOWN = 200

IndexClass = TypeVar("IndexClass", bound=IndexSnapshot)
TableClass = TypeVar("TableClass", bound=TableStore)

# The classes of each kind, because a check of a protocol at run time costs as much as a read.
_ANY_STORES = (IndexSnapshot, TableStore)
_WINDOW_STORES = (WindowSnapshot, TableWindowStore)
_SESSION_STORES = (SessionSnapshot, TableSessionStore)
_KEY_VALUE_STORES = (KeyValueSnapshot, TableKeyValueStore)
_VERSIONED_STORES = (VersionedSnapshot, TableVersionedStore)


def _of(
    stores: tuple[type[IndexClass], type[TableClass]],
    read: ReadFunction[IndexClass | TableClass],
) -> StepFunction:
    """Return a read that rejects stores of other classes."""

    def step(store: StoreVersion, request: ReadRequest) -> ReadPage:
        if isinstance(store, stores):
            return read(store, store.state, request)
        raise wrong_kind(request.store, store.state, request.read.operation)

    return step


def _fetch(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_windows(store.fetch, state, request)


def _backward_fetch(
    store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_windows(store.backward_fetch, state, request)


def _covering_windows(
    store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    instant_ms, window = request.path["instant_ms"], state.definition.window
    # semantics.md#0-2: whether a window contains a record at its end.
    first_ms = instant_ms - window.size_ms + (not window.kind.has_inclusive_end)
    bounds = request.path["key"], first_ms, instant_ms
    return page_of_key(store.fetch, WindowRange, bounds, state, request)


def _covering_sessions(
    store: ReadOnlySessionStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    bounds = request.path["key"], request.path["instant_ms"], request.path["instant_ms"]
    return page_of_key(store.find_sessions, SessionRange, bounds, state, request)


def _covering(store: StoreVersion, request: ReadRequest) -> ReadPage:
    is_of_sessions = isinstance(store, _SESSION_STORES)
    return (_SESSIONS_AT if is_of_sessions else _WINDOWS_AT)(store, request)


_WINDOWS_AT, _SESSIONS_AT = (
    _of(_WINDOW_STORES, _covering_windows),
    _of(_SESSION_STORES, _covering_sessions),
)


def _find_sessions(
    store: ReadOnlySessionStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_sessions(store.find_sessions, state, request)


def _backward_find_sessions(
    store: ReadOnlySessionStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_sessions(store.backward_find_sessions, state, request)


def _scan(store: ReadOnlyStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_keys(store.scan, state, request)


def _backward_scan(store: ReadOnlyStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_keys(store.backward_scan, state, request)


def _all(store: ReadOnlyStore, state: IndexState, request: ReadRequest) -> ReadPage:
    is_windowed = state.definition.window.kind.is_windowed
    if not is_windowed and request.query["final"] is not None:
        message = (
            f"store {request.store!r}: it has no windows, and a row is never final. Send "
            "the request without final."
        )
        raise InvalidParameter(message)
    return _scan(store, state, request)


def _latest_all(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_keys(store.latest_all, state, request)


def _current_all(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_keys(store.current_all, state, request)


def _latest(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return _newest(store.latest, state, request)


def _current(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return _newest(store.current, state, request)


def _newest(
    read: Callable[[str], bytes | None], state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return the window of a key that ``read``, a method of the store, returns."""
    key = request.path["key"]
    window = read(key)
    if window is None:
        message = f"key {key[:_SHOWN]!r} has no window in store {request.store!r}"
        raise WindowNotFound(message)
    return page_of_one(window, state, request)


def _window(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    key, start_ms = request.path["key"], request.path["window_start_ms"]
    window = store.fetch_window(key, start_ms)
    if window is None:
        # Retention counts sessions by their end, other windows by their start (semantics.md#7).
        kind = state.definition.window.kind
        retained_by = "end" if kind.expires_by_end else "start"
        message = (
            f"key {key[:_SHOWN]!r} has no window starting at {start_ms} in "
            f"store {request.store!r}. The earliest visible {retained_by} is "
            f"{store.earliest_ms}."
        )
        raise WindowNotFound(message)
    return page_of_one(window, state, request)


def _session(store: ReadOnlySessionStore, state: IndexState, request: ReadRequest) -> ReadPage:
    key = request.path["key"]
    start_ms, end_ms = request.path["window_start_ms"], request.path["window_end_ms"]
    session = store.fetch_session(key, start_ms, end_ms)
    if session is None:
        message = (
            f"key {key[:_SHOWN]!r} has no session from {start_ms} to {end_ms} in "
            f"store {request.store!r}. The earliest visible end is {store.earliest_ms}."
        )
        raise WindowNotFound(message)
    return page_of_one(session, state, request)


def _get(store: ReadOnlyKeyValueStore, state: IndexState, request: ReadRequest) -> ReadPage:
    key, at_ms = request.path["key"], request.query["at_ms"]
    if at_ms is not None:
        return _get_as_of(store, at_ms, state, request)
    row = store.get(key)
    if row is None:
        message = f"key {key[:_SHOWN]!r} has no row in store {request.store!r}"
        raise RowNotFound(message)
    return page_of_one(row, state, request)


def _get_as_of(
    store: ReadOnlyKeyValueStore, at_ms: int, state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return the version of a key that was valid at a time."""
    if not isinstance(store, _VERSIONED_STORES):
        message = (
            f"store {request.store!r}: it has no versions. Send the request without at_ms, or "
            "materialize a versioned table with versions=True."
        )
        raise InvalidParameter(message)
    key = request.path["key"]
    version = store.get_as_of(key, at_ms)
    if version is None:
        history_ms = state.definition.window.grace_ms
        message = (
            f"key {key[:_SHOWN]!r} has no version that was valid at {at_ms} in store "
            f"{request.store!r}. The row did not exist then, or the version is older than the "
            f"history of {history_ms} ms."
        )
        raise VersionNotValid(message)
    return page_of_one(version, state, request)


def _versions(store: ReadOnlyVersionedStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_windows(store.versions, state, request)


def _backward_versions(
    store: ReadOnlyVersionedStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_windows(store.backward_versions, state, request)


def _keys(store: ReadOnlyStore, state: IndexState, request: ReadRequest) -> ReadPage:
    query, cursors = request.query, cursors_of(state, request)
    budget = request.budget or whole_budget(query["limit"])
    after = cursors.read_key(query["cursor"])
    keys, last = store.keys(query["prefix"], budget.rows, after, budget.step)
    items = [orjson.dumps(key) for key in keys]
    return step_of_page(items, cursors.after_key(last), budget, state, request)


def _latest_of_keys(
    store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_listed(one_window(store.latest), state, request)


def _current_of_keys(
    store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_listed(one_window(store.current), state, request)


def _get_of_keys(store: ReadOnlyKeyValueStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_listed(one_window(store.get), state, request)


def _fetch_of_keys(store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest) -> ReadPage:
    return page_of_listed(store.fetch, state, request)


def _backward_fetch_of_keys(
    store: ReadOnlyWindowStore, state: IndexState, request: ReadRequest
) -> ReadPage:
    return page_of_listed(store.backward_fetch, state, request)


_FUNCTIONS: Mapping[str, StepFunction] = {
    "fetch": _of(_WINDOW_STORES, _fetch),
    "backwardFetch": _of(_WINDOW_STORES, _backward_fetch),
    "latest": _of(_WINDOW_STORES, _latest),
    "window": _of(_WINDOW_STORES, _window),
    "findSessions": _of(_SESSION_STORES, _find_sessions),
    "backwardFindSessions": _of(_SESSION_STORES, _backward_find_sessions),
    "session": _of(_SESSION_STORES, _session),
    "get": _of(_KEY_VALUE_STORES, _get),
    "versions": _of(_VERSIONED_STORES, _versions),
    "backwardVersions": _of(_VERSIONED_STORES, _backward_versions),
    "current": _of(_WINDOW_STORES, _current),
    "covering": _covering,
    "merged": merged_windows,
    "fetchRange": _of(_WINDOW_STORES, _scan),
    "backwardFetchRange": _of(_WINDOW_STORES, _backward_scan),
    "fetchAll": _of(_WINDOW_STORES, _scan),
    "backwardFetchAll": _of(_WINDOW_STORES, _backward_scan),
    "all": _of(_ANY_STORES, _all),
    "backwardAll": _of(_WINDOW_STORES, _backward_scan),
    "latestAll": _of(_WINDOW_STORES, _latest_all),
    "currentAll": _of(_WINDOW_STORES, _current_all),
    "mergedAll": merged_windows,
    "findSessionsRange": _of(_SESSION_STORES, _scan),
    "backwardFindSessionsRange": _of(_SESSION_STORES, _backward_scan),
    "fetchSession": _of(_SESSION_STORES, _session),
    "range": _of(_KEY_VALUE_STORES, _scan),
    "reverseRange": _of(_KEY_VALUE_STORES, _backward_scan),
    "prefixScan": _of(_KEY_VALUE_STORES, _scan),
    "reverseAll": _of(_KEY_VALUE_STORES, _backward_scan),
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
        ("listKeys", _of(_ANY_STORES, _keys)),
        ("latestOfKeys", _of(_WINDOW_STORES, _latest_of_keys)),
        ("currentOfKeys", _of(_WINDOW_STORES, _current_of_keys)),
        ("fetchOfKeys", _of(_WINDOW_STORES, _fetch_of_keys)),
        ("backwardFetchOfKeys", _of(_WINDOW_STORES, _backward_fetch_of_keys)),
        ("mergedOfKeys", merged_windows),
        ("getOfKeys", _of(_KEY_VALUE_STORES, _get_of_keys)),
    )
}
