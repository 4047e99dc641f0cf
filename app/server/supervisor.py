"""The parent process: starts the tailer and the workers, and starts again whichever dies.

    supervisor  --- listening socket ---> worker, worker, ...   (uvicorn; read the index)
                ---> tailer                                     (writes the index)

The socket belongs to the parent: while a worker is started again, connections wait instead of
being refused. A worker that dies of a memory fault has read a damaged index: the tailer is
asked to look through all of them.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from oriel.storage import DataLayout
from oriel.storage.index import IndexFolder, mark_suspect

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
#: Least seconds between two starts of the same child.
_RESTART_SECONDS = 0.5
#: Seconds that children have to end by themselves.
_END_SECONDS = 8.0

_MEMORY_FAULTS = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)


class Child:
    """One child process, which is to run all the time."""

    def __init__(self, name: str, command: Sequence[str], inherited: Sequence[int] = ()) -> None:
        """Start it; ``inherited`` are file descriptors that it gets."""
        self.name = name
        self._command = [sys.executable, *command]
        self._inherited = tuple(inherited)
        self._start()

    def revive(self) -> int | None:
        """Start it again if it ended; returns the exit code that was found, if any.

        A child that ends at once is started again at most twice a second.
        """
        code = self._process.poll()
        if code is None or time.monotonic() - self._started_at < _RESTART_SECONDS:
            return None
        logger.warning("%s ended with %d; starting it again", self.name, code)
        self._start()
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, timeout_seconds: float) -> None:
        """Wait for its end; then kill it."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        # Own process group: Ctrl-C reaches the supervisor only, which ends all in order.
        self._process = subprocess.Popen(  # noqa: S603
            self._command, pass_fds=self._inherited, process_group=0, stdin=subprocess.DEVNULL
        )


class Supervisor:
    """Keeps the tailer and the workers of one data folder running."""

    def __init__(
        self,
        layout: DataLayout,
        listener: socket.socket,
        workers: int,
        log_format: str = "text",
    ) -> None:
        """Start nothing yet; all processes speak in ``log_format``."""
        self._log_format = log_format
        self._layout = layout
        self._listener = listener
        self._workers = workers
        self._stop = threading.Event()

    def run(self) -> int:
        """Run until SIGTERM or SIGINT; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        children = [self._start_tailer(), *map(self._start_worker, range(self._workers))]
        while not self._stop.wait(_LOOK_SECONDS):
            for child in children:
                if child.revive() in _MEMORY_FAULTS:
                    self._suspect_indexes(child.name)
        for child in children:
            child.terminate()
        deadline = time.monotonic() + _END_SECONDS
        for child in children:
            child.wait(max(0.0, deadline - time.monotonic()))
        return 0

    def _start_tailer(self) -> Child:
        # Another service on the same folder may run one already: then ours waits in reserve.
        arguments = ["-m", "oriel.storage.tailer", *self._common_arguments(), "--wait"]
        return Child("tailer", arguments)

    def _start_worker(self, number: int) -> Child:
        descriptor = self._listener.fileno()
        arguments = [
            "-m",
            "oriel.app.server.worker",
            *self._common_arguments(),
            f"--socket={descriptor}",
        ]
        return Child(f"worker {number}", arguments, [descriptor])

    def _common_arguments(self) -> list[str]:
        return [
            f"--data={self._layout.root}",
            *([f"--index={self._layout.index_root}"] if self._layout.index_root else ()),
            f"--parent-pid={os.getpid()}",
            f"--log-format={self._log_format}",
        ]

    def _suspect_indexes(self, name: str) -> None:
        if not self._layout.indexes.is_dir():
            return
        for folder in self._layout.indexes.iterdir():
            generation = IndexFolder(folder).current()
            if generation is not None:
                mark_suspect(generation, f"{name} crashed")
