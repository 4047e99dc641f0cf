"""Damages of the files of a data directory or of a backup."""

import shutil
from pathlib import Path


def delete(path: Path) -> None:
    """Delete a file, or a directory with its files."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def cut(path: Path) -> None:
    """Cut off the last 30 bytes of a file."""
    path.write_bytes(path.read_bytes()[:-30])
