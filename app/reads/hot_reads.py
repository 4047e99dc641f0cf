"""The hot reads of windows, sessions and rows, as a plain ASGI application.

Each request goes down one ladder: take the path apart (``route``), check path and query, take
one snapshot, check that the read fits the store's kind, read a page, join the bytes.
Measured: an ordinary FastAPI route with ``Query`` parameters answers less than half as many
requests (benchmarks/query.py compares), so these reads come before FastAPI's middleware.
"""

import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from oriel.app.contract import (
    MethodNotAllowed,
    ProblemAnswer,
    UnknownRoute,
    decode_path,
    problem_answer,
)
from oriel.app.reads.catalog import StoreCatalog, VersionFrame
from oriel.app.reads.pages import HotRead, ReadPage, ReadRequest
from oriel.app.reads.snapshot_reads import HOT_READS
from oriel.app.reads.steps import refuse_wrong_kind, rest_of_page

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_METHODS = ("GET", "HEAD")

_JSON = (b"content-type", b"application/json")
#: A poller may keep the answer, but must ask (with If-None-Match) before it uses it again.
_REVALIDATE = (b"cache-control", b"no-cache")


class Target(NamedTuple):
    """What the path asks for: the read, the store, and the rest of the path, both still raw."""

    read: HotRead
    store: bytes
    rest: bytes


class Answer(NamedTuple):
    """A finished answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def route(raw_path: bytes) -> Target | None:
    """Take a raw path apart; None when it is none of the hot reads.

    The path is /v1/stores/STORE/READ/REST. A read without path parameters of its own has no REST,
    any other has one, be it empty: the empty key is a key.
    """
    parts = raw_path.split(b"/", 5)
    if len(parts) < 5 or parts[2] != b"stores" or parts[1] != b"v1":
        return None
    read = HOT_READS.get(parts[4])
    if read is None or bool(read.path_parameters) != (len(parts) == 6):
        return None
    return Target(read, parts[3], parts[5] if len(parts) == 6 else b"")


class HotReads:
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
        read = target.read
        view = self._catalog.view(decode_path(target.store))
        query = read.operation.query.read(scope["query_string"])
        request = ReadRequest(view.name, read, _read_path(read, target.rest), query)
        with await view.snapshot_at(query) as snapshot:
            refuse_wrong_kind(view.name, snapshot.state, read.operation)
            frame = view.frame(snapshot.state)
            page = read.function(snapshot, request)
        if page.rest is not None:
            page = await rest_of_page(page, view, frame.state, self._catalog.long_reads)
        return _serialise(frame, page, scope)


def _read_path(read: HotRead, rest: bytes) -> tuple[Any, ...]:
    """Read the path parameters behind the read's name; the last one takes all the rest."""
    parameters = read.path_parameters
    if len(parameters) == 1:
        # The most frequent reads have the key only; this is faster.
        return (parameters[0].read(rest),)
    parts = rest.split(b"/", len(parameters) - 1) if parameters else []
    if len(parts) < len(parameters):
        message = f"the path is {read.operation.path}"
        raise UnknownRoute(message)
    return tuple(p.read(part) for p, part in zip(parameters, parts, strict=True))


def answer_body(frame: VersionFrame, page: ReadPage) -> bytes:
    """A page of a version as the JSON that is answered."""
    if page.next_cursor is None:
        closing = b'],"next_cursor":null}'
    else:
        closing = b'],"next_cursor":"%b"}' % page.next_cursor.encode()
    return b"%b%b%b" % (frame.opening, b",".join(page.items), closing)


def _serialise(frame: VersionFrame, page: ReadPage, scope: Scope) -> Answer:
    # An answer is a function of the table version and the request, and so is its tag.
    request = zlib.crc32(scope["query_string"], zlib.crc32(scope["raw_path"]))
    etag = b'"%b-%x"' % (frame.etag, request)
    if _client_has(scope, etag):
        return Answer(304, [(b"etag", etag), _REVALIDATE], b"")
    body = answer_body(frame, page)
    headers = [_JSON, (b"content-length", b"%d" % len(body)), (b"etag", etag), _REVALIDATE]
    return Answer(200, headers, body)


def _client_has(scope: Scope, etag: bytes) -> bool:
    """Whether If-None-Match has this tag; it may be one of a list, weak, or ``*`` (RFC 9110)."""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return etag in value or value.strip() == b"*"
    return False
