"""Tests of concurrent commits: each batch is committed once, and no commit is lost."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.storage.delta import (
    Table,
    add_checkpoint,
    open_table,
    store_schema,
    table_rows,
    write_file,
)
from oriel.storage.errors import CorruptLog, ForeignCheckpoint

AGGREGATES = {"n": pa.int64()}


def opened(directory: Path) -> Table:
    """Open or create the table."""
    return open_table(directory, store_schema(AGGREGATES), {"oriel.store": "{}"}, sync=False)


def commit(table: Table, directory: Path, batch: int, application: str = "app") -> int:
    """Commit a batch of one row."""
    changes = pa.table({
        "key": ["a"], "window_start_ms": [batch], "window_end_ms": [batch + 10], "n": [batch],
        "timestamp_ms": [batch], "final": [False],
    })  # fmt: skip
    rows = table_rows(changes, AGGREGATES, batch)
    file = write_file(directory, rows, "part 100%", sync=False)
    return table.commit([file], application, batch, {"oriel": f'{{"batch": {batch}}}'})


def entry(directory: Path, version: int) -> Path:
    """Return the path of a version's log entry."""
    return directory / "_delta_log" / f"{version:020d}.json"


def revisions(directory: Path) -> list[int]:
    """Return the batches of the table's rows, as delta-rs reads them."""
    batches: list[int] = DeltaTable(directory).to_pyarrow_table()["revision"].to_pylist()
    return sorted(batches)


def test_a_version_that_another_has_just_taken_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two commits attempt one version, the second one gets the next version."""
    first, second = opened(tmp_path), opened(tmp_path)
    link = Path.hardlink_to

    def overtaken(path: Path, draft: Path) -> None:
        monkeypatch.setattr(Path, "hardlink_to", link)
        assert commit(second, tmp_path, 7, "other") == 1
        link(path, draft)

    # The name of a draft has the process id, which must differ for the two writers.
    monkeypatch.setattr(Path, "hardlink_to", overtaken)
    numbers = iter((1, 2, 3))
    monkeypatch.setattr(os, "getpid", lambda: next(numbers))
    assert commit(first, tmp_path, 0) == 2
    assert revisions(tmp_path) == [0, 7]
    assert first.recorded_batch("other") == 7
    assert second.recorded_batch("app") == 0


def test_a_batch_that_another_has_committed_is_refused(tmp_path: Path) -> None:
    """A batch that another process committed is rejected, and its rows exist once."""
    first, second = opened(tmp_path), opened(tmp_path)
    commit(first, tmp_path, 0)
    with pytest.raises(ForeignCheckpoint, match="Another process"):
        commit(second, tmp_path, 0)
    assert revisions(tmp_path) == [0]


def test_compaction_and_changed_properties_of_others_are_followed(tmp_path: Path) -> None:
    """A writer reads versions of other programs and commits after them."""
    table = opened(tmp_path)
    for batch in range(3):
        commit(table, tmp_path, batch)
    DeltaTable(tmp_path).optimize.compact()
    opened(tmp_path).set_property("oriel.store", '{"new": 1}')
    assert commit(table, tmp_path, 3) == 6
    assert table.properties["oriel.store"] == '{"new": 1}'
    assert revisions(tmp_path) == [0, 1, 2, 3]
    assert len(DeltaTable(tmp_path).file_uris()) == 2


def test_entries_that_were_cleaned_away_are_not_written_again(tmp_path: Path) -> None:
    """If older entries were deleted after a checkpoint, the writer commits the next version."""
    table, other = opened(tmp_path), opened(tmp_path)
    commit(table, tmp_path, 0)
    for batch in range(3):
        commit(other, tmp_path, batch, "other")
    add_checkpoint(tmp_path)
    for version in range(4):
        entry(tmp_path, version).unlink()
    assert table.recorded_batch("app") == 0
    assert table.recorded_batch("other") == 2
    assert commit(table, tmp_path, 1) == 5
    assert revisions(tmp_path) == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("at", ["open", "commit"])
def test_features_that_this_writer_lacks_are_refused(tmp_path: Path, at: str) -> None:
    """A table that requires unsupported writer features is rejected."""
    table = opened(tmp_path)
    DeltaTable(tmp_path).alter.add_constraint({"positive": "n >= 0"})
    with pytest.raises(CorruptLog, match="writer protocol"):
        commit(opened(tmp_path) if at == "open" else table, tmp_path, 0)


def test_an_entry_that_is_damaged_later_stops_the_writer(tmp_path: Path) -> None:
    """A torn entry after the start stops the writer, because a power loss cannot be the cause."""
    table, other = opened(tmp_path), opened(tmp_path)
    commit(other, tmp_path, 0, "other")
    entry(tmp_path, 1).write_bytes(b'{"commitInfo"')
    with pytest.raises(CorruptLog, match=r"0001\.json.*empty or cut off"):
        table.recorded_batch("app")


def test_an_entry_is_an_append_that_delta_understands(tmp_path: Path) -> None:
    """An entry is an append in Delta's history, with an encoded file path."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0)
    newest = DeltaTable(tmp_path).history(1)[0]
    assert (newest["operation"], newest["oriel"]) == ("WRITE", '{"batch": 0}')
    (added,) = (
        action["add"]
        for line in entry(tmp_path, 1).read_bytes().splitlines()
        if "add" in (action := orjson.loads(line))
    )
    assert added["path"].startswith("part%20100%25-")


def test_a_commit_looks_at_no_older_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit neither lists the log nor reads older entries, so its cost stays constant."""
    table = opened(tmp_path)
    for batch in range(2):
        commit(table, tmp_path, batch)
    read: list[Path] = []
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noted)

    def fail(*_arguments: object) -> None:
        pytest.fail("the folder was listed")

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, fail)
    for batch in range(2, 40):
        assert table.recorded_batch("app") == batch - 1
        assert commit(table, tmp_path, batch) == batch + 1
    # Both calls try to read the next version, which does not exist yet.
    assert read == [entry(tmp_path, batch + 1) for batch in range(2, 40) for _ in range(2)]


_COMMITTER = """
import sys
from pathlib import Path
from tests.storage.test_table_commits import opened
folder, name = Path(sys.argv[1]), sys.argv[2]
table = opened(folder)
for batch in range(30):
    table.commit([], name, batch, {})
"""


@pytest.mark.slow
def test_processes_that_commit_at_once_lose_nothing(tmp_path: Path) -> None:
    """Three processes with 30 batches each create 90 versions, in order per application."""
    opened(tmp_path)
    names = ["a", "b", "c"]
    running = [
        subprocess.Popen([sys.executable, "-c", _COMMITTER, str(tmp_path), name]) for name in names
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    table = opened(tmp_path)
    assert table.version == 90
    assert [table.recorded_batch(name) for name in names] == [29, 29, 29]
    batches = [
        (action["txn"]["appId"], action["txn"]["version"])
        for version in range(1, 91)
        for line in entry(tmp_path, version).read_bytes().splitlines()
        if "txn" in (action := orjson.loads(line))
    ]
    for name in names:
        assert [batch for owner, batch in batches if owner == name] == list(range(30))
    assert not list((tmp_path / "_delta_log").glob(".*"))


def test_threads_that_commit_at_once_lose_nothing(tmp_path: Path) -> None:
    """Two threads that commit at once create one complete entry per batch, in order."""
    opened(tmp_path)
    errors: list[BaseException] = []

    def commit_all(name: str) -> None:
        try:
            table = opened(tmp_path)
            for batch in range(100):
                table.commit([], name, batch, {})
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=commit_all, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    batches = [
        (action["txn"]["appId"], action["txn"]["version"])
        for version in range(1, 201)
        for line in entry(tmp_path, version).read_bytes().splitlines()
        if "txn" in (action := orjson.loads(line))
    ]
    for name in "ab":
        assert [batch for owner, batch in batches if owner == name] == list(range(100))


def test_a_checkpoint_during_writes_has_one_version(tmp_path: Path) -> None:
    """A checkpoint of an older version succeeds if the listing misses a later entry."""
    table = opened(tmp_path)
    for batch in range(3):
        commit(table, tmp_path, batch)
    missed = entry(tmp_path, 2).rename(tmp_path / "missed")
    add_checkpoint(tmp_path, 1)
    missed.rename(entry(tmp_path, 2))
    assert list((tmp_path / "_delta_log").glob("*1.checkpoint.parquet"))
    assert revisions(tmp_path) == [0, 1, 2]
