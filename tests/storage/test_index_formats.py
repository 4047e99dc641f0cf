"""Tests of two program versions with one data directory: each keeps the other's indexes."""

import os
import time
from pathlib import Path

import pytest

from oriel.storage import DataLayout
from oriel.storage.index import IndexDirectory
from oriel.storage.layout import INDEX_FORMAT
from oriel.storage.tailer.formats import IDLE_SECONDS, remove_other_formats
from oriel.storage.tailer.lock import acquire_lock
from tests.storage.store_tables import SLIDING
from tests.storage.written_index import write_index


def _age(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    """Return a data directory with an index of this format, of a later one and without a format."""
    made = DataLayout(tmp_path)
    for directory in (made.index("store"), made.index_formats / "_format-99" / "store",
                   made.index_formats / "store"):  # fmt: skip
        write_index(IndexDirectory(directory), [], None, SLIDING)
    (made.index_formats / "_tailer.json").write_text("{}")
    (made.index_formats / "_format-99" / "_tailer.json").write_text("{}")
    return made


def test_the_name_of_the_directory_has_the_format(layout: DataLayout) -> None:
    """The index directory and the lock file have the index format in their names."""
    assert layout.indexes.name == f"_format-{INDEX_FORMAT}"
    lock = acquire_lock(layout.root, wait=False)
    assert lock is not None
    os.close(lock)
    assert str(INDEX_FORMAT) in next(layout.root.glob(".tailer*")).name


def test_other_formats_stay_while_somebody_uses_them(layout: DataLayout) -> None:
    """Old indexes of another format stay while their tailer updates its status file."""
    for directory in layout.index_formats.iterdir():
        _age(directory, 10 * IDLE_SECONDS)
    for heartbeat in layout.index_formats.rglob("_tailer.json"):
        _age(heartbeat, IDLE_SECONDS - 60)
    assert remove_other_formats(layout) == []


def test_other_formats_go_when_they_are_given_up(layout: DataLayout) -> None:
    """Unused older and newer formats are deleted, and the own format stays at any age."""
    for path in [*layout.index_formats.rglob("_tailer.json"), *layout.index_formats.iterdir()]:
        _age(path, IDLE_SECONDS + 60)
    removed = remove_other_formats(layout)
    assert {path.name for path in removed} == {"_format-99", "store"}
    assert IndexDirectory(layout.index("store")).current() is not None
    assert [path for path in removed if path.exists()] == []
    assert remove_other_formats(layout) == []


def test_what_is_no_index_is_left_alone(layout: DataLayout) -> None:
    """A directory that is not an index is never deleted."""
    other = layout.index_formats / "notes"
    other.mkdir()
    _age(other, 10 * IDLE_SECONDS)
    remove_other_formats(layout)
    assert other.exists()
