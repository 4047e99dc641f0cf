"""Serve the health checks of the process, the service and the pipelines."""

from contextlib import suppress
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from oriel.app.contract import OPERATIONS
from oriel.app.reads import StoreCatalog
from oriel.storage import DataLayout, disk_problem, is_object
from oriel.storage.index import IndexDirectory, are_reads_blocked, damage
from oriel.storage.monitoring import pipeline_overviews, run_status_files, stopped_text
from oriel.storage.tailer import StatusFile, TailerStatus, stores_with_tables

_HEALTH, _READINESS = OPERATIONS["health"], OPERATIONS["readiness"]
_FRESHNESS = OPERATIONS["freshness"]


def health_routes(catalog: StoreCatalog, status_file: StatusFile) -> APIRouter:
    """Return the routes of one catalog and the status of its tailer."""
    router = APIRouter()

    @router.get(_HEALTH.path, response_model=_HEALTH.response_model)
    async def health(request: Request) -> Any:
        _HEALTH.query.read(request.scope["query_string"])
        return {"status": "ok"}

    @router.get(_READINESS.path)
    async def readiness(request: Request) -> Response:
        _READINESS.query.read(request.scope["query_string"])
        # The catalog belongs to the event loop.
        foreign = set(catalog.names_of_other_tables())
        # A thread, because this reads files of every store.
        report = await run_in_threadpool(
            lambda: _readiness(catalog.layout, status_file.read(), foreign)
        )
        status = 200 if report["ready"] else 503
        return Response(orjson.dumps(report), status, media_type="application/json")

    @router.get(_FRESHNESS.path)
    async def freshness(request: Request) -> Response:
        _FRESHNESS.query.read(request.scope["query_string"])
        # A thread, because this reads a file of each pipeline.
        report = await run_in_threadpool(lambda: _freshness(catalog.layout, status_file.read()))
        status = 200 if report["fresh"] else 503
        return Response(orjson.dumps(report), status, media_type="application/json")

    return router


def _freshness(layout: DataLayout, tailer: TailerStatus) -> dict[str, Any]:
    problem = tailer.silence or tailer.problem
    try:
        pipelines = list(pipeline_overviews(layout))
    except OSError as error:
        # The service must be able to read the tables, but not necessarily the checkpoints.
        problem, pipelines = disk_problem(error, layout.checkpoints) or str(error), []
    if not problem and not pipelines:
        problem = "No pipeline has run here. Start one with the same --data."
    return {
        "fresh": problem is None and not any(one.problem for one in pipelines),
        "problem": problem,
        "pipelines": {
            one.pipeline: {"state": one.state, "since_ms": one.since_ms, "problem": one.problem}
            for one in pipelines
        },
    }


def _readiness(layout: DataLayout, tailer: TailerStatus, foreign: set[str]) -> dict[str, Any]:
    # Only the tailer reads objects.
    tables = [] if is_object(layout.root) else stores_with_tables(layout)
    names = sorted((tailer.stores.keys() | set(tables)) - foreign)
    problems = {name: store_problem(layout, name, tailer) for name in names}
    problem = tailer.silence or tailer.problem
    return {
        "ready": problem is None and not any(problems.values()),
        "tailer_alive": tailer.alive,
        "problem": problem,
        "stores": {
            name: {"ready": problem is None, "problem": problem}
            for name, problem in problems.items()
        },
        "pipelines": _pipelines(layout),
    }


def _pipelines(layout: DataLayout) -> dict[str, Any]:
    """Return whether each pipeline runs. A stopped pipeline does not change the readiness."""
    pipelines: dict[str, Any] = {}
    # Only the tailer sends requests to an object store.
    if is_object(layout.root):
        return pipelines
    # The service must be able to read the tables, but not necessarily the checkpoints.
    with suppress(OSError):
        for name, file in run_status_files(layout).items():
            reported, seen_ms = file.read(), file.seen_ms()
            if reported is not None:
                run, is_alive = reported
                is_well = is_alive or run.retired_ms
                problem = None if is_well else stopped_text(name, seen_ms)
                pipelines[name] = {"running": is_alive, "seen_ms": seen_ms, "problem": problem}
    return pipelines


def store_problem(layout: DataLayout, name: str, tailer: TailerStatus) -> str | None:
    """Return why the service does not follow a store, None if it does.

    If the tailer of a store fails, the service still serves an old version of the store, so this
    must be visible. The check opens no index.
    """
    status = tailer.stores.get(name)
    if status is not None and status.problem is not None:
        return status.problem
    directory = IndexDirectory(layout.index(name))
    try:
        generation = directory.current()
        damaged = None if generation is None else damage(generation)
    except OSError as error:
        return f"the index cannot be read ({error})"
    if generation is None:
        problem = f"the index of store {name!r} is being built"
    elif damaged is not None:
        problem = f"the index is damaged ({damaged}) and is being rebuilt"
    elif are_reads_blocked(generation):
        # The status can be from a tailer before its restart.
        problem = f"the index of store {name!r} is being verified"
    elif status is None:
        problem = "the tailer has not opened this store yet"
    elif status.state == "building":
        problem = "the index is being rebuilt, and the service uses the previous index meanwhile"
    else:
        return None if status.state == "following" else f"the index is {status.state}"
    return problem
