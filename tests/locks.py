"""Locks between the processes of one test run, for caches that bear one writer only."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Let one process at a time into the block; ``name`` says what it is about.

    Maven and Ivy fetch into caches in the home folder. Two that fill an empty cache at once
    can spoil each other's files.
    """
    with (Path(tempfile.gettempdir()) / f"oriel-tests-{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
