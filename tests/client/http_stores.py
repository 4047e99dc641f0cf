"""The stores of the client as implementations of the contracts, for the conformance suites.

A request passes through the client, HTTP messages and the service in this process. Over HTTP, the
next page follows a cursor. So an adapter remembers the cursor after each page.

The API has no equivalent of some fields of a range. An adapter reads items one by one until it has
``bytes_max`` bytes, and selects keys by their prefix itself. It ignores ``records_max``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson

from oriel.app.server import Service
from oriel.client import (
    Client,
    KeyValueStoreClient,
    Problem,
    Results,
    Row,
    SessionStoreClient,
    Window,
    WindowStoreClient,
)
from oriel.client.records import json_of
from oriel.storage import (
    DataLayout,
    KeyTypeMismatch,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
    WindowSpec,
)
from oriel.storage.contracts import UNBOUNDED, KeyPage
from oriel.storage.index import IndexDirectory
from oriel.testing import Put
from tests.app.api_client import ApiClient
from tests.storage.written_index import write_index
from tests.storage.written_tables import is_plain

Item = TypeVar("Item")


class InProcess(httpx.BaseTransport):
    """Sends the requests of httpx to a service in this process."""

    def __init__(self, service: Service) -> None:
        self._client = ApiClient(service)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response of the service."""
        response = self._client.get(request.url.raw_path, request.headers.multi_items())
        return httpx.Response(response.status, headers=response.headers, content=response.body)


class HttpStore:
    """The common parts of all stores."""

    def __init__(self, store: WindowStoreClient | KeyValueStoreClient, *, is_packed: bool) -> None:
        """Wrap a store of the client. A packed value is in the column ``last``."""
        self._of_any = store
        self._is_packed = is_packed
        self._cursors: dict[object, str] = {}

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """See ``ReadOnlyStore``."""
        del records_max
        place = None if after is None else self._cursors["keys", prefix, after]
        keys, cursor = self._items(self._of_any.keys(prefix), place, limit)
        if cursor is None:
            return KeyPage(keys, None)
        self._cursors["keys", prefix, keys[-1]] = cursor
        return KeyPage(keys, keys[-1])

    def _scan_page(self, results: Results[Any], scan_range: ScanRange) -> ScanPage:
        if scan_range.prefix:
            # The service rejects a prefix that does not fit the key type.
            self.keys(scan_range.prefix, 1)
        place = None if scan_range.after is None else scan_range.after.decode()
        items, cursor = self._items(
            results, place, scan_range.limit, scan_range.bytes_max, scan_range.prefix
        )
        next_after = None if cursor is None else cursor.encode()
        return ScanPage([self._json(item) for item in items], next_after)

    def _items(
        self, results: Results[Item], cursor: str | None, limit: int,
        bytes_max: int = UNBOUNDED, prefix: str = "",
    ) -> tuple[list[Item], str | None]:  # fmt: skip
        """Return the items after a cursor, and the cursor after the last item."""
        items: list[Item] = []
        size = 0
        while True:
            page_size = 1 if bytes_max < UNBOUNDED else limit - len(items)
            read = replace(results._read, page_size=page_size)
            try:
                page = results._runner.run(read.page(cursor))
            except Problem as problem:
                if problem.code == "unfit-key":
                    raise KeyTypeMismatch(problem.detail) from problem
                raise
            found = [item for item in page.items if _key(item).startswith(prefix)]
            items += found
            size += sum(len(self._json(item)) for item in found if isinstance(item, Row))
            cursor = page.next_cursor
            if cursor is None or len(items) >= limit or size >= bytes_max:
                return items, cursor

    def _json(self, item: Row) -> bytes:
        if self._is_packed:
            return str(item["last"]).encode()
        assert isinstance(item, Window)
        return orjson.dumps(json_of(item))

    def _json_or_none(self, item: Row | None) -> bytes | None:
        return None if item is None else self._json(item)


class HttpWindowStore(HttpStore):
    """A window store of the client as a ``ReadOnlyWindowStore`` of the contracts."""

    def __init__(self, store: WindowStoreClient, *, is_packed: bool) -> None:
        super().__init__(store, is_packed=is_packed)
        self._store = store

    @property
    def earliest_ms(self) -> int:
        """See ``ReadOnlyWindowStore``."""
        described = self._store.describe()
        start_ms, end_ms = described["earliest_start_ms"], described["earliest_end_ms"]
        return int(end_ms if start_ms is None else start_ms)

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        return self._json_or_none(self._store.window(key, window_start_ms))

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return self._by_start(self._store.fetch, window_range)

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        return self._by_start(self._store.backward_fetch, window_range)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        return self._json_or_none(self._store.latest(key))

    def current(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        return self._json_or_none(self._store.current(key))

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        key_from, key_to, prefix, *_ = scan_range
        results = self._store.latest_all(key_from, key_to, prefix=prefix)
        return self._scan_page(results, scan_range)

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyWindowStore``."""
        key_from, key_to, prefix, *_ = scan_range
        results = self._store.current_all(key_from, key_to, prefix=prefix)
        return self._scan_page(results, scan_range)

    def scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        key_from, key_to, _, from_ms, to_ms, *_ = scan_range
        results = self._store.fetch_range(key_from, key_to, from_ms, to_ms, final=scan_range.final)
        return self._scan_page(results, scan_range)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        key_from, key_to, _, from_ms, to_ms, *_ = scan_range
        results = self._store.backward_fetch_range(
            key_from, key_to, from_ms, to_ms, final=scan_range.final
        )
        return self._scan_page(results, scan_range)

    def _by_start(
        self, read: Callable[..., Results[Window]], window_range: WindowRange
    ) -> WindowPage:
        key, from_ms, to_ms, *_ = window_range
        return self._window_page(read(key, from_ms, to_ms, final=window_range.final), window_range)

    def _window_page(
        self, results: Results[Window], read_range: WindowRange | SessionRange
    ) -> WindowPage:
        request, after = results._read.request, read_range.after
        place = None if after is None else self._cursors[request, after]
        windows, cursor = self._items(results, place, read_range.limit, read_range.bytes_max)
        items = [self._json(window) for window in windows]
        if cursor is None:
            return WindowPage(items, None)
        last = WindowId(windows[-1].start_ms, windows[-1].end_ms)
        self._cursors[request, last] = cursor
        return WindowPage(items, last)


class HttpSessionStore(HttpWindowStore):
    """A session store of the client as a ``ReadOnlySessionStore`` of the contracts."""

    def __init__(self, store: SessionStoreClient, *, is_packed: bool) -> None:
        super().__init__(store, is_packed=is_packed)
        self._sessions = store

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """See ``ReadOnlySessionStore``."""
        return self._json_or_none(self._sessions.fetch_session(key, window_start_ms, window_end_ms))

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        key, end_ms, start_ms, *_ = session_range
        results = self._sessions.find_sessions(key, end_ms, start_ms, final=session_range.final)
        return self._window_page(results, session_range)

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """See ``ReadOnlySessionStore``."""
        key, end_ms, start_ms, *_ = session_range
        results = self._sessions.backward_find_sessions(
            key, end_ms, start_ms, final=session_range.final
        )
        return self._window_page(results, session_range)


class HttpKeyValueStore(HttpStore):
    """A store of the client without windows as a ``ReadOnlyKeyValueStore`` of the contracts."""

    def __init__(self, store: KeyValueStoreClient, *, is_packed: bool) -> None:
        super().__init__(store, is_packed=is_packed)
        self._store = store

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        return self._json_or_none(self._store.get(key))

    def approximate_num_entries(self) -> int:
        """See ``ReadOnlyKeyValueStore``."""
        return self._store.approximate_num_entries()

    def scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        key_from, key_to, prefix, *_ = scan_range
        results = (
            self._store.prefix_scan(prefix)
            if prefix and key_from is None and key_to is None
            else self._store.range(key_from, key_to)
        )
        return self._scan_page(results, scan_range)

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """See ``ReadOnlyStore``."""
        key_from, key_to, *_ = scan_range
        return self._scan_page(self._store.reverse_range(key_from, key_to), scan_range)


@contextmanager
def http_stores(data: Path, window: WindowSpec) -> Iterator[Callable[..., Any]]:
    """Yield a function that creates a store of puts that a service serves, with a retention.

    A second call with equal arguments returns a store of the same index, because no test writes to
    it.
    """
    layout, service = DataLayout(data), Service(data)
    written: dict[object, str] = {}
    kind = window.kind

    def make(
        puts: Iterable[Put], retention_ms: int | None = None, *, key_type: str = "text"
    ) -> Any:
        every = tuple(puts)
        is_packed = not (kind.is_windowed and all(map(is_plain, every)))
        name = written.get((every, retention_ms, key_type))
        if name is None:
            name = written[every, retention_ms, key_type] = f"store{len(written)}"
            rows = _packed(every, is_windowed=kind.is_windowed) if is_packed else every
            write_index(IndexDirectory(layout.index(name)), rows, retention_ms, window, key_type)
        if not kind.is_windowed:
            return HttpKeyValueStore(client.key_value_store(name), is_packed=is_packed)
        if kind.is_session:
            return HttpSessionStore(client.session_store(name), is_packed=is_packed)
        return HttpWindowStore(client.window_store(name), is_packed=is_packed)

    with Client("http://127.0.0.1", transport=InProcess(service)) as client:
        yield make
    service.catalog.close()


def _packed(puts: Sequence[Put], *, is_windowed: bool) -> list[Put]:
    """Return the puts with their values in the column ``last`` of a window or row."""
    packed = []
    for put in puts:
        times = {"window_start_ms": put.start_ms, "window_end_ms": put.end_ms}
        fields = {
            "key": put.key, **(times if is_windowed else {}), "last": put.value.decode(),
            "timestamp_ms": 0, **({"final": False} if is_windowed else {}),
        }  # fmt: skip
        packed.append(put._replace(value=orjson.dumps(fields)))
    return packed


def _key(item: object) -> str:
    return item.key if isinstance(item, Row) else str(item)
