"""Tests of the tailer process: it finds stores, is the only one, recovers and reports failures."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oriel.storage import DataLayout, StoreNotReady
from oriel.storage.index import IndexDirectory, IndexReader
from oriel.storage.tailer import StatusFile, StoreStatus, lock, stores_with_tables
from oriel.storage.tailer.process import ANOTHER_TAILER
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import WAIT_SECONDS, process_runs, wait_for, wait_until

Start = Callable[..., "subprocess.Popen[bytes]"]


class Reading:
    """Reads one store's index while the tailer, another process, writes it."""

    def __init__(self, data: Path, store: str = "store") -> None:
        self.reader = IndexReader(IndexDirectory(DataLayout(data).index(store)))

    def version(self) -> int:
        """Return the version of the index, or -1 without an index."""
        try:
            with self.reader.snapshot() as snapshot:
                return snapshot.state.version
        except StoreNotReady:
            return -1

    def wait_for(self, version: int) -> None:
        """Wait until the index has this version."""
        wait_until(self.version, f"version {version}", lambda found: found >= version)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts tailers of the data directory, which end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_tailer(*options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "oriel.storage.tailer", "--data", str(tmp_path), *options]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start_tailer
    for process in started:
        process.kill()
        process.wait()


def _status(data: Path, store: str = "store") -> StoreStatus | None:
    return StatusFile(DataLayout(data)).read().stores.get(store)


def test_new_stores_are_found_and_followed(tmp_path: Path, start: Start) -> None:
    """Stores that are created after the start are followed."""
    start()
    first, second = (StoreTable(tmp_path, make_definition(name)) for name in ("first", "second"))
    readings = [Reading(tmp_path, name) for name in ("first", "second")]
    for version in (1, 2, 3):
        for table, reading in zip((first, second), readings, strict=True):
            table.commit([{"key": "a", "start": version}])
            reading.wait_for(version)
    for reading in readings:
        reading.reader.close()


@pytest.mark.slow
def test_a_broken_store_stops_no_other(tmp_path: Path, start: Start) -> None:
    """A broken store is reported as failed, and other stores are followed."""
    broken = StoreTable(tmp_path, make_definition("broken"))
    broken.entry(0).write_text("{")
    good = StoreTable(tmp_path, make_definition("good"))
    good.commit([{"key": "a", "start": 1}])
    start()
    reading = Reading(tmp_path, "good")
    reading.wait_for(1)
    reading.reader.close()

    wait_until(
        lambda: _status(tmp_path, "broken"), "the problem of the broken store",
        lambda status: status is not None and status.state == "failed" and status.problem,
    )  # fmt: skip


@pytest.mark.slow
def test_a_repaired_store_is_followed_again(tmp_path: Path, start: Start) -> None:
    """A failed store is followed again after its repair."""
    table = StoreTable(tmp_path, make_definition())
    whole = table.entry(0).read_bytes()
    table.entry(0).write_text("{")
    start()
    wait_for("failed", lambda: (_status(tmp_path) or StoreStatus()).state, "the state")
    table.entry(0).write_bytes(whole)
    table.commit([{"key": "a", "start": 1}])
    reading = Reading(tmp_path)
    reading.wait_for(1)
    reading.reader.close()
    wait_for(StoreStatus("following", 1), lambda: _status(tmp_path), "the status")


def test_only_directories_with_a_log_and_a_valid_name_are_stores(tmp_path: Path) -> None:
    """Only directories with log entries and a valid name count as stores."""
    StoreTable(tmp_path, make_definition())
    for name in ("_dead_letters", "bad name", "without_entries"):
        (tmp_path / "tables" / name / "_delta_log").mkdir(parents=True)
    (tmp_path / "tables" / "empty").mkdir()
    assert stores_with_tables(DataLayout(tmp_path)) == ["store"]
    assert stores_with_tables(DataLayout(tmp_path / "nothing")) == []


@pytest.mark.slow
def test_a_second_tailer_refuses_or_waits_for_its_turn(tmp_path: Path, start: Start) -> None:
    """A second tailer exits, or with ``--wait`` continues when the first one ends."""
    table = StoreTable(tmp_path, make_definition())
    first = start()
    reading = Reading(tmp_path)
    reading.wait_for(0)
    assert start().wait(WAIT_SECONDS) == ANOTHER_TAILER
    reserve = start("--wait")
    first.kill()
    first.wait()
    table.commit([{"key": "a", "start": 1}])
    reading.wait_for(1)
    reading.reader.close()
    assert reserve.poll() is None


def test_a_directory_in_the_place_of_the_lock_is_an_error(tmp_path: Path) -> None:
    """A directory in place of the lock file is reported in one line with a solution."""
    StoreTable(tmp_path, make_definition())
    (tmp_path / lock.LOCK_FILE).mkdir()
    command = [sys.executable, "-m", "oriel.storage.tailer", "--data", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert f"{lock.LOCK_FILE}: it is not a file" in line
    assert "delete the directory" in line


def test_it_ends_cleanly_on_a_signal(tmp_path: Path, start: Start) -> None:
    """SIGTERM ends the tailer with exit code 0."""
    StoreTable(tmp_path, make_definition())
    process = start()
    reading = Reading(tmp_path)
    reading.wait_for(0)
    reading.reader.close()
    process.terminate()
    assert process.wait(WAIT_SECONDS) == 0


@pytest.mark.slow
def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """The tailer ends when its parent process is killed."""
    StoreTable(tmp_path, make_definition())
    script = (
        "import os, signal, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'oriel.storage.tailer',"
        " '--data', sys.argv[1], '--parent-pid', str(os.getpid())])\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        reading = Reading(tmp_path)
        reading.wait_for(0)
        reading.reader.close()
        parent.kill()
        parent.wait()
        wait_for(False, lambda: process_runs(child), "whether the tailer runs")


#: The number of kills in all runs.
_KILLS = int(os.environ.get("ORIEL_TAILER_KILLS", "6"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_it_resumes_after_a_kill_at_any_instant(tmp_path: Path, start: Start, seed: int) -> None:
    """After a SIGKILL at any time, no version is lost, incomplete or applied twice."""
    chooser = random.Random(seed)
    table = StoreTable(tmp_path, make_definition())
    reading = Reading(tmp_path)
    versions = 0
    for _ in range(_KILLS // 2):
        if chooser.random() < 0.2:
            IndexDirectory(DataLayout(tmp_path).index("store")).remove()
            reading.reader.close()
        process = start()
        for _ in range(chooser.randrange(2, 6)):
            versions += 1
            rows = [{"key": f"k{i}", "start": versions, "n": versions} for i in range(200)]
            table.commit(rows)
        reading.wait_for(chooser.randrange(versions + 1))
        # Kill it at a random time during its work.
        time.sleep(chooser.random() * 0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        _assert_whole(reading, seed)
    start()
    reading.wait_for(versions)
    _assert_whole(reading, seed)
    reading.reader.close()


def _assert_whole(reading: Reading, seed: int) -> None:
    """Check that the index has all 200 windows of each version up to its own."""
    try:
        with reading.reader.snapshot() as snapshot:
            assert snapshot.window_count() == 200 * snapshot.state.version, f"seed {seed}"
    except StoreNotReady:
        assert reading.version() == -1
