"""Tests of unavailable tables: indexes stay in use, and only a deleted table deletes its index."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oriel.storage import DataLayout
from oriel.storage.index import IndexDirectory, IndexReader
from oriel.storage.tailer import StatusFile, TailerStatus
from oriel.storage.tailer.process import Tailer
from oriel.storage.tailer.tables import DELETE_AFTER_SECONDS
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_for


class Rounds:
    """A tailer of a data directory in this process, with a time that the test sets."""

    def __init__(self, data: Path) -> None:
        self.layout = DataLayout(data)
        self.seconds = 0.0
        self.tailer = Tailer(data, clock=lambda: self.seconds)

    def round(self, after_seconds: float = 1.0) -> TailerStatus:
        """Run one round this number of seconds after the last one, and return the status."""
        self.seconds += after_seconds
        self.tailer.round()
        return StatusFile(self.layout).read()

    def state(self, store: str) -> str | None:
        """Run one round, and return the state of a store."""
        status = self.round().stores.get(store)
        return status.state if status else None

    def wait_for(self, store: str, state: str) -> None:
        """Run rounds until a store has this state."""
        wait_for(state, lambda: self.state(store), f"the state of {store}")

    def versions(self, *stores: str) -> list[int]:
        """End the tailer, which has index files open, and return the versions of indexes."""
        self.tailer.end()
        found = []
        for store in stores:
            reader = IndexReader(IndexDirectory(self.layout.index(store)))
            with reader.snapshot() as snapshot:
                found.append(snapshot.state.version)
            reader.close()
        return found

    def restart(self) -> None:
        """Replace the tailer by a new one, with the current time."""
        self.tailer.end()
        self.tailer = Tailer(self.layout.root, clock=lambda: self.seconds)


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, StoreTable]:
    """Return two stores with one commit each."""
    made = {name: StoreTable(tmp_path, make_definition(name)) for name in ("one", "two")}
    for table in made.values():
        table.commit([{"key": "a", "start": 1}])
    return made


@pytest.fixture
def rounds(tmp_path: Path, tables: dict[str, StoreTable]) -> Iterator[Rounds]:
    """Return a tailer that has followed both stores, with closed indexes that a test can read."""
    made = Rounds(tmp_path)
    for name in tables:
        made.wait_for(name, "following")
    made.restart()
    yield made
    made.tailer.end()


def test_all_tables_away_and_back(rounds: Rounds, tables: dict[str, StoreTable]) -> None:
    """While the tables directory is unavailable, no index is deleted, and later all continue."""
    directory = rounds.layout.tables
    generations = {IndexDirectory(rounds.layout.index(name)).current() for name in tables}
    away = directory.rename(directory.with_name("elsewhere"))
    for _ in range(3):
        status = rounds.round(DELETE_AFTER_SECONDS)
        assert "cannot be read" in (status.problem or "")
        assert {one.state for one in status.stores.values()} == {"away"}
    away.rename(directory)
    tables["one"].commit([{"key": "a", "start": 2}])
    rounds.wait_for("one", "following")
    assert rounds.round().problem is None
    wait_for(2, lambda: rounds.round().stores["one"].version, "the version")
    assert {IndexDirectory(rounds.layout.index(name)).current() for name in tables} == generations
    assert rounds.versions("one", "two") == [2, 1]


@pytest.mark.parametrize("restart", [False, True])
def test_an_empty_directory_instead_of_the_tables(rounds: Rounds, *, restart: bool) -> None:
    """An empty directory in place of the tables, as without a mount, deletes no index."""
    rounds.round()
    directory = rounds.layout.tables
    directory.rename(directory.with_name("elsewhere"))
    directory.mkdir()
    if restart:
        rounds.restart()
    for _ in range(3):
        status = rounds.round(DELETE_AFTER_SECONDS)
        assert "Check that its file system is mounted" in (status.problem or "")
    assert rounds.versions("one", "two") == [1, 1]


def test_an_index_goes_when_its_table_stays_away(rounds: Rounds) -> None:
    """An index is deleted when its table has been missing continuously for a time."""
    rounds.round()
    table, elsewhere = rounds.layout.table("two"), rounds.layout.root / "elsewhere"
    table.rename(elsewhere)
    status = rounds.round()
    assert status.problem is None
    assert "Its index still serves requests" in (status.stores["two"].problem or "")
    rounds.round(DELETE_AFTER_SECONDS - 1)
    elsewhere.rename(table)
    rounds.round()
    table.rename(elsewhere)
    rounds.round()
    status = rounds.round(DELETE_AFTER_SECONDS - 1)
    assert (status.stores["one"].state != "away", status.stores["two"].state) == (True, "away")
    assert rounds.layout.index("two").exists()
    assert "two" not in rounds.round(1.0).stores
    assert not rounds.layout.index("two").exists()
    assert rounds.layout.index("one").exists()


def test_the_last_table_that_is_deleted_takes_its_index_along(rounds: Rounds) -> None:
    """Indexes of deleted tables are deleted, also of the last table and after a restart."""
    rounds.round()
    rounds.restart()
    for name in ("one", "two"):
        shutil.rmtree(rounds.layout.table(name))
    rounds.round()
    rounds.round(DELETE_AFTER_SECONDS)
    assert not rounds.layout.index("one").exists()
    assert StatusFile(rounds.layout).read().stores == {}


def test_a_table_without_access_does_not_count_as_deleted(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that cannot be read has state `failed`, and its index is not deleted."""
    rounds.round()
    stat = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if "two" in path.parts and "tables" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", refuse)
        for _ in range(2):
            assert rounds.round(DELETE_AFTER_SECONDS).stores["two"].state != "away"
        rounds.wait_for("two", "failed")
        assert "Permission denied" in (rounds.round().stores["two"].problem or "")
    assert rounds.layout.index("two").exists()
    rounds.wait_for("two", "following")


def test_a_directory_without_tables_is_not_a_problem(tmp_path: Path) -> None:
    """A data directory without tables is valid, because the pipeline can start later."""
    rounds = Rounds(tmp_path)
    assert rounds.round() == TailerStatus(None, os.getpid(), {}, None, None)
    rounds.tailer.end()
