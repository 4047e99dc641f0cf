"""Health: does the process live, and can it do its work."""

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import OPERATIONS
from oriel.app.reads import StoreCatalog
from oriel.storage import StoreNotReady
from oriel.storage.tailer import StatusFile, TailerStatus

_HEALTH, _READINESS = OPERATIONS["health"], OPERATIONS["readiness"]


def health_routes(catalog: StoreCatalog, status_file: StatusFile) -> APIRouter:
    """Make the routes over one catalog and its tailer's status."""
    router = APIRouter()

    @router.get(_HEALTH.path, response_model=_HEALTH.answer)
    async def health(request: Request) -> Any:
        _HEALTH.query.read(request.scope["query_string"])
        return {"status": "ok"}

    @router.get(_READINESS.path)
    async def readiness(request: Request) -> Response:
        _READINESS.query.read(request.scope["query_string"])
        answer = _readiness(catalog, status_file.read())
        status = 200 if answer["ready"] else 503
        return Response(orjson.dumps(answer), status, media_type="application/json")

    return router


def _readiness(catalog: StoreCatalog, tailer: TailerStatus) -> dict[str, Any]:
    problems = {name: _store_problem(catalog, name, tailer) for name in catalog.names()}
    return {
        "ready": tailer.alive and not any(problems.values()),
        "tailer_alive": tailer.alive,
        "stores": {
            name: {"ready": problem is None, "problem": problem}
            for name, problem in problems.items()
        },
    }


def _store_problem(catalog: StoreCatalog, name: str, tailer: TailerStatus) -> str | None:
    """Why a store is not served as it should be, None when it is.

    A store whose tailer fails still answers, but from an old version: that must not stay unseen.
    """
    try:
        with catalog.view(name).snapshot():
            pass
    except StoreNotReady as error:
        return str(error)
    status = tailer.stores.get(name)
    if status is None:
        return "the tailer has not begun with this store"
    return status.problem
