"""File effects that must survive a power loss: one narrow place for sync, replace and create.

Assumptions about the disk: a rename and a link within a folder are atomic, and what was synced
(file, then its folder) is there after a power loss.
"""

import os
import re
from collections.abc import Iterable
from functools import cache
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


def sync_folders(paths: Iterable[Path]) -> None:
    """Force the lists of names of these folders to disk, of each folder once."""
    for path in dict.fromkeys(paths):
        sync_folder(path)


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to ``path`` so that a reader sees the old or the new file, never a part."""
    _write_draft(path, content, sync=sync).replace(path)
    if sync:
        sync_folder(path.parent)


def create_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to ``path``, which is seen whole or not at all, and never overwritten.

    Raises:
        FileExistsError: there is a file of that name; it stays as it is.
    """
    draft = _write_draft(path, content, sync=sync)
    try:
        # A rename would put itself in the place of another process's file.
        path.hardlink_to(draft)
    finally:
        draft.unlink()
    if sync:
        sync_folder(path.parent)


def _write_draft(path: Path, content: bytes, *, sync: bool) -> Path:
    """Write a file beside ``path`` that is to get its name; with ``sync`` it is on disk."""
    _remove_left_drafts(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    return draft


@cache
def _remove_left_drafts(folder: Path) -> None:
    """Remove drafts in ``folder`` by processes that don't run any more.

    A process looks once, before it writes there for the first time: a folder may have very many
    files, and drafts are left by those that died before.
    """
    with os.scandir(folder) as entries:
        drafts = [match for entry in entries if (match := _DRAFT.fullmatch(entry.name))]
    for draft in drafts:
        if not _runs(int(draft["process"])):
            (folder / draft[0]).unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
