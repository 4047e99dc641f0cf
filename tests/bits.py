"""A flipped bit in a file at rest, as a failing disk leaves it."""

from pathlib import Path


def flip_bit(path: Path, place: float = 0.5) -> None:
    """Flip a bit of a file, at ``place`` between 0 (its begin) and 1 (its end)."""
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1
    path.write_bytes(content)
