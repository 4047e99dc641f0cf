"""Files that must survive a power loss: replaced whole, synced before anyone relies on them."""

import os
from pathlib import Path

import pytest

from oriel.storage import replace_file


def test_a_replaced_file_holds_the_new_content_and_nothing_is_left(tmp_path: Path) -> None:
    """The content is exact, also when it is shorter or empty, and no draft stays."""
    path = tmp_path / "f.json"
    for content in (b"long content", b"s", b""):
        replace_file(path, content, sync=True)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk before the rename does not touch what was there."""
    path = tmp_path / "f.json"
    replace_file(path, b"old", sync=True)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            replace_file(path, b"new", sync=True)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("sync", [True, False])
def test_content_is_on_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    """With ``sync`` the order is content, rename, folder; without it nothing is forced."""
    path = tmp_path / "f.json"
    effects: list[str] = []
    real_fsync = os.fsync

    def noted_fsync(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        effects.append("folder" if target.is_dir() else "content")
        effects.append("renamed" if path.exists() else "not renamed")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    replace_file(path, b"x", sync=sync)
    assert effects == (["content", "not renamed", "folder", "renamed"] if sync else [])
