"""Serve the reads of keys that the body lists."""

from collections.abc import Callable
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import (
    LISTED_KEYS_MAX,
    OPERATIONS,
    InvalidBody,
    ListedKey,
    Operation,
    media_type_of,
)
from oriel.app.guards import ACCESS, check_keys
from oriel.app.reads import (
    COLD_READS,
    ReadRequest,
    StoreCatalog,
    content_of,
    read_page_at,
    require_own_keys,
)
from oriel.app.routes.stores import store_of
from oriel.storage import KEY_BYTES_MAX

_LISTED = [operation for operation in OPERATIONS.values() if operation.lists_keys]


def listed_key_routes(catalog: StoreCatalog) -> APIRouter:
    """Return the routes of one catalog."""
    router = APIRouter()
    for operation in _LISTED:
        router.post(operation.path)(_route(operation, catalog))
    return router


def _route(operation: Operation, catalog: StoreCatalog) -> Callable[[Request], Any]:
    read = COLD_READS[operation.name]

    async def of_keys(request: Request) -> Response:
        query = read.query.read(request.scope["query_string"])
        media = media_type_of(request.scope["headers"])
        view = catalog.view(store_of(request))
        keys = await _keys_of(request)
        if (access := request.scope.get(ACCESS)) is not None:
            check_keys(access, map(_text, keys))
        require_own_keys(catalog.layout.shard, map(_text, keys))
        # Keys as JSON values. The key type of the store decides which values are keys.
        wanted = ReadRequest(view.name, read, {"listed": keys}, query)
        state, page = await read_page_at(catalog, view, wanted)
        frame, lag = view.frame(state), view.lag(state.version)
        with catalog.gate.long_read(always=True):
            content = await content_of(frame, wanted, page, media)
        response = Response(content.body)
        response.raw_headers = [*content.headers, *frame.position, (b"vary", b"Accept")]
        if lag is not None:
            response.raw_headers.append(lag.field)
        return response

    return of_keys


async def _keys_of(request: Request) -> tuple[ListedKey, ...]:
    """Return the keys in the body. The protocol accepts at most ``body_bytes`` of it."""
    body = await request.body()
    try:
        keys = orjson.loads(body)
    except orjson.JSONDecodeError:
        keys = None
    # True is an int in Python, but not in JSON.
    if not isinstance(keys, list) or not {*map(type, keys)} <= {str, int, list}:
        message = 'body: it must be a JSON list of keys, for example ["EWR", "JFK"] or [7, 42]'
        raise InvalidBody(message)
    if len(keys) > LISTED_KEYS_MAX:
        message = (
            f"body: it must list at most {LISTED_KEYS_MAX} keys, not {len(keys)}. Send "
            "several requests."
        )
        raise InvalidBody(message)
    if any(len(_text(key).encode()) > KEY_BYTES_MAX for key in keys):
        message = f"body: each key must have at most {KEY_BYTES_MAX} bytes. Remove longer keys."
        raise InvalidBody(message)
    return tuple(keys)


def _text(key: ListedKey) -> str:
    """Return a listed key as the string that the store uses."""
    return key if isinstance(key, str) else orjson.dumps(key).decode()
