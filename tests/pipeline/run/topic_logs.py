"""Topics of random records as event logs, and runs of topologies over them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import Topology
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.run.reporting.progress import Progress
from oriel.pipeline.sources import EventLog

#: Key, time, value. A tombstone has the value None.
Record = tuple[str | None, int, Mapping[str, Any] | None]
#: Topic -> partition -> records, in offset order. Bytes are an invalid line.
Topics = Mapping[str, Mapping[int, Sequence[Record | bytes]]]


def write_topics(root: Path, topics: Topics) -> None:
    """Append records to the files of each topic."""
    for topic, partitions in topics.items():
        (root / topic).mkdir(parents=True, exist_ok=True)
        for partition, records in partitions.items():
            with (root / topic / f"{partition}.jsonl").open("ab") as file:
                file.writelines(line(record) + b"\n" for record in records)


def line(record: Record | bytes) -> bytes:
    """Return the line of a record in an event log."""
    if isinstance(record, bytes):
        return record
    key, time, value = record
    return orjson.dumps({"key": key, "value": value, "timestamp_ms": time})


def offsets(records: Sequence[Record | bytes]) -> Iterator[int]:
    """Yield the offset of each record."""
    position = 0
    for record in records:
        yield position
        position += len(line(record)) + 1


def random_times(random: Random, number: int, reach: int) -> list[int]:
    """Return times up to `reach` that mostly increase. Some times are much smaller."""
    times = sorted(random.randrange(reach) for _ in range(number))
    for place in range(number):
        other = random.randrange(max(0, place - 4), place + 1)
        times[place], times[other] = times[other], times[place]
    if number > 2:
        # A record that is late for each operator that can have late records.
        times[random.randrange(2, number)] = times[0]
    return times


@dataclass
class Stores:
    """The tables of runs over one data directory, and the last batches of the runs."""

    spark: SparkSession
    directory: Path
    last: dict[str, PreparedBatch] = field(default_factory=dict)
    batches: int = 0
    #: Also receives the batches of the next run.
    progress: Progress | None = None

    def run(
        self,
        topology: Topology,
        *,
        batch_bytes: int = 2**26,
        tasks: int = 2,
        small_batch_bytes: int = 2**26,
    ) -> None:
        """Run to the end of the log. Batches above `small_batch_bytes` are Spark jobs."""
        settings = RunSettings(
            self.directory / "data", "app", trigger_ms=None, tasks=tasks, key_groups=8, sync=False
        )
        log = EventLog(self.directory / "log", batch_bytes, small_batch_bytes)
        run = PipelineRun.recover(self.spark, topology, log, settings)
        if self.progress is not None:
            self.progress.begin(run.counters)
        try:
            run.start(self._follow).awaitTermination()
        except PySparkException:
            assert run.failure is not None
            raise run.failure from None
        finally:
            run.close()

    def rebuild(self, topology: Topology, store: str) -> None:
        """Rebuild one store."""
        settings = RunSettings(
            self.directory / "data", "app", trigger_ms=None, tasks=2, key_groups=8, sync=False
        )
        PipelineRun.rebuild(
            self.spark, topology, EventLog(self.directory / "log"), settings, [store]
        )

    def _follow(self, batch: int, stores: dict[str, PreparedBatch]) -> None:
        if self.progress is not None:
            self.progress.on_batch(batch, stores)
        self.batches += 1
        self.last.update(stores)

    def newest(self, store: str) -> list[dict[str, Any]]:
        """Return the newest rows without removed windows and revisions, with times in ms."""
        found: dict[Any, dict[str, Any]] = {}
        rows = DeltaTable(self.directory / "data" / "tables" / store).to_pyarrow_table().to_pylist()
        for row in sorted(rows, key=lambda row: row["revision"]):
            for name in ("window_start", "window_end", "timestamp"):
                if name in row:
                    row[name] = round(row[name].timestamp() * 1000)
            place = row["key"], row.get("window_start"), row.get("window_end")
            before = found.get(place)
            assert before is None or before["revision"] < row["revision"], "a batch came twice"
            assert not (before or {}).get("final"), "a final window changed"
            found[place] = row
        return [
            {name: value for name, value in found[place].items() if name != "revision"}
            for place in sorted(found, key=str)
            if not found[place]["deleted"]
        ]

    def counters(self, store: str) -> dict[str, int]:
        """Return the running totals of a store, and check that every record is counted once."""
        counters = dict(self.last[store].record.counters)
        names = ("applied", "late", "dead_lettered", "filtered")
        assert counters["input"] == sum(counters[name] for name in names), store
        return counters

    def dead_letters(self) -> list[tuple[Any, ...]]:
        """Return topic, partition, offset, store, reason and bytes of dead letters, in order."""
        names = ("topic", "partition", "offset", "store", "reason", "raw")
        table = DeltaTable(self.directory / "data" / "tables" / "_dead_letters").to_pyarrow_table()
        return sorted((tuple(row[name] for name in names) for row in table.to_pylist()), key=str)
