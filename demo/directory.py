"""The directory of the demo: event log, data and logs. Each start empties it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import lock_descriptor

from oriel.demo.errors import DemoError

_LOCK = "demo.lock"


@dataclass(frozen=True)
class DemoDirectory:
    """Paths in the directory of the demo."""

    root: Path

    @property
    def event_log(self) -> Path:
        """The root of the event log."""
        return self.root / "event-log"

    @property
    def data(self) -> Path:
        """The data directory of the pipeline and the service."""
        return self.root / "data"

    @property
    def logs(self) -> Path:
        """The directory with the output of the child processes."""
        return self.root / "logs"


@contextmanager
def fresh_directory(root: Path) -> Iterator[DemoDirectory]:
    """Empty the directory of the demo and lock it for this process.

    Raises:
        DemoError: another demo uses the directory, or it has files that no demo created.
    """
    # The lock marks a directory of the demo, so that the demo never deletes files of a user.
    if root.exists() and any(root.iterdir()) and not (root / _LOCK).exists():
        message = (
            f"{root} is not empty, and the demo did not create it. Set --folder to another "
            "directory"
        )
        raise DemoError(message)
    root.mkdir(parents=True, exist_ok=True)
    with (root / _LOCK).open("w") as lock:
        if not lock_descriptor(lock.fileno(), blocking=False):
            message = f"another demo uses {root}. Stop it, or set --folder to another directory"
            raise DemoError(message)
        directory = DemoDirectory(root.resolve())
        for path in (directory.event_log, directory.data, directory.logs):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        yield directory
