"""Tests of damaged marker files and replaced index files: reads are correct, or it is rebuilt."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oriel.app.routes.health import store_problem
from oriel.storage import StoreNotReady
from oriel.storage.index import IndexReader, damage, ended_in_read
from oriel.storage.tailer import StoreStatus, TailerStatus
from tests.storage.followed import check_in_this_process
from tests.storage.test_index_trust import _ROWS, AtRest, store

__all__ = ["store"]

_FILES = ["CURRENT", "WRITTEN", "DIED", "DAMAGED", "SUSPECT", "UNVERIFIED", "CRASHED"]
_FILES += ["data.mdb", "lock.mdb"]
_FOLLOWING = TailerStatus(None, stores={"store": StoreStatus("following", 1)})


def _directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "file").write_bytes(b"content")


def _written(content: bytes) -> Callable[[Path], None]:
    def damage_file(path: Path) -> None:
        # Not in place, because a truncated mapped file kills each process that reads it.
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    return damage_file


def _zeroed(path: Path) -> None:
    _written(bytes(path.stat().st_size if path.exists() else 40))(path)


_DAMAGES: dict[str, Callable[[Path], None]] = {
    "zeroed": _zeroed,
    "empty": _written(b""),
    "not-text": _written(b"\xff\xfe\x80" * 20),
    "line": _written(b"closed boot x xxh3:0\n"),
    "long-name": _written(b"x" * 5000),
    "folder": _directory,
}


@pytest.fixture(autouse=True)
def _fast_looks() -> Iterator[None]:
    with check_in_this_process():
        yield


@pytest.mark.parametrize("damage_file", _DAMAGES.values(), ids=_DAMAGES)
@pytest.mark.parametrize("name", _FILES)
@pytest.mark.parametrize("is_running", [False, True], ids=["at-rest", "running"])
def test_a_replaced_file_of_an_index_harms_nothing(
    store: AtRest, name: str, damage_file: Callable[[Path], None], *, is_running: bool
) -> None:
    """Readers return windows or StoreNotReady, and the recovered index has all windows."""
    if is_running:
        store.catch_up()
    generation = store.generation()
    damage_file((store.directory.path if name == "CURRENT" else generation) / name)
    if is_running:
        # As after a pause without changes, because a process opens an LMDB file only once.
        store.tailer.pace.idle_seconds = 0.0
        store.tailer._state.close_idle()
    else:
        store.restart()
    ended_in_read(generation, 1)
    store_problem(store.layout, "store", _FOLLOWING)
    reader = IndexReader(store.directory)
    with suppress(StoreNotReady), reader.snapshot() as snapshot:
        assert len(snapshot.keys("", 1000).keys) == len({row["key"] for row in _ROWS})
    reader.close()
    store.catch_up()
    store.assert_content(1, *_ROWS)
    assert store_problem(store.layout, "store", _FOLLOWING) is None
    assert damage(store.generation()) is None
    shutil.rmtree(store.directory.path)
