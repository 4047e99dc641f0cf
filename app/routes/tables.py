"""Serve the windows that changed since a version, from a table and its log."""

from collections.abc import Iterator
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import OPERATIONS, PageCursors
from oriel.app.reads import StoreCatalog, StoreView, position_of
from oriel.app.routes.stores import store_of
from oriel.storage import Place, StoreNotReady
from oriel.storage.index import (
    IndexSnapshot,
    IndexState,
    KeyValueSnapshot,
    SessionSnapshot,
    WindowSnapshot,
)
from oriel.storage.table_store import Change, ChangePage, ChangeRange, changes

_CHANGES = OPERATIONS["changes"]
#: The last change of a version whose changes were all returned. Version 0 has no change.
_ALL_RETURNED = Change(0, "", 0, 0)


def table_routes(catalog: StoreCatalog) -> APIRouter:
    """Return the routes of one catalog."""
    router = APIRouter()

    @router.get(_CHANGES.path)
    async def read_changes(request: Request) -> Response:
        query = _CHANGES.query.read(request.scope["query_string"])
        view = catalog.view(store_of(request))
        with view.snapshot() as snapshot:
            state = snapshot.state
        await view.refuse_lost(query, state)
        since = query["since_version"]
        cursors = PageCursors(view.name, state, _CHANGES.name, since)
        wanted = ChangeRange(state.version if since is None else since, query["limit"])
        place = cursors.read_values(query["cursor"], int, int, str, int, int)
        if place is not None:
            reached, *last = place
            if last == list(_ALL_RETURNED):
                # The client has received every change up to this version.
                wanted = wanted._replace(since=reached)
            else:
                wanted = wanted._replace(reached=reached, after=Change(*last))
        page = await catalog.table_reads.run(
            lambda budget: changes(view.log, state, wanted, budget)
        )
        next_place: list[Any] | None = None
        if page.has_more:
            next_place = [page.reached, *page.changes[-1]]
        elif page.reached < state.version:
            next_place = [page.reached, *_ALL_RETURNED]
        # This snapshot can be a newer version. A later page returns its changes.
        with view.snapshot() as snapshot:
            body = {
                "store": view.name,
                "position": position_of(snapshot.state),
                "changes": list(_with_rows(page, snapshot)),
                "through_version": page.reached,
                "next_cursor": cursors.after_values(next_place),
            }
            position = view.frame(snapshot.state).position
        body["through_history"] = await _history_through(view, state, page.reached)
        response = Response(orjson.dumps(body), media_type="application/json")
        response.raw_headers += position
        return response

    return router


async def _history_through(view: StoreView, state: IndexState, reached: int) -> str:
    """Return the history of the version that a page reaches.

    Raises:
        StoreNotReady: The log was replaced while it was read, so its entries can belong to another
            history than the index.
    """
    is_newest = reached == state.version
    digest = state.digest if is_newest else await view.history.digest(reached)
    if not await view.history.has(state):
        message = (
            f"store {view.name!r}: version {state.version} of the table was replaced, and the "
            "index is being rebuilt. Send the request again."
        )
        raise StoreNotReady(message)
    return Place.of(reached, state.table_id, digest).history


def _with_rows(page: ChangePage, snapshot: IndexSnapshot) -> Iterator[dict[str, Any]]:
    """Yield each change with its window in the index, without expired windows."""
    kind = snapshot.state.definition.window.kind
    for change in page.changes:
        if kind.is_windowed:
            expiry_time_ms = change.end_ms if kind.expires_by_end else change.start_ms
            if expiry_time_ms < snapshot.earliest_ms:
                continue
        row = _row(change, snapshot)
        yield {
            "version": change.version,
            "key": change.key,
            "window_start_ms": change.start_ms if kind.is_windowed else None,
            "window_end_ms": change.end_ms if kind.is_windowed else None,
            "row": None if row is None else orjson.Fragment(row),
        }


def _row(change: Change, snapshot: IndexSnapshot) -> bytes | None:
    if isinstance(snapshot, KeyValueSnapshot):
        return snapshot.get(change.key)
    if isinstance(snapshot, SessionSnapshot):
        return snapshot.fetch_session(change.key, change.start_ms, change.end_ms)
    assert isinstance(snapshot, WindowSnapshot)
    return snapshot.fetch_window(change.key, change.start_ms)
