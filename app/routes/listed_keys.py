"""Reads of many keys that the body lists."""

from collections.abc import Callable
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import (
    LISTED_KEYS_MAX,
    OPERATIONS,
    InvalidBody,
    Operation,
    media_type_of,
)
from oriel.app.reads import (
    COLD_READS,
    VARY,
    ReadRequest,
    StoreCatalog,
    content_of,
    read_page_at,
    refuse_keys_of_others,
)
from oriel.app.routes.stores import store_of
from oriel.storage import KEY_BYTES_MAX

_LISTED = [operation for operation in OPERATIONS.values() if operation.method == "POST"]


def listed_key_routes(catalog: StoreCatalog) -> APIRouter:
    """Make the routes over one catalog."""
    router = APIRouter()
    for operation in _LISTED:
        router.post(operation.path)(_route(operation, catalog))
    return router


def _route(operation: Operation, catalog: StoreCatalog) -> Callable[[Request], Any]:
    read = COLD_READS[operation.name]

    async def of_keys(request: Request) -> Response:
        query = operation.query.read(request.scope["query_string"])
        media = media_type_of(request.scope["headers"])
        view = catalog.view(store_of(request))
        keys = await _keys_of(request)
        refuse_keys_of_others(catalog.layout.shard, keys)
        wanted = ReadRequest(view.name, read, (keys,), query)
        state, page = await read_page_at(catalog, view, wanted)
        frame, lag = view.frame(state), view.lag(state.version)
        content = await content_of(frame, wanted, page, media)
        response = Response(content.body)
        response.raw_headers = [*content.headers, *frame.position, VARY]
        if lag is not None:
            response.raw_headers.append(lag.field)
        return response

    return of_keys


async def _keys_of(request: Request) -> tuple[str, ...]:
    """The keys in the body, of which the protocol takes no more than ``body_bytes``."""
    body = await request.body()
    try:
        keys = orjson.loads(body)
    except orjson.JSONDecodeError:
        keys = None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        message = 'the body must be a JSON list of keys, for example ["EWR", "JFK"]'
        raise InvalidBody(message)
    if len(keys) > LISTED_KEYS_MAX:
        message = f"the body lists {len(keys)} keys; a request may list {LISTED_KEYS_MAX}"
        raise InvalidBody(message)
    if any(len(key.encode()) > KEY_BYTES_MAX for key in keys):
        message = f"the body lists a key of more than {KEY_BYTES_MAX} bytes; there is no such key"
        raise InvalidBody(message)
    return tuple(keys)
