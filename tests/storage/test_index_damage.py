"""Tests of damaged indexes: reads raise an error and mark the index, and never crash."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from oriel.storage import StoreNotReady
from oriel.storage.errors import IndexDamaged
from oriel.storage.index import (
    IndexDirectory,
    IndexReader,
    IndexRows,
    IndexState,
    IndexWriter,
    damage,
    verify_in_subprocess,
)
from oriel.storage.index.check import find_damage
from oriel.storage.index.generation import storage_error
from oriel.storage.index.state import Extent
from oriel.testing.store_models import put
from tests.storage.store_tables import SLIDING, make_definition, make_record
from tests.storage.written_index import window_snapshot, write_index

_PAGE_BYTES = 4096


@pytest.fixture
def directory(tmp_path: Path) -> IndexDirectory:
    """Return a closed index with 5,000 windows."""
    index = IndexDirectory(tmp_path / "index" / "store")
    write_index(index, [put(f"key {i % 50}", i) for i in range(5_000)], None, SLIDING)
    return index


def _data_file(directory: IndexDirectory) -> Path:
    generation = directory.current()
    assert generation is not None
    return generation / "data.mdb"


def _truncate_to(size: int) -> Callable[[Path], None]:
    def damage_file(path: Path) -> None:
        with path.open("r+b") as file:
            file.truncate(size)

    return damage_file


def _garble(start: int, length: int) -> Callable[[Path], None]:
    def damage_file(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(start)
            file.write(b"\xa5" * length)

    return damage_file


_VISIBLE_IN_THE_HEADER = {
    "empty": _truncate_to(0),
    "half a page": _truncate_to(_PAGE_BYTES // 2),
    "one page": _truncate_to(_PAGE_BYTES),
    "two pages": _truncate_to(2 * _PAGE_BYTES),
    "half of it": _truncate_to(50 * _PAGE_BYTES),
    "garbled header": _garble(0, 2 * _PAGE_BYTES),
}


@pytest.mark.parametrize("kind", _VISIBLE_IN_THE_HEADER)
def test_a_reader_refuses_a_cut_off_file_and_leaves_word(
    directory: IndexDirectory, kind: str
) -> None:
    """A reader of a damaged file raises IndexDamaged and marks the index for the tailer."""
    _VISIBLE_IN_THE_HEADER[kind](_data_file(directory))
    reader = IndexReader(directory)
    with pytest.raises(IndexDamaged):
        reader.snapshot()
    assert damage(_data_file(directory).parent) is not None
    with pytest.raises(IndexDamaged):
        IndexReader(directory).snapshot()


@pytest.mark.parametrize("kind", _VISIBLE_IN_THE_HEADER)
def test_a_writer_refuses_it_too(directory: IndexDirectory, kind: str) -> None:
    """A writer rejects a damaged file, also an empty one, which LMDB would accept as new."""
    _VISIBLE_IN_THE_HEADER[kind](_data_file(directory))
    with pytest.raises(IndexDamaged):
        IndexWriter(_data_file(directory).parent).state()


def test_free_pages_at_the_end_are_part_of_the_file(directory: IndexDirectory) -> None:
    """A commit that allocates and frees its last pages leaves a whole file."""
    writer = IndexWriter(_data_file(directory).parent)
    ahead = writer._opened.ahead

    def put_and_delete(txn: Any) -> None:
        txn.put(b"long", b"x" * 25 * _PAGE_BYTES, db=ahead)
        txn.delete(b"long", db=ahead)

    writer._write(put_and_delete)
    writer.check_size()
    writer.close()
    reader = IndexReader(directory)
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("key 1") is not None
    reader.close()
    assert damage(_data_file(directory).parent) is None


def test_a_file_cut_off_under_an_open_reader_is_noticed(directory: IndexDirectory) -> None:
    """Each snapshot checks the file size first, so that no page after the end is read."""
    reader = IndexReader(directory)
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("key 1") is not None
    _truncate_to(3 * _PAGE_BYTES)(_data_file(directory))
    with pytest.raises(IndexDamaged, match="cut off"):
        reader.snapshot()
    reader.close()
    assert damage(_data_file(directory).parent) is not None


def test_a_file_cut_off_under_an_open_writer_is_noticed(directory: IndexDirectory) -> None:
    """The writer's size check finds a truncated or deleted file."""
    writer = IndexWriter(_data_file(directory).parent)
    writer.check_size()
    _truncate_to(3 * _PAGE_BYTES)(_data_file(directory))
    with pytest.raises(IndexDamaged, match="cut off"):
        writer.check_size()
    _data_file(directory).unlink()
    with pytest.raises(IndexDamaged, match="deleted"):
        writer.check_size()
    writer.close()


def test_an_index_of_an_older_format_is_rebuilt(directory: IndexDirectory) -> None:
    """Readers report an index that lacks a database, and mark it for a rebuild."""
    generation = _data_file(directory).parent
    with lmdb.open(str(generation), max_dbs=3) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(b"ahead", txn=txn))
    with pytest.raises(IndexDamaged, match="another format"):
        IndexReader(directory).snapshot()
    assert damage(generation) is not None


def test_an_intact_index_passes_the_check(directory: IndexDirectory) -> None:
    """The check finds no damage in an intact index."""
    generation = _data_file(directory).parent
    assert find_damage(generation) is None
    verify_in_subprocess(generation)


@pytest.mark.parametrize("page", range(12, 60, 7))
def test_the_check_finds_garbled_pages(directory: IndexDirectory, page: int) -> None:
    """The check finds a page of random bytes anywhere in the file."""
    _garble(page * _PAGE_BYTES, _PAGE_BYTES)(_data_file(directory))
    assert find_damage(_data_file(directory).parent) is not None


def test_the_check_finds_a_value_that_is_no_json(directory: IndexDirectory) -> None:
    """The check finds a value that is not JSON, although the structure of the file is valid."""
    path = _data_file(directory)
    path.write_bytes(path.read_bytes().replace(b'{"key":"key 7"', b'?"key":"key 7"'))
    assert find_damage(path.parent) is not None
    with pytest.raises(IndexDamaged):
        verify_in_subprocess(path.parent)


def test_a_revision_that_changed_is_damage(directory: IndexDirectory) -> None:
    """A changed revision in the `ahead` database is damage for the check and for the writer."""
    generation = _data_file(directory).parent
    rows = IndexRows([b"key"], [b"{}"], np.zeros(1, np.bool_), np.full(1, 7), Extent())
    writer = IndexWriter(generation)
    state = writer.state()
    writer.follow([rows], state.revisions, state)
    writer.close()
    assert find_damage(generation) is None
    with lmdb.open(str(generation), max_dbs=4) as env, env.begin(write=True) as txn:
        ahead = env.open_db(b"ahead", txn=txn, create=False)
        ((key, value),) = txn.cursor(ahead)
        txn.put(key, bytes([value[0] ^ 1]) + value[1:], db=ahead)
    assert find_damage(generation) is not None
    writer = IndexWriter(generation)
    with pytest.raises(IndexDamaged):
        writer.follow([rows], state.revisions.after(7, None), state)
    writer.close()


def test_the_check_is_a_command(directory: IndexDirectory) -> None:
    """The check as a command prints the damage and exits with 1."""
    path = _data_file(directory)
    _truncate_to(5 * _PAGE_BYTES)(path)
    command = [sys.executable, "-m", "oriel.storage.index", str(path.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout


_KILLED = "import os; os.kill(os.getpid(), {number})"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (_KILLED.format(number=9), StoreNotReady),
        ("raise MemoryError", StoreNotReady),
        (_KILLED.format(number=7), IndexDamaged),
        (_KILLED.format(number=11), IndexDamaged),
        ("print('page 7 is garbled'); raise SystemExit(1)", IndexDamaged),
    ],
    ids=["killed", "no memory", "bus error", "crash", "found"],
)
def test_a_check_that_could_not_be_made_is_no_damage(
    directory: IndexDirectory,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[StoreNotReady],
) -> None:
    """Only a finding or a crash by a read shows damage. A killed check does not."""
    run = subprocess.run

    def run_script(command: list[str], **options: Any) -> Any:
        return run([command[0], "-c", script], **options)

    monkeypatch.setattr("oriel.storage.index.check.subprocess.run", run_script)
    with pytest.raises(StoreNotReady) as raised:
        verify_in_subprocess(_data_file(directory).parent)
    assert raised.type is error


@pytest.mark.parametrize("content", [None, b"", b"{", b"{}", b'{"format":0}', b"[]"])
def test_a_state_that_cannot_be_read_is_damage(content: bytes | None) -> None:
    """A state that is absent, torn, incomplete or of another format is damage."""
    with pytest.raises(IndexDamaged):
        IndexState.from_json(content)


def test_a_state_reads_back() -> None:
    """A state is equal after a round trip through JSON, with and without a commit record."""
    state = IndexState("table", 3, "digest", make_definition(), make_record(2), Extent(99, 7))
    assert IndexState.from_json(state.to_json()) == state
    fresh = IndexState("table", 0, "digest", make_definition(), None)
    assert IndexState.from_json(fresh.to_json()) == fresh


@pytest.mark.parametrize(
    "error",
    [
        lmdb.ReadersFullError("x"),
        lmdb.DiskError("x"),
        lmdb.ReadonlyError("x"),
        lmdb.Error("mdb_env_open: Too many open files"),
        lmdb.Error("mdb_txn_commit: Input/output error"),
    ],
)
def test_errors_that_pass_are_not_damage(error: lmdb.Error, tmp_path: Path) -> None:
    """A full disk, a full reader table or missing descriptors do not show damage."""
    translated = storage_error(error, tmp_path / "generation")
    assert type(translated) is StoreNotReady


@pytest.mark.parametrize(
    "error", [lmdb.CorruptedError("x"), lmdb.PageNotFoundError("x"), lmdb.InvalidError("x")]
)
def test_errors_of_the_file_are_damage(error: lmdb.Error, tmp_path: Path) -> None:
    """Errors of the file's content become IndexDamaged."""
    assert type(storage_error(error, tmp_path / "generation")) is IndexDamaged


def test_an_lmdb_error_inside_a_snapshot_becomes_damage(directory: IndexDirectory) -> None:
    """An LMDB error in a snapshot becomes IndexDamaged and marks the index."""
    reader = IndexReader(directory)

    def read() -> None:
        with reader.snapshot():
            message = "page not found"
            raise lmdb.PageNotFoundError(message)

    with pytest.raises(IndexDamaged):
        read()
    reader.close()
    assert damage(_data_file(directory).parent) is not None


def test_no_index_is_not_ready(tmp_path: Path) -> None:
    """A reader raises StoreNotReady before the index is built."""
    with pytest.raises(StoreNotReady, match="being built"):
        IndexReader(IndexDirectory(tmp_path / "store")).snapshot()


def test_a_deleted_index_serves_reads_until_the_new_one_is_ready(directory: IndexDirectory) -> None:
    """A reader serves a deleted index until the next generation is published."""
    reader = IndexReader(directory)
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("key 1") is not None
    directory.remove()
    reader._pointer_seen_at = 0.0
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("key 1") is not None
    write_index(directory, [put("other", 1)], None, SLIDING)
    reader._pointer_seen_at = 0.0
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("key 1") is None
        assert snapshot.latest("other") is not None
    reader.close()
