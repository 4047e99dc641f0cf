"""File effects that must survive a power loss: one narrow place for sync, replace and remove.

Assumptions about the disk: a rename within a folder is atomic, and what was synced
(file, then its folder) is there after a power loss.
"""

import os
import re
from pathlib import Path

#: A draft of some file's new content: the file's name, the number of the process.
_DRAFT = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)\.draft")


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
    """Write ``content`` to ``path`` so that a reader sees the old or the new file, never a part.

    Drafts of this file that processes left when they were killed are removed.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)
    _remove_left_drafts(path)
    if sync:
        sync_folder(path.parent)


def _remove_left_drafts(path: Path) -> None:
    """Remove drafts of ``path`` by processes that don't run any more."""
    with os.scandir(path.parent) as entries:
        drafts = [match for entry in entries if (match := _DRAFT.fullmatch(entry.name))]
    for draft in drafts:
        if draft["name"] == path.name and not _runs(int(draft["process"])):
            path.with_name(draft[0]).unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
