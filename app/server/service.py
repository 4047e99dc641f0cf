"""The service as one ASGI application, with the hot reads before FastAPI."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from oriel.app.contract import (
    CODINGS,
    ApiError,
    RequestTooSlow,
    ShuttingDown,
    codings_of,
    describe,
    problem_response,
)
from oriel.app.formats import Compressor
from oriel.app.guards import (
    PROBE_PATHS,
    WHOLE_RESPONSE,
    AccessGuard,
    AllowedHosts,
    App,
    Gate,
    Receive,
    Scope,
    Send,
    hide_other_stores,
    make_verifiers,
    whole_body,
)
from oriel.app.page import dashboard_routes
from oriel.app.prometheus import prometheus_routes
from oriel.app.push import EventStreams, watched_store
from oriel.app.reads import (
    HotReads,
    StoreCatalog,
    key_of_target,
    require_own_keys,
    route,
)
from oriel.app.routes import (
    dead_letter_routes,
    docs_routes,
    health_routes,
    listed_key_routes,
    metrics_routes,
    status_routes,
    store_routes,
    table_routes,
    topology_routes,
)
from oriel.app.server.coded import coded
from oriel.app.server.settings import ServiceSettings
from oriel.app.sql import SqlProcesses, sql_routes
from oriel.app.telemetry import Metrics, Observed, Work, is_traced, traced
from oriel.storage import ALL_KEYS, DataLayout, Shard, StorageError, UnknownStore
from oriel.storage.tailer import StatusFile

#: Additional header fields that a page from another web server can read.
_EXPOSED = (
    "ETag", "Oriel-History", "Oriel-Items", "Oriel-Lag", "Oriel-Next-Cursor", "Oriel-Offsets",
    "Oriel-Owner", "Oriel-Positions", "Oriel-Truncated", "Oriel-Version", "Retry-After",
)  # fmt: skip


class Service:
    """The ASGI application over one data directory."""

    def __init__(
        self,
        data: Path,
        settings: ServiceSettings | None = None,
        index: Path | None = None,
        shard: Shard = ALL_KEYS,
    ) -> None:
        """Create the application. The first requests open the indexes, after any fork.

        Args:
            data: The data directory.
            settings: The settings. Default: ``ServiceSettings()``.
            index: The directory of the indexes. Default: in ``data``.
            shard: The keys of the indexes.
        """
        settings = settings or ServiceSettings()
        layout = DataLayout(data, index, shard)
        self._shard = shard
        self.gate = Gate(settings.limits)
        self.catalog = StoreCatalog(layout, self.gate)
        self.measures = Metrics(self.catalog.has)
        self.sql = SqlProcesses(layout.root, settings.limits) if settings.sql else None
        self.api = create_api(self, StatusFile(layout), layout, settings)
        self._compressor = Compressor()
        self._hot_reads = HotReads(self.catalog, self.gate, self._compressor)
        self._hosts = AllowedHosts(settings.allowed_hosts)
        verifiers = make_verifiers(settings.token_settings())
        self._access = (
            AccessGuard(verifiers, open_probes=settings.open_probes) if verifiers else None
        )
        self.streams = EventStreams(self.catalog, self.gate, self._access)
        app: App = Observed(self._guarded, self.measures, access_log=settings.access_log)
        if settings.cors_origins:
            # Before the guards, because a browser sends the preflight request without a token.
            app = _with_cors(app, settings.cors_origins)
        if is_traced():
            app = traced(app)
        self._app = app
        #: False if a third-party layer is outermost. Such a layer knows only standard messages.
        self._is_plain = isinstance(app, Observed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Failures become problem documents."""
        if scope["type"] != "http":
            await self.api(scope, receive, send)
            return
        if not self._is_plain:
            extensions = dict(scope.get("extensions", {}))
            extensions.pop(WHOLE_RESPONSE, None)
            scope = {**scope, "extensions": extensions}
        await self._app(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request if it is allowed and within the limits."""
        try:
            self._check(scope)
            if scope["method"] == "POST":
                receive = await whole_body(receive)
                await self.gate.begin_list()
            await self._in_slot(scope, receive, send)
        except (ApiError, UnknownStore) as error:
            await _send_problem(error, scope, send)
        except asyncio.CancelledError:
            # The worker ends, or the client has disconnected. Then nothing is sent to the client.
            await _send_problem(
                ShuttingDown("The worker is shutting down. Send the request again."), scope, send
            )

    def _check(self, scope: Scope) -> None:
        host = authorization = None
        accept_encoding = b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"authorization":
                authorization = value
            elif name == b"accept-encoding":
                # Several lines are one list (RFC 9110, 5.3).
                accept_encoding = accept_encoding + b"," + value if accept_encoding else value
        self._hosts.check(host)
        if self._access is not None:
            self._access.check(scope, authorization)
        if accept_encoding and (codings := codings_of(accept_encoding)) is not None:
            scope[CODINGS] = codings

    async def _in_slot(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["raw_path"] in PROBE_PATHS:
            await self._serve(scope, receive, send)
            return
        self.gate.enter()
        try:
            await self._serve(scope, receive, send)
        finally:
            self.gate.leave()

    def set_work_metrics(self, connections: int) -> None:
        """Set the metrics of the work in progress."""
        gate = self.gate
        self.measures.set_work(
            Work(gate.requests, gate.waiting, gate.streams, gate.unsent_bytes, connections)
        )

    def follow_tokens(self) -> None:
        """Read tokens and keys again if it is time, even if no request arrives."""
        if self._access is not None:
            self._access.follow()

    def stop_waiting(self) -> None:
        """End all waits of requests, because the worker ends."""
        self.catalog.stop_waiting()
        self.measures.flush()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = route(scope["raw_path"])
        is_cold = False
        try:
            if target is not None:
                if not self._shard.is_all:  # the key is decoded once more for it
                    require_own_keys(self._shard, key_of_target(target))
                await self._hot_reads.serve(target, scope, send)
            elif (store := watched_store(scope["raw_path"])) is not None:
                await self.streams.serve(store, scope, send)
            else:
                is_cold = True
                bounded = send
                if scope["raw_path"] not in PROBE_PATHS:
                    # Probes use no slot of the gate.
                    bounded = _refusing(scope, self.gate.bounded(scope, send), send)
                send_cold = _no_store(coded(self._compressor, scope, bounded))
                await self.gate.in_time(self.api, _cold_scope(scope), receive, send_cold)
        except RequestTooSlow as error:
            await _send_problem(error, scope, send)
        except Exception as error:
            if is_cold:
                # FastAPI has already responded, and the server logs the error.
                raise
            await _send_problem(error, scope, send)


def _with_cors(app: App, origins: tuple[str, ...]) -> App:
    layer: App = CORSMiddleware(
        cast("Any", app),
        allow_origins=origins,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("Accept", "Authorization", "If-None-Match", "Last-Event-ID"),
        expose_headers=_EXPOSED,
    )
    return layer


def _cold_scope(scope: Scope) -> Scope:
    """Return the scope of a request for FastAPI.

    Routes match the path as it was sent. So %2F is a character of a name and not a separator, and
    a client cannot evade a rejection by another spelling of the path.
    """
    # The server omits the body of HEAD, and the routes handle only GET.
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    return {**scope, "method": method, "path": scope["raw_path"].decode("latin-1")}


def _no_store(send: Send) -> Send:
    """Add ``no-store`` to responses without ``cache-control``, because they are outdated soon."""

    async def send_no_store(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = list(message["headers"])
            if not any(name == b"cache-control" for name, _ in headers):
                message = {**message, "headers": [*headers, (b"cache-control", b"no-store")]}
        await send(message)

    return send_no_store


def _refusing(scope: Scope, bounded: Send, send: Send) -> Send:
    """Send a problem document instead of a response that the gate refuses.

    FastAPI has already begun its response, so it can't respond to the error.
    """

    async def send_or_refuse(message: Any) -> None:
        try:
            await bounded(message)
        except ApiError as error:
            await _send_problem(error, scope, send)

    return send_or_refuse


async def _send_problem(error: Exception, scope: Scope, send: Send) -> None:
    shown_error = hide_other_stores(scope, error)
    status, headers, body = problem_response(shown_error, scope["raw_path"].decode("latin-1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def create_api(
    service: Service, status_file: StatusFile, layout: DataLayout, settings: ServiceSettings
) -> FastAPI:
    """Return the FastAPI application: cold routes, OpenAPI document and problem documents."""
    catalog = service.catalog

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.streams.close()
        if service.sql is not None:
            service.sql.close()
        catalog.close()

    api = FastAPI(
        openapi_url="/openapi.json",
        # FastAPI's pages load scripts from other servers. The pages of the service work offline.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    api.include_router(store_routes(catalog, status_file))
    api.include_router(table_routes(catalog))
    api.include_router(dead_letter_routes(catalog))
    api.include_router(listed_key_routes(catalog))
    api.include_router(prometheus_routes(catalog))
    api.include_router(sql_routes(service.sql))
    api.include_router(health_routes(catalog, status_file))
    api.include_router(status_routes(catalog))
    api.include_router(topology_routes(layout))
    api.include_router(metrics_routes(catalog, service.measures, layout))
    api.include_router(docs_routes())
    api.include_router(dashboard_routes())
    for error in (StorageError, ApiError, HTTPException, Exception):
        api.add_exception_handler(error, _problem_response)
    # FastAPI does not have the hot reads. The records describe all operations in the same way.
    document = describe(settings.limits)
    api.openapi = lambda: document  # type: ignore[method-assign]
    return api


async def _problem_response(request: Request, error: Exception) -> Response:
    shown_error = hide_other_stores(dict(request.scope), error)
    status, headers, body = problem_response(
        shown_error, request.scope["raw_path"].decode("latin-1")
    )
    response = Response(body, status)
    response.raw_headers = headers
    return response
