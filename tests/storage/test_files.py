"""Tests of files that must survive a power loss: replaced as a whole and synced before use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from oriel.storage import replace_file
from oriel.storage.files import create_file


def test_a_replaced_file_holds_the_new_content_and_nothing_is_left(tmp_path: Path) -> None:
    """A replaced file has exactly the new content, even if it is shorter, and no draft remains."""
    path = tmp_path / "f.json"
    for content in (b"long content", b"s", b""):
        replace_file(path, content, sync=True)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk before the rename leaves the old file unchanged."""
    path = tmp_path / "f.json"
    replace_file(path, b"old", sync=True)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            replace_file(path, b"new", sync=True)
    assert path.read_bytes() == b"old"


def test_a_created_file_is_never_overwritten(tmp_path: Path) -> None:
    """A second create raises FileExistsError and leaves the first content and no draft."""
    path = tmp_path / "f.json"
    create_file(path, b"first", sync=True)
    with pytest.raises(FileExistsError):
        create_file(path, b"second", sync=True)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [replace_file, create_file])
@pytest.mark.parametrize("sync", [True, False])
def test_content_is_on_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool, write: Callable[..., None]
) -> None:
    """With ``sync``, the content is synced before the rename and the directory after it."""
    path = tmp_path / "f.json"
    effects: list[str] = []
    real_fsync = os.fsync

    def noted_fsync(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        effects.append("folder" if target.is_dir() else "content")
        effects.append("named" if path.exists() else "not named")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    write(path, b"x", sync=sync)
    assert effects == (["content", "not named", "folder", "named"] if sync else [])
