"""Tests of following a Delta log entry by entry and of reading whole versions, also if torn."""

import shutil
from pathlib import Path
from urllib.parse import unquote

import orjson
import pytest
from deltalake import DeltaTable, write_deltalake

from oriel.storage import InvalidDefinition, StoreNotReady
from oriel.storage.delta import DeltaLog
from oriel.storage.delta.log import file_in_table
from oriel.storage.delta.maintenance.live_files import TableFiles
from oriel.storage.errors import CorruptLog
from tests.storage.other_hands import rewrite
from tests.storage.store_tables import StoreTable, make_definition, make_record


@pytest.fixture
def table(tmp_path: Path) -> StoreTable:
    """Return a store's table at version 0, in a directory whose name needs encoding in URLs."""
    return StoreTable(tmp_path / "data 100%", make_definition())


def test_the_first_entry_has_the_definition(table: StoreTable) -> None:
    """Version 0 has the metadata with the definition, no rows and no position."""
    entry = DeltaLog(table.path).read(0)
    assert entry is not None
    assert entry.metadata is not None
    assert entry.metadata.definition_json == table.definition.to_json()
    assert (entry.added, entry.record) == ((), None)


def test_a_batch_has_its_files_and_its_position(table: StoreTable) -> None:
    """The entry of a batch has the file name as on disk and the complete commit record."""
    table.commit([{"key": "a", "start": 1}])
    entry = DeltaLog(table.path).read(1)
    assert entry is not None
    assert [(table.path / name).is_file() for name in entry.added] == [True]
    assert entry.record == make_record(0)
    assert not entry.removes_rows


def test_a_batch_without_rows_moves_the_position(table: StoreTable) -> None:
    """The entry of a batch without files still has a commit record."""
    table.commit()
    entry = DeltaLog(table.path).read(1)
    assert entry is not None
    assert (entry.added, entry.record) == ((), make_record(0))


def test_compaction_changes_no_rows(table: StoreTable) -> None:
    """The entry of a compaction has no new rows and no removed rows."""
    table.commit([{"key": "a", "start": 1}])
    table.commit([{"key": "b", "start": 2}])
    DeltaTable(table.path).optimize.compact()
    entry = DeltaLog(table.path).read(3)
    assert entry is not None
    assert (entry.added, entry.removes_rows, entry.record) == ((), False, None)


def test_deleting_rows_is_noticed(table: StoreTable) -> None:
    """The entry of a DELETE by another program removes rows."""
    table.commit([{"key": "a", "start": 1}])
    DeltaTable(table.path).delete("key = 'a'")
    entry = DeltaLog(table.path).read(2)
    assert entry is not None
    assert entry.removes_rows


@pytest.mark.parametrize("cut", [0, 1, 40, -1, -2])
def test_a_torn_entry_is_not_there_yet(table: StoreTable, cut: int) -> None:
    """An entry that is empty or cut off inside its last line is read as missing."""
    table.commit([{"key": "a", "start": 1}])
    entry = table.entry(1)
    content = entry.read_bytes().rstrip(b"\n")
    entry.write_bytes(content[:cut])
    log = DeltaLog(table.path)
    assert log.read(1) is None
    assert log.newest() == log.read(0)


def test_the_snapshot_leaves_a_torn_newest_entry_out(table: StoreTable) -> None:
    """If the newest entry is torn, the snapshot has the version before it."""
    table.commit([{"key": "a", "start": 1}])
    table.commit([{"key": "a", "start": 2}])
    table.entry(2).write_bytes(b'{"commitInfo":{"time')
    snapshot = DeltaLog(table.path).snapshot()
    assert (snapshot.version, snapshot.record, len(snapshot.files)) == (1, make_record(0), 1)


def test_the_snapshot_has_files_definition_and_position(table: StoreTable) -> None:
    """A snapshot has the names of files on disk, the definition and the newest position."""
    table.commit([{"key": "a", "start": 1}])
    table.commit([{"key": "b", "start": 2}])
    DeltaTable(table.path).optimize.compact()
    snapshot = DeltaLog(table.path).snapshot()
    assert (snapshot.version, snapshot.record) == (3, make_record(1))
    assert snapshot.definition == table.definition
    assert [(table.path / name).is_file() for name in snapshot.files] == [True]


def test_the_snapshot_uses_a_checkpoint_if_old_entries_are_deleted(table: StoreTable) -> None:
    """A snapshot has all files although the entries before a checkpoint were deleted."""
    for start in range(3):
        table.commit([{"key": "a", "start": start}])
    DeltaTable(table.path).create_checkpoint()
    for version in range(3):
        table.entry(version).unlink()
    snapshot = DeltaLog(table.path).snapshot()
    assert (snapshot.version, len(snapshot.files), snapshot.record) == (3, 3, make_record(2))


def test_a_hole_in_the_log_is_corrupt(table: StoreTable) -> None:
    """A missing entry before a later one, without a checkpoint, raises CorruptLog."""
    table.commit([{"key": "a", "start": 1}])
    table.commit([{"key": "a", "start": 2}])
    table.entry(1).unlink()
    with pytest.raises(CorruptLog):
        DeltaLog(table.path).snapshot()


def test_a_missing_entry_with_the_position_is_corrupt(table: StoreTable) -> None:
    """A missing entry with the position raises CorruptLog, although a checkpoint has its rows."""
    for start in range(3):
        table.commit([{"key": "a", "start": start}])
    rewrite(table, [], None)
    DeltaTable(table.path).create_checkpoint()
    table.entry(3).unlink()
    with pytest.raises(CorruptLog, match=r"entry 3 of the log is missing\. Put the file back"):
        DeltaLog(table.path).snapshot()


def test_a_listing_that_lacks_an_entry_is_no_hole(
    table: StoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that was written while the directory was listed is found by a second listing."""
    for start in range(3):
        table.commit([{"key": "a", "start": start}])
    rewrite(table, [], None)
    log = DeltaLog(table.path)
    listings = [[0, 1, 4], [0, 1, 2, 3, 4]]
    monkeypatch.setattr(log, "versions", lambda: listings.pop(0))
    assert log.newest_record() == make_record(2)
    assert listings == []


def test_no_table_is_not_ready(tmp_path: Path) -> None:
    """A missing directory has no versions, and its snapshot raises StoreNotReady."""
    log = DeltaLog(tmp_path / "nothing")
    assert (log.versions(), log.identity(0), log.read(0)) == ([], None, None)
    with pytest.raises(StoreNotReady):
        log.snapshot()


def test_a_table_of_others_is_no_store(tmp_path: Path, table: StoreTable) -> None:
    """A table without the property of a store definition is rejected."""
    write_deltalake(tmp_path / "other", table.arrow([{"key": "a", "start": 1}]))
    with pytest.raises(InvalidDefinition, match=r"oriel\.store"):
        DeltaLog(tmp_path / "other").snapshot()


def test_an_unreadable_position_leaves_the_rows(table: StoreTable) -> None:
    """An entry with an invalid commit record is read as an entry without one."""
    table.commit([{"key": "a", "start": 1}])
    entry = table.entry(1)
    entry.write_bytes(entry.read_bytes().replace(b'\\"batch\\"', b'\\"botch\\"'))
    read = DeltaLog(table.path).read(1)
    assert read is not None
    assert read.record is None
    assert len(read.added) == 1


def test_a_deletion_vector_removes_rows(table: StoreTable) -> None:
    """An added file with a deletion vector removes rows, even without a remove action (RESTORE).

    The file still has the deleted rows. Only a snapshot shows which rows remain.
    """
    table.commit([{"key": "a", "start": 1}])
    entry = table.entry(1)
    entry.write_bytes(
        entry.read_bytes().replace(b'"add":{', b'"add":{"deletionVector":{"storageType":"u"},')
    )
    read = DeltaLog(table.path).read(1)
    assert read is not None
    assert read.removes_rows


def test_the_modification_time_shows_a_replaced_entry(table: StoreTable) -> None:
    """A replaced entry has another file identity and another digest."""
    table.commit([{"key": "a", "start": 1}])
    log = DeltaLog(table.path)
    before, entry = log.identity(1), log.read(1)
    copy = table.path / "copy"
    shutil.copy(table.entry(1), copy)
    copy.write_bytes(copy.read_bytes().replace(b'"engineInfo"', b'"engineinfo"'))
    copy.replace(table.entry(1))
    replaced = log.read(1)
    assert entry is not None
    assert replaced is not None
    assert log.identity(1) != before
    assert replaced.digest != entry.digest


@pytest.mark.parametrize(
    "path",
    [
        "../other/part.parquet", "%2e%2e/part.parquet", "a/../../part.parquet", "/etc/passwd",
        "%2Fetc/passwd", "file:///etc/passwd", "FILE:/etc/passwd", "s3://bucket/part.parquet", "..",
    ],
)  # fmt: skip
@pytest.mark.parametrize("action", ["add", "remove"])
def test_names_that_lead_out_of_the_table_are_refused(
    table: StoreTable, path: str, action: str
) -> None:
    """A path outside of the table is rejected, so that no such file is served or deleted."""
    table.commit([{"key": "a", "start": 1}])
    named = {"path": path, "size": 1, "modificationTime": 1, "deletionTimestamp": 1}
    files = TableFiles(table.path)
    files.follow()
    line = orjson.dumps({action: {**named, "partitionValues": {}, "dataChange": True}})
    table.entry(2).write_bytes(line + b"\n")
    log = DeltaLog(table.path)
    if action == "add":
        with pytest.raises(CorruptLog, match="outside of the table"):
            log.read(2)
    with pytest.raises(CorruptLog, match="outside of the table"):
        files.follow()


@pytest.mark.parametrize("path", ["part-1.parquet", "a..b/c.parquet", "t=10%3A00/c.parquet", "%25"])
def test_odd_names_inside_the_table_are_good(path: str) -> None:
    """Double dots in a name, encoded colons and percent signs are valid in paths."""
    assert file_in_table(path) == unquote(path)
