"""The hot reads of windows, sessions and rows, as a plain ASGI application.

Each request has the same steps. The service splits the path (``route``), checks path and query,
opens a snapshot, and checks that the read fits the store's kind. Then it reads a page and joins the
bytes. These reads run before FastAPI's middleware, because an ordinary FastAPI route with ``Query``
parameters serves less than half as many requests (see benchmarks/query.py).
"""

import asyncio
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import xxhash

from oriel.app.contract import (
    CODINGS,
    MediaType,
    MethodNotAllowed,
    UnknownRoute,
    decode_path,
    media_type_of,
    read_path,
)
from oriel.app.formats import Compressor
from oriel.app.guards import Gate, Scope, Send
from oriel.app.reads.catalog import Lag, StoreCatalog, VersionFrame
from oriel.app.reads.page_contents import VARY, is_converted_on_loop, page_content
from oriel.app.reads.pages import HotRead, ReadPage, ReadRequest
from oriel.app.reads.snapshot_reads import HOT_READS
from oriel.app.reads.steps import read_page_at
from oriel.storage.index import FINAL, IndexState

_METHODS = ("GET", "HEAD")

#: A client can cache the response, but must revalidate it (If-None-Match) before each use.
_REVALIDATE = (b"cache-control", b"no-cache")
#: No record changes the response. After `oriel rebuild`, caches can use it for up to a day.
_KEEP = (b"cache-control", b"max-age=86400, immutable")

_ONE_WINDOW_READS = frozenset({"window", "session"})
_RANGE_READS = frozenset({"fetch", "backwardFetch"})


class Target(NamedTuple):
    """The parts of a path: the read, the raw store name, and the raw rest of the path."""

    read: HotRead
    store: bytes
    rest: bytes


class ReadResponse(NamedTuple):
    """A finished response."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def route(raw_path: bytes) -> Target | None:
    """Split the raw path of a hot read. Return None for other paths.

    The path is /v1/stores/STORE/READ/REST. A path without REST is for a read without its own path
    parameters. For all other reads, REST is required but can be empty, because "" is a valid key.
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

    def __init__(self, catalog: StoreCatalog, gate: Gate, compressor: Compressor) -> None:
        """Serve the stores of a catalog. The gate sends the responses."""
        self._catalog = catalog
        self._gate = gate
        self._compressor = compressor

    async def serve(self, target: Target, scope: Scope, send: Send) -> None:
        """Serve one request.

        Raises:
            Exception: An error that ``problem_response`` converts to a problem document.
        """
        status, headers, body = await self._response(target, scope)
        codings = scope.get(CODINGS)
        if (
            codings is not None
            and status == 200
            and (target.read.is_paged or not codings.is_plain_allowed)
        ):
            headers, body = await self._compressor.compressed(headers, body, codings)
        await self._gate.send(scope, send, status, headers, body)

    async def _response(self, target: Target, scope: Scope) -> ReadResponse:
        if scope["method"] not in _METHODS:
            message = f"{scope['method']} is not allowed for this operation. Use GET."
            raise MethodNotAllowed(message)
        read = target.read
        view = self._catalog.view(decode_path(target.store))
        query = read.query.read(scope["query_string"])
        media = media_type_of(scope["headers"])
        path = read_path(read.path_parameters, target.rest)
        if path is None:
            message = f"path: it must be {read.operation.path}"
            raise UnknownRoute(message)
        request = ReadRequest(view.name, read, path, query)
        state, page = await read_page_at(self._catalog, view, request)
        frame, lag = view.frame(state), view.lag(state.version)
        tags = b",".join(value for name, value in scope["headers"] if name == b"if-none-match")
        places = []
        if tags and page.next_cursor is not None:
            places = await view.history.known_tags(tags, state)
        negotiated = _NegotiatedRequest(request, media, tags, places)
        if is_converted_on_loop(request, page, media):
            return _serialize(frame, lag, negotiated, page, scope)
        # The page is a copy. The snapshot, which is not thread-safe, is already closed.
        with self._gate.long_read(always=True):
            return await asyncio.to_thread(_serialize, frame, lag, negotiated, page, scope)


class _NegotiatedRequest(NamedTuple):
    """A request and its negotiated response.

    Attributes:
        request: The request.
        media: The response format.
        tags: The entity tags of If-None-Match.
        places: The versions in these tags that are in the store's history.
    """

    request: ReadRequest
    media: MediaType
    tags: bytes
    places: Sequence[bytes]


def _serialize(
    frame: VersionFrame,
    lag: Lag | None,
    negotiated: _NegotiatedRequest,
    page: ReadPage,
    scope: Scope,
) -> ReadResponse:
    """Return the response with a page and its entity tag.

    The tag depends on the windows or rows, the request and the format, because a cache can look up
    responses by their tag only. It does not depend on position and cursor, because each commit
    changes them. If you poll a key, only changes of this key matter. So the tag is weak, and a 304
    has the position in header fields.

    After a 304, the client uses the cursor that it already has. So the tag of a page with a cursor
    includes the version of the cursor. If this version belongs to a lost history, the response is
    the whole page.
    """
    request, media, tags, places = negotiated
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
        _KEEP if _is_immutable(frame.state, request, page) else _REVALIDATE,
        *frame.position,
        VARY,
    ]
    if lag is not None:
        headers.append(lag.field)
    if is_known:
        return ReadResponse(304, headers, b"")
    content = page_content(frame, request, page, rows, media)
    return ReadResponse(200, [*content.headers, *headers], content.body)


def _is_immutable(state: IndexState, request: ReadRequest, page: ReadPage) -> bool:
    """Return whether no record can change the page any more.

    Then, all its windows are final, and no new window can be in its range. A new window ends at
    ``close_ms`` or later (semantics.md#2-3). Windows of one size end in the order of their starts.
    So a new window never starts before a final one, or early enough to be final. Sessions have
    different lengths, so only a page of one session can be immutable.
    """
    name, items = request.read.operation.name, page.items
    if name in _ONE_WINDOW_READS:
        return items[0].endswith(FINAL)
    # A cursor is valid only for the current history of the store.
    if name not in _RANGE_READS or page.next_cursor is not None:
        return False
    if state.definition.window.kind.is_session or state.record is None:
        return False
    # Add 1 ms, because a sliding window includes its end.
    return bool(
        request.query["to_ms"] + state.definition.window.size_ms + 1 < state.record.close_ms
    )
