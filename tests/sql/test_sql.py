"""Tests of ``oriel sql``: rows of views, formats, and statements that are rejected."""

import json
from pathlib import Path

import pytest

from oriel.sql import main
from tests.documentation.table_queries import write_tables
from tests.storage.compacted_table import CompactedTable
from tests.storage.store_tables import NONE, TUMBLING


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with a store of windows and a store without windows."""
    windows = CompactedTable(tmp_path, TUMBLING, name="by.minute")
    windows.commit([{"key": "a", "start": 0, "n": 1}, {"key": "b", "start": 0, "n": 5}])
    windows.commit([{"key": "a", "start": 0, "n": 2, "final": True, "mean": float("nan")}])
    totals = CompactedTable(tmp_path, NONE, name="totals")
    totals.commit([{"key": "a", "n": 2**62}, {"key": "b", "n": 2**62}, {"key": "c", "n": 2**62}])
    totals.commit([{"key": "c", "deleted": True}])
    return tmp_path


def run(statement: str, data: Path, *options: str) -> int:
    """Run the command over a data directory."""
    return main([statement, "--data", str(data), *options])


def test_a_view_has_the_current_rows(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A window counts once, and NAME_final has only final windows."""
    statement = 'SELECT key, n, mean, window_start, "all" FROM "by.minute{}" ORDER BY key'
    assert run(statement.format(""), data, "--json") == 0
    rows = list(map(json.loads, capsys.readouterr().out.splitlines()))
    start = "1970-01-01T00:00:00Z"
    assert rows == [
        {"key": "a", "n": 2, "mean": None, "window_start": start, "all": [1.0]},
        {"key": "b", "n": 5, "mean": 1.5, "window_start": start, "all": [1.0]},
    ]
    assert run(statement.format("_FINAL"), data, "--csv") == 0
    assert capsys.readouterr() == (
        f"key,n,mean,window_start,all\na,2,nan,{start},[1.0]\n", "by.minute: version 2\n",
    )  # fmt: skip


def test_stores_can_be_joined(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A statement can read several stores, and integers have all digits."""
    statement = """
        SELECT sum(totals.n) AS total, min(m.final) AS done, NULL AS nothing
        FROM totals JOIN "by.minute" AS m USING (key)
    """
    assert run(statement, data) == 0
    out, err = capsys.readouterr()
    assert out == f"total                done   nothing\n{2**63}  false  NULL\n"
    assert err == "by.minute: version 2\ntotals: version 2\n"
    assert run("SELECT sum(n) AS n FROM totals", data, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"n": 2**63}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP VIEW totals", "must be one SELECT statement"),
        ("SELECT 1; SELECT 2", "must be one SELECT statement"),
        ("COPY totals TO 'x.csv'", "must be one SELECT statement"),
        ("SET lock_configuration = false", "must be one SELECT statement"),
        ("ATTACH 'x.db'", "must be one SELECT statement"),
        ("SELEC", 'syntax error at or near "SELEC"'),
        ("", "must be one SELECT statement"),
        ("SELECT x FROM totals", 'column "x" not found'),
        ("SELECT * FROM nothing", "nothing does not exist! Stores: by.minute, totals"),
        ("SELECT * FROM totals_final", "Stores: by.minute, totals"),
        ("SELECT * FROM read_text('/etc/passwd')", "read_text cannot be used in FROM"),
        ("SELECT * FROM read_csv('https://localhost/x.csv')", "read_csv cannot be used in FROM"),
        ("SELECT * FROM '/etc/passwd.csv'", "is a file. Read stores by their names"),
        ("SELECT * FROM query('DROP VIEW totals')", "query cannot be used in FROM"),
        ("SELECT * FROM rows", "rows does not exist"),
    ],
)
def test_a_statement_can_only_read_the_stores(
    statement: str, message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other statements, files, addresses and variables are rejected with a reason."""
    assert run(statement, data) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("oriel sql: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_long_query_is_stopped(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After its time, the query ends with an error."""
    endless = "SELECT count(*) FROM range(1000000000) AS a, range(1000000000) AS b"
    assert run(endless, data, "--timeout", "0.1") == 1
    assert "was not done within 0.1 s. Add conditions" in capsys.readouterr().err


def test_a_name_in_two_cases_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB ignores the case of names, so it could read the wrong store."""
    for name in ("Orders", "orders"):
        CompactedTable(tmp_path, NONE, name=name).commit([{"key": name}])
    assert run("SELECT * FROM orders", tmp_path) == 1
    assert "stores Orders and orders have one name in SQL" in capsys.readouterr().err


def test_a_store_has_precedence_over_the_view_of_final_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store with the name of a view keeps its name."""
    CompactedTable(tmp_path, TUMBLING, name="a").commit([{"key": "x", "start": 1, "final": True}])
    CompactedTable(tmp_path, NONE, name="a_final").commit([{"key": "own"}])
    assert run("SELECT key FROM a_final", tmp_path) == 0
    assert capsys.readouterr().out == "key\nown\n"


def test_a_directory_without_stores_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says which directory to use."""
    assert run("SELECT 1", tmp_path) == 1
    assert "has no store. Use the --data directory of `oriel run`" in capsys.readouterr().err


def test_each_kind_of_store_can_be_queried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sum over the table of the documentation counts each window once."""
    write_tables(tmp_path)
    assert run("SELECT sum(revenue) AS revenue FROM revenue_by_minute", tmp_path, "--csv") == 0
    assert capsys.readouterr().out == "revenue\n67\n"
    for store in ("tumbling", "hopping", "sliding", "sessions", "recent"):
        assert run(f"SELECT count(*) > 0 AS any FROM {store}_final", tmp_path, "--csv") == 0  # noqa: S608
        assert capsys.readouterr().out == "any\ntrue\n"
