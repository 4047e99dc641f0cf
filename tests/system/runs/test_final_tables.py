"""Tables of final rows: each final window once, over batches, crashes, rebuilds and rescales."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    sum,
)
from oriel.pipeline.commit import rescale
from oriel.pipeline.commit.final_table import FinalTable
from oriel.pipeline.errors import InvalidTopology
from oriel.storage import DataLayout
from tests.pipeline.run.topic_logs import Stores, random_times, write_topics

pytestmark = pytest.mark.slow

STORES = ("minutes", "visits", "slides")


def topology(*, final_table: bool = True) -> Topology:
    """Return stores of three kinds of windows. Two emit updates, and one final rows only."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", "v BIGINT").group_by_key()
    minutes = TimeWindows.of_size_and_grace(100, 20)
    sessions = SessionWindows.of_inactivity_gap_and_grace(60, 10)
    slides = SlidingWindows.of_time_difference_and_grace(50, 10)
    closing = EmitStrategy.on_window_close()
    for windowed, name in (
        (clicks.windowed_by(minutes), "minutes"),
        (clicks.windowed_by(sessions).emit(closing), "visits"),
        (clicks.windowed_by(slides), "slides"),
    ):
        rows = windowed.aggregate(n=count(), total=sum("v"))
        rows.materialize(name, final_table=final_table)
    return builder.build()


def write_log(directory: Path, seed: int, first_ms: int = 0) -> None:
    """Append random records of two partitions, from a time on."""
    random = Random(seed)
    topics = {
        partition: [
            (random.choice("abcd"), first_ms + time_ms, {"v": random.randrange(9)})
            for time_ms in random_times(random, 80, 2_000)
        ]
        for partition in (0, 1)
    }
    write_topics(directory / "log", {"clicks": topics})


def final_table(stores: Stores, store: str) -> DeltaTable:
    """Open the table of final rows."""
    return DeltaTable(stores.directory / "data" / "final" / store)


def rows_of(table: DeltaTable, names: list[str]) -> list[tuple[Any, ...]]:
    """Return some columns of all rows, sorted."""
    columns = table.to_pyarrow_table().select(names).to_pydict().values()
    return sorted(zip(*columns, strict=True), key=str)


def assert_equal_to_stores(stores: Stores) -> None:
    """Each final row of a store is in its final table once, and no other row."""
    for store in STORES:
        table = DeltaTable(stores.directory / "data" / "tables" / store)
        found = final_table(stores, store)
        names = [name for name in found.to_pyarrow_table().column_names if name != "revision"]
        assert "final" not in names
        newest = {(row["key"], row["window_start"], row["window_end"]): row
                  for row in stores.newest(store) if row["final"]}  # fmt: skip
        final = table.to_pyarrow_table()
        assert rows_of(found, names) == sorted(
            zip(*final.filter(final["final"]).select(names).to_pydict().values(), strict=True),
            key=str,
        )
        assert len(rows_of(found, names)) == len(newest) > 0


def appends(stores: Stores, store: str) -> list[dict[str, Any]]:
    """Return the entries of the log that add rows."""
    return [
        entry for entry in final_table(stores, store).history() if entry["operation"] == "WRITE"
    ]


@pytest.mark.parametrize("batch_bytes", [2**26, 1_500])
def test_each_final_window_is_appended_once(
    spark: SparkSession, tmp_path: Path, batch_bytes: int
) -> None:
    """The table has the final rows of any number of batches, and each entry only appends."""
    write_log(tmp_path, 1)
    stores = Stores(spark, tmp_path)
    stores.run(topology(), batch_bytes=batch_bytes)
    write_log(tmp_path, 2, 2_000)
    stores.run(topology(), batch_bytes=batch_bytes)
    assert_equal_to_stores(stores)
    for store in STORES:
        modes = {entry["operationParameters"]["mode"] for entry in appends(stores, store)}
        assert modes == {"Append"}


class _Crash(Exception):
    """Represents the end of a process."""


def test_a_crash_between_the_two_commits_loses_and_repeats_no_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a process ends before a batch commits its final rows, the next start adds them."""

    def crash(*_: object) -> None:
        raise _Crash

    stores = Stores(spark, tmp_path)
    for number in range(3):
        write_log(tmp_path, number, 2_000 * number)
        with monkeypatch.context() as patched:
            patched.setattr(FinalTable, "add", crash)
            with pytest.raises(_Crash):
                stores.run(topology())
        if number == 1:
            # Without records, a start completes the tables.
            stores.run(topology())
            assert_equal_to_stores(stores)
    stores.run(topology())
    assert_equal_to_stores(stores)


def test_a_store_with_rows_can_get_a_final_table(spark: SparkSession, tmp_path: Path) -> None:
    """The first start with the option adds all final rows, and so does one after a deletion."""
    write_log(tmp_path, 1)
    stores = Stores(spark, tmp_path)
    stores.run(topology(final_table=False))
    stores.run(topology())
    assert_equal_to_stores(stores)
    for path in (tmp_path / "data" / "final").rglob("*.*"):
        if path.is_file():
            path.unlink()
    write_log(tmp_path, 2, 2_000)
    stores.run(topology())
    assert_equal_to_stores(stores)


def test_a_rebuild_replaces_the_rows_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    """After a rebuild, the next start replaces the final rows. A rescale changes no row."""
    write_log(tmp_path, 1)
    stores = Stores(spark, tmp_path)
    stores.run(topology(), batch_bytes=1_500)
    rescale(DataLayout(tmp_path / "data"), "minutes", 4, sync=False)
    stores.rebuild(topology(), "slides")
    before = {store: len(appends(stores, store)) for store in STORES}
    stores.run(topology())
    assert_equal_to_stores(stores)
    new = Counter({store: len(appends(stores, store)) - before[store] for store in STORES})
    assert new == Counter({"minutes": 0, "visits": 0, "slides": 1})
    assert appends(stores, "slides")[0]["operationParameters"]["mode"] == "Overwrite"
    write_log(tmp_path, 2, 2_000)
    stores.run(topology())
    assert_equal_to_stores(stores)


def test_only_windows_become_final() -> None:
    """A store without windows is rejected with the solution."""
    counts = StreamsBuilder().stream("clicks", "v BIGINT").group_by_key().count()
    with pytest.raises(InvalidTopology, match=r"'counts' has no windows.*Omit final_table"):
        counts.materialize("counts", final_table=True)


def test_spark_reads_new_rows_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A query with a checkpoint receives each final row once, over several runs."""
    stores = Stores(spark, tmp_path)
    copy = tmp_path / "copy"
    for number in range(3):
        write_log(tmp_path, number, 2_000 * number)
        stores.run(topology(), batch_bytes=1_500)
        rows = spark.readStream.format("delta").load(str(tmp_path / "data" / "final" / "slides"))
        query = (
            rows.writeStream.format("delta")
            .option("checkpointLocation", str(tmp_path / "query"))
            .trigger(availableNow=True)
            .start(str(copy))
        )
        query.awaitTermination()
    names = ["key", "window_start", "window_end", "n", "total", "timestamp", "revision"]
    assert rows_of(DeltaTable(copy), names) == rows_of(final_table(stores, "slides"), names)
    assert_equal_to_stores(stores)
