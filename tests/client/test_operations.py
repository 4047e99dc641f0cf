"""Tests that the client's reads match the service's operations: names, paths and parameters."""

import inspect
import json
import re
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from oriel.app.contract import OPERATIONS
from oriel.client import (
    AsyncKeyValueStoreClient,
    AsyncSessionStoreClient,
    AsyncVersionedStoreClient,
    AsyncWindowStoreClient,
    Client,
    KeyValueStoreClient,
    Position,
    SessionStoreClient,
    SqlRows,
    VersionedStoreClient,
    WindowStoreClient,
    row_reads,
    session_reads,
    store_reads,
    version_reads,
    window_reads,
    window_scans,
)
from oriel.client.protocol import Address, PagedRead, Read, Request

_ADDRESS = Address("store")
_KEYS = ("k1", "k2")
_STARTS = (1, "2013-01-01")
_ENDS = (1, 2)

#: Each read with all of its bounds.
READS: dict[str, PagedRead[Any] | Read[Any]] = {
    "fetch": window_reads.fetch(_ADDRESS, "k", *_STARTS),
    "backwardFetch": window_reads.backward_fetch(_ADDRESS, "k", *_STARTS),
    "latest": window_reads.latest(_ADDRESS, "k"),
    "current": window_reads.current(_ADDRESS, "k"),
    "covering": window_reads.covering(_ADDRESS, "k", 5),
    "merged": window_reads.merged(_ADDRESS, "k", *_STARTS, step_ms=60_000),
    "window": window_reads.window(_ADDRESS, "k", 5),
    "fetchRange": window_scans.fetch_range(_ADDRESS, *_KEYS, *_STARTS),
    "backwardFetchRange": window_scans.backward_fetch_range(_ADDRESS, *_KEYS, *_STARTS),
    "fetchAll": window_scans.fetch_all(_ADDRESS, *_STARTS),
    "backwardFetchAll": window_scans.backward_fetch_all(_ADDRESS, *_STARTS),
    "all": window_scans.all_windows(_ADDRESS),
    "backwardAll": window_scans.backward_all_windows(_ADDRESS),
    "latestAll": window_scans.latest_all(_ADDRESS, *_KEYS, prefix="k"),
    "currentAll": window_scans.current_all(_ADDRESS, *_KEYS, prefix="k"),
    "mergedAll": window_scans.merged_all(_ADDRESS, *_KEYS, *_STARTS, step_ms=60_000, prefix="k"),
    "findSessions": session_reads.find_sessions(_ADDRESS, "k", *_ENDS),
    "backwardFindSessions": session_reads.backward_find_sessions(_ADDRESS, "k", *_ENDS),
    "findSessionsRange": session_reads.find_sessions_range(_ADDRESS, *_KEYS, *_ENDS),
    "backwardFindSessionsRange": session_reads.backward_find_sessions_range(
        _ADDRESS, *_KEYS, *_ENDS
    ),
    "session": session_reads.fetch_session(_ADDRESS, "k", 1, 2),
    "get": version_reads.get_as_of(_ADDRESS, "k", 5),
    "versions": version_reads.versions(_ADDRESS, "k", *_STARTS),
    "backwardVersions": version_reads.backward_versions(_ADDRESS, "k", *_STARTS),
    "range": row_reads.range_of_keys(_ADDRESS, *_KEYS),
    "reverseRange": row_reads.reverse_range(_ADDRESS, *_KEYS),
    "prefixScan": row_reads.prefix_scan(_ADDRESS, "k"),
    "reverseAll": row_reads.reverse_all_rows(_ADDRESS),
    "latestOfKeys": window_reads.latest_of_keys(_ADDRESS, ["a", "b"]),
    "currentOfKeys": window_reads.current_of_keys(_ADDRESS, ["a", "b"]),
    "fetchOfKeys": window_reads.fetch_of_keys(_ADDRESS, ["a", "b"], *_STARTS),
    "backwardFetchOfKeys": window_reads.backward_fetch_of_keys(_ADDRESS, ["a", "b"], *_STARTS),
    "mergedOfKeys": window_reads.merged_of_keys(_ADDRESS, ["a"], *_STARTS, step_ms=60_000),
    "getOfKeys": row_reads.get_of_keys(_ADDRESS, ["a", "b"]),
    "approximateNumEntries": row_reads.approximate_num_entries(_ADDRESS),
    "listKeys": store_reads.keys(_ADDRESS, "k"),
    "status": store_reads.status(),
    "topology": store_reads.topology(),
    "sql": store_reads.sql("SELECT 1", 60.0),
}

#: Alternative names of operations, which the client only has by their first name.
_ALIASES = {"fetchSession"}


def _request(read: PagedRead[Any] | Read[Any]) -> Request:
    return read.page().request if isinstance(read, PagedRead) else read.request


def test_every_hot_read_has_a_read_of_the_client() -> None:
    """Each hot read of the service has a read in the client."""
    hot = {name for name, operation in OPERATIONS.items() if operation.is_hot}
    assert hot - _ALIASES <= READS.keys()


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() & READS.keys()))
def test_a_read_requests_the_format_of_its_operation(name: str) -> None:
    """The request of a read has the operation's path, and valid parameters and values."""
    operation, request = OPERATIONS[name], _request(READS[name])
    pattern = re.sub(r"{(\w+)}", lambda match: f"(?P<{match[1]}>[^/]+)", operation.path)
    match = re.fullmatch(pattern, request.path)
    assert match, request.path
    for parameter in operation.path_parameters:
        parameter.read(unquote(match[parameter.name]).encode())
    known = {parameter.name: parameter for parameter in operation.query.parameters}
    for parameter_name, value in request.query:
        known[parameter_name].read(value)


def test_a_stream_has_the_parameters_of_its_operation() -> None:
    """The service parses the client's keys, columns, current flag and resume position."""
    stream = store_reads.watch_windows(
        _ADDRESS, "k", "l", after=3, columns=["n", "mean"], current=True
    )
    query = "&".join(f"{name}={value}" for name, value in stream.request.query)
    values = OPERATIONS["watch"].query.read(query.encode())
    assert (values["key"], values["after"]) == (("k", "l"), "3")
    assert (values["columns"], values["current"]) == (("n", "mean"), True)
    plain = dict(store_reads.watch_rows(_ADDRESS).request.query)
    assert plain == {}


@pytest.mark.parametrize(
    ("store", "other"),
    [
        (WindowStoreClient, AsyncWindowStoreClient),
        (SessionStoreClient, AsyncSessionStoreClient),
        (KeyValueStoreClient, AsyncKeyValueStoreClient),
        (VersionedStoreClient, AsyncVersionedStoreClient),
    ],
)
def test_both_clients_have_the_same_reads(store: type, other: type) -> None:
    """Both clients have the same reads with the same docstrings."""
    names = {name for name in dir(store) if not name.startswith("_")}
    assert names == {name for name in dir(other) if not name.startswith("_")}
    for name in names:
        assert inspect.getdoc(getattr(store, name)) == inspect.getdoc(getattr(other, name)), name
        assert inspect.getdoc(getattr(store, name)), name


def test_paging_becomes_parameters() -> None:
    """Columns, `final` and page sizes become query parameters."""
    read = window_reads.fetch(
        _ADDRESS, "k", final=False, columns=["n", "mean"], limit=5, page_size=2
    )
    assert dict(_request(read).query) == {"final": "false", "columns": "n,mean", "limit": "2"}
    one = window_reads.latest(_ADDRESS, "k", columns=["n"])
    assert dict(one.request.query) == {"columns": "n"}
    assert dict(_request(row_reads.prefix_scan(_ADDRESS, "", columns=())).query) == {
        "prefix": "", "columns": "", "limit": "1000",
    }  # fmt: skip


def test_listed_keys_are_posted() -> None:
    """Listed keys are posted as JSON, without a page size if a key has one item."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        position = {"version": 1, "offsets": {}}
        return httpx.Response(
            200, json={"count": 7, "rows": [], "position": position, "next_cursor": None}
        )

    with Client("http://oriel", transport=httpx.MockTransport(handle)) as client:
        store = client.key_value_store("store")
        assert store.get_of_keys(["é", "b"], columns=["n"]).list() == []
        assert store.approximate_num_entries() == 7
    posted, got = seen
    assert (posted.method, json.loads(posted.content)) == ("POST", ["é", "b"])
    assert posted.url == "http://oriel/v1/stores/store/getOfKeys?columns=n"
    assert (got.method, got.content) == ("GET", b"")


def test_a_sql_query_is_posted_with_more_time() -> None:
    """The body has the query, and a request has 60 s more than another one."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        position = {"version": 1, "offsets": {"t": {"0": 5}}, "history": "a-b"}
        return httpx.Response(
            200,
            json={
                "positions": {"store": position},
                "columns": [{"name": "n", "type": "BIGINT"}],
                "rows": [{"n": 2**63}],
                "truncated": True,
            },
        )

    transport = httpx.MockTransport(handle)
    with Client("http://oriel", timeout_s=5, transport=transport) as client:
        rows = client.sql("SELECT n FROM store")
    position = Position(1, {"t": {0: 5}}, "a-b")
    assert rows == SqlRows([{"n": 2**63}], {"n": "BIGINT"}, {"store": position}, truncated=True)
    (posted,) = seen
    assert (posted.method, str(posted.url)) == ("POST", "http://oriel/v1/sql")
    assert json.loads(posted.content) == {"query": "SELECT n FROM store"}
    assert posted.extensions["timeout"]["read"] == 65
