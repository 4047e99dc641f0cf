"""The hot reads of windows, sessions and rows, as a plain ASGI application.

Each request goes down one ladder: take the path apart (``route``), check the parameters, take
one snapshot, check that the read fits the store's kind, cut the page, join the bytes.
Measured: an ordinary FastAPI route with ``Query`` parameters answers less than half as many
requests (benchmarks/query.py compares), so these reads come before FastAPI's middleware;
``oriel.app.contract.openapi`` describes them all the same.
"""

import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from oriel.app.contract import (
    POSITION_PARAMETERS,
    RANGE_PARAMETERS,
    SESSION_PARAMETERS,
    MethodNotAllowed,
    ProblemAnswer,
    Query,
    RowNotFound,
    UnknownRoute,
    WindowNotFound,
    WindowsCursor,
    decode_path,
    integer,
    problem_answer,
    read_windows_token,
    request_digest,
    windows_token,
)
from oriel.app.reads.catalog import Frame, StoreCatalog, StoreView, require_version
from oriel.app.reads.read_kinds import wrong_kind
from oriel.storage import PositionBound, SessionRange, WindowId, WindowPage, WindowRange
from oriel.storage.index import IndexSnapshot, KeyValueSnapshot, SessionSnapshot

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_METHODS = ("GET", "HEAD")
_SESSION_BOUNDS = ("earliest_end_ms", "latest_start_ms")

_JSON = (b"content-type", b"application/json")
#: A poller may keep the answer, but must ask (with If-None-Match) before it uses it again.
_REVALIDATE = (b"cache-control", b"no-cache")

#: Times in the path, in their order: ``window`` has the first, ``session`` both.
_PATH_TIMES = (
    integer("window_start_ms", -(2**63), 2**63 - 1),
    integer("window_end_ms", -(2**63), 2**63 - 1),
)


class Target(NamedTuple):
    """What the path asks for: the operation, the store, and the rest of the path, still raw."""

    operation: bytes
    store: bytes
    rest: bytes


class Request(NamedTuple):
    """A request whose path and parameters have been checked."""

    store: str
    operation: bytes
    key: str
    times_ms: tuple[int, ...]
    values: Mapping[str, Any]


class Found(NamedTuple):
    """What a read found: finished windows or rows, and the token of the next page."""

    windows: list[bytes]
    next_cursor: str | None = None


class Operation(NamedTuple):
    """One hot read: its query parameters, how it reads a snapshot, and the times in its path.

    ``read`` is given snapshots of the kinds that the read fits only (``read_kinds``).
    """

    query: Query
    read: Callable[[Any, Request], Found]
    path_times: int = 0


class Answer(NamedTuple):
    """A finished answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def route(raw_path: bytes) -> Target | None:
    """Take a raw path apart; None when it is none of the hot reads."""
    parts = raw_path.split(b"/", 5)
    if len(parts) != 6 or parts[4] not in OPERATIONS or parts[2] != b"stores" or parts[1] != b"v1":
        return None
    return Target(parts[4], parts[3], parts[5])


class WindowReads:
    """The hot reads over one catalog."""

    def __init__(self, catalog: StoreCatalog) -> None:
        """Answer from this catalog."""
        self._catalog = catalog

    async def serve(self, target: Target, scope: Scope, send: Send) -> None:
        """Answer one request; every failure becomes a problem document."""
        try:
            answer: Answer | ProblemAnswer = await self._answer(target, scope)
        except Exception as error:  # noqa: BLE001 - problem_answer knows what to do with each
            answer = problem_answer(error, scope["raw_path"].decode("latin-1"))
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, target: Target, scope: Scope) -> Answer:
        if scope["method"] not in _METHODS:
            message = f"{scope['method']} is not allowed here; stores are read only"
            raise MethodNotAllowed(message)
        view = self._catalog.view(decode_path(target.store))
        operation = OPERATIONS[target.operation]
        request = _check(target, view, operation, operation.query.read(scope["query_string"]))
        bound = PositionBound(request.values["min_version"], request.values["min_offset"])
        with await view.snapshot_at(bound, request.values["wait_ms"]) as snapshot:
            frame = view.frame(snapshot.state)
            if target.operation not in frame.reads:
                kind = snapshot.state.definition.window.kind
                raise wrong_kind(view.name, kind, target.operation)
            found = operation.read(snapshot, request)
        return _serialise(frame, found, scope)


def _check(
    target: Target, view: StoreView, operation: Operation, values: Mapping[str, Any]
) -> Request:
    if not operation.path_times:
        return Request(view.name, target.operation, decode_path(target.rest), (), values)
    *times, raw_key = target.rest.split(b"/", operation.path_times)
    if len(times) < operation.path_times:
        wanted = ("{window_start_ms}/", "{window_end_ms}/")[: operation.path_times]
        path = f"/v1/stores/{{store}}/{target.operation.decode()}/{''.join(wanted)}{{key}}"
        message = f"the path is {path}"
        raise UnknownRoute(message)
    # There are as many texts as the operation has times, the readers may be more.
    readers = zip(_PATH_TIMES, times, strict=False)
    times_ms = tuple(read(decode_path(text)) for read, text in readers)
    return Request(view.name, target.operation, decode_path(raw_key), times_ms, values)


def _read_latest(snapshot: IndexSnapshot, request: Request) -> Found:
    window = snapshot.latest(request.key)
    if window is None:
        message = f"key {request.key[:200]!r} has no window in store {request.store!r}"
        raise WindowNotFound(message)
    return Found([window])


def _read_window(snapshot: IndexSnapshot, request: Request) -> Found:
    (start_ms,) = request.times_ms
    window = snapshot.fetch_window(request.key, start_ms)
    if window is None:
        by = "end" if isinstance(snapshot, SessionSnapshot) else "start"
        message = (
            f"key {request.key[:200]!r} has no window starting at {start_ms} in "
            f"store {request.store!r} (earliest visible {by}: {snapshot.earliest_ms})"
        )
        raise WindowNotFound(message)
    return Found([window])


def _read_session(snapshot: SessionSnapshot, request: Request) -> Found:
    start_ms, end_ms = request.times_ms
    session = snapshot.fetch_session(request.key, start_ms, end_ms)
    if session is None:
        message = (
            f"key {request.key[:200]!r} has no session from {start_ms} to {end_ms} in "
            f"store {request.store!r} (earliest visible end: {snapshot.earliest_ms})"
        )
        raise WindowNotFound(message)
    return Found([session])


def _read_row(snapshot: KeyValueSnapshot, request: Request) -> Found:
    row = snapshot.get(request.key)
    if row is None:
        message = f"key {request.key[:200]!r} has no row in store {request.store!r}"
        raise RowNotFound(message)
    return Found([row])


def _read_range(snapshot: IndexSnapshot, request: Request) -> Found:
    """One page of fetch or backwardFetch."""
    values = request.values
    wanted = WindowRange(request.key, max(values["from_ms"], 0), values["to_ms"], values["limit"])
    if values["cursor"] is not None:
        wanted = wanted._replace(after=_place(values["cursor"], snapshot, request))
    backward = request.operation == b"backwardFetch"
    page = snapshot.backward_fetch(wanted) if backward else snapshot.fetch(wanted)
    return _found(page, snapshot, request)


def _read_sessions(snapshot: SessionSnapshot, request: Request) -> Found:
    """One page of findSessions or backwardFindSessions."""
    values = request.values
    wanted = SessionRange(
        request.key, values["earliest_end_ms"], values["latest_start_ms"], values["limit"]
    )
    if values["cursor"] is not None:
        wanted = wanted._replace(after=_place(values["cursor"], snapshot, request))
    backward = request.operation == b"backwardFindSessions"
    page = snapshot.backward_find_sessions(wanted) if backward else snapshot.find_sessions(wanted)
    return _found(page, snapshot, request)


def _found(page: WindowPage, snapshot: IndexSnapshot, request: Request) -> Found:
    """A page with the token of the next one."""
    if page.next_after is None:
        return Found(page.windows)
    cursor = WindowsCursor(snapshot.state.version, page.next_after)
    return Found(page.windows, windows_token(cursor, _digest(snapshot, request)))


def _place(token: str, snapshot: IndexSnapshot, request: Request) -> WindowId:
    """Where the page before ended.

    Raises:
        InvalidCursor: the token is not of this request.
        BehindPositionBound: the page before came from a newer version than there is here.
    """
    cursor = read_windows_token(token, _digest(snapshot, request))
    require_version(request.store, snapshot.state, cursor.version)
    return cursor.after


def _digest(snapshot: IndexSnapshot, request: Request) -> bytes:
    values = request.values
    low, high = ("from_ms", "to_ms") if "from_ms" in values else _SESSION_BOUNDS
    return request_digest(
        snapshot.state.table_id,
        request.operation,
        request.key,
        max(values[low], 0),
        values[high],
    )


def _serialise(frame: Frame, found: Found, scope: Scope) -> Answer:
    etag = _etag(frame, scope)
    if _has_it(scope, etag):
        return Answer(304, [(b"etag", etag), _REVALIDATE], b"")
    if found.next_cursor is None:
        closing = b'],"next_cursor":null}'
    else:
        closing = b'],"next_cursor":"%b"}' % found.next_cursor.encode()
    body = b"%b%b%b" % (frame.opening, b",".join(found.windows), closing)
    headers = [_JSON, (b"content-length", b"%d" % len(body)), (b"etag", etag), _REVALIDATE]
    return Answer(200, headers, body)


def _etag(frame: Frame, scope: Scope) -> bytes:
    """An answer is a function of the table version and the request, and so is its tag."""
    request = zlib.crc32(scope["query_string"], zlib.crc32(scope["raw_path"]))
    return b'"%b-%x"' % (frame.etag, request)


def _has_it(scope: Scope, etag: bytes) -> bool:
    """Whether the client says that it has the answer with this tag already."""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return etag in value or value.strip() == b"*"
    return False


OPERATIONS: Mapping[bytes, Operation] = {
    b"fetch": Operation(Query(RANGE_PARAMETERS), _read_range),
    b"backwardFetch": Operation(Query(RANGE_PARAMETERS), _read_range),
    b"latest": Operation(Query(POSITION_PARAMETERS), _read_latest),
    b"window": Operation(Query(POSITION_PARAMETERS), _read_window, path_times=1),
    b"findSessions": Operation(Query(SESSION_PARAMETERS), _read_sessions),
    b"backwardFindSessions": Operation(Query(SESSION_PARAMETERS), _read_sessions),
    b"session": Operation(Query(POSITION_PARAMETERS), _read_session, path_times=2),
    b"get": Operation(Query(POSITION_PARAMETERS), _read_row),
}
