"""The whole service as one ASGI application: hot reads first, FastAPI for the rest."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from oriel.app.contract import ApiError, describe, problem_answer
from oriel.app.page import dashboard_routes
from oriel.app.reads import HotReads, StoreCatalog, route
from oriel.app.routes import health_routes, metrics_routes, store_routes
from oriel.storage import DataLayout, StorageError
from oriel.storage.tailer import StatusFile

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Service:
    """ASGI application over one data folder."""

    def __init__(self, data: Path, index: Path | None = None) -> None:
        """Look at nothing yet: indexes are opened by the first requests, after any fork.

        ``index`` is where they are, None: in ``data``.
        """
        layout = DataLayout(data, index)
        self.catalog = StoreCatalog(layout)
        self.api = make_api(self.catalog, StatusFile(layout), layout)
        self._hot_reads = HotReads(self.catalog)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.api(scope, receive, send)
            return
        target = route(scope["raw_path"])
        if target is not None:
            await self._hot_reads.serve(target, scope, send)
            return
        if scope["method"] == "HEAD":
            # The server leaves the body out; our routes only know GET.
            scope = {**scope, "method": "GET"}
        await self.api(scope, receive, send)


def make_api(catalog: StoreCatalog, status_file: StatusFile, layout: DataLayout) -> FastAPI:
    """Make the FastAPI part: cold routes, the OpenAPI document, problem documents."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        catalog.close()

    api = FastAPI(
        openapi_url="/openapi.json",
        # Their pages load scripts from elsewhere; the dashboard works offline.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    api.include_router(store_routes(catalog, status_file))
    api.include_router(health_routes(catalog, status_file))
    api.include_router(metrics_routes(layout.root, layout.index_root))
    api.include_router(dashboard_routes())
    for error in (StorageError, ApiError, HTTPException, Exception):
        api.add_exception_handler(error, _answer_problem)
    # FastAPI knows nothing of the hot reads; the operations' records describe all alike.
    api.openapi = describe  # type: ignore[method-assign]
    return api


async def _answer_problem(request: Request, error: Exception) -> Response:
    status, headers, body = problem_answer(error, request.scope["raw_path"].decode("latin-1"))
    response = Response(body, status)
    response.raw_headers = headers
    return response
