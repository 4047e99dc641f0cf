"""Failures of one store that repeat: told once each, tried again after pauses that grow."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import lmdb

#: Free blocks of a disk that count as none: an index needs more even if it is empty.
_FULL_BLOCKS = 32
#: Seconds until a step that failed is tried again: at first, and at most.
_RETRY_SECONDS = 1.0
_RETRY_SECONDS_MAX = 30.0


class Failures:
    """What failed since the store was last followed without a problem."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._last: str | None = None
        self._pause_seconds = 0.0

    def is_news(self, text: str) -> bool:
        """Whether this is yet to be told; asking tells it."""
        is_news = text not in self._told
        self._told.add(text)
        return is_news

    def pause_seconds(self, problem: str) -> float:
        """How long to wait after this problem: twice as long each time that it comes again."""
        repeats = problem == self._last
        doubled = min(2 * self._pause_seconds, _RETRY_SECONDS_MAX)
        self._pause_seconds = doubled if repeats else _RETRY_SECONDS
        self._last = problem
        return self._pause_seconds

    def over(self) -> None:
        """The store is followed again: whatever fails next is a new story."""
        self._told.clear()
        self._last = None


def problem_of(error: Exception, folder: Path) -> str:
    """Describe an error of a step that writes in ``folder``; a full disk by its solution."""
    # LMDB reports a write that was cut short, for lack of space, as an I/O error.
    is_cut_short = isinstance(error.__cause__, lmdb.Error) and "Input/output" in str(
        error.__cause__
    )
    if any(map(_says_disk_full, (error, error.__cause__))) or (is_cut_short and is_full(folder)):
        return (
            f"disk full: {folder} cannot be written, so the service serves the last version. Free "
            "space there, and the tailer continues"
        )
    return f"{type(error).__name__}: {error}"


def is_full(folder: Path) -> bool:
    """Whether the disk of a directory has too little space for anything."""
    with suppress(OSError):
        return os.statvfs(folder).f_bavail <= _FULL_BLOCKS
    return False


def is_disk_full(error: BaseException) -> bool:
    """Whether the system says so."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _says_disk_full(error: BaseException | None) -> bool:
    return error is not None and (is_disk_full(error) or isinstance(error, lmdb.DiskError))
