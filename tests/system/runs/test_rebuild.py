"""Stores rebuilt from their topics: equal to a new run, after kills, with concurrent reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology, count, sum
from oriel.pipeline.commit import Replacement, StoreTables
from oriel.pipeline.errors import CheckpointError, FilesFailed, InvalidTopology
from oriel.pipeline.run.replay import ReplayedRows
from oriel.pipeline.run.reporting.run_report import RunReport
from oriel.pipeline.sources import EventLog
from oriel.storage import DataLayout, ForeignCheckpoint, IncompatibleStore, WindowRange
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexDirectory, IndexReader, build_generation
from oriel.storage.monitoring import overview
from oriel.storage.tailer import store as tailing
from tests.bits import flip_bit
from tests.pipeline.run.rebuilt_stores import RECORDS, Bench, counting
from tests.storage.followed import check_health_next
from tests.storage.written_index import window_snapshot

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench without records."""
    return Bench(spark, tmp_path)


def test_a_changed_filter_is_refused_and_a_rebuild_brings_it(bench: Bench) -> None:
    """The rebuilt rows equal those of a new run, and the pipeline continues."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    changed = counting("v % 2 = 0")
    with pytest.raises(
        IncompatibleStore, match=r"filter\('v >= 0'\).*'v % 2 = 0'.*oriel rebuild s"
    ):
        bench.run(changed)
    bench.run(changed, "s", log=EventLog(bench.log, 200))
    assert bench.newest("s") == bench.fresh(changed).newest("s") != []
    bench.append("t", 0, ("a", 14, 60), ("b", 15, 60))
    bench.append("t", 1, ("c", 2, 70))
    record = bench.run(changed)["s"].record
    assert bench.newest("s") == bench.fresh(changed).newest("s")
    assert (record.counters["input"], record.counters["filtered"]) == (27, 13)
    assert not (bench.settings.data / "rebuilds" / "s").exists()


def test_the_status_has_the_counters_of_the_rebuilt_store(bench: Bench) -> None:
    """The status also has the counters of the other stores, and does not show a running pipeline.

    The pipeline was killed, so its last heartbeat is the modification time of the status file.
    """
    bench.append("t", 0, *RECORDS)
    checkpoint = bench.settings.data / "checkpoints" / "app"
    report = RunReport(checkpoint, "app", "bytes", dict, dict)
    report.on_batch(bench.run(counting("v >= 0", "s", "other")), {})
    report.write_heartbeat()
    before = {store.name: store.record for store in overview(bench.settings.data).stores}
    changed = counting("v % 2 = 0", "s", "other")
    bench.run(changed, "s")
    seen = overview(bench.settings.data)
    assert not seen.runs["app"][1]
    now = {store.name: store.record for store in seen.stores}
    assert now["s"] == bench.fresh(changed).last["s"].record != before["s"]
    assert now["other"] == before["other"]
    report.end()


def test_a_rebuild_takes_no_damaged_rows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged rows have no valid digest in the new table, so the old table stays."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    rows = bench.newest("s")
    newest_rows = ReplayedRows._newest_rows

    def of_damaged_files(rows: ReplayedRows, *others: Any) -> Any:
        flip_bit(min(rows._table.glob("*.parquet")))
        return newest_rows(rows, *others)

    monkeypatch.setattr(ReplayedRows, "_newest_rows", of_damaged_files)
    with pytest.raises(PySparkException, match=r"\.parquet: the data file is damaged") as raised:
        bench.run(counting("v % 2 = 0"), "s")
    assert "`oriel rebuild s`" in str(raised.value)
    assert bench.newest("s") == rows


@dataclass(frozen=True)
class Kill:
    """The step of a rebuild before or after which it ends."""

    step: str
    is_after: bool

    def arm(self, patch: pytest.MonkeyPatch) -> None:
        """Patch the step so that it fails."""
        original = getattr(Replacement, self.step)

        def failing(*given: Any) -> None:
            if self.is_after:
                original(*given)
            message = "killed"
            raise OSError(message)

        patch.setattr(Replacement, self.step, failing)


@pytest.mark.parametrize(
    ("step", "is_after"),
    # After a step is the same as before the next one.
    [("add_state", False), ("add_dead_letters", False), ("switch_to", False), ("switch_to", True)],
)
def test_a_rebuild_that_is_killed_is_done_again_or_was_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str, is_after: bool
) -> None:
    """The old topology runs while the table is the old one. Then the rebuild is complete."""
    bench.append("t", 0, *RECORDS)
    old, changed = counting(), counting("v % 2 = 0")
    bench.run(old)
    rows = bench.newest("s")
    kill = Kill(step, is_after)
    with monkeypatch.context() as patch:
        kill.arm(patch)
        with pytest.raises(OSError, match="killed"):
            bench.run(changed, "s")
    if kill != Kill("switch_to", is_after=True):
        assert bench.newest("s") == rows
        bench.append("t", 0, ("a", 3, 50))
        bench.run(old)
        assert bench.newest("s") == bench.fresh(old).newest("s")
        bench.run(changed, "s")
    bench.append("t", 1, ("a", 3, 40), ("b", 4, 60))
    bench.assert_as_fresh(changed, "s")
    data = bench.settings.data
    assert [path.name for path in (data / "checkpoints/app/state").iterdir()] == ["s@1"]
    assert not list((data / "rebuilds").iterdir())


def test_a_batch_that_spark_offers_again_is_not_computed_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store is rebuilt up to a batch that another store has not committed yet."""
    bench.append("t", 0, *RECORDS[:10])
    both = counting("v >= 0", "s", "other")
    bench.run(both)
    bench.append("t", 0, *RECORDS[10:])
    with monkeypatch.context() as patch:
        commit = StoreTables.commit

        def failing(self: StoreTables, *given: Any) -> None:
            if self.definition.name == "other":
                message = "killed"
                raise OSError(message)
            commit(self, *given)

        patch.setattr(StoreTables, "commit", failing)
        with pytest.raises(FilesFailed, match="killed"):
            bench.run(both)
    bench.run(both, "s")
    bench.append("t", 0, ("a", 3, 50))
    bench.assert_as_fresh(both, "s", "other")


def test_a_store_that_is_new_is_computed_up_to_the_others(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new store reads the whole log while the others continue. A removed store can return.

    If it is one batch late, as after a kill, Spark repeats the newest batch for it.
    """
    for records in (RECORDS[:10], RECORDS[10:]):
        bench.append("t", 0, *records)
        bench.run(counting("v >= 0", "s"))
    bench.append("t", 0, ("a", 3, 50))
    both = counting("v >= 0", "s", "new")
    bench.run(both)
    assert "store rebuilt: store=new batch=1" in capsys.readouterr().err
    bench.append("t", 0, ("a", 4, 60))
    bench.assert_as_fresh(both, "s", "new")
    bench.append("t", 0, ("a", 4, 61))
    bench.run(counting("v >= 0", "new"))
    assert "store s is not in the topology" in capsys.readouterr().err
    bench.append("t", 0, ("a", 4, 62))
    bench.assert_as_fresh(both, "s", "new")
    for time in (63, 64):
        bench.append("t", 0, ("a", 4, time))
        bench.run(counting("v >= 0", "new"))
    bench.append("t", 0, ("a", 4, 65))
    with pytest.raises(ForeignCheckpoint, match="`oriel rebuild s`"):
        bench.run(both)
    bench.run(both, "s")
    bench.assert_as_fresh(both, "s", "new")


def of_topics(*topics: str) -> Topology:
    """Return a topology with one store per topic."""
    builder = StreamsBuilder()
    for topic in topics:
        grouped = builder.stream(topic, "v INT").group_by_key()
        windowed = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 5))
        windowed.aggregate(n=count(), total=sum("v")).materialize(f"of_{topic}")
    return builder.build()


def test_a_new_store_may_bring_a_topic(bench: Bench) -> None:
    """Spark continues with one more source, and later with one less."""
    bench.append("t", 0, *RECORDS)
    bench.append("earlier", 0, *RECORDS[:7])
    bench.run(of_topics("t"))
    bench.append("t", 0, ("a", 3, 50))
    both = of_topics("t", "earlier")
    bench.assert_as_fresh(both, "of_t", "of_earlier")
    bench.append("t", 0, ("a", 3, 51))
    bench.append("earlier", 0, ("a", 3, 51))
    bench.assert_as_fresh(both, "of_t", "of_earlier")
    bench.append("t", 0, ("a", 3, 52))
    bench.assert_as_fresh(of_topics("t"), "of_t")


def test_a_reader_sees_the_old_rows_or_the_new_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader sees the old or the new rows, also while the index is rebuilt."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    layout = DataLayout(bench.settings.data)
    directory = IndexDirectory(layout.index("s"))
    tailer = tailing.StoreTailer(DeltaLog(layout.table("s")), directory)
    seen: list[list[int]] = []

    def look() -> None:
        reader = IndexReader(directory)
        with window_snapshot(reader) as snapshot:
            seen.append([
                orjson.loads(window)["n"]
                for key in "ab"
                for window in snapshot.fetch(WindowRange(key, limit=100)).windows
            ])  # fmt: skip
        reader.close()

    _catch_up(tailer)
    look()
    bench.run(counting("v % 2 = 0"), "s")
    look()
    build = build_generation

    def building(*given: Any) -> Any:
        made = build(*given)
        look()
        return made

    monkeypatch.setattr(tailing, "build_generation", building)
    _catch_up(tailer)
    look()
    old, *between, new = seen
    assert between == [old, old]
    expected = [row["n"] for row in bench.fresh(counting("v % 2 = 0")).newest("s")]
    assert sorted(new) == sorted(expected) != sorted(old)


def _catch_up(tailer: tailing.StoreTailer) -> None:
    check_health_next(tailer)
    while tailer.step():
        pass
    tailer.close()


def test_a_rebuild_that_is_not_possible_is_an_error(bench: Bench) -> None:
    """An unknown store, or a pipeline that has not run, cannot be rebuilt."""
    bench.append("t", 0, *RECORDS)
    with pytest.raises(CheckpointError, match="the pipeline has not run"):
        bench.run(counting(), "s")
    with pytest.raises(InvalidTopology, match=r"no store 'none'\. Its stores: s"):
        bench.run(counting(), "none")


class OtherLog(EventLog):
    """A log with the identity of a Kafka cluster."""

    def identity(self, *_given: Any) -> dict[str, str]:
        return {"log": "Kafka cluster abc", "topic t": "id 1"}


def test_another_log_under_the_same_checkpoint_is_refused(bench: Bench) -> None:
    """Another log is rejected, because its offsets are of other records."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    with pytest.raises(CheckpointError, match=r"another log .an event log, .* Kafka cluster abc"):
        bench.run(counting(), log=OtherLog(bench.log))
    bench.append("t", 0, ("a", 3, 50))
    bench.assert_as_fresh(counting(), "s")
