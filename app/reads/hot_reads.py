"""The hot reads of windows, sessions and rows, as a plain ASGI application.

Each request goes down one ladder: take the path apart (``route``), check path and query, take
one snapshot, check that the read fits the store's kind, read a page, join the bytes.
Measured: an ordinary FastAPI route with ``Query`` parameters answers less than half as many
requests (benchmarks/query.py compares), so these reads come before FastAPI's middleware.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from oriel.app.contract import (
    ISO_TIMES,
    MediaType,
    MethodNotAllowed,
    ProblemAnswer,
    UnknownRoute,
    WrongStoreKind,
    decode_path,
    media_type_of,
    problem_answer,
    reads_of_kind,
)
from oriel.app.formats import (
    items_with_iso_times,
    page_headers,
    position_headers,
    windows_body,
)
from oriel.app.reads.catalog import StoreCatalog, VersionFrame
from oriel.app.reads.snapshot_reads import HOT_READS, HotRead, ReadPage, ReadRequest
from oriel.storage import StoreKind

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_METHODS = ("GET", "HEAD")

_JSON = (b"content-type", b"application/json")
#: A poller may keep the answer, but must ask (with If-None-Match) before it uses it again.
_REVALIDATE = (b"cache-control", b"no-cache")
#: The same address has answers in several forms.
_VARY = (b"vary", b"Accept")

#: Larger pages are brought into other forms by a thread, so that others need not wait for them.
_ITEMS_ON_THE_LOOP_MAX = 200


class Target(NamedTuple):
    """What the path asks for: the read, the store, and the rest of the path, both still raw."""

    read: HotRead
    store: bytes
    rest: bytes


class OtherForm(NamedTuple):
    """A form of the answer that is not the JSON which the index keeps."""

    media: MediaType
    iso_times: bool


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
        form = _other_form(media_type_of(scope["headers"]), query["times"])
        request = ReadRequest(view.name, read, _read_path(read, target.rest), query)
        with await view.snapshot_at(query) as snapshot:
            kind = snapshot.state.definition.window.kind
            if kind not in read.operation.store_kinds:
                raise WrongStoreKind(_wrong_kind(view.name, kind, read.operation.name))
            frame = view.frame(snapshot.state)
            page = read.function(snapshot, request)
        if form is not None and len(page.items) > _ITEMS_ON_THE_LOOP_MAX:
            # The page is a copy: the snapshot, which is not for several threads, has ended.
            return await asyncio.to_thread(_serialise, frame, page, scope, form)
        return _serialise(frame, page, scope, form)


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


def _wrong_kind(store: str, kind: StoreKind, read: str) -> str:
    windows = f"{kind} windows" if kind.is_windowed else "no windows"
    fitting = ", ".join(reads_of_kind(kind))
    return f"store {store!r} has {windows}; {read} does not fit it, use {fitting}"


def _other_form(media: MediaType, times: str) -> OtherForm | None:
    """The form that is asked for; None for the JSON that the index keeps."""
    if media is MediaType.JSON and times != ISO_TIMES:
        return None
    return OtherForm(media, times == ISO_TIMES)


def _serialise(frame: VersionFrame, page: ReadPage, scope: Scope, form: OtherForm | None) -> Answer:
    # An answer is a function of the table version, the request and the form, and so is its tag.
    request = zlib.crc32(scope["query_string"], zlib.crc32(scope["raw_path"]))
    if form is not None:
        request = zlib.crc32(form.media.encode(), request)
    etag = b'"%b-%x"' % (frame.etag, request)
    if _client_has(scope, etag):
        return Answer(304, [(b"etag", etag), _REVALIDATE, _VARY], b"")
    if form is None:
        headers, body = [_JSON], _json_body(frame, page.items, page.next_cursor)
    else:
        headers, body = _body_in(form, frame, page)
    headers += [(b"content-length", b"%d" % len(body)), (b"etag", etag), _REVALIDATE, _VARY]
    return Answer(200, headers, body)


def _json_body(frame: VersionFrame, items: list[bytes], next_cursor: str | None) -> bytes:
    if next_cursor is None:
        closing = b'],"next_cursor":null}'
    else:
        closing = b'],"next_cursor":"%b"}' % next_cursor.encode()
    return b"%b%b%b" % (frame.opening, b",".join(items), closing)


def _body_in(
    form: OtherForm, frame: VersionFrame, page: ReadPage
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The body in a form that the index doesn't keep, and the headers that tell of it."""
    definition = frame.state.definition
    if form.media is MediaType.JSON:
        items = items_with_iso_times(page.items, definition)
        return [_JSON], _json_body(frame, items, page.next_cursor)
    headers = page_headers(form.media, len(page.items), page.next_cursor)
    body = windows_body(form.media, page.items, definition, iso_times=form.iso_times)
    return [*headers, *position_headers(frame.state)], body


def _client_has(scope: Scope, etag: bytes) -> bool:
    """Whether If-None-Match has this tag; it may be one of a list, weak, or ``*`` (RFC 9110)."""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return etag in value or value.strip() == b"*"
    return False
