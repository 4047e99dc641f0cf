"""Batches of a sink in a real run, published to a list: restarts and backups."""

import os
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, Topology
from oriel.pipeline.operations.backups import backup, restore
from oriel.pipeline.plan import PreparedBatch, StorePlans, input_sources, record_sources
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.run.publishing import Publisher
from oriel.pipeline.sources import EventLog
from oriel.pipeline.state import open_segment
from oriel.storage import DataLayout
from oriel.storage.delta import dead_letters_name

pytestmark = pytest.mark.slow


def topology(more: str = "v >= 0") -> Topology:
    """Return a topology with a stream that joins a table and is written to a topic."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "v BIGINT").filter(more)
    stream.left_join(builder.table("names", "name STRING")).to("out")
    return builder.build()


class _KilledError(Exception):
    """Represents a crash of the process."""


class Site:
    """A log, a data directory, and the published records."""

    def __init__(
        self, spark: SparkSession, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.spark = spark
        self.log, self.data, self.backup = (directory / name for name in ("log", "data", "backup"))
        for topic in ("t", "names"):
            (self.log / topic).mkdir(parents=True)
        #: One dict per publication: the source and the value of its records.
        self.published: list[dict[str, int]] = []
        #: When the next publication fails: ``before`` or ``behind`` it, or not at all.
        self.fails: str | None = None
        monkeypatch.setattr(
            Publisher, "publish_records", lambda _, *given: self._publish(*given)
        )  # fmt: skip

    def append(self, first: int, last: int) -> None:
        """Append records with these values to two partitions."""
        for value in range(first, last):
            with (self.log / "t" / f"{value % 2}.jsonl").open("ab") as file:
                record = {"key": f"k{value % 3}", "value": {"v": value}, "timestamp_ms": value}
                file.write(orjson.dumps(record) + b"\n")

    def run(self, wanted: Topology | None = None, *rebuild: str) -> None:
        """Run to the end of the log, or until a publication fails."""
        settings = RunSettings(
            self.data,
            "app",
            None,
            tasks=2,
            sync=False,
            publish_options={"bootstrap.servers": "none"},
        )
        log = EventLog(self.log)
        if rebuild:
            PipelineRun.rebuild(self.spark, wanted or topology(), log, settings, rebuild)
            return
        run = PipelineRun.recover(self.spark, wanted or topology(), log, settings)
        try:
            run.start(lambda _batch, _stores: None).awaitTermination()
        except PySparkException:
            if not isinstance(run.failure, _KilledError):
                raise
        finally:
            run.close()

    def _publish(self, plans: StorePlans, directory: Path, prepared: PreparedBatch) -> None:
        if self.fails == "before":
            raise _KilledError
        names = [name for of_task in prepared.segments.values() for name in of_task]
        rows = pa.concat_tables(open_segment(directory, name) for name in names)
        sources = record_sources(rows, input_sources(plans)).to_pylist()
        self.published.append(dict(zip(sources, rows["v"].to_pylist(), strict=True)))
        if self.fails == "behind":
            raise _KilledError


@pytest.fixture(name="site")
def _site(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(spark, tmp_path, monkeypatch)


def test_a_batch_is_published_until_it_is_noted(site: Site) -> None:
    """A crash before publication loses nothing, and a crash after it repeats the batch once."""
    site.append(0, 6)
    site.run()
    for fails in ("before", "behind"):
        site.append(6, 10)
        site.fails = fails
        site.run()
        site.fails = None
        # The new records are another batch.
        site.append(10, 12)
        site.run()
        site.run()
    values = [sorted(batch.values()) for batch in site.published]
    four, two = [6, 7, 8, 9], [10, 11]
    assert values == [[0, 1, 2, 3, 4, 5], four, two, four, four, two]
    assert site.published[3] == site.published[4]
    sources = {source for batch in site.published for source in batch}
    assert len(sources) == 6 + 2 * 6


def test_a_restored_pipeline_resumes_after_its_backup(site: Site) -> None:
    """A restored pipeline does not publish records that were published before the backup."""
    site.append(0, 4)
    site.run()
    site.append(4, 6)
    site.run()
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    site.append(6, 8)
    site.run()
    site.data = site.data.with_name("restored")
    assert restore.main(["--from", str(site.backup), "--data", str(site.data)]) == 0
    site.run()
    values = [sorted(batch.values()) for batch in site.published]
    # Both pipelines publish the records after the backup.
    assert values == [[0, 1, 2, 3], [4, 5], [6, 7], [6, 7]]
    assert site.published[2] == site.published[3]


def test_a_rebuild_publishes_all_records_and_continues(site: Site) -> None:
    """A rebuild publishes all records of the new steps, and a killed one starts over."""
    site.append(0, 6)
    site.run()
    other = topology("v >= 2")
    site.fails = "behind"
    with pytest.raises(_KilledError):
        site.run(other, "to(out)")
    site.fails = None
    site.run(other, "to(out)")
    site.append(6, 8)
    site.run(other)
    values = [sorted(batch.values()) for batch in site.published]
    assert values == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5], [6, 7]]
    states = site.data / "checkpoints" / "app" / "state"
    assert [path.name for path in states.iterdir()] == ["to(out)@1"]


def test_unused_dead_letters_of_a_sink_are_deleted(site: Site) -> None:
    """A killed task leaves a file of dead letters. The sink has no table that shows its batch."""
    for value in range(2):
        site.append(value, value + 1)
        site.run()
    dead_letters = DataLayout(site.data).dead_letters
    unused, next_batch = (
        dead_letters / f"{dead_letters_name('to(out)', batch)}-0-{batch}.parquet"
        for batch in (0, 9)
    )
    for path in (unused, next_batch):
        path.write_bytes(b"")
        os.utime(path, (1, 1))
    # The run lists the directory once, at its start.
    site.run()
    assert not unused.exists()
    assert next_batch.exists()
