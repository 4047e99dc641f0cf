"""Tests of ``POST /v1/sql``: rows, formats, tokens, rejected statements, and its processes."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import orjson
import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from oriel.app.contract import Limits, MediaType, SqlBusy, SqlFailed
from oriel.app.server import Service, command
from oriel.app.server.settings import ServiceSettings
from oriel.app.sql import SqlProcesses
from tests.app.api_client import ApiClient, ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.test_access import token_in
from tests.storage.store_tables import NONE, SESSION, TUMBLING, make_definition
from tests.storage.waiting import WAIT_SECONDS, wait_in_loop

PATH = "/v1/sql"
ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) FROM t "


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a store of windows, a store without windows, and a store with a secret."""
    with served(tmp_path_factory.mktemp("shop"), window=TUMBLING) as made:
        made.add(make_definition("totals", window=NONE), *[
            {"key": key, "n": n, "mean": mean}
            for key, n, mean in (("a", 2**62, 1.5), ("b", 2**62, float("nan")), ("c", 1, None))
        ])  # fmt: skip
        made.add(make_definition("secret", window=NONE), {"key": "hidden", "last": "secret-value"})
        made.commit({"key": "a", "start": 0, "n": 1}, {"key": "b", "start": 0, "n": 5})
        made.commit({"key": "a", "start": 0, "n": 2, "final": True})
        yield made


def sql(
    client: ApiClient | Served, query: str, headers: Sequence[tuple[str, str]] = ()
) -> ApiResponse:
    """Send a query."""
    return client.post(PATH, orjson.dumps({"query": query}), headers)


def test_rows_have_their_position_and_types(shop: Served) -> None:
    """The response has the current rows, the types, and the position of each named store."""
    response = sql(shop, "SELECT key, n, window_start, final FROM store ORDER BY key")
    assert response.status == 200
    position = shop.get("/v1/stores/store").json["position"]
    start = "1970-01-01T00:00:00Z"
    assert response.json == {
        "positions": {"store": position},
        "columns": [
            {"name": "key", "type": "VARCHAR"}, {"name": "n", "type": "BIGINT"},
            {"name": "window_start", "type": "TIMESTAMP WITH TIME ZONE"},
            {"name": "final", "type": "BOOLEAN"},
        ],
        "rows": [
            {"key": "a", "n": 2, "window_start": start, "final": True},
            {"key": "b", "n": 5, "window_start": start, "final": False},
        ],
        "truncated": False,
    }  # fmt: skip
    version = f"store={position['version']}-{position['history']}"
    assert response.headers["oriel-positions"] == version
    final = sql(shop, "SELECT key FROM store_final JOIN totals USING (key)").json
    assert final["rows"] == [{"key": "a"}]
    assert list(final["positions"]) == ["store", "totals"]


def test_values_that_json_lacks(shop: Served) -> None:
    """NaN is null, a great sum keeps its digits, and equal names of columns get a number."""
    response = sql(shop, "SELECT sum(n) AS x, max(mean) AS x, interval 1 day AS day FROM totals")
    assert response.json["rows"] == [{"x": 2**63 + 1, "x_1": None, "day": "1 day"}]


def test_each_format_has_the_rows(shop: Served) -> None:
    """NDJSON, CSV and Arrow have only the rows, and the header has the rest."""
    query = "SELECT key, n FROM totals ORDER BY key"
    rows = [{"key": "a", "n": 2**62}, {"key": "b", "n": 2**62}, {"key": "c", "n": 1}]
    lines = sql(shop, query, [("Accept", "application/x-ndjson")])
    assert list(map(orjson.loads, lines.body.splitlines())) == rows
    table = sql(shop, query, [("Accept", "application/vnd.apache.arrow.stream")])
    assert pa.ipc.open_stream(table.body).read_all().to_pylist() == rows
    text = sql(shop, query, [("Accept", "text/csv")])
    assert text.body.decode() == f"key,n\na,{2**62}\nb,{2**62}\nc,1\n"
    for response in (lines, table, text):
        assert (response.headers["oriel-items"], response.headers["oriel-truncated"]) == (
            "3", "false",
        )  # fmt: skip
        assert response.headers["oriel-positions"].startswith("totals=1-")
    assert_problem(sql(shop, query, [("Accept", "image/png")]), 406, "not-acceptable")


@pytest.mark.parametrize(
    ("query", "status", "code", "detail"),
    [
        ("SELEC", 400, "invalid-sql", "syntax error"),
        ("SELECT 1; SELECT 2", 400, "invalid-sql", "must be one SELECT statement"),
        ("COPY totals TO '/tmp/x.csv'", 400, "invalid-sql", "must be one SELECT statement"),
        ("ATTACH '/etc/passwd'", 400, "invalid-sql", "must be one SELECT statement"),
        ("INSTALL httpfs", 400, "invalid-sql", "must be one SELECT statement"),
        ("PRAGMA database_list", 400, "invalid-sql", "must be one SELECT statement"),
        ("CALL enable_logging()", 400, "invalid-sql", "must be one SELECT statement"),
        ("EXPLAIN ANALYZE SELECT 1", 400, "invalid-sql", "must be one SELECT statement"),
        (
            "WITH x AS (DELETE FROM totals RETURNING 1) FROM x",
            400, "invalid-sql", "must only contain SELECT",
        ),
        ("FROM read_csv('/etc/passwd')", 400, "invalid-sql", "read_csv cannot be used in FROM"),
        ("FROM glob('/etc/*')", 400, "invalid-sql", "glob cannot be used in FROM"),
        ("SELECT (SELECT 1 FROM duckdb_settings())", 400, "invalid-sql", "duckdb_settings"),
        ("FROM main.\"read_TEXT\"('/etc/passwd')", 400, "invalid-sql", "cannot be used in FROM"),
        ("FROM query('SELECT 1')", 400, "invalid-sql", "query cannot be used in FROM"),
        ("FROM enable_logging(storage := 'file')", 400, "invalid-sql", "enable_logging cannot"),
        ("FROM '/etc/passwd'", 400, "invalid-sql", "is a file"),
        ("SELECT * FROM nothing", 404, "unknown-store", "Stores: secret, store, totals"),
        ("SELECT * FROM totals_final", 404, "unknown-store", "totals_final does not exist"),
        ("SELECT date 'infinity'", 400, "invalid-sql", "not in the years 1 to 9999"),
        ("SELECT " + "(" * 50_000, 400, None, "query: "),
    ],
)  # fmt: skip
def test_a_query_can_only_read_stores(
    shop: Served, query: str, status: int, code: str | None, detail: str
) -> None:
    """Other statements, functions and files are rejected with the reason."""
    response = sql(shop, query)
    assert_problem(response, status, code or response.json["code"], detail)
    assert str(shop.data) not in response.body.decode()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sql FROM duckdb_views WHERE view_name = 'totals'",
        "SELECT current_setting('allowed_paths')",
        "SELECT * FROM pg_settings WHERE name IN ('secret_directory', 'temp_directory')",
    ],
)
def test_no_path_of_the_service_is_visible(shop: Served, query: str) -> None:
    """The catalog and the settings of DuckDB show only a temporary directory."""
    response = sql(shop, query)
    assert response.status == 200
    text = response.body.decode()
    assert str(shop.data) not in text
    assert str(Path.home()) not in text


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'"SELECT 1"', b'{"query": 1}', b'{"query": "SELECT 1", "limit": 1}',
        b'{"query": "\\ud800"}', orjson.dumps({"query": "x" * 100_001}),
    ],
)  # fmt: skip
def test_another_body_is_rejected(shop: Served, body: bytes) -> None:
    """The body must be an object with a query of bounded length."""
    assert_problem(shop.post(PATH, body), 400, "invalid-body", "body: ")
    assert_problem(shop.get(PATH), 405, "method-not-allowed")
    assert_problem(shop.post(f"{PATH}?x=1", body), 400, "unknown-parameter")


def test_without_the_option_the_response_names_it(shop: Served) -> None:
    """By default, the service runs no SQL."""
    response = sql(ApiClient(Service(shop.data)), "SELECT 1")
    assert_problem(response, 404, "sql-disabled", "Start it with `oriel serve --sql`")


@contextmanager
def _with_limits(shop: Served, seconds: int) -> Iterator[ApiClient]:
    limits = Limits(
        sql_seconds=seconds,
        sql_rows=3,
        sql_memory_bytes=100_000_000,
        sql_temporary_bytes=10_000_000,
    )
    service = Service(shop.data, ServiceSettings(limits, sql=True))
    yield ApiClient(service)
    assert service.sql is not None
    service.sql.close()


@pytest.fixture
def limited(shop: Served) -> Iterator[ApiClient]:
    """Return a client of a service with small limits, except the time of a query."""
    with _with_limits(shop, int(WAIT_SECONDS)) as client:
        yield client


@pytest.fixture
def impatient(shop: Served) -> Iterator[ApiClient]:
    """Return a client of a service that ends a query after 2 s."""
    with _with_limits(shop, 2) as client:
        yield client


def test_rows_beyond_the_limit_are_cut(limited: ApiClient) -> None:
    """The response says that rows are cut, also of a query that never ends."""
    response = sql(limited, ENDLESS + "SELECT x")
    assert response.json["rows"] == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert response.json["truncated"]
    assert not sql(limited, "FROM range(3)").json["truncated"]
    text = sql(limited, "FROM range(4)", [("Accept", "text/csv")])
    assert (text.body, text.headers["oriel-truncated"]) == (b"range\n0\n1\n2\n", "true")


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("SELECT list(range::VARCHAR) FROM range(1000000000)", "more memory than its limit"),
        ("SELECT max(repeat(a.x, 10000)) FROM (SELECT repeat('x', 10000) AS x) AS a", "query"),
        ("SELECT repeat('x', 20000000)", "bytes"),
    ],
)  # fmt: skip
def test_a_query_beyond_a_limit_ends(limited: ApiClient, query: str, detail: str) -> None:
    """Memory and bytes are limited. The next query works."""
    response = sql(limited, query)
    assert_problem(response, 400, "sql-limit", detail)
    assert sql(limited, "SELECT 1 AS one").json["rows"] == [{"one": 1}]


@pytest.mark.parametrize("query", [ENDLESS + "SELECT count(*)", "SELECT sleep_ms(60000)"])
def test_a_query_beyond_its_time_ends(impatient: ApiClient, query: str) -> None:
    """The time is limited. The next query works."""
    response = sql(impatient, query)
    assert_problem(response, 400, "sql-limit", "within 2 s")
    assert sql(impatient, "SELECT 1 AS one").json["rows"] == [{"one": 1}]


def test_a_token_grants_access_to_its_stores(shop: Served, tmp_path: Path) -> None:
    """Other stores do not exist for a token, and a token for some keys is rejected."""
    file = tmp_path / "tokens.toml"
    of_stores, of_keys = (
        [("Authorization", f"Bearer {token_in(file, name, *options)}")]
        for name, options in (
            ("stores", ("--store", "totals", "--store", "st*")), ("keys", ("--key-prefix", "a")),
        )
    )  # fmt: skip
    service = Service(shop.data, ServiceSettings(tokens=str(file), sql=True))
    client = ApiClient(service)
    assert sql(client, "SELECT count(*) AS n FROM totals, store", of_stores).json["rows"] == [
        {"n": 6}
    ]
    for query in (
        "SELECT * FROM secret", "SELECT * FROM SECRET", "SELECT * FROM memory.main.secret",
        "SELECT (SELECT max(last) FROM secret) FROM totals", "SELECT * FROM nothing",
    ):  # fmt: skip
        refused = sql(client, query, of_stores)
        assert_problem(refused, 404, "unknown-store", "does not grant access to a store")
    seen = sql(client, "SELECT * FROM duckdb_views WHERE 'secret' = 'secret'", of_stores)
    assert "secret-value" not in seen.body.decode()
    assert "hidden" not in seen.body.decode()
    refused = sql(client, "SELECT 1", of_keys)
    assert_problem(refused, 403, "forbidden", "a SQL query reads all keys")
    assert_problem(sql(client, "SELECT 1"), 401, "unauthorized")
    assert service.sql is not None
    service.sql.close()


def test_the_service_does_not_import_duckdb(shop: Served) -> None:
    """Only the processes of queries import DuckDB."""
    code = "import sys, oriel.app.server; print('duckdb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("seed", range(3))
def test_random_stores_have_the_rows_of_the_index(tmp_path: Path, seed: int) -> None:
    """Windows, sessions and rows equal the reads of the index at the same position."""
    random = Random(seed)
    reads = {"visits": "fetchAll", "totals": "all", "store": "fetchAll"}
    with served(tmp_path, window=TUMBLING) as made:
        made.add(make_definition("visits", window=SESSION))
        made.add(make_definition("totals", window=NONE))
        for _ in range(random.randint(2, 6)):
            for name in reads:
                made._tables[name].commit(_random_rows(random, is_windowed=name != "totals"))
        made.index()
        for name, read in reads.items():
            times = "" if name == "totals" else (
                "epoch_ms(window_start) AS window_start_ms, epoch_ms(window_end) AS window_end_ms, "
            )  # fmt: skip
            query = f"SELECT key, {times}n, epoch_ms(timestamp) AS timestamp_ms FROM {name}"  # noqa: S608
            response = sql(made, query).json
            served_page = made.get(f"/v1/stores/{name}/{read}?limit=10000").json
            items = served_page["rows" if name == "totals" else "windows"]
            fields = [column["name"] for column in response["columns"]]
            expected = [tuple(item[field] for field in fields) for item in items]
            assert sorted(tuple(row.values()) for row in response["rows"]) == sorted(expected)
            assert response["positions"] == {name: served_page["position"]}


def _random_rows(random: Random, *, is_windowed: bool) -> list[dict[str, Any]]:
    """Return rows of one batch, at most one per window. Some are removed."""
    windows = {(random.choice("abc"), random.randrange(8) * 10) for _ in range(8)}
    if not is_windowed:
        windows = {*dict(windows).items()}
    return [
        {"key": key, "start": start, "end": start + 5, "n": random.randrange(100),
         "deleted": random.random() < 0.2}
        for key, start in sorted(windows)
    ]  # fmt: skip


def _query_processes() -> list[psutil.Process]:
    """Return the running processes of queries that this process started."""
    # A child of another test that has ended, but that nobody has waited for, has no command line.
    return [
        child
        for child in psutil.Process().children()
        if "oriel.sql.query_process" in child.as_dict(["cmdline"], ad_value=())["cmdline"]
    ]


def test_queries_beyond_the_limit_are_rejected(shop: Served) -> None:
    """A second query gets an error at once. If the first one is canceled, its process ends."""
    processes = SqlProcesses(shop.data, Limits(sql_queries=1))

    async def run() -> None:
        before = len(_query_processes())
        slow = asyncio.create_task(processes.run("SELECT sleep_ms(60000)", ["*"], MediaType.JSON))
        async with asyncio.timeout(WAIT_SECONDS):
            await wait_in_loop(lambda: len(_query_processes()) > before, "the process of the query")
            with pytest.raises(SqlBusy, match="--limit-sql-queries: the worker already runs 1"):
                await processes.run("SELECT 1", ["*"], MediaType.JSON)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
        assert len(_query_processes()) == before
        found = await processes.run("SELECT 1 AS one", ["*"], MediaType.NDJSON)
        assert found.body == b'{"one": 1}\n'

    asyncio.run(run())
    processes.close()


def test_a_process_that_crashes_is_replaced(shop: Served) -> None:
    """The client of the query gets an error, and the next query works."""
    processes = SqlProcesses(shop.data, Limits())

    async def run() -> None:
        before = {one.pid for one in _query_processes()}
        slow = asyncio.create_task(processes.run("SELECT sleep_ms(60000)", ["*"], MediaType.JSON))
        async with asyncio.timeout(WAIT_SECONDS):
            await wait_in_loop(
                lambda: {one.pid for one in _query_processes()} - before, "the process of the query"
            )
            (process,) = [one for one in _query_processes() if one.pid not in before]
            process.kill()
            with pytest.raises(SqlFailed, match="ended with exit code -9"):
                await slow
        found = await processes.run("SELECT 1 AS one", ["*"], MediaType.NDJSON)
        assert found.rows == 1

    asyncio.run(run())
    processes.close()


def test_the_query_of_a_client_that_disconnects_ends(limited: ApiClient) -> None:
    """The service ends the process, and its slot is free."""
    body = orjson.dumps({"query": "SELECT sleep_ms(60000)"})
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": PATH, "raw_path": PATH.encode(), "query_string": b"",
        "root_path": "", "headers": [], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    before = {one.pid for one in _query_processes()}

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await wait_in_loop(
            lambda: {one.pid for one in _query_processes()} - before, "the process of the query"
        )
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        del message

    async def run() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await limited.service(scope, receive, send)

    asyncio.run(run())
    assert {one.pid for one in _query_processes()} <= before
    assert sql(limited, "SELECT 1 AS one").json["rows"] == [{"one": 1}]


def test_the_option_needs_duckdb_and_a_local_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service does not start, and says what to do."""
    monkeypatch.setattr(command, "set_up_console", lambda *_, **__: None)
    data = ["--data", "s3://bucket/data", "--index", str(tmp_path), "--sql", "--port", "0"]
    assert command.main(data) == 1
    assert "SQL needs tables in a local directory. Remove --sql" in capsys.readouterr().err
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert command.main(["--data", str(tmp_path), "--sql", "--port", "0"]) == 1
    assert "Run pip install 'oriel[sql]'" in capsys.readouterr().err
