"""Damage to a checkpoint, by a power loss or by hand, is reported as one clear error."""

from pathlib import Path

import pytest

from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.errors import CheckpointError


@pytest.mark.parametrize("text", [b"", b'{"applic', b"{}", b"[]", b"\xff"])
def test_a_damaged_application_file_is_named(tmp_path: Path, text: bytes) -> None:
    """A damaged application file is an error that names the file."""
    with Checkpoint(tmp_path, sync=False):
        pass
    (tmp_path / "application.json").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"application\.json"):
        Checkpoint(tmp_path, sync=False)


@pytest.mark.parametrize("text", [b"", b"v1", b"v1\n{}", b"v1\n{}\n-", b'v1\n{}\n{"t":{"0":null}}'])
def test_an_offset_log_that_says_nothing_is_an_error(tmp_path: Path, text: bytes) -> None:
    """An entry without readable offsets is an error. It is never read as an empty topic."""
    with Checkpoint(tmp_path, sync=False) as checkpoint:
        offsets = checkpoint.spark / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_bytes(text)
        with pytest.raises(CheckpointError, match="cannot be read"):
            checkpoint.end_offsets(0)


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b'{"record": {}}', b'{"record": {"x": 1}}'])
def test_a_version_of_another_shape_is_damaged(tmp_path: Path, text: bytes) -> None:
    """A file that is not a prepared batch is an error that names the file."""
    versions = StateVersions(tmp_path, sync=False)
    (tmp_path / "000000000003.json").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"000000000003\.json is damaged"):
        versions.load(3)


def test_the_lock_is_given_back_when_opening_fails(tmp_path: Path) -> None:
    """A rejected checkpoint releases its lock, so you can fix it and start again."""
    (tmp_path / "spark").mkdir()
    with pytest.raises(CheckpointError):
        Checkpoint(tmp_path, sync=False)
    (tmp_path / "spark").rmdir()
    with Checkpoint(tmp_path, sync=False) as checkpoint:
        assert len(checkpoint.application) == 36
