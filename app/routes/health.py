"""Health: does the process live, and can it do its work."""

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import Health, Query, Readiness, operation_extras
from oriel.app.reads import StoreCatalog
from oriel.storage import StoreNotReady
from oriel.storage.tailer import StatusFile, TailerStatus

_NO_QUERY = Query()


def health_routes(catalog: StoreCatalog, status_file: StatusFile) -> APIRouter:
    """Make the routes over one catalog and its tailer's status."""
    router = APIRouter(tags=["health"])

    @router.get(
        "/healthz",
        operation_id="health",
        summary="Does the process live",
        response_model=Health,
        **operation_extras("health"),
    )
    async def health(request: Request) -> Any:
        """Says ok while the process can answer at all."""
        _NO_QUERY.read(request.scope["query_string"])
        return {"status": "ok"}

    @router.get(
        "/readyz",
        operation_id="readiness",
        summary="Can the service do its work",
        response_model=Readiness,
        **_readiness_extras(),
    )
    async def ready(request: Request) -> Response:
        """Say whether the tailer lives and follows every store; 503 with the same body if not."""
        _NO_QUERY.read(request.scope["query_string"])
        answer = _readiness(catalog, status_file.read())
        status = 200 if answer["ready"] else 503
        return Response(orjson.dumps(answer), status, media_type="application/json")

    return router


def _readiness_extras() -> dict[str, Any]:
    extras = operation_extras("readiness")
    not_ready = {"model": Readiness, "description": "Not ready; the body says what is not"}
    extras["responses"][503] = not_ready
    return extras


def _readiness(catalog: StoreCatalog, tailer: TailerStatus) -> dict[str, Any]:
    problems = {name: _problem(catalog, name, tailer) for name in catalog.names()}
    return {
        "ready": tailer.alive and not any(problems.values()),
        "tailer_alive": tailer.alive,
        "stores": {
            name: {"ready": problem is None, "problem": problem}
            for name, problem in problems.items()
        },
    }


def _problem(catalog: StoreCatalog, name: str, tailer: TailerStatus) -> str | None:
    """Why a store is not served as it should be, None when it is."""
    try:
        with catalog.view(name).snapshot():
            pass
    except StoreNotReady as error:
        return str(error)
    status = tailer.stores.get(name)
    if status is None:
        return "the tailer has not begun with this store"
    return status.problem
