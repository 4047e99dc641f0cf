"""The hot reads of windows, sessions and rows, as a plain ASGI application.

Each request goes down one ladder: take the path apart (``route``), check path and query, take
one snapshot, check that the read fits the store's kind, read a page, join the bytes.
Measured: an ordinary FastAPI route with ``Query`` parameters answers less than half as many
requests (benchmarks/query.py compares), so these reads come before FastAPI's middleware.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import xxhash

from oriel.app.contract import (
    MediaType,
    MethodNotAllowed,
    UnknownRoute,
    decode_path,
    media_type_of,
)
from oriel.app.guards import Gate
from oriel.app.reads.catalog import Lag, StoreCatalog, VersionFrame
from oriel.app.reads.page_contents import VARY, is_made_on_the_loop, page_content
from oriel.app.reads.pages import HotRead, ReadPage, ReadRequest
from oriel.app.reads.snapshot_reads import HOT_READS
from oriel.app.reads.steps import read_page_at
from oriel.storage.index import FINAL, IndexState

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_METHODS = ("GET", "HEAD")

#: A poller may keep the answer, but must ask (with If-None-Match) before it uses it again.
_REVALIDATE = (b"cache-control", b"no-cache")
#: No record changes the answer; a day bounds how long a cache goes on after `oriel rebuild`.
_KEEP = (b"cache-control", b"max-age=86400, immutable")

_ONE_WINDOW_READS = frozenset({"window", "session"})
_RANGE_READS = frozenset({"fetch", "backwardFetch"})


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

    def __init__(self, catalog: StoreCatalog, gate: Gate) -> None:
        """Answer from this catalog; long answers are sent by the gate."""
        self._catalog = catalog
        self._gate = gate

    async def serve(self, target: Target, scope: Scope, send: Send) -> None:
        """Answer one request; raises what ``problem_answer`` makes a problem document of."""
        answer = await self._answer(target, scope)
        await self._gate.send(scope, send, answer.status, answer.headers, answer.body)

    async def _answer(self, target: Target, scope: Scope) -> Answer:
        if scope["method"] not in _METHODS:
            message = f"{scope['method']} is not allowed for this operation. Use GET."
            raise MethodNotAllowed(message)
        read = target.read
        view = self._catalog.view(decode_path(target.store))
        query = read.operation.query.read(scope["query_string"])
        media = media_type_of(scope["headers"])
        request = ReadRequest(view.name, read, _read_path(read, target.rest), query)
        state, page = await read_page_at(self._catalog, view, request)
        frame, lag = view.frame(state), view.lag(state.version)
        tags = b",".join(value for name, value in scope["headers"] if name == b"if-none-match")
        places = []
        if tags and page.next_cursor is not None:
            places = await view.history.known_tags(tags, state)
        asked = _Asked(request, media, tags, places)
        if is_made_on_the_loop(request, page, media):
            return _serialise(frame, lag, asked, page, scope)
        # The page is a copy: the snapshot, which is not for several threads, has ended.
        with self._gate.long_read(always=True):
            return await asyncio.to_thread(_serialise, frame, lag, asked, page, scope)


def _read_path(read: HotRead, rest: bytes) -> tuple[Any, ...]:
    """Read the path parameters behind the read's name; the last one takes all the rest."""
    parameters = read.path_parameters
    if len(parameters) == 1:
        # The most frequent reads have the key only; this is faster.
        return (parameters[0].read(rest),)
    parts = rest.split(b"/", len(parameters) - 1) if parameters else []
    if len(parts) < len(parameters):
        message = f"path: it must be {read.operation.path}"
        raise UnknownRoute(message)
    return tuple(p.read(part) for p, part in zip(parameters, parts, strict=True))


class _Asked(NamedTuple):
    """A request, the form of its answer, and the tags that its client has.

    ``places`` are those in the tags that the store's history has.
    """

    request: ReadRequest
    media: MediaType
    tags: bytes
    places: Sequence[bytes]


def _serialise(
    frame: VersionFrame, lag: Lag | None, asked: _Asked, page: ReadPage, scope: Scope
) -> Answer:
    """The answer with a page and its validator.

    The tag is over the windows or rows, and over request and form, for a cache may keep all by
    one tag. Position and cursor are left out: each commit to the store changes them, and who
    polls a key is to hear of that key. So the tag is weak, and a 304 has the position in fields.
    A client with a 304 uses the cursor that it has. So the tag of a page with a cursor names the
    place of the cursor, and a tag of a lost history brings the page anew.
    """
    request, media, tags, places = asked
    rows = b",".join(page.items)
    seed = zlib.crc32(scope["query_string"], zlib.crc32(scope["raw_path"]))
    if media is not MediaType.JSON:
        seed = zlib.crc32(media.encode(), seed)
    digest = xxhash.xxh3_128_hexdigest(rows, seed).encode()
    suffixes = [b""] if page.next_cursor is None else [frame.place, *places]
    own, *others = [b'"%b%b"' % (digest, suffix) for suffix in suffixes]
    known = next((tag for tag in (own, *others) if tag in tags), None)
    is_known = known is not None or any(tag.strip() == b"*" for tag in tags.split(b","))
    tag = known or own
    headers = [
        (b"etag", b"W/" + tag),
        _KEEP if _is_settled(frame.state, request, page) else _REVALIDATE,
        *frame.position,
        VARY,
    ]
    if lag is not None:
        headers.append(lag.field)
    if is_known:
        return Answer(304, headers, b"")
    content = page_content(frame, request, page, rows, media)
    return Answer(200, [*content.headers, *headers], content.body)


def _is_settled(state: IndexState, request: ReadRequest, page: ReadPage) -> bool:
    """Whether no record can change the page any more: its windows are final, and none can come.

    A new window ends at ``close_ms`` or later (semantics.md#2-3). Windows of one size end in the
    order of their starts, so none can come that starts before a final one, or so early that it
    would be final. Sessions have no one size, so only a read of one of them can be settled.
    """
    name, items = request.read.operation.name, page.items
    if name in _ONE_WINDOW_READS:
        return items[0].endswith(FINAL)
    # A cursor ends with the history of the store, so a page with one is not settled.
    if name not in _RANGE_READS or page.next_cursor is not None:
        return False
    if state.definition.window.kind.is_session or state.record is None:
        return False
    # One ms more, for the end of a sliding window belongs to it.
    return bool(
        request.query["to_ms"] + state.definition.window.size_ms + 1 < state.record.close_ms
    )
