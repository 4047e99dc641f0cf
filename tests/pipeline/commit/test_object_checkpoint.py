"""A checkpoint in an object store has no lock, and Spark's directory is on this machine."""

from pathlib import Path

import pytest

from oriel.pipeline.commit import Checkpoint, RecoveryPoint
from oriel.pipeline.commit.checkpoint.recovery_point import copy_first_offsets
from oriel.pipeline.errors import CheckpointError, Fenced
from oriel.storage import current_files
from tests.object_store import ObjectStore

# These tests start an object store.
pytestmark = pytest.mark.slow

_FIRST = b'v1\n{"events":{"0":17}}'


def test_where_sources_began_is_known_to_the_next_start(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    """A later start, also on another machine, begins a topic where the first start began it."""
    directory = object_store.data("first-offsets")
    first = Checkpoint(directory, sync=True, scratch=tmp_path / "first")
    first.prepare_spark(["events"], None)
    first.note_first_offsets()
    (first.spark / "sources" / "0").mkdir(parents=True)
    (first.spark / "sources" / "0" / "0").write_bytes(b"v1")
    first.note_first_offsets()
    (first.spark / "sources" / "0" / "0").write_bytes(_FIRST)
    first.note_first_offsets()
    second = Checkpoint(directory, sync=True, scratch=tmp_path / "second")
    second.prepare_spark(["events"], None)
    assert (second.spark / "sources" / "0" / "0").read_bytes() == _FIRST
    assert second.application == first.application
    third = Checkpoint(directory, sync=True, scratch=tmp_path / "third")
    ends = {"events": {"0": 20}}
    third.prepare_spark(["events"], RecoveryPoint(0, {}, ends, is_done=True))
    assert third.end_offsets(0) == ends
    assert not (third.spark / "sources").exists()


def test_a_damaged_note_of_where_sources_began_is_an_error(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    """Any flipped bit in the first offsets is an error. Files of old versions have no digest."""
    directory, files = object_store.data("damaged-offsets"), current_files()
    first = Checkpoint(directory, sync=True, scratch=tmp_path / "first")
    first.prepare_spark(["events"], None)
    (first.spark / "sources" / "0").mkdir(parents=True)
    (first.spark / "sources" / "0" / "0").write_bytes(_FIRST)
    first.note_first_offsets()
    note = directory / "first-offsets/sources/0/0"
    content = files.read(note)
    for bit in range(8 * len(content)):
        at, flip = bit // 8, 1 << bit % 8
        files.replace(
            note, content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :], sync=False
        )
        with pytest.raises(CheckpointError, match=r"first-offsets/.*is damaged.*Delete the file"):
            copy_first_offsets(tmp_path / "damaged", directory / "first-offsets")
    files.replace(note, _FIRST, sync=False)
    copy_first_offsets(tmp_path / "earlier", directory / "first-offsets")
    assert (tmp_path / "earlier" / "sources/0/0").read_bytes() == _FIRST


def test_the_later_start_fences_the_earlier_off(object_store: ObjectStore, tmp_path: Path) -> None:
    """Only the epoch fences the earlier process. No lock file exists."""
    directory = object_store.data("epochs")
    first = Checkpoint(directory, sync=True, scratch=tmp_path)
    first.check_epoch()
    with Checkpoint(directory, sync=True, scratch=tmp_path) as second:
        second.check_epoch()
        with pytest.raises(Fenced, match=r"took over this pipeline at .*\(epoch 2\)"):
            first.check_epoch()
    assert "lock" not in current_files().names(directory)
