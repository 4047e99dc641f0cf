"""Tests of the fake file systems with failures that other tests use."""

import errno
from pathlib import Path

import pytest

from oriel.storage import create_file, replace_file, sync_directory
from oriel.storage.files import LocalFiles, current_files, use_files
from oriel.testing import CountingFiles, FailingFiles, ForgettingFiles


def test_files_are_in_place_for_a_block(tmp_path: Path) -> None:
    """All file operations in the block use the given files, and later ones the previous files."""
    before = current_files()
    with use_files(CountingFiles()) as files:
        assert current_files() is files
        create_file(tmp_path / "a", b"1", sync=False)
        replace_file(tmp_path / "a", b"2", sync=True)
        sync_directory(tmp_path)
        assert current_files().read(tmp_path / "a") == b"2"
    assert current_files() is before
    assert isinstance(files, CountingFiles)
    assert files.counts == {"create": 1, "replace": 1, "sync": 1, "read": 1}
    assert files.operations[0] == ("create", tmp_path / "a")


def test_every_nth_effect_fails_and_nothing_else(tmp_path: Path) -> None:
    """Every third write fails with the given error, and reads never fail."""
    files = FailingFiles(3, errno.EACCES)
    outcomes = []
    for number in range(6):
        try:
            files.replace(tmp_path / "a", str(number).encode(), sync=False)
            outcomes.append("done")
        except PermissionError as error:
            outcomes.append(str(error.filename))
        if number:
            assert files.exists(tmp_path / "a")
    assert outcomes == ["done", "done", str(tmp_path / "a")] * 2
    assert files.failed == 2
    assert files.read(tmp_path / "a") == b"4"


def test_an_effect_may_be_there_though_it_failed(tmp_path: Path) -> None:
    """A failed write can be complete or half done, as a draft or as an unreferenced file."""
    with pytest.raises(OSError, match="Input/output error"):
        FailingFiles(1, errno.EIO, when="after").create(tmp_path / "a", b"12", sync=True)
    assert (tmp_path / "a").read_bytes() == b"12"
    half = FailingFiles(1, errno.EIO, when="half")
    with pytest.raises(OSError, match="Input/output error"):
        half.create(tmp_path / "b", b"12", sync=True)
    with pytest.raises(OSError, match="Input/output error"):
        half.write(tmp_path / "c", lambda sink: sink.write(b"12"), sync=True)
    assert not (tmp_path / "b").exists()
    assert (tmp_path / "c").read_bytes() == b"1"
    LocalFiles().create(tmp_path / "b", b"whole", sync=False)
    assert (tmp_path / "b").read_bytes() == b"whole"


def written(files: ForgettingFiles, directory: Path) -> dict[str, Path]:
    """Create files in every state between written and synced, and return their paths."""
    paths = {name: directory / name for name in ("synced", "named", "content", "old", "deleted")}
    for name in ("old", "deleted"):
        paths[name].write_bytes(b"before")
    files.write(paths["named"], lambda sink: sink.write(b"1234"), sync=False)
    files.create(paths["synced"], b"1234", sync=True)
    files.sync_directory(directory)
    files.write(paths["content"], lambda sink: sink.write(b"1234"), sync=True)
    files.replace(paths["old"], b"1234", sync=False)
    files.delete(paths["deleted"])
    return paths


def content(path: Path) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    return path.read_bytes() if path.exists() else None


def test_a_power_loss_takes_what_was_not_synced(tmp_path: Path) -> None:
    """A power loss empties files with unsynced content and undoes unsynced names."""
    files = ForgettingFiles()
    paths = written(files, tmp_path)
    lost = files.lose_power()
    assert {name: content(path) for name, path in paths.items()} == {
        "synced": b"1234", "named": b"", "content": None, "old": b"before", "deleted": b"before",
    }  # fmt: skip
    assert sorted(path.name for path in lost) == ["content", "deleted", "named", "old"]
    assert files.lose_power() == []


def test_a_power_loss_may_cut_what_was_not_synced(tmp_path: Path) -> None:
    """A power loss can keep unsynced names and cut unsynced content in half."""
    files = ForgettingFiles()
    paths = written(files, tmp_path)
    files.lose_power("cut")
    assert {name: content(path) for name, path in paths.items()} == {
        "synced": b"1234", "named": b"12", "content": b"1234", "old": b"12", "deleted": None,
    }  # fmt: skip


def test_a_new_directory_is_on_disk_with_its_name(tmp_path: Path) -> None:
    """For each created directory, its parent directory is synced."""
    (tmp_path / "a").mkdir()
    synced: list[Path] = []

    class Noting(LocalFiles):
        def sync_directory(self, directory: Path) -> None:
            synced.append(directory)

    Noting().make_directory(tmp_path / "a" / "b" / "c", sync=True)
    assert sorted(synced) == [tmp_path / "a", tmp_path / "a" / "b"]
