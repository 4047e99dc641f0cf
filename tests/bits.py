"""Flips a bit of a file at rest, like a failing disk."""

from pathlib import Path


def flip_bit(path: Path, place: float = 0.5) -> None:
    """Flip a bit of a file, at ``place`` between 0 (its start) and 1 (its end)."""
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1
    path.write_bytes(content)
