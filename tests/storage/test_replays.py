"""Tests of the notes of replayed dead letters: damage raises an error."""

from pathlib import Path

import pytest

from oriel.storage import DataLayout
from oriel.storage.dead_letters import Replays, note_line, read_replays
from oriel.storage.errors import CorruptLog

_LINES = [
    note_line(("flights", 0, 123), 1_700_000_000_000, None),
    note_line(("flights", 0, 123), 1_700_000_000_000, 456),
]
_EXPECTED = Replays(
    {("flights", 0): {123: 1_700_000_000_000}},
    {("flights", 0): {456: 123}},
)


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("name", ["_dead_letters.jsonl", "_dead_letters/000000000000.jsonl"])
def test_a_flipped_bit_changes_no_note(tmp_path: Path, name: str, bit: int) -> None:
    """A flipped bit in a file or an object raises an error or has no effect."""
    path = tmp_path / "replayed" / name
    path.parent.mkdir(parents=True)
    content = b"".join([*([b'"0123abc"\n'] if "/" in name else []), *_LINES])
    path.write_bytes(content)
    assert read_replays(DataLayout(tmp_path)) == _EXPECTED
    for at in range(len(content)):
        flipped = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        # A new name, because the notes of a file are cached.
        path = path.rename(path.with_stem(f"{at}")) if "/" in name else path
        path.write_bytes(flipped)
        try:
            found = read_replays(DataLayout(tmp_path))
        except CorruptLog as error:
            found = _EXPECTED
            text = str(error)
            assert "_dead_letters" in text
            assert "Restore it, or delete it" in text
        assert found == _EXPECTED, (at, flipped)


def test_a_directory_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    """A directory in place of the file raises an error with a solution."""
    path = DataLayout(tmp_path).replayed
    path.mkdir(parents=True)
    with pytest.raises(CorruptLog, match=f"{path} is damaged: .*Restore it, or delete it"):
        read_replays(DataLayout(tmp_path))


def test_notes_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """Notes of earlier versions, without a digest and with three to five items, are read."""
    path = tmp_path / "replayed" / "_dead_letters.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'["t",0,1]\n["t",0,2,7]\n["t",0,2,7,9]\n["t",0,')
    found = read_replays(DataLayout(tmp_path))
    assert found == Replays({("t", 0): {1: 0, 2: 7}}, {("t", 0): {9: 2}})
