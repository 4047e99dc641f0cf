"""A folder for what Spark leaves on disk while it runs: shuffles, spills, native libraries.

The JVM deletes these at its end, but not when it is killed. So each process has a folder
of its own, held by a lock, and the next one to start deletes what the dead have left.
"""

import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

_PREFIX = "oriel-spark-"
_LOCK = "lock"


@cache
def scratch_folder() -> Path:
    """The folder of this process, below ``TMPDIR``; those of dead processes are deleted."""
    base = Path(tempfile.gettempdir())
    for folder in base.glob(f"{_PREFIX}*"):
        _delete_if_left(folder)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    # Never closed: the lock ends with the process, however that ends. Children don't get it.
    fcntl.flock(os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX)
    return folder


def _delete_if_left(folder: Path) -> None:
    """Delete a folder whose process has ended."""
    try:
        # O_NOFOLLOW: in a folder that all may write to, a link could lead anywhere.
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        # Another user's, or just being made: the lock's file comes after the folder.
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
