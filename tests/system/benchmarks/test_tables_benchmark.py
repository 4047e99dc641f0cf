"""The benchmark of current rows runs. The test checks the shape of its results."""

import json

import pytest

from benchmarks.tables.__main__ import main

pytestmark = pytest.mark.e2e


def test_each_library_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The benchmark measures both kinds of updates with DuckDB, Polars and pandas."""
    main(["--windows", "2000", "--rounds", "1"])
    reads = json.loads(capsys.readouterr().out.splitlines()[-1])["reads"]
    assert {read["updated"] for read in reads} == {"newest", "random"}
    libraries = {read["read"].split(",")[0] for read in reads}
    assert libraries == {"DuckDB", "Polars", "pandas"}
    assert [read for read in reads if read["current_s"] <= 0] == []
