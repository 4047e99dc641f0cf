"""File effects that must survive a power loss: one narrow place for sync, replace and remove.

Assumptions about the disk: a rename within a folder is atomic, and what was synced
(file, then its folder) is there after a power loss.
"""

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Force the content of a file to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Force a folder's list of names to disk, so that new files in it can be found again."""
    sync_file(path)


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to ``path`` so that a reader sees the old or the new file, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)
    if sync:
        sync_folder(path.parent)
