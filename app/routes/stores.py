"""Serve the list of stores, the description of a store and its keys."""

from dataclasses import asdict
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import OPERATIONS, MediaType, decode_path, media_type_of
from oriel.app.formats import keys_body, page_headers
from oriel.app.guards import ACCESS, Access, sees_totals
from oriel.app.reads import (
    COLD_READS,
    ReadRequest,
    StoreCatalog,
    StoreView,
    is_as_of,
    mergeable_aggregates,
    position_of,
    read_page_at,
    wrong_kind,
)
from oriel.storage import BehindPositionBound, StoreNotReady, errors
from oriel.storage.index import IndexSnapshot, IndexState, KeyValueSnapshot
from oriel.storage.table_store import TableKeyValueStore, TableStore
from oriel.storage.tailer import StatusFile, StoreStatus

_LIST, _DESCRIBE, _KEYS, _COUNT = (
    OPERATIONS[name]
    for name in ("listStores", "describeStore", "listKeys", "approximateNumEntries")
)
_FOREIGN = "this Delta table is not a store of Oriel"
_UNREPORTED = StoreStatus("unknown", None, "the tailer has not reported this store yet")


def store_routes(catalog: StoreCatalog, status_file: StatusFile) -> APIRouter:
    """Return the routes of one catalog and the status of its tailer."""
    router = APIRouter()

    @router.get(_LIST.path, response_model=_LIST.response_model)
    async def list_stores(request: Request) -> Any:
        _LIST.query.read(request.scope["query_string"])
        access: Access | None = request.scope.get(ACCESS)

        def is_reached(name: str) -> bool:
            return access is None or access.grants_store(name)

        totals = sees_totals(request.scope)
        names = filter(is_reached, catalog.names())
        stores = [_summary(catalog.view(name), totals=totals) for name in names]
        foreign = filter(is_reached, catalog.names_of_other_tables())
        others = [_not_ready(name, _FOREIGN) for name in foreign]
        return {"stores": sorted(stores + others, key=lambda summary: str(summary["store"]))}

    @router.get(_DESCRIBE.path, response_model=_DESCRIBE.response_model)
    async def describe_store(request: Request, response: Response) -> Any:
        _DESCRIBE.query.read(request.scope["query_string"])
        view = catalog.view(store_of(request))
        status = status_file.read().stores.get(view.name, _UNREPORTED)
        with view.snapshot() as snapshot:
            response.raw_headers += view.frame(snapshot.state).position
            return _detail(view, snapshot, status, totals=sees_totals(request.scope))

    _add_keys(router, catalog)
    _add_count(router, catalog)
    return router


def _add_keys(router: APIRouter, catalog: StoreCatalog) -> None:
    read = COLD_READS["listKeys"]

    @router.get(_KEYS.path, response_model=_KEYS.response_model)
    async def list_keys(request: Request, response: Response) -> Any:
        query = read.query.read(request.scope["query_string"])
        media = media_type_of(request.scope["headers"])
        view = catalog.view(store_of(request))
        wanted = ReadRequest(view.name, read, {}, query)
        state, page = await read_page_at(catalog, view, wanted)
        fields = [*view.frame(state).position, (b"vary", b"Accept")]
        keys = [orjson.loads(key) for key in page.items]
        if media is not MediaType.JSON:
            body = keys_body(media, keys)
            fields += page_headers(media, len(keys), page.next_cursor)
            other_format = Response(body)
            other_format.raw_headers = [*fields, (b"content-length", b"%d" % len(body))]
            return other_format
        response.raw_headers += fields
        return {
            "store": view.name,
            "position": position_of(state),
            "keys": keys,
            "next_cursor": page.next_cursor,
        }


def _add_count(router: APIRouter, catalog: StoreCatalog) -> None:
    @router.get(_COUNT.path, response_model=_COUNT.response_model)
    async def count_rows(request: Request, response: Response) -> Any:
        query = _COUNT.query.read(request.scope["query_string"])
        view = catalog.view(store_of(request))

        def counted(store: IndexSnapshot | TableStore) -> int:
            if isinstance(store, (KeyValueSnapshot, TableKeyValueStore)):
                return store.approximate_num_entries()
            raise wrong_kind(view.name, store.state, _COUNT)

        try:
            if is_as_of(query):
                state, count = await catalog.table_reads.as_of(view.name, query, counted)
            else:
                with await view.snapshot_at(query) as snapshot:
                    state, count = snapshot.state, counted(snapshot)
        except (BehindPositionBound, errors.VersionNotFound):
            await view.refuse_lost(query)
            raise
        await view.refuse_lost(query, state)
        response.raw_headers += view.frame(state).position
        return {"store": view.name, "position": position_of(state), "count": count}


def store_of(request: Request) -> str:
    """Return the store that the path of a request names."""
    # The raw path, because FastAPI has already decoded a %2F of the name to a slash.
    return decode_path(request.scope["raw_path"].split(b"/")[3])


def _summary(view: StoreView, *, totals: bool) -> dict[str, Any]:
    try:
        with view.snapshot() as snapshot:
            state, windows = snapshot.state, snapshot.window_count() if totals else None
    except StoreNotReady as error:
        return _not_ready(view.name, str(error))
    return {
        "store": view.name,
        "ready": True,
        "problem": None,
        "window": asdict(state.definition.window),
        "aggregates": [asdict(aggregate) for aggregate in state.definition.aggregates],
        **_position_fields(view, state, totals=totals),
        "windows": windows,
    }


def _not_ready(name: str, problem: str) -> dict[str, Any]:
    return {
        "store": name,
        "ready": False,
        "problem": problem,
        "window": None,
        "aggregates": [],
        "position": None,
        "committed_ms": None,
        "stream_time_ms": {},
        "close_ms": None,
        "counters": {},
        "windows": None,
    }


def _detail(
    view: StoreView, snapshot: IndexSnapshot, status: StoreStatus, *, totals: bool
) -> dict[str, Any]:
    state = snapshot.state
    kind = state.definition.window.kind
    definition = asdict(state.definition)
    definition["mergeable"] = [each["name"] for each in definition.pop("partials")]
    return {
        "store": view.name,
        "definition": definition,
        **_position_fields(view, state, totals=totals),
        "earliest_start_ms": snapshot.earliest_ms if kind.expires_by_start else None,
        "earliest_end_ms": snapshot.earliest_ms if kind.expires_by_end else None,
        "mergeable": mergeable_aggregates(state.definition),
        "index": {
            "state": status.state,
            "problem": status.problem,
            "windows": snapshot.window_count() if totals else None,
        },
    }


def _position_fields(view: StoreView, state: IndexState, *, totals: bool) -> dict[str, Any]:
    """Return position and stream times of a store, and with ``totals`` its numbers of records."""
    record = state.record
    return {
        "position": position_of(state),
        "committed_ms": view.committed_ms(state.version),
        "stream_time_ms": {} if record is None else record.stream_time_ms,
        "close_ms": None if record is None else record.close_ms,
        "counters": record.counters if totals and record is not None else {},
    }
