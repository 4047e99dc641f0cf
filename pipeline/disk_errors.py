"""Errors of the disk, wherever they come up, as one line that says what to do."""

import re

from oriel.pipeline.errors import FilesFailed
from oriel.storage import ObjectStoreFailed, disk_problem

#: How Python, Rust and Java report a full disk, missing rights, a broken device. In an error of
#: Spark's it is somewhere in the text.
_TOLD = re.compile(
    r"(?:\[Errno \d+\] [^\n]+)"
    r"|(?:[^\n]*\(os error \d+\))"
    r"|(?:java\.[\w.]+Exception: [^\n]*(?:No space left on device|Permission denied"
    r"|Input/output error|Read-only file system|Disk quota exceeded|Too many open files)[^\n]*)"
)

#: How delta-rs draws the causes of its errors, arrows in red, a line each; and Spark's codes.
_DRAWING = re.compile(r"\x1b\[[0-9;]*m|↳| SQLSTATE: \w{5}")


def in_words(error: BaseException) -> BaseException:
    """The error of a file in words for the user; any other as it is.

    A connection that breaks is the end of Java, not of a disk.
    """
    if isinstance(error, ObjectStoreFailed):
        # It has the way out already.
        return FilesFailed(str(error))
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return _files_failed(error)
    return error


def disk_error_in(error: Exception) -> FilesFailed | None:
    """The disk's error inside one of Spark's, from a task or from Java; None if there is none."""
    told = _TOLD.search(str(error))
    return None if told is None else _files_failed(told[0])


def _files_failed(error: OSError | str) -> FilesFailed:
    text = " ".join(_DRAWING.sub("", str(error)).split())
    problem = disk_problem(error if isinstance(error, OSError) and error.filename else text)
    return FilesFailed(
        problem
        or f"a file cannot be read or written: {text}. Check the free space, the permissions and "
        "the mount, and start again. Nothing is lost"
    )
