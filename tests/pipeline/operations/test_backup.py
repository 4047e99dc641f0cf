"""Backup and restore of a real run: a restored directory resumes as if nothing had happened."""

import shutil
import threading
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import SlidingWindows, StreamsBuilder, Topology, collect_list, count
from oriel.pipeline.operations import clock, compact
from oriel.pipeline.operations.backups import backup, restore
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog

pytestmark = pytest.mark.slow


def _topology() -> Topology:
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    for name in ("s", "other"):
        windowed = builder.stream("t", "v STRING").group_by_key().windowed_by(windows)
        windowed.aggregate(all=collect_list("v"), n=count()).materialize(name)
    return builder.build()


class Site:
    """An event log that stays, and a data directory that can be lost."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        """Create an empty topic, or use the existing one."""
        self.spark = spark
        self.log = directory / "log"
        self.data = directory / "data"
        self.backup = directory / "backup"
        (self.log / "t").mkdir(parents=True, exist_ok=True)

    def append(self, first: int, last: int) -> None:
        """Append records at these times, each followed by an invalid line."""
        with (self.log / "t" / "0.jsonl").open("ab") as file:
            for time in range(first, last):
                record = {"key": "k", "value": {"v": str(time)}, "timestamp_ms": time}
                file.write(orjson.dumps(record) + b"\nrubbish\n")

    def run(self, data: Path | None = None) -> None:
        """Run to the end of the log."""
        settings = RunSettings(data or self.data, "app", trigger_ms=None, tasks=1, sync=False)
        run = PipelineRun.recover(self.spark, _topology(), EventLog(self.log), settings)
        try:
            run.start(lambda _batch, _stores: None).awaitTermination()
        finally:
            run.close()

    def rebuild(self, store: str) -> None:
        """Rebuild a store."""
        settings = RunSettings(self.data, "app", trigger_ms=None, tasks=1, sync=False)
        PipelineRun.rebuild(self.spark, _topology(), EventLog(self.log), settings, [store])

    def rows(self, data: Path) -> dict[str, list[dict[str, object]]]:
        """Return the sorted rows of each table, including dead letters."""
        tables = {}
        for table in sorted((data / "tables").iterdir()):
            rows = DeltaTable(table).to_pyarrow_table().to_pylist()
            tables[table.name] = sorted(rows, key=repr)
        return tables


@pytest.fixture(name="ran", scope="module")
def _ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a site after two batches."""
    directory = tmp_path_factory.mktemp("ran")
    site = Site(spark, directory)
    for first in (0, 10):
        site.append(first, first + 10)
        site.run()
    return directory


@pytest.fixture(name="site")
def _site(spark: SparkSession, ran: Path, tmp_path: Path) -> Site:
    """Return a site after two batches, for one test."""
    shutil.copytree(ran, tmp_path / "site")
    return Site(spark, tmp_path / "site")


def test_a_restored_directory_resumes_at_the_backup(site: Site) -> None:
    """Records after the backup are processed again, once. Tables and dead letters are the same."""
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    at_backup = site.rows(site.data)
    site.append(20, 30)
    site.run()
    undisturbed = site.rows(site.data)
    assert undisturbed != at_backup
    shutil.rmtree(site.data)

    restored = site.data.with_name("restored")
    assert restore.main(["--from", str(site.backup), "--data", str(restored)]) == 0
    assert site.rows(restored) == at_backup
    site.run(restored)
    assert site.rows(restored) == undisturbed


def test_a_backup_does_not_change_the_data_directory(site: Site) -> None:
    """A backup removes its links from the data directory."""
    before = sorted(path.relative_to(site.data) for path in site.data.rglob("*"))
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    assert sorted(path.relative_to(site.data) for path in site.data.rglob("*")) == before


def test_batches_that_come_meanwhile_are_not_in_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is committed after the newest batch was read is not in the backup."""
    seen = backup._newest_batch
    ran = threading.Event()

    def newest_batch(checkpoint: Path) -> int:
        batch = seen(checkpoint)
        if not ran.is_set():
            ran.set()
            site.append(20, 30)
            site.run()
        return batch

    at_backup = site.rows(site.data)
    monkeypatch.setattr(backup, "_newest_batch", newest_batch)
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    restored = site.data.with_name("restored")
    assert restore.main(["--from", str(site.backup), "--data", str(restored)]) == 0
    assert site.rows(restored) == at_backup
    site.run(restored)
    assert site.rows(restored) == site.rows(site.data)


@pytest.mark.parametrize(
    ("batches", "newest"),
    [
        ({}, -1),
        ({"s": -1}, -1),
        ({"s": 4}, 4),
        ({"s": 4, "other": 4}, 4),
        ({"s": 4, "other": 3}, 3),
        ({"s": 4, "other": 2}, 4),
        # The other store has not prepared the first batch yet.
        ({"s": 0, "other": -1}, -1),
        # A rebuild of the store has begun.
        ({"s": 0, "s@1": -1}, 0),
    ],
)
def test_a_backup_has_the_newest_batch_that_all_stores_have(
    tmp_path: Path, batches: dict[str, int], newest: int
) -> None:
    """A store can lag by one batch. A store that lags further has left the topology."""
    for store, batch in batches.items():
        directory = tmp_path / "state" / store
        directory.mkdir(parents=True)
        for number in range(batch + 1):
            (directory / f"{number:012d}.json").write_bytes(b"{}")
    assert backup._newest_batch(tmp_path) == newest


@pytest.mark.parametrize("damage", ["missing", "other", "cut"])
def test_a_damaged_backup_is_refused(
    site: Site, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The backup is checked before a data directory exists that a pipeline could use."""
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    file = next(site.backup.rglob("*.parquet"))
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(content[:-1] + b"x" if damage == "other" else content[:-1])
    capsys.readouterr()
    restored = site.data.with_name("restored")
    assert restore.main(["--from", str(site.backup), "--data", str(restored)]) == 1
    assert file.name in capsys.readouterr().err
    assert not restored.exists()
    assert not restored.with_name("restored.restoring").exists()


def test_an_unfinished_backup_is_none(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """The manifest is written last, so a backup without it is rejected."""
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    (site.backup / "backup.json").unlink()
    assert restore.main(["--from", str(site.backup), "--data", str(site.data / "x")]) == 1
    assert "is not a finished backup" in capsys.readouterr().err


def test_what_is_there_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backup is not overwritten, and a directory without tables is not a data directory."""
    (tmp_path / "data" / "tables").mkdir(parents=True)
    there = tmp_path / "there"
    there.mkdir()
    assert backup.main(["--data", str(tmp_path / "data"), "--to", str(there)]) == 1
    assert "already exists" in capsys.readouterr().err
    assert backup.main(["--data", str(there), "--to", str(tmp_path / "new")]) == 1
    assert "has no tables" in capsys.readouterr().err


def test_what_compaction_rewrites_meanwhile_does_no_harm(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction can run before a backup, and between the choice of its batch and of its files."""
    tables = ["s", "other", "_dead_letters"]
    for table in tables:
        assert compact.main([table, "--data", str(site.data), "--all"]) == 0
    at_backup = site.rows(site.data)
    seen = backup._newest_batch
    ran = threading.Event()

    def newest_batch(checkpoint: Path) -> int:
        batch = seen(checkpoint)
        if not ran.is_set():
            ran.set()
            site.append(20, 30)
            site.run()
            for table in tables:
                assert compact.main([table, "--data", str(site.data), "--all"]) == 0
        return batch

    monkeypatch.setattr(backup, "_newest_batch", newest_batch)
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    restored = site.data.with_name("restored")
    assert restore.main(["--from", str(site.backup), "--data", str(restored)]) == 0
    assert site.rows(restored) == at_backup
    site.run(restored)
    for table in tables:
        assert compact.main([table, "--data", str(restored), "--all"]) == 0
    assert site.rows(restored) == site.rows(site.data)


def test_a_rebuilt_store_and_a_stream_time_override_recover(site: Site) -> None:
    """A backup has the state of the newest generation, and the stream times that were set."""
    site.rebuild("s")
    assert clock.main(["--data", str(site.data), "--set", "t", "0", "12"]) == 0
    assert backup.main(["--data", str(site.data), "--to", str(site.backup)]) == 0
    site.append(20, 30)
    site.run()
    restored = site.data.with_name("restored")
    assert restore.main(["--from", str(site.backup), "--data", str(restored)]) == 0
    states = restored / "checkpoints" / "app" / "state"
    assert sorted(path.name for path in states.iterdir()) == ["other", "s@1"]
    site.run(restored)
    assert site.rows(restored) == site.rows(site.data)
