"""The stores: which there are, all about one, and its keys."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from oriel.app.contract import (
    OPERATIONS,
    MediaType,
    PageCursors,
    decode_path,
    media_type_of,
)
from oriel.app.formats import keys_body, page_headers, position_headers
from oriel.app.reads import StoreCatalog, StoreView, position_of
from oriel.storage import StoreNotReady
from oriel.storage.index import IndexSnapshot
from oriel.storage.tailer import StatusFile, StoreStatus

_LIST, _DESCRIBE, _KEYS = (OPERATIONS[name] for name in ("listStores", "describeStore", "listKeys"))
_UNHEARD_OF = StoreStatus("unknown", None, "nothing was heard of the tailer")


def store_routes(catalog: StoreCatalog, status_file: StatusFile) -> APIRouter:
    """Make the routes over one catalog and its tailer's status."""
    router = APIRouter()

    @router.get(_LIST.path, response_model=_LIST.answer)
    async def list_stores(request: Request) -> Any:
        _LIST.query.read(request.scope["query_string"])
        return {"stores": [_summary(catalog.view(name)) for name in catalog.names()]}

    @router.get(_DESCRIBE.path, response_model=_DESCRIBE.answer)
    async def describe_store(request: Request) -> Any:
        _DESCRIBE.query.read(request.scope["query_string"])
        view = catalog.view(_store_of(request))
        status = status_file.read().stores.get(view.name, _UNHEARD_OF)
        with view.snapshot() as snapshot:
            return _detail(view.name, snapshot, status)

    @router.get(_KEYS.path, response_model=_KEYS.answer)
    async def list_keys(request: Request, response: Response) -> Any:
        query = _KEYS.query.read(request.scope["query_string"])
        media = media_type_of(request.scope["headers"])
        view = catalog.view(_store_of(request))
        with await view.snapshot_at(query) as snapshot:
            page = _keys(view.name, snapshot, query)
            if media is not MediaType.JSON:
                return _keys_in_other_form(media, snapshot, page)
        response.headers["Vary"] = "Accept"
        return page

    return router


def _store_of(request: Request) -> str:
    # From the raw path: in FastAPI's a %2F of the name is a slash already.
    return decode_path(request.scope["raw_path"].split(b"/")[3])


def _summary(view: StoreView) -> dict[str, Any]:
    try:
        with view.snapshot() as snapshot:
            state = snapshot.state
    except StoreNotReady:
        return {
            "store": view.name,
            "ready": False,
            "window": None,
            "aggregates": [],
            "position": None,
            "close_ms": None,
        }
    return {
        "store": view.name,
        "ready": True,
        "window": asdict(state.definition.window),
        "aggregates": [asdict(aggregate) for aggregate in state.definition.aggregates],
        "position": position_of(state),
        "close_ms": None if state.record is None else state.record.close_ms,
    }


def _detail(name: str, snapshot: IndexSnapshot, status: StoreStatus) -> dict[str, Any]:
    state = snapshot.state
    record = state.record
    kind = state.definition.window.kind
    return {
        "store": name,
        "definition": asdict(state.definition),
        "position": position_of(state),
        "stream_time_ms": {} if record is None else record.stream_time_ms,
        "close_ms": None if record is None else record.close_ms,
        "counters": {} if record is None else record.counters,
        "earliest_start_ms": snapshot.earliest_ms if kind.expires_by_start else None,
        "earliest_end_ms": snapshot.earliest_ms if kind.expires_by_end else None,
        "index": {
            "state": status.state,
            "problem": status.problem,
            "windows": snapshot.window_count(),
        },
    }


def _keys(name: str, snapshot: IndexSnapshot, query: Mapping[str, Any]) -> dict[str, Any]:
    cursors = PageCursors(name, snapshot.state, "keys", query["prefix"])
    after = cursors.read_key(query["cursor"])
    page = snapshot.keys(query["prefix"], query["limit"], after)
    return {
        "store": name,
        "position": position_of(snapshot.state),
        "keys": page.keys,
        "next_cursor": cursors.after_key(page.next_after),
    }


def _keys_in_other_form(
    media: MediaType, snapshot: IndexSnapshot, page: Mapping[str, Any]
) -> Response:
    keys = page["keys"]
    response = Response(keys_body(media, keys))
    response.raw_headers = [
        *page_headers(media, len(keys), page["next_cursor"]),
        *position_headers(snapshot.state),
        (b"content-length", b"%d" % len(response.body)),
        (b"vary", b"Accept"),
    ]
    return response
