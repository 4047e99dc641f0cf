"""Dead letters: records that could not be used, listed and counted."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import OPERATIONS, PageCursors, TableState
from oriel.app.reads import StoreCatalog
from oriel.storage.dead_letters import (
    LetterPlace,
    LetterRange,
    Selection,
    letter_counts,
    letter_page,
)

_LIST, _COUNT = OPERATIONS["listDeadLetters"], OPERATIONS["countDeadLetters"]


def dead_letter_routes(catalog: StoreCatalog) -> APIRouter:
    """Make the routes over the dead-letter table of one catalog."""
    router = APIRouter()
    folder = catalog.layout.dead_letters

    @router.get(_LIST.path)
    async def list_dead_letters(request: Request) -> Response:
        query = _LIST.query.read(request.scope["query_string"])
        # Letters are only added: any version goes on behind a place of another.
        cursors = PageCursors(
            "dead letters", TableState("", 0, {}), *(query[name] for name in _LIST.query.bounds)
        )
        place = cursors.read_values(query["cursor"], int, str, int, int, str, str, int)
        after = None if place is None else LetterPlace(*place)
        span = LetterRange(query["limit"], query["order"] == "newest", after)
        wanted = _selection(query)
        page = await catalog.table_reads.run(
            lambda budget: letter_page(folder, wanted, span, budget)
        )
        return _json({
            "version": page.version,
            "letters": [_letter(row) for row in page.letters.to_pylist()],
            "next_cursor": cursors.after_values(page.next_after),
        })  # fmt: skip

    @router.get(_COUNT.path)
    async def count_dead_letters(request: Request) -> Response:
        wanted = _selection(_COUNT.query.read(request.scope["query_string"]))
        counts = await catalog.table_reads.run(lambda budget: letter_counts(folder, wanted, budget))
        return _json({
            "version": counts.version,
            "total": sum(counts.by_reason.values()),
            "by_reason": counts.by_reason,
        })  # fmt: skip

    return router


def _selection(query: Mapping[str, Any]) -> Selection:
    return Selection(
        topic=query["topic"],
        store=query["store"],
        reason=query["reason"],
        since_ms=query["from_ms"],
        until_ms=query["to_ms"],
        partition=query["partition"],
        from_offset=query["from_offset"],
        to_offset=query["to_offset"],
    )


def _letter(row: Mapping[str, Any]) -> dict[str, Any]:
    same = ("topic", "partition", "offset", "reason", "detail", "revision", "timestamp_ms")
    headers = row["headers"]
    return {
        **{name: row[name] for name in same},
        "store": row["store"] or None,
        "key": _bytes(row["key"]),
        "headers": None if headers is None else [
            {"key": header["key"], "value": _bytes(header["value"])} for header in headers
        ],
        "value": _bytes(row["raw"]),
    }  # fmt: skip


def _bytes(content: bytes | None) -> dict[str, str] | None:
    """Bytes as the contract has them: text where they are UTF-8, else base64."""
    if content is None:
        return None
    try:
        return {"encoding": "utf-8", "data": content.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": b64encode(content).decode()}


def _json(body: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
