"""Spark returns the same current rows as the index, by the SQL text for Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel.tables import current, layers
from tests.storage.compacted_table import CompactedTable
from tests.storage.store_tables import SESSION, TUMBLING
from tests.storage.test_compaction import KINDS, nothing
from tests.tables.test_current_rows import served

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("small_rows", [0, 1 << 17])
@pytest.mark.parametrize("kind", KINDS)
def test_spark_returns_the_windows_of_the_index(
    tmp_path: Path, spark: SparkSession, kind: str, small_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Superseded, removed and expired rows of several runs are not returned."""
    monkeypatch.setattr(layers, "SMALL_ROWS", small_rows)
    retention_ms = None if kind == "none" else 25
    table = CompactedTable(tmp_path / "a [b] {c,d} *?`^e", KINDS[kind], retention_ms)
    for batch in range(6):
        table.commit(
            [{"key": "a", "start": start, "n": batch} for start in range(4 * batch, 8 * batch)][:1],
            [
                {"key": "ä", "start": batch // 2, "deleted": batch % 2 == 1},
                {"key": "b", "start": 5 * batch, "mean": None, "all": []},
            ],
        )
        if batch == 3:
            worker = table.compaction()
            worker.merge(worker.runs()[:3], nothing)
    rows = current(table.directory).spark(spark).toArrow()
    assert served(rows) == table.expected() == table.by_index()


def test_a_table_without_rows_has_the_columns_of_the_store(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The types are those of a table with rows."""
    empty = current(CompactedTable(tmp_path / "empty", SESSION).directory).spark(spark)
    table = CompactedTable(tmp_path / "table", TUMBLING)
    table.commit([{"key": "a", "start": 1}])
    rows = current(table.directory).spark(spark)
    assert empty.dtypes == rows.dtypes
    assert (empty.count(), rows.count()) == (0, 1)
