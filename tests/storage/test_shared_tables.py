"""Tests of tables on a shared mount, with an index on each machine."""

from functools import partial
from pathlib import Path

from oriel.storage import DataLayout, StoreNotReady
from oriel.storage.index import IndexDirectory, IndexReader
from oriel.storage.tailer.lock import acquire_lock
from oriel.storage.tailer.process import Tailer
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_for


def test_each_machine_follows_linked_tables_into_an_index_of_its_own(tmp_path: Path) -> None:
    """A data directory can link to shared ``tables``, and nothing is written to the mount."""
    mount = tmp_path / "mount"
    table = StoreTable(mount, make_definition())
    table.commit([{"key": "a", "start": 1}])
    before = set(mount.rglob("*"))
    directories = [tmp_path / "first", tmp_path / "second"]
    for directory in directories:
        directory.mkdir()
        (directory / "tables").symlink_to(mount / "tables")
        assert acquire_lock(directory, wait=False) is not None, "another tailer serves the folder"
    tailers = [Tailer(directory) for directory in directories]
    try:
        for tailer, directory in zip(tailers, directories, strict=True):
            tailer.round()
            wait_for(1, partial(_version, directory), "the version of the index")
    finally:
        for tailer in tailers:
            tailer.end()
    assert set(mount.rglob("*")) == before


def _version(data: Path) -> int | None:
    reader = IndexReader(IndexDirectory(DataLayout(data).index("store")))
    try:
        with reader.snapshot() as snapshot:
            return snapshot.state.version
    except StoreNotReady:
        return None
    finally:
        reader.close()
