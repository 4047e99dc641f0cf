"""Tests of system errors, growing maps and the limit of open indexes."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import lmdb
import pytest

from oriel.storage import StoreNotReady
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import IndexDamaged
from oriel.storage.index import IndexDirectory, IndexReader, IndexWriter, damage
from oriel.storage.index.generation import storage_error
from oriel.storage.index.reading import reader as readers
from oriel.storage.tailer.store import StoreTailer
from oriel.testing.store_models import put
from tests.storage.followed import Followed
from tests.storage.store_tables import SLIDING
from tests.storage.written_index import window_snapshot, write_index


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Leave this number of free file descriptors to the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0) for _ in range(8)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 1, hard))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("left", range(6))
def test_few_descriptors_are_no_damage(tmp_path: Path, left: int) -> None:
    """A reader without descriptors raises StoreNotReady and does not mark the index."""
    directory = IndexDirectory(tmp_path / "store")
    write_index(directory, [put("a", 1)], None, SLIDING)
    generation = directory.current()
    assert generation is not None
    reader = IndexReader(directory)
    with descriptors_left(left):
        try:
            with window_snapshot(reader) as snapshot:
                assert snapshot.latest("a") is not None
        except IndexDamaged as error:
            pytest.fail(f"the index is not damaged: {error}")
        except StoreNotReady:
            assert left < 4
    assert damage(generation) is None
    with window_snapshot(reader) as snapshot:
        assert snapshot.latest("a") is not None
    with descriptors_left(left):
        reader._pointer_seen_at = 0.0
        with window_snapshot(reader) as snapshot:
            assert snapshot.latest("a") is not None
    reader.close()


@pytest.mark.parametrize("left", range(6))
def test_a_tailer_with_few_descriptors_rebuilds_nothing(tmp_path: Path, left: int) -> None:
    """A tailer without descriptors fails, keeps the index, and later continues with it."""
    followed = Followed(tmp_path)
    followed.table.commit([{"key": "a", "start": 1}])
    followed.catch_up()
    generation = followed.generation()
    followed.restart()
    with descriptors_left(left):
        for _ in range(3):
            followed.tailer.advance()
    assert followed.generation() == generation
    followed.catch_up()
    assert followed.generation() == generation
    assert followed.tailer.status.state == "following"


@pytest.mark.parametrize(
    "code", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO, errno.EROFS, errno.ENOTCONN]
)
def test_errors_of_the_system_say_nothing_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """System errors, in LMDB or in our code, raise StoreNotReady with the system's message."""
    directory = IndexDirectory(tmp_path / "store")
    write_index(directory, [put("a", 1)], None, SLIDING)
    generation = directory.current()
    assert generation is not None
    text = os.strerror(code)
    translated = storage_error(lmdb.Error(f"mdb_env_open: {text}"), generation)
    assert (type(translated), text in str(translated)) == (StoreNotReady, True)

    def refuse(self: Path, *_: object, **__: object) -> str:
        raise OSError(code, text, str(self))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refuse)
        with pytest.raises(StoreNotReady, match=text) as raised:
            IndexReader(directory).snapshot()
        assert raised.type is StoreNotReady
        tailer = StoreTailer(DeltaLog(tmp_path / "tables" / "store"), directory)
        assert tailer.advance() >= 1
        assert text in (tailer.status.problem or "")
    assert damage(generation) is None


def test_a_map_grows_for_its_writer_and_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map grows in the writer's process and in the processes of readers."""
    monkeypatch.setattr("oriel.storage.index.generation._MAP_BYTES_MIN", 1 << 17)
    monkeypatch.setattr("oriel.storage.index.generation._MAP_FACTOR", 1)
    followed = Followed(tmp_path)
    followed.catch_up()
    followed.tailer.close()
    context = get_context("fork")
    ours, theirs = context.Pipe()

    def read() -> None:
        reader = IndexReader(followed.directory)
        for expected in iter(theirs.recv, None):
            with reader.snapshot() as snapshot:
                theirs.send((snapshot.window_count(), expected))
        reader.close()

    process = context.Process(target=read)
    process.start()
    for batch in range(4):
        ours.send(2_000 * batch)
        assert ours.recv() == (2_000 * batch, 2_000 * batch)
        followed.table.commit([{"key": f"k{n}", "start": batch} for n in range(2_000)])
        followed.catch_up()
    ours.send(None)
    process.join()
    assert process.exitcode == 0
    followed.tailer.close()


def test_few_indexes_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used index is closed, and an open snapshot stays readable."""
    monkeypatch.setattr(readers, "open_indexes_max", lambda: 3)
    directories = [IndexDirectory(tmp_path / f"store{n}") for n in range(8)]
    for number, directory in enumerate(directories):
        write_index(directory, [put("a", number)], None, SLIDING)
    opened = [IndexReader(directory) for directory in directories]
    first = window_snapshot(opened[0])
    for _ in range(2):
        for number, reader in enumerate(opened):
            reader._pointer_seen_at = 0.0
            with window_snapshot(reader) as snapshot:
                assert snapshot.fetch_window("a", number) is not None
            # A reader with an open snapshot is not closed.
            assert len(readers._open_readers) <= 3
    with first:
        assert first.fetch_window("a", 0) is not None
    for reader in opened:
        reader.close()
    for directory in directories:
        generation = directory.current()
        assert generation is not None
        # LMDB rejects a second open environment, so all files are closed.
        IndexWriter(generation).close()
