"""The stores: which there are, all about one, and its keys."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request

from oriel.app.contract import (
    OPERATIONS,
    PageCursors,
    decode_path,
)
from oriel.app.reads import StoreCatalog, StoreView, is_as_of, position_of
from oriel.storage import StoreNotReady
from oriel.storage.index import IndexSnapshot
from oriel.storage.table_store import TableStore
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
        view = catalog.view(store_of(request))
        status = status_file.read().stores.get(view.name, _UNHEARD_OF)
        with view.snapshot() as snapshot:
            return _detail(view.name, snapshot, status)

    @router.get(_KEYS.path, response_model=_KEYS.answer)
    async def list_keys(request: Request) -> Any:
        query = _KEYS.query.read(request.scope["query_string"])
        view = catalog.view(store_of(request))
        read_page = partial(_keys, view.name, query)
        if is_as_of(query):
            _, page = await catalog.table_reads.as_of(view.name, query, read_page)
            return page
        with await view.snapshot_at(query) as snapshot:
            return read_page(snapshot)

    return router


def store_of(request: Request) -> str:
    """The store that a request's path names."""
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


def _keys(
    name: str, query: Mapping[str, Any], snapshot: IndexSnapshot | TableStore
) -> dict[str, Any]:
    bounds = (query[bound] for bound in _KEYS.query.bounds)
    cursors = PageCursors(name, snapshot.state, "keys", *bounds)
    after = cursors.read_key(query["cursor"])
    page = snapshot.keys(query["prefix"], query["limit"], after)
    return {
        "store": name,
        "position": position_of(snapshot.state),
        "keys": page.keys,
        "next_cursor": cursors.after_key(page.next_after),
    }
