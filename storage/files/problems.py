"""One-line messages for disk errors, with the file and what to do."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class _Problem(NamedTuple):
    """The description of a problem, and the action that solves it."""

    text: str
    action: str


#: In a container, a directory of the host has another path, but the same owner.
_RIGHTS = "Let user {user} read and write {place} (in a container, the mounted directory)"
_PROBLEMS = {
    errno.ENOSPC: _Problem("the disk is full", "Free space on the file system of {place}"),
    errno.EDQUOT: _Problem("the quota is used up", "Free space or raise the quota for {place}"),
    errno.EROFS: _Problem("the file system is read-only", "Make {place} writable, or remount it"),
    errno.EACCES: _Problem("access is denied", _RIGHTS),
    errno.EPERM: _Problem("access is denied", _RIGHTS),
    errno.EISDIR: _Problem("it is not a file", "Restore the file, or delete the directory"),
    errno.EIO: _Problem("the device fails", "Check the device and the mount of {place}"),
    errno.EMFILE: _Problem("too many files are open", "Raise the limit with `ulimit -n`"),
    errno.ENFILE: _Problem("too many files are open", "Close files of other processes"),
}
#: The error number as Rust and Python write it.
_NUMBER = re.compile(r"(?:os error |\[[Ee]rrno )(\d+)")
#: Java writes only the text of the error.
_PHRASES = {os.strerror(number): number for number in _PROBLEMS}
_PATH = re.compile(r"(?:(?<![^\s:'\"(])|(?<=file://))(/[^\s:'\"(),]+)")


def disk_problem(error: BaseException | str, place: Path | None = None) -> str | None:
    """Return a one-line message for a disk error, None if ``error`` is not a disk error.

    Args:
        error: An ``OSError``, or an error of a library whose text has the number and the path.
        place: The directory on which the user must act. Default: the directory of the file.
    """
    text, filename = str(error), None
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, OSError):
        filename = error.filename2 or error.filename
    if number not in _PROBLEMS:
        # The text of another error can quote the error of another process.
        match = _NUMBER.search(text)
        of_phrase = (known for phrase, known in _PHRASES.items() if phrase in text)
        number = int(match[1]) if match else next(of_phrase, None)
    problem = _PROBLEMS.get(number or 0)
    if problem is None:
        return None
    if filename is None:
        found = _PATH.search(text)
        filename = found[1] if found else place
    path = Path(os.fsdecode(filename)) if filename is not None else None
    where = place or (path.parent if path is not None else "the data directory")
    return (
        f"{path or where}: {problem.text} ({os.strerror(number or 0)}). "
        f"{problem.action.format(place=where, user=os.geteuid())} and start again. Nothing is lost"
    )


@contextmanager
def add_filename_to_errors(path: Path) -> Iterator[None]:
    """Add the path to errors of writes. The system names a file only if opening it fails."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
