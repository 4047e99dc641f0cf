"""The demo's folder: its event log, its data and the logs of its processes, new at each start."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oriel.demo.errors import DemoError

_LOCK = "demo.lock"


@dataclass(frozen=True)
class DemoFolder:
    """The paths below the demo's folder."""

    root: Path

    @property
    def event_log(self) -> Path:
        """Root of the event log."""
        return self.root / "event-log"

    @property
    def data(self) -> Path:
        """Data folder of pipeline and service."""
        return self.root / "data"

    @property
    def logs(self) -> Path:
        """What the child processes print."""
        return self.root / "logs"


@contextmanager
def fresh_folder(root: Path) -> Iterator[DemoFolder]:
    """Empty the demo's folder and hold it for this process alone.

    Raises:
        DemoError: another demo runs in it, or it holds files that no demo made.
    """
    # The lock marks the folder as ours, so that nobody's own files are ever removed.
    if root.exists() and any(root.iterdir()) and not (root / _LOCK).exists():
        message = (
            f"{root} is not empty, and the demo did not create it. Name another directory with "
            "--folder"
        )
        raise DemoError(message)
    root.mkdir(parents=True, exist_ok=True)
    with (root / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another demo uses {root}. Stop it, or name another directory with --folder"
            raise DemoError(message) from error
        folder = DemoFolder(root.resolve())
        for path in (folder.event_log, folder.data, folder.logs):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        yield folder
