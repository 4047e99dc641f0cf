"""Serve the status of pipelines and stores, which they report in their files."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from oriel.app.contract import OPERATIONS
from oriel.app.guards import ACCESS, Access, sees_totals
from oriel.app.reads import StoreCatalog
from oriel.app.routes.health import store_problem
from oriel.storage import DataLayout, is_sink_name
from oriel.storage.monitoring import Overview, StoreOverview, overview, total_lag

_STATUS = OPERATIONS["status"]


def status_routes(catalog: StoreCatalog) -> APIRouter:
    """Return the route of one catalog."""
    router = APIRouter()

    @router.get(_STATUS.path, response_model=_STATUS.response_model)
    async def status(request: Request) -> Any:
        _STATUS.query.read(request.scope["query_string"])
        access: Access | None = request.scope.get(ACCESS)
        # The catalog belongs to the event loop.
        foreign = set(catalog.names_of_other_tables())

        def is_shown(store: str) -> bool:
            if is_sink_name(store) or store in foreign:
                return False
            return access is None or access.grants_store(store)

        sees_all = access is None or access.grants_all_stores()
        # A thread, because this reads files of every store.
        seen = await run_in_threadpool(_status, catalog.layout, is_shown, sees_all=sees_all)
        return seen if sees_totals(request.scope) else _without_totals(seen)

    return router


def _without_totals(seen: dict[str, Any]) -> dict[str, Any]:
    """Remove the numbers about all keys of a store, for a token for some keys."""
    pipelines = [{**one, "records_per_second": None, "lag": None} for one in seen["pipelines"]]
    hidden: dict[str, Any] = {
        "open_records": None,
        "state_bytes": None,
        "table_bytes": None,
        "files": None,
        "lag": None,
        "counters": {},
    }
    stores = [{**one, **hidden} for one in seen["stores"]]
    return {**seen, "pipelines": pipelines, "stores": stores}


def _status(
    layout: DataLayout, is_shown: Callable[[str], bool], *, sees_all: bool
) -> dict[str, Any]:
    try:
        seen = overview(layout.root, layout.index_root)
    except OSError as error:
        problem = (
            f"{layout.checkpoints}: cannot read the directory: {error.strerror}. Let the user of "
            "the service read it."
        )
        now_ms = time.time_ns() // 1_000_000
        return {"time_ms": now_ms, "problem": problem, "pipelines": [], "stores": []}
    pipelines = [
        {**asdict(pipeline), "stores": list(filter(is_shown, pipeline.stores))}
        for pipeline in seen.pipelines
    ]
    return {
        "time_ms": seen.time_ms,
        "problem": seen.tailer.silence or seen.tailer.problem,
        # A pipeline without a store that the token grants access to is not shown.
        "pipelines": [one for one in pipelines if sees_all or one["stores"]],
        "stores": [_store(layout, seen, one) for one in seen.stores if is_shown(one.name)],
    }


def _store(layout: DataLayout, seen: Overview, store: StoreOverview) -> dict[str, Any]:
    lag, lag_ms = total_lag(store.partitions)
    record = store.record
    stream_time_ms = max((one.stream_time_ms for one in store.partitions), default=-1)
    problem = store_problem(layout, store.name, seen.tailer)
    return {
        "store": store.name,
        "pipeline": store.application,
        "open_records": store.open_records,
        "state_bytes": store.state_bytes,
        "table_bytes": store.table_bytes,
        "files": store.files,
        "lag": lag,
        "lag_ms": lag_ms,
        "stream_time_ms": _time(stream_time_ms),
        "held_by": _held_by(store),
        "idle": [
            {"topic": one.topic, "partition": int(one.partition)}
            for one in store.partitions
            if one.is_idle
        ],
        "close_ms": None if record is None else _time(record.close_ms),
        "counters": {} if record is None else record.counters,
        "ready": problem is None,
        "problem": problem,
    }


def _held_by(store: StoreOverview) -> dict[str, Any] | None:
    if store.held_by is None:
        return None
    stream, partition = store.held_by
    # A topic that a store reads twice has two stream times, NAME and NAME#2.
    topic = stream.partition("#")[0]
    time_ms = next((one.stream_time_ms for one in store.partitions if one.holds_windows_open), -1)
    return {
        "topic": topic,
        "partition": partition if partition >= 0 else None,
        "stream_time_ms": _time(time_ms),
    }


def _time(time_ms: int) -> int | None:
    """Return a stream time, None before the first record."""
    return time_ms if time_ms >= 0 else None
