"""``oriel diff``: rows of a store and of the rebuild that waits, after the same batch."""

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel.pipeline.commit import HeldRebuild
from oriel.pipeline.operations import diff
from oriel.pipeline.run.queries import Queries
from oriel.pipeline.sources import EventLog
from oriel.storage import DataLayout
from tests.pipeline.run.rebuilt_stores import RECORDS, Bench, counting
from tests.storage.waiting import wait_until

pytestmark = pytest.mark.slow


class _Waiting:
    """A rebuild that waits in a thread."""

    def __init__(self, bench: Bench, condition: str) -> None:
        self.bench = bench
        self.changed = counting(condition)
        self.stop = threading.Event()
        self.replaced: list[bool] = []
        self.held = HeldRebuild(DataLayout(bench.settings.data), "s")
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        wait_until(self.held.position, "the rebuild waits")

    def _run(self) -> None:
        queries = Queries(
            self.bench.spark, self.changed, EventLog(self.bench.log, 200), self.bench.settings
        )
        self.replaced.append(queries.rebuild_live(["s"], self.stop, 0, waits=True))

    def end(self) -> bool:
        """Wait until the rebuild ends, and return whether it has replaced the store."""
        self.thread.join()
        return self.replaced[0]


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench with two batches of a store."""
    made = Bench(spark, tmp_path)
    made.append("t", 0, *RECORDS)
    made.run(counting())
    made.append("t", 0, ("a", 3, 40))
    made.run(counting())
    return made


def _diff(bench: Bench, *options: str) -> int:
    return diff.main(["s", "--data", str(bench.settings.data), *options])


def test_each_window_that_differs_is_printed(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows of both, of one only, and the batches that follow while the rebuild waits."""
    waiting = _Waiting(bench, "v > 2")
    try:
        assert _diff(bench, "--json") == 3
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        old = {(r["key"], r["window_start"].isoformat()): r for r in bench.newest("s")}
        new = bench.fresh(waiting.changed)
        newest = {(r["key"], r["window_start"].isoformat()): r for r in new.newest("s")}
        assert {(row["key"], row["window_start"]): _values(row) for row in rows} == {
            window: (_of(old.get(window)), _of(newest.get(window)))
            for window in old
            if _of(old.get(window)) != _of(newest.get(window))
        }
        equal = len(old) - len(rows)
        assert _diff(bench, "--limit", "1") == 3
        *shown, summary = capsys.readouterr().out.splitlines()
        assert len(shown) == 3
        assert f"after batch 1: {equal} rows are equal" in summary
        bench.append("t", 0, ("new", 1, 50), ("new", 5, 90))
        bench.run(counting())
        wait_until(
            waiting.held.position, "batch 2", lambda found: found is not None and found.batch == 2
        )
        assert _diff(bench, "--json", "--limit", "100") == 3
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["rebuild"] for row in rows if row["key"] == "new"] == [None]
        assert _diff(bench, "--accept") == 0
        assert waiting.end()
    finally:
        waiting.stop.set()
        waiting.thread.join()
    assert bench.newest("s") == bench.fresh(waiting.changed).newest("s")
    bench.append("t", 0, ("a", 3, 95))
    bench.assert_as_fresh(waiting.changed, "s")


def test_an_equal_rebuild_has_no_difference(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0. After a stop, nothing has changed."""
    waiting = _Waiting(bench, "v >= 0 AND TRUE")
    try:
        assert _diff(bench) == 0
        assert "0 differ, 0 only in the store, 0 only in the rebuild" in capsys.readouterr().out
    finally:
        waiting.stop.set()
        assert not waiting.end()
    bench.append("t", 0, ("a", 3, 95))
    bench.assert_as_fresh(counting(), "s")


def test_without_a_rebuild_that_waits_there_is_an_error(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the command."""
    assert _diff(bench) == 1
    assert "Start `oriel rebuild s TOPOLOGY.py --live --hold`" in capsys.readouterr().err


def _of(row: dict[str, object] | None) -> object:
    return None if row is None else {name: row[name] for name in ("n", "total")}


def _values(row: dict[str, object]) -> tuple[object, object]:
    store, rebuild = row["store"], row["rebuild"]
    assert store is None or isinstance(store, dict)
    assert rebuild is None or isinstance(rebuild, dict)
    return _of(store), _of(rebuild)
