"""Stores rebuilt next to a run of the old topology: rows equal a new run, and the old run ends."""

import threading
from collections.abc import Mapping
from pathlib import Path

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
from oriel.pipeline.commit import Replacement
from oriel.pipeline.errors import CheckpointError, Fenced, InvalidTopology
from oriel.pipeline.run import PipelineRun
from oriel.pipeline.run.live_rebuild import LiveRebuild
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.run.rebuild import StoreRebuild
from oriel.pipeline.sources import EventLog
from oriel.storage import IncompatibleStore
from tests.pipeline.run.rebuilt_stores import RECORDS, Bench

pytestmark = pytest.mark.slow

_WINDOWS = {
    "tumbling": TimeWindows.of_size_and_grace(10, 5),
    "sliding": SlidingWindows.of_time_difference_and_grace(5, 100),
    # Their rows disappear when sessions merge.
    "sessions": SessionWindows.of_inactivity_gap_and_grace(2, 100),
}


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench with the records of a first batch."""
    made = Bench(spark, tmp_path)
    made.append("t", 0, *RECORDS)
    return made


def stores(windows: str = "tumbling", **conditions: str) -> Topology:
    """Return a topology with a store per condition, which selects its records."""
    builder = StreamsBuilder()
    for store, condition in conditions.items():
        grouped = builder.stream("t", "v INT").filter(condition).group_by_key()
        windowed = grouped.windowed_by(_WINDOWS[windows])
        windowed.aggregate(n=count(), total=sum("v")).materialize(store, final_table=True)
    return builder.build()


def final_rows(bench: Bench) -> list[str]:
    """Return the rows of the final table, which has each final window once."""
    table = DeltaTable(bench.settings.data / "final" / "s").to_pyarrow_table()
    return sorted(str({**row, "revision": 0}) for row in table.to_pylist())


def rebuild(bench: Bench, topology: Topology, *names: str) -> bool:
    """Rebuild stores, in batches of few records."""
    queries = Queries(bench.spark, topology, EventLog(bench.log, 200), bench.settings)
    return queries.rebuild_live(names, threading.Event(), 0, waits=False)


@pytest.mark.parametrize("windows", _WINDOWS)
def test_a_live_rebuild_follows_the_batches_of_the_old_topology(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, windows: str
) -> None:
    """Rows that were written in advance are updated or removed by the batches until the switch."""
    old = stores(windows, s="v >= 0", other="v >= 0")
    changed = stores(windows, s="v % 2 = 0", other="v >= 0")
    # A second batch, because rows of batch 0 are not written in advance.
    for time_ms in (20, 21):
        bench.run(old)
        bench.append("t", 0, ("a", 2, time_ms), ("c", 2, time_ms))
    bench.run(old)
    replace_process = LiveRebuild._replace

    def later(live: LiveRebuild, rebuilds: Mapping[str, StoreRebuild]) -> None:
        for time_ms in (1, 4, 7, 40):
            bench.append("t", 0, ("a", 2, time_ms), ("b", 4, time_ms), ("b", 3, time_ms))
            bench.run(old)
        replace_process(live, rebuilds)

    monkeypatch.setattr(LiveRebuild, "_replace", later)
    assert rebuild(bench, changed, "s")
    assert bench.newest("s") == bench.fresh(changed).newest("s") != bench.fresh(old).newest("s")
    bench.append("t", 1, ("a", 14, 60), ("c", 16, 300))
    bench.append("t", 0, ("a", 2, 300))
    bench.assert_as_fresh(changed, "s", "other")
    assert final_rows(bench) == final_rows(bench.fresh(changed)) != []
    assert not list((bench.settings.data / "rebuilds").iterdir())


def test_the_old_run_is_fenced(bench: Bench) -> None:
    """A run that holds the checkpoint ends after the rebuild, and changes nothing."""
    old, changed = stores(s="v >= 0"), stores(s="v % 2 = 0", new="v > 3")
    bench.run(old)
    running = PipelineRun.recover(bench.spark, old, EventLog(bench.log), bench.settings)
    try:
        assert rebuild(bench, changed, "s", "new")
        assert isinstance(running.failure, Fenced)
    finally:
        running.close()
    bench.append("t", 0, ("a", 14, 60))
    bench.assert_as_fresh(changed, "s", "new")


@pytest.mark.parametrize(
    ("step", "is_after"),
    [("add_state", False), ("add_files", False), ("switch_to", False), ("switch_to", True)],
)
def test_a_failed_replacement_leaves_the_old_store_or_the_new_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str, is_after: bool
) -> None:
    """The old topology runs until the switch. After it, only the new one does."""
    old, changed = stores(s="v >= 0"), stores(s="v % 2 = 0")
    for time_ms in (20, 30):
        bench.run(old)
        bench.append("t", 0, ("a", 2, time_ms))
    bench.run(old)
    original = getattr(Replacement, step)

    def failing(*given: object) -> None:
        if is_after:
            original(*given)
        message = "killed"
        raise OSError(message)

    with monkeypatch.context() as patch:
        patch.setattr(Replacement, step, failing)
        with pytest.raises(OSError, match="killed"):
            rebuild(bench, changed, "s")
    bench.append("t", 0, ("a", 3, 50), ("b", 4, 50))
    if not is_after:
        bench.assert_as_fresh(old, "s")
        assert rebuild(bench, changed, "s")
        bench.append("t", 0, ("a", 4, 60))
    bench.assert_as_fresh(changed, "s")


def test_a_stopped_rebuild_changes_nothing(bench: Bench) -> None:
    """After a stop, the old run still holds the pipeline."""
    old, changed = stores(s="v >= 0"), stores(s="v % 2 = 0")
    bench.run(old)
    running = PipelineRun.recover(bench.spark, old, EventLog(bench.log), bench.settings)
    stop = threading.Event()
    stop.set()
    try:
        queries = Queries(bench.spark, changed, EventLog(bench.log), bench.settings)
        taken = queries.rebuild_live(["s"], stop, 0, waits=False)
        assert (taken, running.failure) == (False, None)
    finally:
        running.close()
    bench.append("t", 0, ("a", 3, 50))
    bench.assert_as_fresh(old, "s")


def test_a_live_rebuild_that_is_not_possible_is_an_error(bench: Bench) -> None:
    """The error precedes all work, and the old run continues."""
    old = stores(s="v >= 0", other="v >= 0")
    with pytest.raises(CheckpointError, match="the pipeline has not run"):
        rebuild(bench, old, "s")
    bench.run(old)
    with pytest.raises(InvalidTopology, match=r"no store 'none'\. Its stores: s, other"):
        rebuild(bench, old, "none")
    with pytest.raises(IncompatibleStore, match="oriel rebuild other"):
        rebuild(bench, stores(s="v > 1", other="v > 1"), "s")
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v INT").filter("v >= 0").group_by_key()
    windowed = grouped.windowed_by(_WINDOWS["tumbling"])
    counted = windowed.emit(EmitStrategy.on_window_close()).aggregate(n=count(), total=sum("v"))
    counted.materialize("s")
    counted.to_stream().group_by_key().windowed_by(_WINDOWS["tumbling"]).count().materialize("next")
    with pytest.raises(InvalidTopology, match=r"'next' cannot be rebuilt with --live.*\(s\)"):
        rebuild(bench, builder.build(), "next")
