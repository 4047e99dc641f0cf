"""An index that another process left is verified before a reader uses it."""

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
    IndexFolder,
    IndexReader,
    IndexWriter,
    damage,
    is_suspect,
    is_unverified,
    note_crash,
    trust,
    was_reading,
)
from oriel.storage.tailer import require_verifications
from oriel.storage.tailer.lock import take_lock
from oriel.storage.tailer.store import StoreTailer
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.store_tables import Row
from tests.storage.test_tables_away import Rounds
from tests.storage.waiting import wait_for

_PAGE_BYTES = 4096
#: Flips, one a copy. A campaign sets more.
_FLIPS = int(os.environ.get("ORIEL_FLIPS", "200"))
_ROWS: list[Row] = [{"key": f"key {n % 20}", "start": n} for n in range(600)]


class AtRest(Followed):
    """A store whose index lies where the service has it, at rest."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.layout = DataLayout(data)
        self.folder = IndexFolder(self.layout.index("store"))
        self.restart()
        self.table.commit(_ROWS)
        self.catch_up()
        self.tailer.close()

    def restart(self) -> None:
        """Start a service, as far as its index is concerned."""
        self.tailer.close()
        require_verifications(self.layout)
        self.tailer = StoreTailer(DeltaLog(self.table.path), self.folder)

    def kill(self) -> None:
        """Leave the index as a writer that is killed leaves it."""
        writer = IndexWriter(self.generation())
        mark = self.generation() / "WRITTEN"
        left = mark.read_text()
        writer.close()
        mark.write_text(left)

    def assert_readers_wait(self) -> None:
        """A reader that opens the index gets an error that passes."""
        with pytest.raises(StoreNotReady, match=r"'store' is being verified\. Send"):
            IndexReader(self.folder).snapshot()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AtRest]:
    """A store whose index is at rest."""
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
    """By its digest alone: nothing is read record by record."""
    monkeypatch.setattr(trust, "check_in_own_process", _no_look)
    generation = store.generation()
    store.restart()
    store.assert_readers_wait()
    store.catch_up()
    assert store.generation() == generation
    assert store.tailer.is_verified
    store.assert_content(1, *_ROWS)


def test_readers_of_a_running_service_do_not_wait_for_another(store: AtRest) -> None:
    """Its tailer has the lock and has verified the index."""
    lock = take_lock(store.data, wait=False)
    assert lock is not None
    require_verifications(store.layout)
    os.close(lock)
    assert not is_unverified(store.generation())
    require_verifications(store.layout)
    assert is_unverified(store.generation())


def _flip(bit: int) -> Callable[[Path], None]:
    def damage_file(path: Path) -> None:
        byte = path.read_bytes()[bit // 8]
        _change(path, bit // 8, bytes([byte ^ 1 << bit % 8]))

    return damage_file


def _damages(path: Path) -> list[Callable[[Path], None]]:
    """Flip bits of every kind of page and every place in it, cut the file off, zero pages."""
    chooser = random.Random(32)
    size = path.stat().st_size
    pages = range(0, size, _PAGE_BYTES)
    # Half of them in page headers and pointers to records, where bits have the most effect.
    heads = [8 * (chooser.choice(pages) + chooser.randrange(64)) for _ in range(_FLIPS // 2)]
    anywhere = [chooser.randrange(8 * size) for _ in range(_FLIPS // 2)]
    bits = [bit + chooser.randrange(8) for bit in heads] + anywhere
    return [
        *map(_flip, bits),
        *(lambda path, end=end: os.truncate(path, end) for end in range(0, size, size // 7)),
        *(lambda path, at=at: _change(path, at, bytes(_PAGE_BYTES)) for at in pages[::5]),
    ]


def test_no_damage_at_rest_is_served(store: AtRest, tmp_path: Path) -> None:
    """Whatever bit or page it is: readers wait, and the index is rebuilt from its table."""
    whole = tmp_path / "whole"
    shutil.copytree(store.folder.path, whole)
    data_file = whole / store.generation().name / "data.mdb"
    content = data_file.read_bytes()
    for number, damage_file in enumerate(_damages(data_file)):
        shutil.rmtree(store.folder.path)
        shutil.copytree(whole, store.folder.path)
        damaged = store.generation()
        damage_file(damaged / "data.mdb")
        if (damaged / "data.mdb").read_bytes() == content:
            # Zeros that were zeros.
            continue
        store.restart()
        store.assert_readers_wait()
        store.tailer.step()
        assert store.generation() != damaged, f"damage {number} was not noticed"
        assert store.tailer.status.damaged == 1
        store.catch_up()
    store.assert_content(1, *_ROWS)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["sound", "damaged"])
def test_an_index_whose_writer_was_killed_is_looked_through(
    store: AtRest, *, is_damaged: bool
) -> None:
    """A file of up to 32 MiB has no digest then, so readers wait for the look."""
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
    """A service that is killed often must stay available; the scrub begins with this index."""
    monkeypatch.setattr(trust, "SMALL_BYTES", 0)
    monkeypatch.setattr(trust, "check_in_own_process", _no_look)
    store.kill()
    store.restart()
    store.catch_up()
    assert not store.tailer.is_verified
    store.assert_content(1, *_ROWS)


def test_a_restarted_tailer_makes_no_reader_wait(
    store: AtRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tailer alone was killed: it damages nothing, and readers have the index open."""
    monkeypatch.setattr(trust, "check_in_own_process", _no_look)
    store.kill()
    store.tailer = StoreTailer(DeltaLog(store.table.path), store.folder)
    store.catch_up()
    store.assert_content(1, *_ROWS)


def test_an_index_of_before_a_crash_of_the_machine_is_looked_through(store: AtRest) -> None:
    """LMDB may have lost its last commit: the digest differs, but the index is whole."""
    generation = store.generation()
    mark = generation / "WRITTEN"
    state, _, size, _ = mark.read_text().split()
    mark.write_text(f"{state} another-boot {size} xxh3:0000000000000000")
    store.restart()
    with check_in_this_process():
        store.catch_up()
    assert store.generation() == generation


def _die_while_reading(folder: IndexFolder) -> int:
    """Let a process crash inside a read transaction; returns its id."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        with IndexReader(folder).snapshot():
            os.kill(os.getpid(), signal.SIGSEGV)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    return child


@pytest.mark.parametrize("is_freed", [False, True], ids=["at once", "after the tailer's look"])
def test_a_crash_is_put_down_to_the_index_that_was_read(store: AtRest, *, is_freed: bool) -> None:
    """By LMDB's table of readers, also where the tailer has freed the place."""
    process = _die_while_reading(store.folder)
    generation = store.generation()
    if is_freed:
        writer = IndexWriter(generation)
        writer.close()
    assert was_reading(generation, process)
    assert not was_reading(generation, process + 1)


def test_the_first_crash_asks_for_a_look_the_second_for_a_rebuild(
    store: AtRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look found nothing, and yet a process crashed again."""
    generation = store.generation()
    store.restart()
    store.catch_up()
    note_crash(generation, "worker 0")
    assert is_suspect(generation)
    store.assert_readers_wait()
    monkeypatch.setattr("oriel.storage.tailer.store.check_in_own_process", lambda _: None)
    store.catch_up()
    assert store.generation() == generation
    assert not is_unverified(generation)
    monkeypatch.setattr("oriel.storage.tailer.store.check_in_own_process", _no_look)
    note_crash(generation, "worker 1")
    assert damage(generation) is not None
    store.catch_up()
    assert store.generation() != generation
    store.assert_content(1, *_ROWS)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["sound", "damaged"])
def test_an_index_without_its_table_is_verified_too(store: AtRest, *, is_damaged: bool) -> None:
    """While the table is away the index answers, so it must be sound."""
    generation = store.generation()
    if is_damaged:
        _flip(8 * (2 * _PAGE_BYTES + 100))(generation / "data.mdb")
    store.tailer.close()
    shutil.move(store.table.path, store.data / "away")
    require_verifications(store.layout)
    rounds = Rounds(store.data)
    rounds.round()
    try:
        wait_for(False, lambda: is_unverified(generation), "the mark")
        assert (damage(generation) is not None) is is_damaged
    finally:
        rounds.tailer.end()


def test_the_index_of_another_store_is_not_read(store: AtRest, tmp_path: Path) -> None:
    """Somebody swaps the directories under the service: a reader names the owner."""
    other = IndexFolder(tmp_path / "other")
    shutil.copytree(store.folder.path, other.path)

    def read() -> Any:
        return IndexReader(other).snapshot()

    with pytest.raises(IndexDamaged, match="index 'other' belongs to store 'store'"):
        read()


def test_the_index_of_another_directory_is_rebuilt(store: AtRest, tmp_path: Path) -> None:
    """Its marks and its digest are right, but its table is another one."""
    other = AtRest(tmp_path / "other")
    shutil.rmtree(store.folder.path)
    shutil.copytree(other.folder.path, store.folder.path)
    foreign = store.generation()
    store.restart()
    store.assert_readers_wait()
    store.catch_up()
    assert store.generation() != foreign
    store.assert_content(1, *_ROWS)
