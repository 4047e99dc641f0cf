"""Stores over final rows or updates of others, in Spark: batches, crashes, rebuilds."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import EmitStrategy, StreamsBuilder, TimeWindows, Topology, count, sum
from oriel.pipeline.commit import StoreBatches
from oriel.pipeline.errors import CheckpointError
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import full
from tests.pipeline.run.layered_topology import STORES, layered
from tests.pipeline.run.topic_logs import Stores, random_times, write_topics

pytestmark = pytest.mark.slow


def random_log(seed: int) -> dict[str, dict[int, list[Any]]]:
    """Return two partitions of clicks with different stream times, and names that never change."""
    random = Random(seed)
    clicks: dict[int, list[Any]] = {
        partition: [
            (random.choice("abcd"), time_ms, {"v": random.randrange(9)})
            for time_ms in random_times(random, 150, 4_000)
        ]
        for partition in (0, 1)
    }
    names = [(key, 0, {"name": name}) for key, name in zip("abc", "xxy", strict=True)]
    return {"names": {0: names}, "clicks": clicks}


Rows = Mapping[str, list[dict[str, Any]]]


def driver_rows(log: Mapping[str, Mapping[int, Sequence[Any]]], pieces: int) -> Rows:
    """Return the test driver's rows for a log with ``pieces`` batches per partition, in turn."""
    found: dict[str, dict[Any, dict[str, Any]]] = {store: {} for store in STORES}
    with TopologyTestDriver(layered()) as driver:
        for topic, partitions in log.items():
            for partition in partitions:
                driver.pipe_input(topic, [], partition)
        for topic, partitions in log.items():
            for piece in range(pieces):
                for partition, records in partitions.items():
                    size = -(-len(records) // pieces)
                    batch = records[piece * size : (piece + 1) * size]
                    piped = [Record(key, value, time_ms) for key, time_ms, value in batch]
                    driver.pipe_input(topic, piped, partition)
                    for store, rows in found.items():
                        for row in driver.read_output(store):
                            rows[_place(row)] = row
    return {store: _sorted(rows.values()) for store, rows in found.items()}


def _sorted(rows: Any) -> list[dict[str, Any]]:
    names = {"window_start": "window_start_ms", "window_end": "window_end_ms"}
    names["timestamp"] = "timestamp_ms"
    renamed = [{names.get(name, name): v for name, v in row.items()} for row in rows]
    return sorted((row for row in renamed if not row["deleted"]), key=_place)


def _place(row: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return key and window. Without windows, the window is always the same."""
    return row["key"], row.get("window_start_ms", 0), row.get("window_end_ms", 0)


def table_rows(stores: Stores) -> Rows:
    """Return the rows of all tables."""
    return {store: _sorted(stores.newest(store)) for store in STORES}


LOG = random_log(6)


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> Rows:
    """Return the rows of one batch per partition. The driver uses the session of the runs."""
    assert spark is not None
    return driver_rows(LOG, 1)


@pytest.fixture(scope="module")
def half_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run over the first half of the log."""
    directory = tmp_path_factory.mktemp("half")
    _write_first_half(directory)
    Stores(spark, directory).run(layered())
    return directory


@pytest.fixture
def half(spark: SparkSession, half_run: Path, tmp_path: Path) -> Stores:
    """Return the stores of such a run for one test, which continues with the second half."""
    shutil.copytree(half_run, tmp_path, dirs_exist_ok=True)
    _write_second_half(tmp_path)
    return Stores(spark, tmp_path)


def test_layers_are_computed_by_hand() -> None:
    """Each row counts once, when its window is final, with its own time."""
    builder = StreamsBuilder()
    minutes = (
        builder.stream("t", "v BIGINT")
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(10, 0))
        .emit(EmitStrategy.on_window_close())
        .aggregate(n=count())
        .materialize("minutes")
    )
    (
        minutes.to_stream()
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(30, 0))
        .aggregate(windows=count(), n=sum("n"))
        .materialize("hours")
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [Record("a", {"v": 1}, t) for t in (1, 5, 12, 28, 33, 39, 61)])
        # The window that begins at 60 is open.
        assert driver.read_output("hours") == [
            {
                "key": "a", "window_start_ms": 0, "window_end_ms": 30, "windows": 3, "n": 4,
                "timestamp_ms": 28, "final": True, "deleted": False,
            },
            {
                "key": "a", "window_start_ms": 30, "window_end_ms": 60, "windows": 1, "n": 2,
                "timestamp_ms": 39, "final": False, "deleted": False,
            },
        ]  # fmt: skip


@pytest.mark.parametrize("pieces", [2, 7, *full(40)])
def test_any_cut_gives_the_same_rows_in_the_driver(expected: Rows, pieces: int) -> None:
    """Any batching has the same rows in the driver, including joined rows."""
    assert expected
    assert [store for store, rows in expected.items() if not rows] == []
    assert driver_rows(LOG, pieces) == expected


@pytest.mark.parametrize(
    ("batch_bytes", "small_batch_bytes"),
    [
        *full(2**26, 0, id="one Spark job"),
        pytest.param(2**26, 2**26, id="one batch in the driver"),
        pytest.param(8_000, 0, id="Spark jobs"),
        pytest.param(4_000, 2**26, id="batches in the driver"),
    ],
)
def test_runs_give_what_the_driver_gives(
    spark: SparkSession, tmp_path: Path, expected: Rows, batch_bytes: int, small_batch_bytes: int
) -> None:
    """Runs have the driver's rows in any batching, and wherever a batch is computed."""
    write_topics(tmp_path / "log", LOG)
    stores = Stores(spark, tmp_path)
    stores.run(layered(), batch_bytes=batch_bytes, small_batch_bytes=small_batch_bytes)
    assert stores.batches > (1 if batch_bytes < 2**26 else 0)
    assert table_rows(stores) == expected
    # The final rows of one store are the records of the stores over it.
    rows = len(expected["sums"])
    assert stores.counters("all")["input"] == rows
    assert stores.counters("hours")["input"] == rows


class _Crash(Exception):
    """Represents the end of a process."""


def _crashing_for(store: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a store's batches that ends the process for one store."""

    def crashing(self: StoreBatches, *arguments: Any, **named: Any) -> Any:
        if self.plans.store.name == store:
            raise _Crash
        return original(self, *arguments, **named)

    return crashing


@pytest.mark.parametrize(
    ("method", "store"),
    [
        ("finish", "sums"),
        ("begin", "hours"),
        *full("finish", "third"),
    ],
)
def test_a_crash_between_stores_repeats_what_is_missing(
    half: Stores, expected: Rows, monkeypatch: pytest.MonkeyPatch, method: str, store: str
) -> None:
    """After a crash, the first stores have the batch, and the stores after them repeat it."""
    crashing = _crashing_for(store, getattr(StoreBatches, method))
    with monkeypatch.context() as patched:
        patched.setattr(StoreBatches, method, crashing)
        with pytest.raises(_Crash):
            half.run(layered())
    half.run(layered())
    assert table_rows(half) == expected


def test_a_store_that_is_new_reads_all_rows_that_were_final(
    spark: SparkSession, tmp_path: Path, expected: Rows
) -> None:
    """A new store reads all final rows, and continues as if it had always existed.

    Stores with table joins differ, because the next batch reads a new topic.
    """
    _write_first_half(tmp_path)
    stores = Stores(spark, tmp_path)
    whole = layered()
    stores.run(Topology(tuple(s for s in whole.stores if s.name in {"sums", "visits"})))
    _write_second_half(tmp_path)
    stores.run(layered())
    _assert_all_but_lookups(stores, expected)


def test_a_new_store_waits_until_the_one_in_front_has_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash, only some stores have the newest batch, and the message says what to do."""
    write_topics(tmp_path / "log", LOG)
    stores = Stores(spark, tmp_path)
    whole = layered()
    few = Topology(tuple(s for s in whole.stores if s.name in {"visits", "sums"}))
    whole = Topology(tuple(s for s in whole.stores if s.name in {"visits", "sums", "spans"}))
    crashing = _crashing_for("visits", StoreBatches.finish)
    stores.run(few)
    write_topics(tmp_path / "log", {"clicks": {0: [("a", 9_000, {"v": 1})]}})
    with monkeypatch.context() as patched:
        patched.setattr(StoreBatches, "finish", crashing)
        with pytest.raises(_Crash):
            stores.run(few)
    with pytest.raises(CheckpointError, match=r"'visits' has not prepared batch 1 yet.*Run the"):
        stores.run(whole)
    stores.run(few)
    stores.run(whole)
    assert stores.newest("spans")


def test_a_batch_is_read_again_from_compacted_files(
    half: Stores, expected: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is read from compacted files, because its own files are vacuumed."""
    with monkeypatch.context() as patched:
        patched.setattr(StoreBatches, "begin", _crashing_for("hours", StoreBatches.begin))
        with pytest.raises(_Crash):
            half.run(layered())
    table = DeltaTable(half.directory / "data" / "tables" / "sums")
    table.optimize.compact()
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert removed
    half.run(layered())
    assert table_rows(half) == expected


def test_an_upstream_store_is_recomputed_once_all_have_its_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Rows,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A store is rebuilt only when the stores over it have its batch, or they would lose its rows.

    The message names these stores. When the batch is repeated it has no names, because no store had
    prepared their end.
    """
    write_topics(tmp_path / "log", LOG)
    stores = Stores(spark, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(StoreBatches, "finish", _crashing_for("hours", StoreBatches.finish))
        with pytest.raises(_Crash):
            stores.run(layered())
    with pytest.raises(CheckpointError, match=r"store 'hours' reads its rows, .*Run the pipeline"):
        stores.rebuild(layered(), "sums")
    stores.run(layered())
    stores.rebuild(layered(), "sums")
    assert "rebuild sums: stores hours, all, named still use the rows" in capfd.readouterr().err
    stores.rebuild(layered(), "hours")
    stores.run(layered())
    _assert_all_but_lookups(stores, expected)


def _assert_all_but_lookups(stores: Stores, expected: Rows) -> None:
    lookups: Rows = {"named": [], "dated": []}
    assert {**table_rows(stores), **lookups} == {**expected, **lookups}


def _write_first_half(directory: Path) -> None:
    """Write names for all clicks, and half of the clicks."""
    clicks = {number: records[:75] for number, records in LOG["clicks"].items()}
    write_topics(directory / "log", {"names": LOG["names"], "clicks": clicks})


def _write_second_half(directory: Path) -> None:
    clicks = {number: records[75:] for number, records in LOG["clicks"].items()}
    write_topics(directory / "log", {"clicks": clicks})
