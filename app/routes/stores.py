"""The cold routes: which stores there are, all about one, and its keys."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from oriel.app.contract import (
    KEYS_PARAMETERS,
    KeysAnswer,
    KeysCursor,
    Query,
    StoreDetail,
    StoresAnswer,
    decode_path,
    keys_token,
    operation_extras,
    read_keys_token,
    request_digest,
)
from oriel.app.reads import StoreCatalog, StoreView, position_of, require_version
from oriel.storage import SESSION, PositionBound, StoreNotReady
from oriel.storage.index import IndexSnapshot
from oriel.storage.tailer import StatusFile, StoreStatus

_NO_QUERY = Query()
_KEYS_QUERY = Query(KEYS_PARAMETERS)
_UNHEARD_OF = StoreStatus("unknown", None, "nothing was heard of the tailer")


def store_routes(catalog: StoreCatalog, status_file: StatusFile) -> APIRouter:
    """Make the routes over one catalog."""
    router = APIRouter(tags=["stores"])

    @router.get(
        "/v1/stores",
        operation_id="listStores",
        summary="List the stores",
        response_model=StoresAnswer,
        **operation_extras("list_stores"),
    )
    async def list_stores(request: Request) -> Any:
        """All stores of the data folder, with what they are and how far they reach."""
        _NO_QUERY.read(request.scope["query_string"])
        return {"stores": [_summary(catalog.view(name)) for name in catalog.names()]}

    @router.get(
        "/v1/stores/{store}",
        operation_id="describeStore",
        summary="Describe a store",
        response_model=StoreDetail,
        **operation_extras("describe_store"),
    )
    async def describe_store(request: Request) -> Any:
        """Definition, position, stream time, counters and retention of one store."""
        _NO_QUERY.read(request.scope["query_string"])
        view = catalog.view(_store_of(request))
        status = status_file.read().stores.get(view.name, _UNHEARD_OF)
        with view.snapshot() as snapshot:
            return _detail(view.name, snapshot, status)

    @router.get(
        "/v1/stores/{store}/keys",
        operation_id="listKeys",
        summary="List the keys of a store",
        response_model=KeysAnswer,
        **operation_extras("list_keys"),
    )
    async def list_keys(request: Request) -> Any:
        """Keys that have a visible window (or a row), ordered by their UTF-8 bytes."""
        values = _KEYS_QUERY.read(request.scope["query_string"])
        view = catalog.view(_store_of(request))
        bound = PositionBound(values["min_version"], values["min_offset"])
        with await view.snapshot_at(bound, values["wait_ms"]) as snapshot:
            return _keys(view.name, snapshot, values)

    return router


def _store_of(request: Request) -> str:
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
    window = state.definition.window
    by_end = window.kind == SESSION
    by_start = window.is_windowed and not by_end
    return {
        "store": name,
        "definition": asdict(state.definition),
        "position": position_of(state),
        "stream_time_ms": {} if record is None else record.stream_time_ms,
        "close_ms": None if record is None else record.close_ms,
        "counters": {} if record is None else record.counters,
        "earliest_start_ms": snapshot.earliest_ms if by_start else None,
        "earliest_end_ms": snapshot.earliest_ms if by_end else None,
        "index": {
            "state": status.state,
            "problem": status.problem,
            "windows": snapshot.window_count(),
        },
    }


def _keys(name: str, snapshot: IndexSnapshot, values: Any) -> dict[str, Any]:
    state = snapshot.state
    digest = request_digest(state.table_id, "keys", values["prefix"])
    after = None
    if values["cursor"] is not None:
        cursor = read_keys_token(values["cursor"], digest)
        require_version(name, state, cursor.version)
        after = cursor.after
    page = snapshot.keys(values["prefix"], values["limit"], after)
    token = None
    if page.next_after is not None:
        token = keys_token(KeysCursor(state.version, page.next_after), digest)
    return {
        "store": name,
        "position": position_of(state),
        "keys": page.keys,
        "next_cursor": token,
    }
