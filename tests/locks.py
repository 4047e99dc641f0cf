"""Locks between the processes of one test run, for caches that allow only one writer."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Let one process at a time run the block. ``name`` identifies the lock.

    Maven and Ivy write into caches in the home directory. Two processes that fill an empty cache at
    the same time can corrupt each other's files.
    """
    with (Path(tempfile.gettempdir()) / f"oriel-tests-{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
