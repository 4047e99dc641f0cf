"""Tests of a full disk: the tailer reports it, keeps the last version, and continues later."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from oriel.storage import DataLayout, StoreNotReady
from oriel.storage.index import IndexDirectory, IndexWriter
from oriel.storage.tailer import StatusFile, StoreStatus, failures, status
from oriel.storage.tailer.failures import problem_of
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_until

_LONG = StoreStatus("failed", 1, "x" * 100_000)


def _full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_lock_file_has_all_its_blocks(tmp_path: Path) -> None:
    """The lock file has all its blocks. LMDB maps it, so a missing block would cause SIGBUS."""
    writer = IndexWriter(IndexDirectory(tmp_path).new_generation())
    lock_file = (writer.generation / "lock.mdb").stat()
    writer.close()
    assert lock_file.st_blocks * 512 >= lock_file.st_size > 0


def test_no_room_for_the_lock_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the lock file cannot be allocated, opening raises StoreNotReady, which allows a retry."""
    monkeypatch.setattr(os, "posix_fallocate", _full)
    generation = IndexDirectory(tmp_path).new_generation()
    with pytest.raises(StoreNotReady) as raised:
        IndexWriter(generation)
    assert problem_of(raised.value, tmp_path).startswith(f"disk full: {tmp_path} ")


def _caused(cause: Exception) -> StoreNotReady:
    error = StoreNotReady("index 'store' cannot be used now")
    error.__cause__ = cause
    return error


def test_a_full_disk_is_named_with_its_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of the system and of LMDB on a full disk are reported with a solution."""
    cut_short = _caused(lmdb.Error("mdb_txn_commit: Input/output error"))
    assert problem_of(cut_short, tmp_path).startswith("StoreNotReady: ")
    monkeypatch.setattr(failures, "is_full", lambda _: True)
    for error in (OSError(errno.EDQUOT, "x"), _caused(lmdb.DiskError("x")), cut_short):
        problem = problem_of(error, tmp_path)
        assert problem.startswith(f"disk full: {tmp_path} ")
        assert "Free space" in problem


def test_the_status_is_overwritten_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, a status is written in place if it fits into the existing file."""
    file = StatusFile(DataLayout(tmp_path))
    file.write({"store": StoreStatus("following", 1, "longer than what follows")})
    monkeypatch.setattr(status, "replace_file", _full)
    file.write({"store": StoreStatus("failed", 1, "disk full")})
    assert file.read().stores == {"store": StoreStatus("failed", 1, "disk full")}
    with pytest.raises(OSError, match="No space"):
        file.write({"store": _LONG})
    with pytest.raises(OSError, match="No space"):
        StatusFile(DataLayout(tmp_path / "other")).write({})


def test_a_silent_tailer_on_a_full_disk_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the tailer has no status and the disk is full, the message has the reason."""
    StoreTable(tmp_path, make_definition())
    silence = StatusFile(DataLayout(tmp_path)).read().silence
    assert silence == "the tailer has not reported its status"
    monkeypatch.setattr(status, "is_full", lambda _: True)
    silence = StatusFile(DataLayout(tmp_path)).read().silence
    reason = f"The disk is full. Free space on {tmp_path}"
    assert silence == f"the tailer has not reported its status. {reason}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.slow
def test_a_tailer_survives_a_full_disk(small_disk: Path) -> None:
    """A tailer starts on a full disk, and builds the index when space becomes free."""
    StoreTable(small_disk, make_definition()).commit([{"key": "a", "start": 1}])
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    stderr_file = small_disk.with_name("stderr")
    command = [sys.executable, "-m", "oriel.storage.tailer", "--data", str(small_disk)]
    with stderr_file.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr)
    try:
        wait_until(stderr_file.read_text, "the reason", lambda text: "disk full: " in text)
        silence = StatusFile(DataLayout(small_disk)).read().silence
        assert silence is not None
        assert "The disk is full. Free space on" in silence
        assert process.poll() is None, "the tailer died"
        filler.unlink()
        read = StatusFile(DataLayout(small_disk)).read
        following = StoreStatus("following", 1)
        wait_until(read, "the index", lambda seen: seen.stores.get("store") == following)
        assert process.poll() is None, "the tailer died"
    finally:
        process.kill()
        process.wait()
