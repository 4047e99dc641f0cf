"""A damaged or foreign state file is an error that names the file and the solution."""

import os
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.state import open_segment, segments, write_regrouped, write_segment
from tests.campaigns import cases

ROWS = pa.table({"key": [f"key {n}" for n in range(200)], "total": list(range(200))})


@pytest.fixture(autouse=True)
def _opens_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no written segment in memory, as in a new process."""
    monkeypatch.setattr(segments, "_WRITTEN_BYTES_MAX", -1)


def _store(directory: Path, name: str, rows: pa.Table = ROWS) -> tuple[Path, str]:
    """Write a segment of a store, and return the directory of its state and the file's name."""
    store = directory / name
    store.mkdir(parents=True)
    return store, write_segment(store, rows, "000000000007-0001", sync=False)


@cases(300, 6_000)
def test_a_flipped_bit_is_found(tmp_path: Path, number: int) -> None:
    """Any byte of the file counts, also a byte that Arrow does not read."""
    store, name = _store(tmp_path, "orders@1")
    content = (store / name).read_bytes()
    random = Random(number)
    for _ in range(number):
        damaged = bytearray(content)
        damaged[random.randrange(len(content))] ^= 1 << random.randrange(8)
        (store / name).write_bytes(damaged)
        with pytest.raises(CheckpointError) as raised:
            open_segment(store, name)
        assert f"state file {store / name} is not what the pipeline wrote" in str(raised.value)
        assert "`oriel rebuild orders`" in str(raised.value)
    (store / name).write_bytes(content)
    assert open_segment(store, name).replace_schema_metadata(None) == ROWS


def test_a_cut_or_zeroed_file_is_found(tmp_path: Path) -> None:
    """A cut, empty or zeroed file is an error with a solution."""
    store, name = _store(tmp_path, "orders")
    content = (store / name).read_bytes()
    cuts = [content[:end] for end in range(0, len(content), 97)]
    for damaged in [*cuts, bytes(len(content)), content + b"\0"]:
        (store / name).write_bytes(damaged)
        with pytest.raises(CheckpointError, match="Restore the checkpoint from a backup"):
            open_segment(store, name)


def test_a_file_of_another_state_is_named(tmp_path: Path) -> None:
    """The message says for which store and batch the file was written."""
    store, name = _store(tmp_path, "orders")
    other, foreign = _store(tmp_path, "users", ROWS.slice(7))
    shutil.copy(other / foreign, store / name)
    with pytest.raises(CheckpointError) as raised:
        open_segment(store, name)
    assert "it is the segment 000000000007-0001 of the state users" in str(raised.value)


def test_a_file_of_an_earlier_version_has_no_digest(tmp_path: Path) -> None:
    """Such a file is read, and `oriel rescale` writes it with a digest."""
    store, name = _store(tmp_path, "orders")
    (store / name).rename(store / "000000000007-0001-old.arrow")
    assert len(open_segment(store, "000000000007-0001-old.arrow")) == len(ROWS)
    target = tmp_path / "orders@1"
    target.mkdir()
    written = write_regrouped(store, target, "000000000007-0001-old.arrow", 4, sync=False)
    assert written.startswith("000000000007-0001-old-xxh3_")
    assert open_segment(target, written).replace_schema_metadata(None) == ROWS


def test_a_mapping_is_kept_while_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted or damaged file is an error although a mapping is kept."""
    store, name = _store(tmp_path, "orders")
    kept = open_segment(store, name)
    assert open_segment(store, name) is kept
    content = (store / name).read_bytes()
    (store / name).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        open_segment(store, name)
    (store / name).write_bytes(content[:-1] + b"\0")
    with pytest.raises(CheckpointError, match="its digest differs"):
        open_segment(store, name)
    monkeypatch.setattr(segments, "_MAPPED_BYTES_MAX", len(content) - 1)
    store, name = _store(tmp_path, "large")
    assert open_segment(store, name) is not open_segment(store, name)


def test_a_written_segment_is_kept_while_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch does not read what this process wrote, unless the file is different."""
    monkeypatch.setattr(segments, "_WRITTEN_BYTES_MAX", ROWS.get_total_buffer_size())
    store, name = _store(tmp_path, "orders")
    kept = open_segment(store, name)
    assert open_segment(store, name) is kept
    assert kept.replace_schema_metadata(None) == ROWS
    content = (store / name).read_bytes()
    (store / name).write_bytes(content[:-1] + b"\0")
    os.utime(store / name, (0, 0))
    with pytest.raises(CheckpointError, match="its digest differs"):
        open_segment(store, name)
    # A slice keeps its whole buffers in memory, so it counts with their size.
    large = pa.concat_tables([ROWS] * 2).combine_chunks()
    sliced, name = _store(tmp_path, "sliced", large.slice(0, 1))
    kept = open_segment(sliced, name)
    assert kept.get_total_buffer_size() < ROWS.get_total_buffer_size()


def test_few_segments_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment that was not used for the longest time is dropped first."""
    monkeypatch.setattr(segments, "_KEPT_MAX", 2)
    monkeypatch.setattr(segments, "_kept", segments._KeptSegments())
    files = [_store(tmp_path, name) for name in "abc"]
    first, second = (open_segment(*file) for file in files[:2])
    assert open_segment(*files[0]) is first
    open_segment(*files[2])
    assert open_segment(*files[0]) is first
    assert open_segment(*files[1]) is not second
