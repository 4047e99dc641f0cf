"""Runs over one event log at a wall-clock time that a test sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import Topology
from oriel.pipeline.plan import NO_LIMITS, PreparedBatch, WallClockLimits
from oriel.pipeline.run import PipelineRun, RunSettings, batch_loop, opened
from oriel.pipeline.run.batches.planned_batch import PlannedBatch, planned_batch
from oriel.pipeline.sources import EventLog
from oriel.storage.delta import MaintenanceSettings
from tests.pipeline.run.topic_logs import Record, write_topics

#: The end of the year 9999.
YEAR_9999 = 253_402_300_799_999


@dataclass
class ClockRuns:
    """A directory with a log and data, and the runs over it. `now_ms` is the wall-clock time."""

    spark: SparkSession
    directory: Path
    patch: pytest.MonkeyPatch
    now_ms: int = 1000
    wall_clock_limits: WallClockLimits = NO_LIMITS
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    last: dict[str, PreparedBatch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for module in (opened, batch_loop):
            self.patch.setattr(module, "wall_clock_ms", lambda: self.now_ms)

        # Spark's wall clock cannot be set, so new batches have the time 0. Earlier batches keep the
        # time that a test has set.
        def of_old_batches(session: SparkSession, application: str) -> PlannedBatch:
            batch = planned_batch(session, application)
            return batch if batch.time_ms < 10**12 else batch._replace(time_ms=0)

        self.patch.setattr(batch_loop, "planned_batch", of_old_batches)

    @property
    def data(self) -> Path:
        """Return the data directory."""
        return self.directory / "data"

    def append(self, partitions: Mapping[int, Sequence[Record | bytes]], topic: str = "t") -> None:
        """Append records to a topic."""
        write_topics(self.directory / "log", {topic: partitions})

    def run(self, topology: Topology, *, small_batch_bytes: int = 2**26) -> None:
        """Run to the end of the log. Batches above `small_batch_bytes` are Spark jobs."""
        settings = RunSettings(
            self.data, "app", trigger_ms=None, tasks=2, key_groups=8, sync=False,
            wall_clock_limits=self.wall_clock_limits, maintenance=self.maintenance,
        )  # fmt: skip
        log = EventLog(self.directory / "log", 2**26, small_batch_bytes)
        run = PipelineRun.recover(self.spark, topology, log, settings)
        try:
            run.start(lambda _batch, stores: self.last.update(stores)).awaitTermination()
        except PySparkException:
            assert run.failure is not None
            raise run.failure from None
        finally:
            run.close()

    def counters(self, store: str) -> dict[str, int]:
        """Return the running totals of a store, and check that every record is counted once."""
        counters = self.last[store].record.counters
        names = ("applied", "late", "dead_lettered", "filtered")
        assert counters["input"] == sum(counters[name] for name in names), store
        return counters

    def rows(self, store: str) -> list[dict[str, Any]]:
        """Return the newest row of each window, and check that no final row has changed.

        Rows are in the order of key and start. Times are in ms, because a window after the year
        9999 has an end that no datetime can have.
        """
        found: dict[Any, dict[str, Any]] = {}
        table = DeltaTable(self.data / "tables" / store).to_pyarrow_table()
        for number, column in enumerate(table.schema):
            if pa.types.is_timestamp(column.type):
                times_ms = table[column.name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
                table = table.set_column(number, column.name, times_ms)
        for row in sorted(table.to_pylist(), key=lambda row: row["revision"]):
            place = row["key"], row.get("window_start"), row.get("window_end")
            assert not found.get(place, {}).get("final"), f"a final window changed: {row}"
            found[place] = row
        return [found[place] for place in sorted(found, key=str) if not found[place]["deleted"]]

    def dead_letters(self) -> list[tuple[str, int, str | None]]:
        """Return reason, offset and store of each dead letter, in order."""
        table = DeltaTable(self.data / "tables" / "_dead_letters").to_pyarrow_table()
        return sorted(
            ((row["reason"], row["offset"], row["store"]) for row in table.to_pylist()), key=str
        )


@pytest.fixture
def runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClockRuns:
    """Return runs over an empty log."""
    return ClockRuns(spark, tmp_path, monkeypatch)
