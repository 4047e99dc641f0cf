"""Whole runs on real Spark: replays after a failure at each step, and rejected changes."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import (
    EmitStrategy,
    InvalidTopology,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
)
from oriel.pipeline.commit import StoreTables
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.errors import FilesFailed
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog
from oriel.pipeline.windows import Windows
from oriel.storage import (
    STORE_PROPERTY,
    ForeignCheckpoint,
    IncompatibleStore,
    StorageError,
    StoreDefinition,
)
from oriel.storage.delta import Limits, MaintenanceSettings, TableMaintenance
from tests.campaigns import full

# About forty runs of a streaming query are slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

KIP_450 = {0: ["a"], 4: ["a", "b"], 9: ["a", "b", "c"], 11: ["b", "c"], 15: ["c"],
           16: ["c", "d"], 20: ["d"]}  # fmt: skip
RECORDS = (("a", 10), ("b", 14), ("c", 19), ("d", 26))


def topology(
    *,
    difference: int = 10,
    stores: tuple[str, ...] = ("s",),
    retention: int | None = None,
    tumbling: bool = False,
    final_only: bool = False,
) -> Topology:
    """Return stores with all values of each window."""
    builder = StreamsBuilder()
    windows: Windows = SlidingWindows.of_time_difference_and_grace(difference, 100)
    if tumbling:
        windows = TimeWindows.of_size_and_grace(difference, 100)
    update, close = EmitStrategy.on_window_update(), EmitStrategy.on_window_close()
    for name in stores:
        grouped = builder.stream("t", "v STRING").group_by_key()
        windowed = grouped.windowed_by(windows).emit(close if final_only else update)
        aggregated = windowed.aggregate(all=collect_list("v"), n=count())
        aggregated.materialize(name, retention)
    return builder.build()


class Bench:
    """A directory with a log and data, and the runs over it."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        """Create an empty topic, or use the existing one."""
        self.spark = spark
        self.directory = directory
        self.settings = RunSettings(directory / "data", "app", trigger_ms=None, tasks=2, sync=False)
        (directory / "log" / "t").mkdir(parents=True, exist_ok=True)

    def append(self, *records: tuple[str, int]) -> None:
        """Append valid records and one invalid line."""
        with (self.directory / "log" / "t" / "0.jsonl").open("ab") as file:
            for value, time in records:
                record = {"key": "k", "value": {"v": value}, "timestamp_ms": time}
                file.write(orjson.dumps(record) + b"\n")
            file.write(b"rubbish\n")

    def run(self, what: Topology | None = None) -> dict[str, PreparedBatch]:
        """Run to the end of the log, and return the last batch of each store."""
        last: dict[str, PreparedBatch] = {}
        log = EventLog(self.directory / "log")
        run = PipelineRun.recover(self.spark, what or topology(), log, self.settings)
        try:
            run.start(lambda _batch, stores: last.update(stores)).awaitTermination()
        except PySparkException:
            assert run.failure is not None
            raise run.failure from None
        finally:
            run.close()
        return last

    def newest(self, store: str = "s") -> dict[int, list[str]]:
        """Return window start -> values of the newest revision. No revision exists twice."""
        rows = DeltaTable(self.directory / "data" / "tables" / store).to_pyarrow_table().to_pylist()
        found: dict[int, Any] = {}
        for row in sorted(rows, key=lambda row: row["revision"]):
            start = round(row["window_start"].timestamp() * 1000)
            assert found.get(start, {}).get("revision") != row["revision"], "a batch came twice"
            found[start] = row
        return {start: row["all"] for start, row in found.items()}

    def dead_letters(self) -> int:
        """Return the number of dead letters."""
        return len(
            DeltaTable(self.directory / "data" / "tables" / "_dead_letters").to_pyarrow_table()
        )


@pytest.fixture(scope="module")
def ran_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a bench that has run KIP-450's example in two batches."""
    directory = tmp_path_factory.mktemp("ran")
    made = Bench(spark, directory)
    for records in (RECORDS[:2], RECORDS[2:]):
        made.append(*records)
        made.run()
    return directory


@pytest.fixture
def ran(spark: SparkSession, ran_once: Path, tmp_path: Path) -> Bench:
    """Return a bench after KIP-450's example, for one test."""
    shutil.copytree(ran_once, tmp_path / "bench")
    return Bench(spark, tmp_path / "bench")


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench with the first two records of KIP-450's example."""
    made = Bench(spark, tmp_path)
    made.append(*RECORDS[:2])
    return made


# The last steps of the first batch (0) fail like the last steps of a later batch.
@pytest.mark.parametrize(
    ("failing", "owner", "method"),
    [
        *full(0, StateVersions, "prepare"),
        *full(0, StoreTables, "commit"),
        *full(0, StoreTables, "commit_dead_letters"),
        *full(0, StateVersions, "remove_before"),
        *full(1, StateVersions, "prepare"),
        (1, StoreTables, "commit"),
        (1, StoreTables, "commit_dead_letters"),
        *full(1, StateVersions, "remove_before"),
    ],
)
def test_a_failure_at_any_step_is_made_good_by_the_next_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, failing: int
) -> None:
    """After a failure at any step of a batch, nothing is lost or duplicated."""
    if failing:
        bench.run()
        bench.append(*RECORDS[2:])
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, _fail)
        with pytest.raises(FilesFailed, match="disk is gone"):
            bench.run()
    bench.run()
    if not failing:
        bench.append(*RECORDS[2:])
        bench.run()
    assert bench.newest() == KIP_450
    assert bench.dead_letters() == 2


def _fail(*_arguments: object) -> None:
    message = "the disk is gone"
    raise OSError(message)


@pytest.mark.parametrize("failing", [StoreTables.commit, *full(StoreTables.commit_dead_letters)])
def test_compaction_between_a_failure_and_its_replay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failing: Callable[..., Any]
) -> None:
    """A prepared batch is committed with its files, whatever was merged and removed."""
    maintenance = MaintenanceSettings(
        limits=Limits(small_files=2), log_retention_ms=1, deleted_file_retention_ms=1
    )
    bench.settings = replace(bench.settings, maintenance=maintenance)
    bench.run()
    bench.append(*RECORDS[2:3])
    with monkeypatch.context() as patch:
        patch.setattr(StoreTables, failing.__name__, _fail)
        with pytest.raises(FilesFailed, match="disk is gone"):
            bench.run()
    for table in ("s", "_dead_letters"):
        by_hand = TableMaintenance(bench.directory / "data" / "tables" / table, maintenance)
        while by_hand.step({"": 0, "s": 0}):
            pass
    bench.run()
    bench.append(*RECORDS[3:])
    bench.run()
    assert bench.newest() == KIP_450
    assert bench.dead_letters() == 3
    for table in ("s", "_dead_letters"):
        delta = DeltaTable(bench.directory / "data" / "tables" / table)
        assert len(delta.file_uris()) < 2


@pytest.mark.parametrize("committed", [*full(False), True])
def test_offsets_that_spark_lost_never_lose_records(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """A prepared batch keeps its records without Spark's log, which each start writes again."""
    with monkeypatch.context() as patch:
        patch.setattr(StoreTables, "commit_dead_letters" if committed else "commit", _fail)
        with pytest.raises(FilesFailed, match="disk is gone"):
            bench.run()
    shutil.rmtree(bench.directory / "data" / "checkpoints" / "app" / "spark")
    bench.append(*RECORDS[2:])
    bench.run()
    assert bench.newest() == KIP_450
    assert bench.dead_letters() == 2


def test_counters_add_up_over_runs(bench: Bench) -> None:
    """Totals continue where the previous run has ended."""
    bench.run()
    bench.append(*RECORDS[2:])
    record = bench.run()["s"].record
    assert record.counters == {
        "input": 6, "applied": 4, "late": 0, "dead_lettered": 2, "filtered": 0,
    }  # fmt: skip
    size = (bench.directory / "log" / "t" / "0.jsonl").stat().st_size
    assert record.offsets == {"t": {"0": size}}
    assert record.stream_time_ms == {"t": {"0": 26}}
    assert record.close_ms == 26 - 100


def test_a_log_of_empty_files_moves_the_position(spark: SparkSession, tmp_path: Path) -> None:
    """Partitions without records are known, no window is final, and all counters are 0."""
    bench = Bench(spark, tmp_path)
    for partition in (0, 1):
        (tmp_path / "log" / "t" / f"{partition}.jsonl").touch()
    record = bench.run()["s"].record
    assert record.offsets == {"t": {"0": 0, "1": 0}}
    assert record.stream_time_ms == {"t": {"0": -1, "1": -1}}
    assert set(record.counters.values()) == {0}
    bench.append(*RECORDS)
    assert bench.run()["s"].record.close_ms == -1 - 100
    assert bench.newest() == KIP_450


def test_two_stores_share_one_read(bench: Bench) -> None:
    """Each store has all windows, and an invalid line is one dead letter."""
    bench.run(topology(stores=("s", "other")))
    assert bench.newest("s") == bench.newest("other") == {0: ["a"], 4: ["a", "b"], 11: ["b"]}
    assert bench.dead_letters() == 1


def test_a_partition_that_appears_later_reopens_nothing(bench: Bench) -> None:
    """Its stream time starts at the least of the others, so final windows stay final."""
    bench.append(("e", 500))
    bench.run()
    before = bench.newest()
    line = orjson.dumps({"key": "k", "value": {"v": "x"}, "timestamp_ms": 20})
    (bench.directory / "log" / "t" / "1.jsonl").write_bytes(line + b"\n")
    counters = bench.run()["s"].record.counters
    assert counters["late"] == 1
    assert bench.newest() == before


def _remove_checkpoint(bench: Bench) -> None:
    (bench.directory / "data" / "checkpoints").rename(bench.directory / "elsewhere")


def _remove_table(bench: Bench) -> None:
    (bench.directory / "data" / "tables" / "s").rename(bench.directory / "elsewhere")


def _put_back_old_table(bench: Bench) -> None:
    """Remove the last two commits of the table, as a restored backup would."""
    log = bench.directory / "data" / "tables" / "s" / "_delta_log"
    for entry in sorted(log.glob("*.json"))[-2:]:
        entry.unlink()


@pytest.mark.parametrize(
    ("harm", "what", "error", "said"),
    [
        (_remove_checkpoint, topology(), ForeignCheckpoint, "the table belongs to application"),
        (_remove_table, topology(), ForeignCheckpoint, "do not belong together"),
        (_put_back_old_table, topology(), ForeignCheckpoint, "do not belong together"),
        (
            lambda _: None,
            topology(difference=11),
            IncompatibleStore,
            r"was sliding \(10 ms, grace 100 ms\), but the",
        ),
        (lambda _: None, topology(tumbling=True), IncompatibleStore, "its window was .*tumbling"),
        (
            lambda _: None,
            topology(final_only=True),
            IncompatibleStore,
            "its emission was window-upd",
        ),
    ],
)
def test_what_would_lose_or_repeat_records_is_refused(
    ran: Bench,
    harm: Callable[[Bench], None],
    what: Topology,
    error: type[StorageError],
    said: str,
) -> None:
    """A checkpoint, table or topology that does not fit stops the run with a solution."""
    ran.append(("e", 30))
    harm(ran)
    with pytest.raises(error, match=said):
        ran.run(what)


def test_the_retention_may_change(bench: Bench) -> None:
    """Another retention is recorded in the table, and the windows stay."""
    bench.run()
    bench.append(*RECORDS[2:])
    bench.run(topology(retention=1000))
    table = DeltaTable(bench.directory / "data" / "tables" / "s")
    definition = StoreDefinition.from_json(table.metadata().configuration[STORE_PROPERTY])
    assert definition.retention_ms == 1000
    assert bench.newest() == KIP_450


def test_the_number_of_cores_may_change(bench: Bench) -> None:
    """Another number of tasks finds the open windows."""
    bench.run()
    bench.append(*RECORDS[2:])
    bench.settings = replace(bench.settings, tasks=3)
    bench.run()
    assert bench.newest() == KIP_450


def test_an_aggregate_that_does_not_fit_is_named(bench: Bench) -> None:
    """A wrong column is found before anything is created."""
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_with_no_grace(1)
    grouped = builder.stream("t", "v STRING").group_by_key().windowed_by(windows)
    grouped.aggregate(all=collect_list("w")).materialize("s")
    with pytest.raises(
        InvalidTopology, match=r"store 's', aggregate: collect_list\(w\): no column"
    ):
        bench.run(builder.build())
    assert not (bench.directory / "data").exists()


def test_another_topic_can_not_take_the_place_of_one(bench: Bench) -> None:
    """Spark identifies sources by their order, so other topics over a checkpoint are rejected."""
    bench.run()
    (bench.directory / "log" / "u").mkdir()
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    grouped = builder.stream("u", "v STRING").group_by_key().windowed_by(windows)
    grouped.aggregate(all=collect_list("v"), n=count()).materialize("s")
    with pytest.raises(IncompatibleStore, match="its topic was t, but the topology says u"):
        bench.run(builder.build())
