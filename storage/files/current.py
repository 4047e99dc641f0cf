"""Which form of files is in place, and the effects that most callers need of it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oriel.storage.files.by_place import FilesByPlace
from oriel.storage.files.contract import Files

#: Of the process and not of a context: Spark calls back in threads of its own.
_in_place: list[Files] = [FilesByPlace()]


def current_files() -> Files:
    """The files that are in place."""
    return _in_place[-1]


@contextmanager
def use_files(files: Files) -> Iterator[Files]:
    """Put other files in place for a ``with`` block, in all threads of this process."""
    _in_place.append(files)
    try:
        yield files
    finally:
        _in_place.pop()


def sync_file(path: Path) -> None:
    """Force the content of a file to disk."""
    current_files().sync_file(path)


def sync_folder(path: Path) -> None:
    """Force a folder's list of names to disk, so that new files in it can be found again."""
    current_files().sync_folder(path)


def sync_folders(paths: Iterable[Path]) -> None:
    """Force the lists of names of these folders to disk, of each folder once."""
    for path in dict.fromkeys(paths):
        sync_folder(path)


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to ``path`` so that a reader sees the old or the new file, never a part."""
    current_files().replace(path, content, sync=sync)


def create_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Write ``content`` to ``path``, which is seen whole or not at all, and never overwritten.

    Raises:
        FileExistsError: there is a file of that name; it stays as it is.
    """
    current_files().create(path, content, sync=sync)
