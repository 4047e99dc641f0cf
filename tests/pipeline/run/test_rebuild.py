"""Stores computed anew from their topics: equal to a fresh run, killed anywhere, read meanwhile."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology, count, sum
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog
from oriel.storage import IncompatibleStore

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]


class Bench:
    """A folder with a log and data folders, and the runs over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """Begin without a topic."""
        self.spark = spark
        self.log = folder / "log"
        self.settings = RunSettings(folder / "data", "app", trigger_ms=None, tasks=2, sync=False)

    def append(self, topic: str, partition: int, *records: tuple[str, Any, int]) -> None:
        """Append records: key, value, time in ms."""
        path = self.log / topic / f"{partition}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for key, value, time in records:
                record = {"key": key, "value": {"v": value}, "timestamp_ms": time}
                file.write(orjson.dumps(record) + b"\n")

    def run(
        self, what: Topology, rebuild: str | None = None, *, max_batch_bytes: int = 2**20
    ) -> dict[str, PreparedBatch]:
        """Run to the end of the log, or rebuild; return the last batch of each store."""
        last: dict[str, PreparedBatch] = {}
        run = PipelineRun(
            self.spark, what, EventLog(self.log, max_batch_bytes), self.settings, rebuild
        )
        try:
            if rebuild is None:
                run.start(lambda _batch, stores: last.update(stores)).awaitTermination()
        except PySparkException:
            assert run.failure is not None
            raise run.failure from None
        finally:
            run.close()
        return last

    def fresh(self, what: Topology) -> "Bench":
        """The same log, run by ``what`` into an empty data folder."""
        other = Bench(self.spark, self.log.parent)
        other.settings = replace(self.settings, data=self.log.parent / "fresh")
        shutil.rmtree(other.settings.data, ignore_errors=True)
        other.run(what)
        return other

    def newest(self, store: str) -> Rows:
        """The newest row of each window, without its revision."""
        return newest_rows(self.settings.data / "tables" / store)


def newest_rows(table: Path) -> Rows:
    """The newest row of each window in a table, in order, without revisions and removed ones."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in DeltaTable(table).to_pyarrow_table().sort_by("revision").to_pylist():
        place = (row["key"], row.get("window_start"), row.get("window_end"))
        assert found.get(place, {}).get("revision") != row["revision"], "a batch came twice"
        found[place] = row
    rows = [found[place] for place in sorted(found, key=str)]
    return [{**row, "revision": 0} for row in rows if not row["deleted"]]


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """A bench without records."""
    return Bench(spark, tmp_path)


def counting(condition: str = "v >= 0", *stores: str) -> Topology:
    """Stores that count the records of topic ``t`` for which ``condition`` holds."""
    builder = StreamsBuilder()
    for store in stores or ("s",):
        grouped = builder.stream("t", "v INT").filter(condition).group_by_key()
        windowed = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 5))
        windowed.aggregate(n=count(), total=sum("v")).materialize(store)
    return builder.build()


RECORDS = [(key, value, 3 * value) for value in range(12) for key in "ab"]


def test_a_changed_filter_is_refused_and_a_rebuild_brings_it(bench: Bench) -> None:
    """The rows equal those of a fresh run; the pipeline goes on where it was."""
    bench.append("t", 0, *RECORDS)
    bench.run(counting())
    changed = counting("v % 2 = 0")
    with pytest.raises(
        IncompatibleStore, match=r"filter\('v >= 0'\).*'v % 2 = 0'.*oriel rebuild s"
    ):
        bench.run(changed)
    bench.run(changed, "s", max_batch_bytes=200)
    assert bench.newest("s") == bench.fresh(changed).newest("s") != []
    bench.append("t", 0, ("a", 14, 60), ("b", 15, 60))
    bench.append("t", 1, ("c", 2, 70))
    record = bench.run(changed)["s"].record
    assert bench.newest("s") == bench.fresh(changed).newest("s")
    assert (record.counters["input"], record.counters["filtered"]) == (27, 13)
    assert not (bench.settings.data / "rebuilds" / "s").exists()
