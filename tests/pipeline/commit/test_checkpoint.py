"""A checkpoint has one owner, versions that are whole or absent, and verified state."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.errors import AlreadyRunning, CheckpointError, Fenced
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.state.segments import read_segment, write_segment
from oriel.storage import CommitRecord
from oriel.storage.delta import AddedFile
from oriel.storage.files import use_files
from oriel.testing import CountingFiles

RECORDS = pa.table({"t": pa.array([1, 2, 3], pa.int64())})


def prepared(batch: int, *segments: str) -> PreparedBatch:
    """Return a prepared batch that names `segments`."""
    record = CommitRecord(batch, {"t": {"0": 10}}, {"t": {"0": 5}}, 3, {"input": 1})
    file = AddedFile("f.parquet", 1, 2, "{}", 4)
    return PreparedBatch(record, {0: list(segments)}, {}, [file], [], changed=2, open_records=1)


def test_a_prepared_batch_comes_back_as_it_was(tmp_path: Path) -> None:
    """A loaded batch equals the saved one. `load` returns None if the version does not exist."""
    versions = StateVersions(tmp_path / "s", sync=True)
    versions.prepare(3, prepared(3, "a.arrow"), [])
    assert versions.load(3) == prepared(3, "a.arrow")
    assert versions.load(4) is None


def test_the_state_of_joins_belongs_to_a_version(tmp_path: Path) -> None:
    """A join's segments are loaded by join and task, and are kept as long as the version is."""
    versions = StateVersions(tmp_path / "s", sync=False)
    names = [write_segment(versions.directory, RECORDS, "x", sync=False) for _ in range(3)]
    joined = replace(prepared(3, names[0]), join_segments={1: {0: [names[1]], 1: []}})
    versions.prepare(3, joined, [])
    assert versions.load(3) == joined
    assert joined.state_files == {names[0], names[1]}
    versions.remove_before(2, [joined])
    assert {path.name for path in versions.directory.glob("*.arrow")} == {names[0], names[1]}


def test_a_damaged_version_is_an_error(tmp_path: Path) -> None:
    """A truncated version is an error."""
    versions = StateVersions(tmp_path / "s", sync=False)
    versions.prepare(3, prepared(3), [])
    path = tmp_path / "s" / "000000000003.json"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError, match="is damaged"):
        versions.load(3)


def test_what_no_replay_needs_is_removed(tmp_path: Path) -> None:
    """Old versions, and segments that no kept version names, are removed. The others stay."""
    versions = StateVersions(tmp_path / "s", sync=False)
    for batch in (1, 2, 3):
        versions.prepare(batch, prepared(batch), [])
    names = [write_segment(versions.directory, RECORDS, "x", sync=False) for _ in range(3)]
    versions.remove_before(2, [prepared(2, names[0]), prepared(3, names[0], names[1])])
    left = {path.name for path in versions.directory.iterdir()}
    assert left == {"000000000002.json", "000000000003.json", names[0], names[1]}


def test_a_batch_removes_what_the_one_before_left(tmp_path: Path) -> None:
    """The directory is listed once, and each batch removes files that no replay needs."""
    versions = StateVersions(tmp_path / "s", sync=False)
    (versions.directory / "notes.txt").touch()
    left = write_segment(versions.directory, RECORDS, "killed", sync=False)
    before: PreparedBatch | None = None
    with use_files(CountingFiles()) as files:
        for batch in range(4):
            name = write_segment(versions.directory, RECORDS, "x", sync=False)
            made = prepared(batch, name)
            versions.prepare(batch, made, [])
            versions.remove_before(batch - 1, [made] if before is None else [before, made])
            before, last = made, before
    assert isinstance(files, CountingFiles)
    assert files.counts["names"] == 1
    assert before is not None
    assert last is not None
    there = {entry.name for entry in os.scandir(versions.directory)}
    assert left not in there
    assert there == {
        "notes.txt", "000000000002.json", "000000000003.json",
        *before.state_files, *last.state_files,
    }  # fmt: skip


def test_a_batch_is_decided_when_its_files_can_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `sync`, the names of all its files are on disk before the version, each synced once."""
    table = tmp_path / "table"
    table.mkdir()
    versions = StateVersions(tmp_path / "s", sync=True)
    path = versions.directory / "000000000003.json"
    effects: list[tuple[str, bool]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        effects.append((target.name if target.is_dir() else "content", path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    versions.prepare(3, prepared(3), [table, table])
    assert effects == [("s", False), ("table", False), ("content", False), ("s", True)]


def test_a_version_of_a_killed_process_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process can be killed between a version and its sync, so a start syncs the directory."""
    synced: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    versions = StateVersions(tmp_path / "s", sync=True)
    assert synced[-1] == versions.directory.stat().st_ino
    # The name of the directory is also synced, before anything is in it.
    assert tmp_path.stat().st_ino in synced


@contextmanager
def held_by_another(directory: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Run another process that holds a checkpoint until its input ends."""
    code = (
        "import sys; from pathlib import Path; "
        "from oriel.pipeline.commit.checkpoint.checkpoint import Checkpoint; "
        "held = Checkpoint(Path(sys.argv[1]), sync=False); "
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        yield other


@pytest.mark.slow
def test_a_start_waits_for_a_process_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process can hold the lock for a moment, so a start waits for it."""
    sleep, here = time.sleep, threading.current_thread()

    def end_instead(seconds: float) -> None:
        # Threads of other tests' Spark sessions also sleep.
        if threading.current_thread() is here:
            other.communicate()
        else:
            sleep(seconds)

    with held_by_another(tmp_path) as other:
        monkeypatch.setattr(time, "sleep", end_instead)
        with Checkpoint(tmp_path, sync=False, lock_wait_s=60) as checkpoint:
            assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
            checkpoint.check_epoch()


def test_a_file_system_without_locks_has_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second start is accepted there, and fences the first process."""

    def unsupported(_file: object, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with Checkpoint(tmp_path, sync=False) as first, Checkpoint(tmp_path, sync=False) as second:
        assert second.application == first.application
        second.check_epoch()
        with pytest.raises(Fenced, match="took over"):
            first.check_epoch()


@pytest.mark.slow
def test_two_processes_cannot_run_one_checkpoint(tmp_path: Path) -> None:
    """The second process is rejected with the id of the first process, until the first closes."""
    with held_by_another(tmp_path) as other:
        with pytest.raises(AlreadyRunning, match=rf"process {other.pid} on .* Stop it first"):
            Checkpoint(tmp_path, sync=False, lock_wait_s=0)
        other.communicate()
    with Checkpoint(tmp_path, sync=False) as first:
        application = first.application
    with Checkpoint(tmp_path, sync=False) as second:
        assert second.application == application


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    """Spark's files without Oriel's own file are rejected."""
    (tmp_path / "spark").mkdir()
    with pytest.raises(CheckpointError, match=r"no application\.json"):
        Checkpoint(tmp_path, sync=False)


def test_end_offsets_need_a_readable_offset_log(tmp_path: Path) -> None:
    """Offsets of Kafka and of event logs are read alike. A missing or odd entry is an error."""
    with Checkpoint(tmp_path, sync=False) as checkpoint:
        offsets = checkpoint.spark / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":12,"10":0}}')
        (offsets / "1").write_text("v1\n{}\n17")
        assert checkpoint.end_offsets(0) == {"t": {"0": 12, "10": 0}}
        for batch in (1, 2):
            with pytest.raises(CheckpointError, match="cannot be read"):
                checkpoint.end_offsets(batch)


def test_state_that_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    """A missing, torn or foreign segment is an error that names the file and the solutions."""
    name = write_segment(tmp_path, RECORDS, "x", sync=False)
    path = tmp_path / name
    for directory, store in (("s@3", "s"), ("to(t)", r"'to\(t\)'")):
        with pytest.raises(CheckpointError, match=f"cannot be read.*with `oriel rebuild {store}`"):
            read_segment(tmp_path / directory, "missing.arrow", RECORDS.schema)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="is not what the pipeline wrote"):
        read_segment(tmp_path, name, RECORDS.schema)
    name = "written-by-an-earlier-version.arrow"
    path = tmp_path / name
    path.write_bytes(b"ARROW1")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_segment(tmp_path, name, RECORDS.schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, RECORDS.schema) as writer:
        writer.write_table(RECORDS)
    with pytest.raises(
        CheckpointError, match=r"format none, but this version reads .*`oriel rebuild"
    ):
        read_segment(tmp_path, name, RECORDS.schema)
