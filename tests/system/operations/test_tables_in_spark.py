"""Spark reads the tables of the pipeline, including compacted tables."""

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel.storage.delta import (
    Limits,
    MaintenanceSettings,
    TableMaintenance,
    add_checkpoint,
    open_table,
    store_schema,
    table_rows,
    write_file,
)
from tests.storage.plain_tables import (
    AGGREGATES,
    APPLICATION,
    START_MS,
    commit,
    entry,
    keys_and_revisions,
    opened,
    rows,
)
from tests.storage.store_tables import make_definition

pytestmark = pytest.mark.slow


def test_only_plain_delta_is_used(tmp_path: Path, spark: SparkSession) -> None:
    """Spark, delta-rs and plain Parquet readers read the same rows without table features."""
    commit(opened(tmp_path), tmp_path, 0, ("a", 1), ("ä", 2))
    protocol = DeltaTable(tmp_path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    # The test sorts two rows itself, because a Spark sort needs an exchange.
    by_spark = sorted(spark.read.format("delta").load(str(tmp_path)).collect(), key=lambda r: r.key)
    (parquet,) = tmp_path.glob("*.parquet")
    by_arrow = pq.read_table(parquet).sort_by("key").to_pylist()
    for row, plain in zip(by_spark, by_arrow, strict=True):
        assert row.window_start.timestamp() == plain["window_start"].timestamp()
        assert (row.key, row.n, row.mean, row.all) == (
            "aä"[int(plain["key"] != "a")],
            0,
            None,
            ["x", None],
        )


def test_a_table_without_windows_has_statistics_of_the_key_alone(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Spark and delta-rs find each key, although aggregates after the key can be lists."""
    aggregates = {"all": pa.list_(pa.string()), "mean": pa.float64()}
    schema = store_schema(aggregates, windowed=False)
    table = open_table(tmp_path, schema, {"oriel.store": "{}"}, sync=True)
    for batch, key in enumerate(("a", "b")):
        columns = {
            "key": [key], "all": [["x"]], "mean": [float("nan")], "timestamp_ms": [5],
        }  # fmt: skip
        changes = pa.table(columns).cast(pa.schema({
            "key": pa.string(), **aggregates, "timestamp_ms": pa.int64()
        }))  # fmt: skip
        written = table_rows(changes, aggregates, batch, windowed=False)
        file = write_file(tmp_path, written, "part", sync=True)
        assert orjson.loads(file.stats) == {
            "numRecords": 1, "minValues": {"key": key}, "maxValues": {"key": key},
            "nullCount": {"key": 0},
        }  # fmt: skip
        table.commit([file], APPLICATION, batch, {})
    assert table.properties["delta.dataSkippingNumIndexedCols"] == "1"
    assert DeltaTable(tmp_path).to_pyarrow_table(filters=[("key", "=", "a")]).num_rows == 1
    by_spark = spark.read.format("delta").load(str(tmp_path)).where("key = 'b'")
    assert len(by_spark.collect()) == 1


def test_a_checkpoint_changes_nothing(tmp_path: Path, spark: SparkSession) -> None:
    """Readers and the writer continue from a Delta checkpoint."""
    table = opened(tmp_path)
    for batch in range(3):
        commit(table, tmp_path, batch, ("a", batch))
    add_checkpoint(tmp_path)
    assert commit(table, tmp_path, 3, ("a", 3)) == 4
    assert opened(tmp_path).recorded_batch(APPLICATION) == 3
    assert keys_and_revisions(tmp_path) == [("a", batch) for batch in range(4)]
    assert len(spark.read.format("delta").load(str(tmp_path)).collect()) == 4


def test_spark_reads_at_every_instant_of_a_compaction(tmp_path: Path, spark: SparkSession) -> None:
    """Spark reads before and after the commit, from a checkpoint, and without earlier entries."""
    properties = {"oriel.store": make_definition().to_json()}
    table = open_table(tmp_path, store_schema(AGGREGATES), properties, sync=True)
    for batch in range(6):
        commit(table, tmp_path, batch, ("a", 1), ("b", batch))
    settings = MaintenanceSettings(limits=Limits(small_files=4), log_retention_ms=1)
    maintenance = TableMaintenance(tmp_path, settings)

    def windows() -> set[tuple[str, int]]:
        rows = spark.read.format("delta").load(str(tmp_path)).collect()
        newest = {(row.key, row.window_start): row.revision for row in sorted(rows, key=_revision)}
        return {(key, revision) for (key, _start), revision in newest.items()}

    expected = {("a", 5), *(("b", batch) for batch in range(6))}
    seen: list[set[tuple[str, int]]] = [windows()]
    maintenance.compact_all({"": 5}, after_file=lambda: seen.append(windows()))
    seen.append(windows())
    assert seen == [expected] * 3
    assert not entry(tmp_path, 0).exists()
    assert len(DeltaTable(tmp_path).file_uris()) == 1
    assert commit(table, tmp_path, 6, ("a", 1)) == 9
    assert ("a", 6) in windows()


def _revision(row: Any) -> int:
    return int(row.revision)


def test_spark_skips_files_without_losing_rows(tmp_path: Path, spark: SparkSession) -> None:
    """Filters on key and window start find each row, also with Spark's data skipping."""
    table = opened(tmp_path)
    keys = ["", "a", "ä", "\U0001f600", "\uffff", "x" * 64, "x" * 65, "y" * 500, "a'\"\\"]
    for batch, key in enumerate(keys):
        file = write_file(tmp_path, rows(batch, (key, START_MS + batch)), "part", sync=False)
        table.commit([file], APPLICATION, batch, {})
    by_spark = spark.read.format("delta").load(str(tmp_path))
    for batch, key in enumerate(keys):
        by_key = by_spark.filter(F.col("key") == F.lit(key)).select("revision").collect()
        assert [row.revision for row in by_key] == [batch], key
        start = F.timestamp_millis(F.lit(START_MS + batch))
        by_start = by_spark.filter(F.col("window_start") == start).select("revision").collect()
        assert [row.revision for row in by_start] == [batch], key
