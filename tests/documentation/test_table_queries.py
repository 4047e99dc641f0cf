"""The queries of docs/how-to/query-tables-with-sql.md return what the service returns."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.app.serving import Serving, ready_service
from tests.documentation.table_queries import (
    CURRENT_ROWS,
    PAGE,
    SHOWN,
    STORES,
    WITHOUT_PACKAGE,
    run_python,
    served,
    write_tables,
)

pytestmark = pytest.mark.slow

_TOOLS = ("DuckDB", "Polars", "pandas", "DuckDB without the package of Oriel")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Serve a table of each kind of windows."""
    data = tmp_path_factory.mktemp("tables") / "data"
    write_tables(data)
    with ready_service(data) as service:
        yield service


@pytest.mark.parametrize("tool", _TOOLS)
def test_the_queries_return_what_the_service_returns(tool: str, service: Serving) -> None:
    """Current rows, final rows and current windows equal fetchAll and currentAll."""
    found = run_python(_TOOLS.index(tool), [_table(service, store) for store in STORES])
    for store, queried in found.items():
        earliest_ms = service.get(f"/v1/stores/{store}").json["earliest_start_ms"] or 0
        visible = {
            name: [row for row in rows if row["window_start_ms"] >= earliest_ms]
            for name, rows in queried.items()
        }
        # Only a query without the package returns expired windows.
        is_plain = _TOOLS.index(tool) == WITHOUT_PACKAGE
        assert (queried != visible) == (is_plain and store == "recent")
        expected = served(service, store)
        assert [] not in expected.values()
        assert visible == expected


def test_a_plain_sum_counts_updated_windows_several_times(service: Serving) -> None:
    """The sums that the page states are those of its table: all rows, and the current ones."""
    table = _table(service, SHOWN)
    plain = sum(DeltaTable(table).to_pyarrow_table()["revenue"].to_pylist())
    current = sum(row["revenue"] for row in run_python(0, [table])[SHOWN][CURRENT_ROWS])
    assert plain > current
    assert (
        f"`SELECT sum(revenue)` returns {plain}. The correct sum is {current}" in PAGE.read_text()
    )


def _table(service: Serving, store: str) -> Path:
    return service.data / "tables" / store
