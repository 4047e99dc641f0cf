"""The active implementation of ``Files``, and functions for its most used operations."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oriel.storage.files.by_path import FilesByPath
from oriel.storage.files.contract import Files

#: Global and not context-local, because Spark calls back in its own threads.
_active: list[Files] = [FilesByPath()]


def current_files() -> Files:
    """Return the active implementation of ``Files``."""
    return _active[-1]


@contextmanager
def use_files(files: Files) -> Iterator[Files]:
    """Activate ``files`` for a ``with`` block, in all threads of this process."""
    _active.append(files)
    try:
        yield files
    finally:
        _active.pop()


def sync_file(path: Path) -> None:
    """Force the content of a file to disk."""
    current_files().sync_file(path)


def sync_directory(path: Path) -> None:
    """Force the names in a directory to disk, so that its new files survive a power loss."""
    current_files().sync_directory(path)


def sync_directories(paths: Iterable[Path]) -> None:
    """Force the names in the directories to disk, once per distinct directory."""
    for path in dict.fromkeys(paths):
        sync_directory(path)


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to ``path``. A reader sees the old or the new content, never a part."""
    current_files().replace(path, content, sync=sync)


def create_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to the new file ``path`` atomically (put-if-absent).

    Raises:
        FileExistsError: A file of this name exists. It stays unchanged.
    """
    current_files().create(path, content, sync=sync)
