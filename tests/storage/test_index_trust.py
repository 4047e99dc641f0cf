"""Tests of indexes that another process left: they are verified before a reader uses them."""

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oriel.storage import DataLayout, StoreNotReady
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import IndexDamaged
from oriel.storage.index import (
    IndexDirectory,
    IndexReader,
    IndexWriter,
    are_reads_blocked,
    damage,
    ended_in_read,
    is_verification_requested,
    record_crash,
    trust,
)
from oriel.storage.tailer import require_verifications
from oriel.storage.tailer.lock import acquire_lock
from oriel.storage.tailer.store import StoreTailer
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.store_tables import Row
from tests.storage.test_tables_away import Rounds
from tests.storage.waiting import wait_for

_PAGE_BYTES = 4096
#: The number of copies, each with one flipped bit. A campaign sets a larger number.
_FLIPS = int(os.environ.get("ORIEL_FLIPS", "200"))
_ROWS: list[Row] = [{"key": f"key {n % 20}", "start": n} for n in range(600)]


class AtRest(Followed):
    """A store with a closed index at the path where the service has it."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.layout = DataLayout(data)
        self.directory = IndexDirectory(self.layout.index("store"))
        self.restart()
        self.table.commit(_ROWS)
        self.catch_up()
        self.tailer.close()

    def restart(self) -> None:
        """Start a new tailer as a started service does."""
        self.tailer.close()
        require_verifications(self.layout)
        self.tailer = StoreTailer(DeltaLog(self.table.path), self.directory)

    def kill(self) -> None:
        """Leave the index as a killed writer leaves it."""
        writer = IndexWriter(self.generation())
        mark = self.generation() / "WRITTEN"
        left = mark.read_text()
        writer.close()
        mark.write_text(left)

    def assert_readers_wait(self) -> None:
        """Check that a reader of the index gets a temporary error."""
        with pytest.raises(StoreNotReady, match=r"'store' is being verified\. Send"):
            IndexReader(self.directory).snapshot()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AtRest]:
    """Return a store with a closed index."""
    made = AtRest(tmp_path)
    yield made
    made.tailer.close()


def _no_look(_: Path) -> None:
    pytest.fail("a look through the index costs seconds for each million windows")


def _change(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def test_readers_wait_until_a_sound_index_is_verified(
    store: AtRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed index is verified by its digest, without reading each record."""
    monkeypatch.setattr(trust, "verify_in_subprocess", _no_look)
    generation = store.generation()
    store.restart()
    store.assert_readers_wait()
    store.catch_up()
    assert store.generation() == generation
    assert store.tailer.is_verified
    store.assert_content(1, *_ROWS)


def test_readers_of_a_running_service_do_not_wait_for_another(store: AtRest) -> None:
    """A second service does not require a verification while the first one has the lock."""
    lock = acquire_lock(store.data, wait=False)
    assert lock is not None
    require_verifications(store.layout)
    os.close(lock)
    assert not are_reads_blocked(store.generation())
    require_verifications(store.layout)
    assert are_reads_blocked(store.generation())


def _flip(bit: int) -> Callable[[Path], None]:
    def damage_file(path: Path) -> None:
        byte = path.read_bytes()[bit // 8]
        _change(path, bit // 8, bytes([byte ^ 1 << bit % 8]))

    return damage_file


def _damages(path: Path) -> list[Callable[[Path], None]]:
    """Return functions that flip bits in all parts of pages, truncate the file, or zero pages."""
    chooser = random.Random(32)
    size = path.stat().st_size
    pages = range(0, size, _PAGE_BYTES)
    # Half of the bits are in page headers and record pointers, where they have the most effect.
    heads = [8 * (chooser.choice(pages) + chooser.randrange(64)) for _ in range(_FLIPS // 2)]
    anywhere = [chooser.randrange(8 * size) for _ in range(_FLIPS // 2)]
    bits = [bit + chooser.randrange(8) for bit in heads] + anywhere
    return [
        *map(_flip, bits),
        *(lambda path, end=end: os.truncate(path, end) for end in range(0, size, size // 7)),
        *(lambda path, at=at: _change(path, at, bytes(_PAGE_BYTES)) for at in pages[::5]),
    ]


def test_no_damage_at_rest_is_served(store: AtRest, tmp_path: Path) -> None:
    """After any damage to a closed index, readers wait and the index is rebuilt."""
    whole = tmp_path / "whole"
    shutil.copytree(store.directory.path, whole)
    data_file = whole / store.generation().name / "data.mdb"
    content = data_file.read_bytes()
    for number, damage_file in enumerate(_damages(data_file)):
        shutil.rmtree(store.directory.path)
        shutil.copytree(whole, store.directory.path)
        damaged = store.generation()
        damage_file(damaged / "data.mdb")
        if (damaged / "data.mdb").read_bytes() == content:
            # The page was already zero.
            continue
        store.restart()
        store.assert_readers_wait()
        for _ in ("open", "rebuild"):
            store.tailer.step()
        assert store.generation() != damaged, f"damage {number} was not noticed"
        assert store.tailer.status.damaged == 1
        store.catch_up()
    store.assert_content(1, *_ROWS)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["sound", "damaged"])
def test_an_index_whose_writer_was_killed_is_looked_through(
    store: AtRest, *, is_damaged: bool
) -> None:
    """A small index of a killed writer has no digest, so readers wait for a full verification."""
    store.kill()
    generation = store.generation()
    if is_damaged:
        path = generation / "data.mdb"
        path.write_bytes(path.read_bytes().replace(b'{"key"', b'?"key"'))
    store.restart()
    store.assert_readers_wait()
    with check_in_this_process():
        store.catch_up()
    assert (store.generation() != generation) is is_damaged
    store.assert_content(1, *_ROWS)


def test_a_large_index_whose_writer_was_killed_is_served_meanwhile(
    store: AtRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large index of a killed writer is served at once, and the scrub verifies it first."""
    monkeypatch.setattr(trust, "SMALL_BYTES", 0)
    monkeypatch.setattr(trust, "verify_in_subprocess", _no_look)
    store.kill()
    store.restart()
    store.catch_up()
    assert not store.tailer.is_verified
    store.assert_content(1, *_ROWS)


def test_a_restarted_tailer_makes_no_reader_wait(
    store: AtRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill of the tailer alone, readers do not wait, because the index stays sound."""
    monkeypatch.setattr(trust, "verify_in_subprocess", _no_look)
    store.kill()
    store.tailer = StoreTailer(DeltaLog(store.table.path), store.directory)
    store.catch_up()
    store.assert_content(1, *_ROWS)


def test_an_index_of_before_a_crash_of_the_machine_is_looked_through(store: AtRest) -> None:
    """After a reboot, an index with a wrong digest is verified by its records and kept."""
    generation = store.generation()
    mark = generation / "WRITTEN"
    state, _, size, _ = mark.read_text().split()
    mark.write_text(f"{state} another-boot {size} xxh3:0000000000000000")
    store.restart()
    with check_in_this_process():
        store.catch_up()
    assert store.generation() == generation


def _die_while_reading(directory: IndexDirectory) -> int:
    """Crash a subprocess in a read transaction, and return its process id."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        with IndexReader(directory).snapshot():
            os.kill(os.getpid(), signal.SIGSEGV)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    return child


@pytest.mark.parametrize("is_freed", [False, True], ids=["at once", "after the tailer's look"])
def test_a_crash_is_put_down_to_the_index_that_was_read(store: AtRest, *, is_freed: bool) -> None:
    """LMDB's reader table shows which index a crashed process read, also after a cleanup."""
    process = _die_while_reading(store.directory)
    generation = store.generation()
    if is_freed:
        writer = IndexWriter(generation)
        writer.close()
    assert ended_in_read(generation, process)
    assert not ended_in_read(generation, process + 1)


def test_the_first_crash_asks_for_a_look_the_second_for_a_rebuild(
    store: AtRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first crash of a reader causes a verification, and the second one a rebuild."""
    generation = store.generation()
    store.restart()
    store.catch_up()
    record_crash(generation, "worker 0")
    assert is_verification_requested(generation)
    store.assert_readers_wait()
    monkeypatch.setattr("oriel.storage.tailer.store.verify_in_subprocess", lambda _: None)
    store.catch_up()
    assert store.generation() == generation
    assert not are_reads_blocked(generation)
    monkeypatch.setattr("oriel.storage.tailer.store.verify_in_subprocess", _no_look)
    record_crash(generation, "worker 1")
    assert damage(generation) is not None
    store.catch_up()
    assert store.generation() != generation
    store.assert_content(1, *_ROWS)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["sound", "damaged"])
def test_an_index_without_its_table_is_verified_too(store: AtRest, *, is_damaged: bool) -> None:
    """An index is also verified while its table is missing, because it is still served."""
    generation = store.generation()
    if is_damaged:
        _flip(8 * (2 * _PAGE_BYTES + 100))(generation / "data.mdb")
    store.tailer.close()
    shutil.move(store.table.path, store.data / "away")
    require_verifications(store.layout)
    rounds = Rounds(store.data)
    rounds.round()
    try:
        wait_for(False, lambda: are_reads_blocked(generation), "the mark")
        assert (damage(generation) is not None) is is_damaged
    finally:
        rounds.tailer.end()


def test_a_crash_while_the_table_is_missing_blocks_readers_only_until_a_verification(
    store: AtRest,
) -> None:
    """If a reader crashes while the table is missing, the sound index is verified and read."""
    generation = store.generation()
    store.tailer.close()
    shutil.move(store.table.path, store.data / "away")
    rounds = Rounds(store.data)
    rounds.round()
    try:
        record_crash(generation, "worker 0")
        store.assert_readers_wait()
        rounds.round(after_seconds=5.0)
        wait_for(False, lambda: are_reads_blocked(generation), "the mark")
        assert damage(generation) is None
    finally:
        rounds.tailer.end()


def test_the_index_of_another_store_is_not_read(store: AtRest, tmp_path: Path) -> None:
    """If index directories are swapped, a reader names the store that owns the index."""
    other = IndexDirectory(tmp_path / "other")
    shutil.copytree(store.directory.path, other.path)

    def read() -> Any:
        return IndexReader(other).snapshot()

    with pytest.raises(IndexDamaged, match="index 'other' belongs to store 'store'"):
        read()


def test_the_index_of_another_directory_is_rebuilt(store: AtRest, tmp_path: Path) -> None:
    """An index of another data directory is rebuilt, although its files are valid."""
    other = AtRest(tmp_path / "other")
    shutil.rmtree(store.directory.path)
    shutil.copytree(other.directory.path, store.directory.path)
    foreign = store.generation()
    store.restart()
    store.assert_readers_wait()
    store.catch_up()
    assert store.generation() != foreign
    store.assert_content(1, *_ROWS)
