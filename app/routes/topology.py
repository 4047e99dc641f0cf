"""Serve the topologies that the pipelines have recorded."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from oriel.app.contract import OPERATIONS, TopologyNotFound
from oriel.app.guards import ACCESS, Access
from oriel.storage import DataLayout
from oriel.storage.monitoring import recorded_topologies

_TOPOLOGY = OPERATIONS["topology"]


def topology_routes(layout: DataLayout) -> APIRouter:
    """Return the route of one data directory."""
    router = APIRouter()

    @router.get(_TOPOLOGY.path, response_model=_TOPOLOGY.response_model)
    async def topology(request: Request) -> Any:
        _TOPOLOGY.query.read(request.scope["query_string"])
        access: Access | None = request.scope.get(ACCESS)
        # A thread, because this reads a file of each pipeline.
        pipelines = await run_in_threadpool(_pipelines, layout, access)
        if not pipelines:
            message = (
                f"{layout.topologies}: no pipeline has written its topology. Start a pipeline of "
                "this version of Oriel with the same --data."
            )
            raise TopologyNotFound(message)
        return {"pipelines": pipelines}

    return router


def _pipelines(layout: DataLayout, access: Access | None) -> list[dict[str, Any]]:
    shown = []
    for recorded in recorded_topologies(layout):
        drawing = recorded.drawing
        if access is not None and not access.grants_all_stores():
            drawing = drawing.of_stores(access.grants_store)
            if not drawing.nodes:
                continue
        shown.append({
            "pipeline": recorded.application,
            "started_ms": recorded.started_ms,
            **asdict(drawing),
            "mermaid": drawing.to_mermaid(),
        })  # fmt: skip
    return shown
