"""Ordinary FastAPI routes with the same responses, as a comparison for the hot reads.

Index, reader and JSON bytes are the same. Only the handling of a request is FastAPI's: path and
``Query`` parameters in the signature, validated by FastAPI, and a ``Response``.
"""

import argparse
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Query, Response

from oriel.app.reads import StoreCatalog, StoreView
from oriel.storage import LATEST_MS, DataLayout, WindowPage, WindowRange
from oriel.storage.index import IndexState, WindowSnapshot

Bound = Annotated[int | None, Query()]
Limit = Annotated[int, Query(ge=1, le=10_000)]
Key = str


def make_service(data: Path) -> FastAPI:
    """Create the ordinary service over the index of a data directory."""
    catalog = StoreCatalog(DataLayout(data))
    api = FastAPI()

    @api.get("/v1/stores/{store}/latest/{key:path}")
    async def latest(store: str, key: Key) -> Response:
        view = catalog.view(store)
        with view.snapshot() as snapshot:
            assert isinstance(snapshot, WindowSnapshot)
            window = snapshot.latest(key)
            return _response(view, snapshot.state, [] if window is None else [window])

    @api.get("/v1/stores/{store}/fetch/{key:path}")
    async def fetch(
        store: str, key: Key, from_ms: Bound = None, to_ms: Bound = None, limit: Limit = 100
    ) -> Response:
        view = catalog.view(store)
        with view.snapshot() as snapshot:
            assert isinstance(snapshot, WindowSnapshot)
            page: WindowPage = snapshot.fetch(_range(key, from_ms, to_ms, limit))
            return _response(view, snapshot.state, page.windows)

    @api.get("/v1/stores/{store}/backwardFetch/{key:path}")
    async def backward_fetch(
        store: str, key: Key, from_ms: Bound = None, to_ms: Bound = None, limit: Limit = 100
    ) -> Response:
        view = catalog.view(store)
        with view.snapshot() as snapshot:
            assert isinstance(snapshot, WindowSnapshot)
            page: WindowPage = snapshot.backward_fetch(_range(key, from_ms, to_ms, limit))
            return _response(view, snapshot.state, page.windows)

    @api.get("/readyz")
    async def ready() -> Response:
        for name in catalog.names():
            with catalog.view(name).snapshot():
                pass
        return Response()

    return api


def _range(key: str, from_ms: int | None, to_ms: int | None, limit: int) -> WindowRange:
    return WindowRange(key, from_ms or 0, LATEST_MS if to_ms is None else to_ms, limit)


def _response(view: StoreView, state: IndexState, windows: list[bytes]) -> Response:
    body = view.frame(state).opening + b",".join(windows) + b'],"next_cursor":null}'
    return Response(body, media_type="application/json")


def main() -> None:
    """Serve with the same server and settings as the real service."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    uvicorn.run(
        make_service(options.data),
        port=options.port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
