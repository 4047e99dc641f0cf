"""A standby: a process that is ready to run a pipeline, and waits until no other process runs it.

Java, Spark and the topology of a standby are ready, so it only has to open the checkpoint. It
continues the pipeline if the other process on this machine has ended, which the lock of the
checkpoint shows at once. It also replaces a process whose heartbeat is unchanged for some time,
because that process can be suspended, or on another machine. The heartbeat is in the status file,
and a new epoch counts as one.

Both processes can believe that they run the pipeline. The replaced process has the smaller epoch,
so it changes nothing and ends (decision 0031). Monotonic time of this process measures how long a
heartbeat is unchanged, because wall clocks of two machines differ.
"""

import argparse
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from oriel.pipeline.commit import check_not_running, is_locked, remove_lock
from oriel.storage import current_files, is_object, say
from oriel.storage.monitoring import RunStatus, RunStatusFile

#: Seconds between two looks at the lock and the heartbeat.
_POLL_SECONDS = 0.05
#: The same in an object store, where each look is two requests.
_OBJECTS_POLL_SECONDS = 1.0


class Standby:
    """Waits until this process can run a pipeline."""

    def __init__(self, checkpoint: Path, replace_seconds: float) -> None:
        """Wait for the process that runs the pipeline of ``checkpoint``.

        Args:
            checkpoint: The directory of the checkpoint.
            replace_seconds: How long the heartbeat is unchanged before the process is replaced.
        """
        self._checkpoint = checkpoint
        self._status_file = RunStatusFile(checkpoint)
        self._replace_seconds = replace_seconds

    def wait(self, stop: threading.Event, prepare: Callable[[], None]) -> bool:
        """Wait until this process can run the pipeline. Return False if ``stop`` is set first.

        ``prepare`` is called once if another process runs the pipeline.
        """
        is_local = not is_object(self._checkpoint)
        heartbeat, changed_at, status = None, time.monotonic(), None
        has_waited = False
        while not stop.is_set():
            epochs = current_files().names(self._checkpoint / "epochs")
            newest = max(epochs, default=""), self._status_file.seen_ms()
            if newest != heartbeat:
                read = self._status_file.read()
                heartbeat, changed_at, status = newest, time.monotonic(), read and read[0]
            reason = self._reason(status, is_local=is_local)
            if reason is None and time.monotonic() - changed_at >= self._replace_seconds:
                reason = f"no heartbeat of {_named(status)} for {self._replace_seconds:g} s"
                if is_local:
                    # A suspended process holds the lock until it resumes. It keeps the deleted
                    # file, and later starts on this machine find the lock of this process.
                    remove_lock(self._checkpoint)
            if reason is not None:
                level = "warning" if has_waited else "info"
                say("standby-runs", f"continuing the pipeline: {reason}", level=level)
                return True
            if not has_waited:
                has_waited = True
                prepare()
                say("standby", f"ready, and waiting while {_named(status)} runs this pipeline")
            stop.wait(poll_seconds(self._checkpoint))
        return False

    def _reason(self, status: RunStatus | None, *, is_local: bool) -> str | None:
        """Return why this process can run the pipeline at once, or None."""
        if is_locked(self._checkpoint):
            return None
        if status is None:
            return "no process has run this pipeline"
        if status.has_ended:
            return f"{_named(status)} has ended"
        # A free lock says nothing about a process on another machine.
        if is_local and status.host == socket.gethostname():
            return f"{_named(status)} has ended without a final status"
        return None


def poll_seconds(checkpoint: Path) -> float:
    """Return the time between two looks at the files of a running process."""
    return _OBJECTS_POLL_SECONDS if is_object(checkpoint) else _POLL_SECONDS


def standby_of(options: argparse.Namespace, checkpoint: Path) -> Standby | None:
    """Return the standby of ``--standby``, otherwise None if no process runs the pipeline.

    Raises:
        AlreadyRunning: without ``--standby``, a process of this machine runs the pipeline.
    """
    if options.standby:
        return Standby(checkpoint, options.replace_after / 1000)
    check_not_running(checkpoint)
    return None


def _named(status: RunStatus | None) -> str:
    """Return the process of a status for messages."""
    return "another process" if status is None else f"process {status.process} on {status.host}"
