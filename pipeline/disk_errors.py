"""Convert errors of the disk to errors of one line that says what to do."""

import re

from oriel.pipeline.errors import FilesFailed
from oriel.storage import ObjectStoreFailed, disk_problem

#: How Python, Rust and Java report a full disk, missing permissions or a broken device. The text of
#: an error of Spark can contain it anywhere.
_DISK_ERROR = re.compile(
    r"(?:\[Errno \d+\] [^\n]+)"
    r"|(?:[^\n]*\(os error \d+\))"
    r"|(?:java\.[\w.]+Exception: [^\n]*(?:No space left on device|Permission denied"
    r"|Input/output error|Read-only file system|Disk quota exceeded|Too many open files)[^\n]*)"
)

#: Removed from messages: the colors and arrows of the causes in an error of delta-rs, and the error
#: codes of Spark.
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳| SQLSTATE: \w{5}")


def user_error(error: BaseException) -> BaseException:
    """Return an error of a file in words for the user, and any other error unchanged.

    A broken connection is also an ``OSError``, but it shows the end of Java.
    """
    if isinstance(error, ObjectStoreFailed):
        # Its message already says what to do.
        return FilesFailed(str(error))
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return _files_failed(error)
    return error


def find_disk_error(error: Exception) -> FilesFailed | None:
    """Return the error of a disk in an error of Spark or Delta, or None if it has no such cause."""
    match = _DISK_ERROR.search(str(error))
    return None if match is None else _files_failed(match[0])


def _files_failed(error: OSError | str) -> FilesFailed:
    text = " ".join(_DECORATION.sub("", str(error)).split())
    problem = disk_problem(error if isinstance(error, OSError) and error.filename else text)
    return FilesFailed(
        problem
        or f"a file cannot be read or written: {text}. Check the free space, the permissions and "
        "the mount, and start again. Nothing is lost"
    )
