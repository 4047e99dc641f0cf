"""Store tables as the pipeline writes them: plain Delta, one transaction a batch, crash-safe.

All tests that read tables with Spark are here, so that other files of the folder run without it.
"""

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
    Table,
    TableUpkeep,
    UpkeepSettings,
    add_checkpoint,
    arrow_type,
    delta_type,
    open_table,
    store_schema,
    table_rows,
    write_file,
)
from oriel.storage.errors import CorruptLog
from tests.storage.store_tables import make_definition

AGGREGATES = {"n": pa.int64(), "mean": pa.float64(), "all": pa.list_(pa.string())}
APPLICATION = "app"
START_MS = 1_357_034_400_123


def opened(folder: Path) -> Table:
    """Open or make the table."""
    return open_table(folder, store_schema(AGGREGATES), {"oriel.store": "{}"}, sync=True)


def rows(batch: int, *windows: tuple[str, int]) -> pa.Table:
    """Rows of windows (key, start) as the engine's changes would give them."""
    starts = [start for _, start in windows]
    changes = pa.table(
        {
            "key": pa.array([key for key, _ in windows], pa.string()),
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array([start + 10 for start in starts], pa.int64()),
            "n": pa.array([batch] * len(windows), pa.int64()),
            "mean": pa.array([None] * len(windows), pa.float64()),
            "all": pa.array([["x", None]] * len(windows), pa.list_(pa.string())),
            "timestamp_ms": pa.array(starts, pa.int64()),
            "final": [False] * len(windows),
        }
    )
    return table_rows(changes, AGGREGATES, batch)


def commit(table: Table, folder: Path, batch: int, *windows: tuple[str, int]) -> int:
    """Write and commit one batch."""
    file = write_file(folder, rows(batch, *windows), "part", sync=True)
    return table.commit([file], APPLICATION, batch, {"oriel": f"batch {batch}"})


def keys_and_revisions(folder: Path, **options: Any) -> list[tuple[str, int]]:
    """Return (key, revision) of the table's rows."""
    table = DeltaTable(folder).to_pyarrow_table(**options)
    return sorted(zip(table["key"].to_pylist(), table["revision"].to_pylist(), strict=True))


def entry(folder: Path, version: int) -> Path:
    """The log entry of a version."""
    return folder / "_delta_log" / f"{version:020d}.json"


def test_each_commit_records_application_batch_and_position(tmp_path: Path) -> None:
    """The transaction and our text are in the log entry, also of a commit without files."""
    table = opened(tmp_path)
    assert table.recorded_batch(APPLICATION) is None
    assert commit(table, tmp_path, 0, ("a", 0)) == 1
    assert table.commit([], APPLICATION, 1, {"oriel": "batch 1"}) == 2
    assert opened(tmp_path).recorded_batch(APPLICATION) == 1
    actions = [orjson.loads(line) for line in entry(tmp_path, 2).read_bytes().splitlines()]
    assert {"txn": {"appId": APPLICATION, "version": 1}} in actions
    assert [a["commitInfo"]["oriel"] for a in actions if "commitInfo" in a] == ["batch 1"]
    assert keys_and_revisions(tmp_path) == [("a", 0)]


@pytest.mark.slow
def test_only_plain_delta_is_used(tmp_path: Path, spark: SparkSession) -> None:
    """Spark, delta-rs and plain Parquet readers read the same rows; no table features are on."""
    commit(opened(tmp_path), tmp_path, 0, ("a", 1), ("ä", 2))
    protocol = DeltaTable(tmp_path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    # Sorted here: two rows in order are not worth a shuffle.
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


@pytest.mark.parametrize(
    "torn",
    [b"", b'{"commitInfo":{}}\n{"add":{"path"', b'{"commitInfo":{"oriel_application":"app"}}\n'],
    ids=["empty", "cut in a line", "cut between lines"],
)
def test_a_torn_newest_entry_is_set_aside_and_committed_again(tmp_path: Path, torn: bytes) -> None:
    """After a power loss the unacknowledged version is gone and its batch takes its place."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0, ("a", 0))
    commit(table, tmp_path, 1, ("b", 0))
    entry(tmp_path, 2).write_bytes(torn)
    table = opened(tmp_path)
    assert table.recorded_batch(APPLICATION) == 0
    assert commit(table, tmp_path, 1, ("b", 0)) == 2
    assert keys_and_revisions(tmp_path) == [("a", 0), ("b", 1)]
    assert entry(tmp_path, 2).with_suffix(".json.torn").exists()


def test_a_torn_first_entry_makes_the_table_anew(tmp_path: Path) -> None:
    """A table that was never acknowledged is made again."""
    opened(tmp_path)
    entry(tmp_path, 0).write_bytes(b"")
    assert opened(tmp_path).version == 0


def test_two_damaged_entries_are_not_guessed_around(tmp_path: Path) -> None:
    """More than the newest entry torn is no power loss of ours: say so and stop."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0, ("a", 0))
    for version in (0, 1):
        entry(tmp_path, version).write_bytes(b"")
    with pytest.raises(CorruptLog, match="two newest entries"):
        opened(tmp_path)


@pytest.mark.parametrize("key", ["a", "z", "ä\U0001f600", "x" * 200, "", "a\0b"])
def test_statistics_never_hide_a_row(tmp_path: Path, key: str) -> None:
    """Readers that skip files by key or start still find every window."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0, (key, START_MS), ("m", 5))
    commit(table, tmp_path, 1, ("other", 7))
    whole = DeltaTable(tmp_path).to_pyarrow_table().filter(pa.compute.field("key") == key)
    assert DeltaTable(tmp_path).to_pyarrow_table(filters=[("key", "=", key)]).num_rows == 1
    start = whole["window_start"][0]
    by_start = DeltaTable(tmp_path).to_pyarrow_table(filters=[("window_start", "=", start)])
    assert by_start["key"].to_pylist() == [key]


@pytest.mark.slow
def test_a_table_without_windows_has_statistics_of_the_key_alone(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Aggregates come right after the key and may be lists; delta-rs and Spark find each key."""
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


@pytest.mark.slow
def test_a_checkpoint_changes_nothing(tmp_path: Path, spark: SparkSession) -> None:
    """Readers and the writer go on from a Delta checkpoint."""
    table = opened(tmp_path)
    for batch in range(3):
        commit(table, tmp_path, batch, ("a", batch))
    add_checkpoint(tmp_path)
    assert commit(table, tmp_path, 3, ("a", 3)) == 4
    assert opened(tmp_path).recorded_batch(APPLICATION) == 3
    assert keys_and_revisions(tmp_path) == [("a", batch) for batch in range(4)]
    assert len(spark.read.format("delta").load(str(tmp_path)).collect()) == 4


@pytest.mark.slow
def test_spark_reads_at_every_instant_of_a_compaction(tmp_path: Path, spark: SparkSession) -> None:
    """Before the commit, behind it, from a checkpoint, and without the entries in front of that."""
    properties = {"oriel.store": make_definition().to_json()}
    table = open_table(tmp_path, store_schema(AGGREGATES), properties, sync=True)
    for batch in range(6):
        commit(table, tmp_path, batch, ("a", 1), ("b", batch))
    settings = UpkeepSettings(limits=Limits(small_files=4), log_retention_ms=1)
    upkeep = TableUpkeep(tmp_path, settings)

    def windows() -> set[tuple[str, int]]:
        rows = spark.read.format("delta").load(str(tmp_path)).collect()
        newest = {(row.key, row.window_start): row.revision for row in sorted(rows, key=_revision)}
        return {(key, revision) for (key, _start), revision in newest.items()}

    expected = {("a", 5), *(("b", batch) for batch in range(6))}
    seen: list[set[tuple[str, int]]] = [windows()]
    upkeep.compact_all({"": 5}, between=lambda: seen.append(windows()))
    seen.append(windows())
    assert seen == [expected] * 3
    assert not entry(tmp_path, 0).exists()
    assert len(DeltaTable(tmp_path).file_uris()) == 1
    assert commit(table, tmp_path, 6, ("a", 1)) == 9
    assert ("a", 6) in windows()


def _revision(row: Any) -> int:
    return int(row.revision)


@pytest.mark.slow
def test_spark_skips_files_without_losing_rows(tmp_path: Path, spark: SparkSession) -> None:
    """Filters on key and window start find each row by Spark's data skipping too."""
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


def test_a_property_can_be_changed(tmp_path: Path) -> None:
    """A changed property is a commit of its own and is there when the table is opened again."""
    table = opened(tmp_path)
    table.set_property("oriel.store", '{"new": true}')
    assert opened(tmp_path).properties["oriel.store"] == '{"new": true}'
    assert commit(table, tmp_path, 0, ("a", 0)) == 2


@pytest.mark.parametrize("name", ["long", "double", "string", "boolean", "array<double>"])
def test_types_have_one_name_each(name: str) -> None:
    """Delta's names and Arrow's types turn into each other."""
    assert delta_type(arrow_type(name)) == name
