"""Repeated failures of one store: logged once each, and retried after increasing pauses."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import lmdb

#: A disk with at most this number of free blocks counts as full, because even an empty index needs
#: more.
_FULL_BLOCKS = 32
#: Seconds until a failed step is retried: at first, and at most.
_RETRY_SECONDS = 1.0
_RETRY_SECONDS_MAX = 30.0


class Failures:
    """The failures since the store was last followed without a problem."""

    def __init__(self) -> None:
        self._logged: set[str] = set()
        self._last: str | None = None
        self._pause_seconds = 0.0

    def is_news(self, text: str) -> bool:
        """Return True if this text was not logged before. It counts as logged from now on."""
        is_news = text not in self._logged
        self._logged.add(text)
        return is_news

    def pause_seconds(self, problem: str) -> float:
        """Return the seconds to wait after a problem. If it repeats, the pause doubles."""
        repeats = problem == self._last
        doubled = min(2 * self._pause_seconds, _RETRY_SECONDS_MAX)
        self._pause_seconds = doubled if repeats else _RETRY_SECONDS
        self._last = problem
        return self._pause_seconds

    def over(self) -> None:
        """Forget all failures, because the store is followed again."""
        self._logged.clear()
        self._last = None


def problem_of(error: Exception, directory: Path) -> str:
    """Describe an error of a step that writes to ``directory``, and the fix for a full disk."""
    # LMDB reports a write that ran out of space as an I/O error.
    is_cut_short = isinstance(error.__cause__, lmdb.Error) and "Input/output" in str(
        error.__cause__
    )
    if any(map(_is_disk_full_error, (error, error.__cause__))) or (
        is_cut_short and is_full(directory)
    ):
        return (
            f"disk full: {directory} cannot be written, so the service serves the last version. "
            "Free space there, and the tailer continues"
        )
    return f"{type(error).__name__}: {error}"


def is_full(directory: Path) -> bool:
    """Return True if the disk of a directory has almost no free space."""
    with suppress(OSError):
        return os.statvfs(directory).f_bavail <= _FULL_BLOCKS
    return False


def is_disk_full(error: BaseException) -> bool:
    """Return True if the system reports that a disk or quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _is_disk_full_error(error: BaseException | None) -> bool:
    return error is not None and (is_disk_full(error) or isinstance(error, lmdb.DiskError))
