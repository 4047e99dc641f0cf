"""Serve the operations of Prometheus' API."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from oriel.app.contract import (
    OPERATIONS,
    QUERY_TIMES_MAX,
    SERIES_LISTED_MAX,
    InvalidParameter,
    Operation,
)
from oriel.app.guards import ACCESS
from oriel.app.prometheus.evaluation import Result, evaluate, is_ordered
from oriel.app.prometheus.expressions import Node, Selector, parse, parse_selector, selectors_of
from oriel.app.prometheus.metrics import (
    NAME,
    STORE,
    Labels,
    components_of,
    key_labels,
    labels_of,
    metrics_of,
)
from oriel.app.prometheus.reading import StoreReads
from oriel.app.prometheus.recent import RecentColumnsOfStores
from oriel.app.prometheus.results import instant_result, range_result, success
from oriel.app.prometheus.windows import Grid
from oriel.app.reads import StoreCatalog

#: The version of Prometheus whose API and PromQL this is.
_API_VERSION = "2.45.0"
#: Selects all series.
_EVERYTHING = Selector(())
_TRUNCATED = "results truncated due to limit"


def prometheus_routes(catalog: StoreCatalog) -> APIRouter:
    """Return the routes of one catalog."""
    router = APIRouter()
    served = _Prometheus(catalog)
    for name, function in (
        ("queryWindows", served.query),
        ("queryWindowRange", served.query_range),
        ("findSeries", served.series),
        ("listLabels", served.labels),
        ("listLabelValues", served.label_values),
        ("listMetrics", served.metadata),
        ("showBuild", served.build),
    ):
        operation = OPERATIONS[name]
        methods = ["GET", "POST"] if operation.accepts_form else ["GET"]
        router.add_api_route(operation.path, _route(operation, function), methods=methods)
    return router


def _route(
    operation: Operation, function: Callable[[Request, Any], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        query_string: bytes = request.scope["query_string"]
        if request.method == "POST":
            # Clients can send parameters in the body and in the path.
            query_string += b"&" + await request.body()
        return await function(request, operation.query.read(query_string))

    return respond


class _Prometheus:
    """The operations over one catalog."""

    def __init__(self, catalog: StoreCatalog) -> None:
        self._catalog = catalog
        self._recent = RecentColumnsOfStores(catalog.changes)

    async def query(self, request: Request, values: Any) -> Response:
        now_ms = time.time_ns() // 1_000_000
        time_ms = now_ms if values["time"] is None else values["time"]
        grid = Grid(time_ms, 1, 1, values["lookback_delta"])

        node = parse(values["query"])

        def written(result: Result) -> bytes:
            return instant_result(result, grid, is_ordered=is_ordered(node))

        return await self._evaluated(request, node, grid, written)

    async def query_range(self, request: Request, values: Any) -> Response:
        grid = _grid_of(values)

        def written(result: Result) -> bytes:
            if isinstance(result, str):
                message = (
                    "query: a range query must have numbers as its result, not a string. Send "
                    "another expression."
                )
                raise InvalidParameter(message)
            return range_result(result, grid)

        return await self._evaluated(request, parse(values["query"]), grid, written)

    async def _evaluated(
        self, request: Request, node: Node, grid: Grid, written: Callable[[Result], bytes]
    ) -> Response:
        def computed() -> bytes:
            return written(evaluate(node, vectors, grid))

        with self._catalog.gate.long_read(), self._reads(request) as reads:
            vectors = {each: await reads.vector(each, grid) for each in selectors_of(node)}
            return _response(await asyncio.to_thread(computed), reads)

    async def series(self, request: Request, values: Any) -> Response:
        with self._catalog.gate.long_read(), self._reads(request) as reads:
            found = await _series(reads, values)
            shown, warnings = _limited(sorted(found), values["limit"])
            return _response(success([dict(each) for each in shown], warnings), reads)

    async def labels(self, request: Request, values: Any) -> Response:
        with self._catalog.gate.long_read(), self._reads(request) as reads:
            if values["match[]"]:
                found = {name for each in await _series(reads, values) for name, _ in each}
            else:
                found = {
                    name
                    for snapshot in reads.definitions()
                    if metrics_of(snapshot.state.definition)
                    for name in (NAME, STORE, *key_labels(snapshot.state.definition))
                }
            shown, warnings = _limited(sorted(found), values["limit"])
            return _response(success(shown, warnings), reads)

    async def label_values(self, request: Request, values: Any) -> Response:
        (parameter,) = OPERATIONS["listLabelValues"].path_parameters
        label = parameter.read(request.scope["raw_path"].split(b"/")[5])
        with self._catalog.gate.long_read(), self._reads(request) as reads:
            if label in {NAME, STORE} and not values["match[]"]:
                found = {
                    metric.name if label == NAME else snapshot.state.definition.name
                    for snapshot in reads.definitions()
                    for metric in metrics_of(snapshot.state.definition)
                }
            else:
                series = await _series(reads, values)
                found = {value for each in series for name, value in each if name == label}
            shown, warnings = _limited(sorted(found), values["limit"])
            return _response(success(shown, warnings), reads)

    async def metadata(self, request: Request, values: Any) -> Response:
        with self._reads(request) as reads:
            found: dict[str, list[dict[str, str]]] = {}
            for snapshot in reads.definitions():
                for metric in metrics_of(snapshot.state.definition):
                    if values["metric"] in {None, metric.name}:
                        described = {"type": "gauge", "help": metric.help, "unit": ""}
                        found.setdefault(metric.name, []).append(described)
            shown, _ = _limited(sorted(found.items()), values["limit"])
            return _response(success(dict(shown)), reads)

    async def build(self, request: Request, values: Any) -> Response:
        del request, values
        names = ("revision", "branch", "buildUser", "buildDate", "goVersion")
        return _json(success({"version": _API_VERSION, **dict.fromkeys(names, "")}))

    def _reads(self, request: Request) -> StoreReads:
        return StoreReads(self._catalog, self._recent, request.scope.get(ACCESS))


def _grid_of(values: Any) -> Grid:
    start_ms, end_ms, step_ms = values["start"], values["end"], values["step"]
    if end_ms < start_ms:
        message = f"end must not be before start. Send an end of at least {start_ms / 1000:g}."
        raise InvalidParameter(message)
    count = (end_ms - start_ms) // step_ms + 1
    if count > QUERY_TIMES_MAX:
        message = (
            f"step: the query has {count:,} times, and at most {QUERY_TIMES_MAX:,} are possible. "
            "Send a greater step."
        )
        raise InvalidParameter(message)
    return Grid(start_ms, step_ms, count, values["lookback_delta"])


async def _series(reads: StoreReads, values: Any) -> set[Labels]:
    """Return the series that the selectors of a request select, one more than the limit."""
    series: set[Labels] = set()
    selectors = [parse_selector(text) for text in values["match[]"]] or [_EVERYTHING]
    for selector in selectors:
        for snapshot, selection, keys in await reads.keys(selector, SERIES_LISTED_MAX + 1):
            definition = snapshot.state.definition
            names, components = key_labels(definition), components_of(definition)
            series.update(
                labels_of(metric.name, definition.name, names, components(key))
                for metric in selection.metrics
                for key in keys
            )
    return series


def _limited(found: list[Any], limit: int) -> tuple[list[Any], list[str]]:
    most = min(limit or SERIES_LISTED_MAX, SERIES_LISTED_MAX)
    return found[:most], [_TRUNCATED] if len(found) > most else []


def _response(body: bytes, reads: StoreReads) -> Response:
    response = _json(body)
    if positions := reads.positions():
        response.raw_headers.append((b"oriel-positions", positions))
    return response


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
