"""Runs and rebuilds over one data directory, and the rows in its tables."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology, count, sum
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog
from tests.system.kills.kinds_topology import PEAKS

Rows = list[dict[str, Any]]


class Bench:
    """A directory with a log and data directories, and the runs over them."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.log = directory / "log"
        self.settings = RunSettings(directory / "data", "app", trigger_ms=None, tasks=2, sync=False)
        self.last: dict[str, PreparedBatch] = {}

    def append(self, topic: str, partition: int, *records: tuple[str, Any, int]) -> None:
        """Append records: key, value, time in ms."""
        path = self.log / topic / f"{partition}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for key, value, time in records:
                record = {"key": key, "value": {"v": value}, "timestamp_ms": time}
                file.write(orjson.dumps(record) + b"\n")

    def run(
        self, what: Topology, *rebuild: str, log: EventLog | None = None
    ) -> dict[str, PreparedBatch]:
        """Run to the end of the log, or rebuild stores. Return the last batch of each store."""
        last: dict[str, PreparedBatch] = {}
        read = log or EventLog(self.log)
        if rebuild:
            PipelineRun.rebuild(self.spark, what, read, self.settings, rebuild)
            return last
        run = PipelineRun.recover(self.spark, what, read, self.settings)
        try:
            run.start(lambda _batch, stores: last.update(stores)).awaitTermination()
        except PySparkException:
            assert run.failure is not None
            raise run.failure from None
        finally:
            run.close()
        return last

    def fresh(self, what: Topology) -> "Bench":
        """Return a run of `what` over the same log, into an empty data directory."""
        other = Bench(self.spark, self.log.parent)
        other.settings = replace(self.settings, data=self.log.parent / "fresh")
        shutil.rmtree(other.settings.data, ignore_errors=True)
        other.last = other.run(what)
        return other

    def assert_as_fresh(self, what: Topology, *stores: str) -> None:
        """Run, and compare rows and counters of each store with a run that began with `what`."""
        last, fresh = self.run(what), self.fresh(what)
        for store in stores:
            assert self.newest(store) == fresh.newest(store) != []
            ours, theirs = (runs[store].record.counters for runs in (last, fresh.last))
            if store == PEAKS:
                # If a key is in several partitions, the cuts decide how many sessions are reported
                # as removed.
                ours, theirs = map(_of_records, (ours, theirs))
            assert ours == theirs

    def newest(self, store: str) -> Rows:
        """Return the newest row of each window, without its revision."""
        return newest_rows(self.settings.data / "tables" / store)


def _of_records(counters: dict[str, int]) -> dict[str, int]:
    """Return the counters without the counters of flattened records."""
    return {name: n for name, n in counters.items() if not name.startswith("elements")}


def newest_rows(table: Path) -> Rows:
    """Return the newest row of each window in order, without revisions and removed windows."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in DeltaTable(table).to_pyarrow_table().sort_by("revision").to_pylist():
        place = (row["key"], row.get("window_start"), row.get("window_end"))
        assert found.get(place, {}).get("revision") != row["revision"], "a batch came twice"
        found[place] = row
    rows = [found[place] for place in sorted(found, key=str)]
    return [{**row, "revision": 0} for row in rows if not row["deleted"]]


def counting(condition: str = "v >= 0", *stores: str) -> Topology:
    """Return stores that count the records of topic `t` for which `condition` holds."""
    builder = StreamsBuilder()
    for store in stores or ("s",):
        grouped = builder.stream("t", "v INT").filter(condition).group_by_key()
        windowed = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 5))
        windowed.aggregate(n=count(), total=sum("v")).materialize(store)
    return builder.build()


RECORDS = [(key, value, 3 * value) for value in range(12) for key in "ab"]
