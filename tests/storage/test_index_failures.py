"""Tests of failing file operations during an index build: readers keep the old index."""

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from oriel.storage import StorageError
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexDirectory, IndexReader, IndexWriter
from oriel.storage.index import directory as marks
from oriel.storage.tailer.store import StoreTailer
from tests.storage.followed import rebuild
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.written_index import window_snapshot

#: Every file operation of building and publishing, in their order.
_EFFECTS = [
    "oriel.storage.tailer.store.IndexDirectory.new_generation",
    "oriel.storage.index.writer.IndexWriter.append",
    "oriel.storage.index.writer.IndexWriter.apply",
    "oriel.storage.index.writer.IndexWriter.sync",
    "oriel.storage.tailer.store.IndexDirectory.publish",
    "oriel.storage.index.directory.sync_file",
    "oriel.storage.index.directory.sync_directory",
    "oriel.storage.index.directory.replace_file",
]


@pytest.fixture
def tailer(tmp_path: Path) -> Iterator[StoreTailer]:
    """Return a tailer with a published index of a table with one batch."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}])
    store_tailer = StoreTailer(DeltaLog(table.path), IndexDirectory(tmp_path / "index" / "store"))
    _catch_up(store_tailer)
    yield store_tailer
    store_tailer.close()


def _catch_up(tailer: StoreTailer) -> None:
    while tailer.step():
        pass


def _disk_full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def _latest(tailer: StoreTailer) -> bytes | None:
    tailer.close()
    reader = IndexReader(tailer.directory)
    try:
        with window_snapshot(reader) as snapshot:
            return snapshot.latest("a")
    finally:
        reader.close()


@pytest.mark.parametrize("operation", _EFFECTS)
def test_a_rebuild_that_fails_leaves_the_old_index_and_no_rubbish(
    tailer: StoreTailer, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """A rebuild on a full disk keeps the old index, and a later rebuild leaves no other files."""
    before = tailer.directory.current()
    with monkeypatch.context() as patched:
        patched.setattr(operation, _disk_full)
        with pytest.raises(OSError, match="No space"):
            rebuild(tailer)
    assert tailer.directory.current() == before
    assert _latest(tailer) is not None
    rebuild(tailer, "the disk has space again")
    after = tailer.directory.current()
    assert after not in (before, None)
    assert [path for path in tailer.directory.path.iterdir() if path.is_dir()] == [after]
    assert _latest(tailer) is not None


def test_a_failing_publication_after_the_pointer_is_no_loss(
    tailer: StoreTailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the old generation cannot be deleted, the new generation is still served."""
    before = tailer.directory.current()
    with monkeypatch.context() as patched:
        patched.setattr("oriel.storage.index.directory.IndexDirectory.remove_others", _disk_full)
        with pytest.raises(OSError, match="No space"):
            rebuild(tailer)
    assert tailer.directory.current() != before
    assert _latest(tailer) is not None


def test_a_version_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, no part of a version is applied, and the index is not damaged."""
    table = StoreTable(tmp_path, make_definition())
    tailer = StoreTailer(DeltaLog(table.path), IndexDirectory(tmp_path / "index" / "store"))
    _catch_up(tailer)
    table.commit([{"key": "a", "start": 1}])

    def fail(self: IndexWriter, txn: object, rows: object, state: object) -> None:
        where = "mdb_txn_commit"
        raise lmdb.DiskError(where, errno.ENOSPC)

    with monkeypatch.context() as patched:
        patched.setattr(IndexWriter, "_put", fail)
        with pytest.raises(StorageError):
            tailer.step()
    before = tailer.directory.current()
    assert _latest(tailer) is None
    _catch_up(tailer)
    assert tailer.directory.current() == before
    assert _latest(tailer) is not None


def test_an_index_deleted_while_it_is_rebuilt_is_built_by_the_next_step(
    tailer: StoreTailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the index is deleted during a rebuild, no other snapshot is tried until the next step."""
    snapshots = []

    def delete(*_: object) -> Any:
        snapshots.append(1)
        tailer.directory.remove()
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    with monkeypatch.context() as patched:
        patched.setattr("oriel.storage.index.writer.IndexWriter.append", delete)
        with pytest.raises(FileNotFoundError):
            rebuild(tailer)
    assert len(snapshots) == 1
    _catch_up(tailer)
    assert _latest(tailer) is not None


@pytest.mark.parametrize("lost", ["the file of a version", "the whole table"])
def test_files_that_vanish_are_an_error_and_not_an_empty_version(
    tailer: StoreTailer, lost: str
) -> None:
    """If data files vanish during a rebuild, it raises an error and the last version stays."""
    table = tailer.log.table
    if lost == "the whole table":
        shutil.rmtree(table)
    else:
        for file in table.glob("*.parquet"):
            file.unlink()
    with pytest.raises((OSError, StorageError)):
        rebuild(tailer)
    assert _latest(tailer) is not None


def test_a_mark_of_a_deleted_generation_is_not_an_error(tmp_path: Path) -> None:
    """Marking a deleted generation is not an error, because it can be replaced before the mark."""
    effects: list[Callable[[Path], object]] = [
        lambda path: marks.mark_damaged(path, "x"),
        lambda path: marks.request_verification(path, "x"),
        marks.clear_verification_request,
    ]
    for operation in effects:
        operation(tmp_path / "gone")
    assert marks.damage(tmp_path / "gone") is None
    assert not marks.is_verification_requested(tmp_path / "gone")
