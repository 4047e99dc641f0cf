"""Metrics: how the data folder fares, for Prometheus."""

from pathlib import Path

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from oriel.app.contract import OPERATIONS
from oriel.storage.monitoring import CONTENT_TYPE, metrics_text, overview


def metrics_routes(data: Path, index: Path | None = None) -> APIRouter:
    """Make the route over one data folder; ``index``: where its indexes are, None: in it."""
    router = APIRouter()

    @router.get(OPERATIONS["metrics"].path)
    async def metrics() -> Response:
        # It reads files, a store's log among them where no pipeline has spoken of the store.
        text = await run_in_threadpool(lambda: metrics_text(overview(data, index)))
        return Response(text, media_type=CONTENT_TYPE)

    return router
