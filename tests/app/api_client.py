"""A client that calls the service in this process, with the bytes that a server would pass."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson

from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from oriel.storage import DataLayout, StoreDefinition, WindowSpec
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexDirectory
from oriel.storage.monitoring import RunStatus, RunStatusFile
from oriel.storage.tailer import StatusFile, StoreStatus
from oriel.storage.tailer.store import StoreTailer
from tests.storage.store_tables import SLIDING, Row, StoreTable, make_definition

_STEPS_MAX = 100


class ApiResponse(NamedTuple):
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return orjson.loads(self.body)


def starts(response: ApiResponse) -> list[int]:
    """Return the window starts of a successful response, in its order."""
    assert response.status == 200, response.body
    return [window["window_start_ms"] for window in response.json["windows"]]


class ApiClient:
    """Calls one service. Paths are passed raw, without normalization."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def get(
        self,
        target: str | bytes,
        headers: Sequence[tuple[str, str]] = (),
        method: str = "GET",
    ) -> ApiResponse:
        """Send one request, with path and query as they are on the wire."""
        return asyncio.run(self.call(target, headers, method))

    def post(
        self, target: str, body: bytes, headers: Sequence[tuple[str, str]] = ()
    ) -> ApiResponse:
        """Send one request with a body."""
        return asyncio.run(self.call(target, headers, "POST", body))

    async def call(
        self,
        target: str | bytes,
        headers: Sequence[tuple[str, str]] = (),
        method: str = "GET",
        body: bytes = b"",
    ) -> ApiResponse:
        """Send one request on the running event loop."""
        raw = target.encode() if isinstance(target, str) else target
        raw_path, _, query = raw.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path.decode("latin-1")),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        return await _call(self.service, scope, body)


async def _call(service: Service, scope: dict[str, Any], body: bytes) -> ApiResponse:
    sent: list[dict[str, Any]] = []

    received = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        message = next(received, None)
        if message is None:
            # The only further message is a disconnect, which this client never sends.
            await asyncio.Event().wait()
        return message or {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    try:
        await service(scope, receive, send)
    except Exception:
        # A server logs an error after a complete response. Without a response, the test must fail.
        if len(sent) < 2:
            raise
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    body_sent = b"".join(message.get("body", b"") for message in sent[1:])
    return ApiResponse(sent[0]["status"], headers, body_sent)


def index_store(layout: DataLayout, name: str) -> None:
    """Update the index of a store to the version of its table."""
    tailer = StoreTailer(
        DeltaLog(layout.table(name)), IndexDirectory(layout.index(name)), layout.shard
    )
    for _ in range(_STEPS_MAX):
        if not tailer.step():
            break
    tailer.close()


class Served:
    """A data directory with one or more stores, and a client of its service."""

    def __init__(self, data: Path, definition: StoreDefinition) -> None:
        """Create the store's table, without an index."""
        self.data = data
        self.definition = definition
        self.table = StoreTable(data, self.definition)
        self._tables = {definition.name: self.table}
        self.service = Service(data, ServiceSettings(sql=True))
        self.client = ApiClient(self.service)

    @property
    def get(self) -> Any:
        """Send a request."""
        return self.client.get

    @property
    def post(self) -> Any:
        """Send a request with a body."""
        return self.client.post

    def commit(self, *rows: Row) -> None:
        """Commit a batch and index it."""
        self.table.commit(rows)
        self.index()

    def add(self, definition: StoreDefinition, *rows: Row) -> None:
        """Create another store with these rows, and index it."""
        self._tables[definition.name] = StoreTable(self.data, definition)
        self._tables[definition.name].commit(rows)
        self.index(definition.name)

    def index(self, *names: str) -> None:
        """Update these indexes, or all without names, as the tailer does.

        LMDB allows one open environment per file and process, so the service closes its own first.
        """
        self.service.catalog.close()
        for name in names or self._tables:
            index_store(DataLayout(self.data), name)

    def tailer_says(self, status: StoreStatus | None) -> None:
        """Write this status of the tailer for every store."""
        stores = {} if status is None else dict.fromkeys(self._tables, status)
        StatusFile(DataLayout(self.data)).write(stores)

    def pipeline_says(self, application: str = "flights", **changes: Any) -> RunStatusFile:
        """Write the status of a running pipeline that read its log a moment ago and is idle."""
        return write_pipeline_status(self.data, application, **changes)


def write_pipeline_status(
    data: Path, application: str = "flights", **changes: Any
) -> RunStatusFile:
    """Write the status of a running pipeline that read its log a moment ago and is idle."""
    now_ms = time.time_ns() // 1_000_000
    status = RunStatus(
        application=application, process=1, host="here", started_ms=now_ms - 9000,
        batch_ms=now_ms - 500, batches=4, phase_seconds={}, total_phase_seconds={},
        offset_unit="records", log_ends={}, stores={}, log_ends_ms=now_ms,
    )  # fmt: skip
    checkpoint = DataLayout(data).checkpoint(application)
    checkpoint.mkdir(parents=True, exist_ok=True)
    file = RunStatusFile(checkpoint)
    file.write(replace(status, **changes))
    return file


@contextmanager
def served(
    data: Path, retention_ms: int | None = None, window: WindowSpec = SLIDING
) -> Iterator[Served]:
    """Yield a served store, and close it at the end."""
    made = Served(data, make_definition(retention_ms=retention_ms, window=window))
    yield made
    made.service.catalog.close()
    assert made.service.sql is not None
    made.service.sql.close()
