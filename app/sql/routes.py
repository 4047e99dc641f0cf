"""Serve ``POST /v1/sql``."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import (
    OPERATIONS,
    SQL_CHARACTERS_MAX,
    InvalidBody,
    MediaType,
    SqlDisabled,
    media_type_of,
)
from oriel.app.guards import ACCESS, Access
from oriel.app.sql.processes import SqlProcesses, SqlResponse

_SQL = OPERATIONS["sql"]
#: Bytes of the header field with the positions. Longer ones are only in JSON.
_POSITIONS_BYTES_MAX = 2_000


def sql_routes(processes: SqlProcesses | None) -> APIRouter:
    """Return the route. Without processes, it responds that SQL is disabled."""
    router = APIRouter()

    @router.post(_SQL.path)
    async def sql(request: Request) -> Response:
        _SQL.query.read(request.scope["query_string"])
        if processes is None:
            message = "The service runs without --sql. Start it with `oriel serve --sql`."
            raise SqlDisabled(message)
        media = media_type_of(request.scope["headers"])
        query = _query_of(await request.body())
        access: Access | None = request.scope.get(ACCESS)
        stores = ("*",) if access is None else access.stores
        found = await _until_disconnect(processes.run(query, stores, media), request)
        return _response(found, media)

    return router


async def _until_disconnect(
    work: Coroutine[Any, Any, SqlResponse], request: Request
) -> SqlResponse:
    """Return the result of ``work``. Cancel it if the client disconnects."""
    running = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait([running, disconnected], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise asyncio.CancelledError
        return running.result()
    finally:
        disconnected.cancel()
        running.cancel()
        await asyncio.wait([running, disconnected])


def _query_of(body: bytes) -> str:
    """Return the statement in a body."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict) or content.keys() != {"query"}:
        message = 'body: it must be a JSON object with a query, for example {"query": "SELECT 1"}.'
        raise InvalidBody(message)
    query = content["query"]
    if not isinstance(query, str) or len(query) > SQL_CHARACTERS_MAX:
        message = (
            f"body: query must be a string of at most {SQL_CHARACTERS_MAX:,} characters. Send a "
            "shorter query."
        )
        raise InvalidBody(message)
    return query


def _response(found: SqlResponse, media: MediaType) -> Response:
    charset = "; charset=utf-8" if media is MediaType.CSV else ""
    response = Response(found.body)
    headers = [(b"content-type", f"{media}{charset}".encode()), (b"vary", b"Accept")]
    if media is not MediaType.JSON:
        headers.append((b"oriel-items", b"%d" % found.rows))
        headers.append((b"oriel-truncated", b"true" if found.is_cut else b"false"))
    positions = ", ".join(
        f"{store}={position['version']}-{position['history']}"
        for store, position in found.positions.items()
    ).encode()
    if 0 < len(positions) <= _POSITIONS_BYTES_MAX:
        headers.append((b"oriel-positions", positions))
    headers.append((b"content-length", b"%d" % len(found.body)))
    response.raw_headers = headers
    return response
