"""The parent process: start the tailer and the workers, and start a process again if it ends.

    supervisor  --- listening socket ---> worker, worker, ...   (uvicorn; read the index)
                ---> tailer                                     (writes the index)

If the heartbeat of a tailer does not change, the parent kills the tailer and starts it again. The
parent owns the socket, so connections wait while a worker starts again. If a process ends with a
memory error, it has used a damaged index. Then the tailer verifies this index, and rebuilds it
after the second time. If the index is not known, the tailer verifies all indexes. The parent starts
a process again without a limit.
"""

import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from oriel.app.server.certificates import CertificateFiles
from oriel.storage import DataLayout, stop_on_signal
from oriel.storage.index import (
    IndexDirectory,
    ended_in_read,
    is_open,
    record_crash,
    request_verification,
)
from oriel.storage.tailer import Heartbeat, StatusFile, require_verifications

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
#: Least seconds between two checks of the tailer's heartbeat.
_HEARTBEAT_SECONDS = 1.0
#: Least seconds between two starts of the same child.
_RESTART_SECONDS = 0.5
#: Seconds in which child processes can end by themselves.
_END_SECONDS = 8.0
#: Seconds after which a tailer without a new heartbeat hangs. It writes one every half second.
_HANGING_SECONDS = 15.0

#: Exit code of a worker that cannot listen, because another service does.
ADDRESS_IN_USE = 98

_MEMORY_ERRORS = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)


class AddressInUse(Exception):
    """Another service listens on the address. The message is from the system."""


class Child:
    """One child process, which runs until the service ends."""

    def __init__(self, name: str, command: Sequence[str], inherited: Sequence[int] = ()) -> None:
        """Start the process with the file descriptors ``inherited``."""
        self.name = name
        self._command = [sys.executable, *command]
        self._inherited = tuple(inherited)
        #: Process id of the last process that ended, 0 before any.
        self.ended_pid = 0
        self._start()

    def restart_if_ended(self) -> int | None:
        """Start the process again if it ended. Return its exit code, or None if it runs.

        A process that ends at once is restarted at most twice per second.
        """
        code = self._process.poll()
        if code is None or time.monotonic() - self._started_at < _RESTART_SECONDS:
            return None
        logger.warning("process restarted: process=%s exit_code=%d", self.name, code)
        self.ended_pid = self._process.pid
        self._start()
        return code

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._process.poll()

    def running_seconds(self) -> float:
        """Return the seconds since the last start."""
        return time.monotonic() - self._started_at

    def kill(self) -> None:
        """Kill the process, also if it is suspended."""
        self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, timeout_seconds: float) -> None:
        """Wait until the process ends, and kill it after that."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        # With its own process group, Ctrl-C reaches only the supervisor, which ends all in order.
        self._process = subprocess.Popen(  # noqa: S603
            self._command, pass_fds=self._inherited, process_group=0, stdin=subprocess.DEVNULL
        )


class HeartbeatWatch:
    """Detects that the tailer hangs, because its heartbeat does not change."""

    def __init__(self, status_file: StatusFile, hanging_seconds: float = _HANGING_SECONDS) -> None:
        self._status_file = status_file
        self._hanging_seconds = hanging_seconds
        self._last: Heartbeat | None = None
        self._looked_at = self._changed_at = time.monotonic()

    def hangs(self, tailer: Child) -> bool:
        """Check the heartbeat. A tailer that waits for another tailer does not write one."""
        now = time.monotonic()
        if now - self._looked_at < min(_HEARTBEAT_SECONDS, self._hanging_seconds):
            return False
        self._looked_at = now
        heartbeat = self._status_file.heartbeat()
        if heartbeat != self._last:
            self._last, self._changed_at = heartbeat, now
        unchanged_seconds = min(now - self._changed_at, tailer.running_seconds())
        is_own = heartbeat is not None and heartbeat.pid == tailer.pid
        return is_own and unchanged_seconds > self._hanging_seconds


class Supervisor:
    """Keeps the tailer and the workers of one data directory running."""

    def __init__(
        self,
        layout: DataLayout,
        listener: socket.socket,
        workers: int,
        log_format: str = "text",
        stale_seconds: float | None = None,
        worker_arguments: Sequence[str] = (),
    ) -> None:
        """Create a supervisor that has not started a process yet.

        Args:
            layout: The data directory.
            listener: A bound socket on which the workers listen.
            workers: The number of workers.
            log_format: The log format of all processes.
            stale_seconds: The allowed lag of an index, None for the default.
            worker_arguments: Additional arguments of each worker.
        """
        self._certificate: CertificateFiles | None = None
        self._is_reload_wanted = False
        self._worker_arguments = worker_arguments
        self._log_format = log_format
        self._layout = layout
        self._listener = listener
        self._workers = workers
        self._stale_seconds = stale_seconds

    def run(
        self, when_serving: Callable[[], None], certificate: CertificateFiles | None = None
    ) -> int:
        """Run until SIGTERM or SIGINT. Return the exit code.

        Args:
            when_serving: Called once, as soon as a worker accepts connections.
            certificate: Shared with the workers, and read again if it changes or on SIGHUP.

        Raises:
            AddressInUse: Another service listens on the address.
        """
        self._certificate = certificate
        stop = stop_on_signal()
        is_in_terminal = os.isatty(0)
        # A handler must not use a lock, so it only records that the signal arrived.
        signal.signal(signal.SIGHUP, lambda *_: setattr(self, "_is_reload_wanted", True))
        # Before a worker can read an index that was damaged after the last service ended.
        require_verifications(self._layout)
        tailer = self._start_tailer()
        children = [tailer, *map(self._start_worker, range(self._workers))]
        watch = HeartbeatWatch(StatusFile(self._layout))
        is_address_in_use = is_serving = False
        while not stop.wait(_POLL_SECONDS):
            if not is_serving and self._listener.getsockopt(
                socket.SOL_SOCKET, socket.SO_ACCEPTCONN
            ):
                is_serving = True
                when_serving()
            if is_address_in_use := ADDRESS_IN_USE in [child.exit_code for child in children]:
                break
            if self._is_reload_wanted and is_in_terminal and not os.isatty(0):
                # The terminal was closed, so the signal does not mean a new certificate.
                break
            self._follow_certificate()
            if watch.hangs(tailer):
                logger.warning("process hangs, ending it: process=%s", tailer.name)
                tailer.kill()
            for child in children:
                if child.restart_if_ended() in _MEMORY_ERRORS:
                    self._suspect_indexes(child, is_writer=child is tailer)
        self._end(children)
        if is_address_in_use:
            raise AddressInUse(os.strerror(errno.EADDRINUSE))
        return 0

    def _end(self, children: Sequence[Child]) -> None:
        # New connections are refused as soon as the workers also close their sockets. Then a
        # router uses another service, while responses in progress are finished.
        self._listener.close()
        for child in children:
            child.terminate()
        deadline = time.monotonic() + _END_SECONDS
        for child in children:
            child.wait(max(0.0, deadline - time.monotonic()))

    def _follow_certificate(self) -> None:
        is_wanted, self._is_reload_wanted = self._is_reload_wanted, False
        if self._certificate is None:
            return
        if is_wanted:
            self._certificate.reload()
        else:
            self._certificate.follow()

    def _start_tailer(self) -> Child:
        # If another service over the directory has a tailer, this tailer waits until it ends.
        arguments = ["-m", "oriel.storage.tailer", *self._common_arguments(), "--wait"]
        if self._stale_seconds is not None:
            arguments.append(f"--stale-after={self._stale_seconds}")
        return Child("tailer", arguments)

    def _start_worker(self, number: int) -> Child:
        descriptors = [self._listener.fileno()]
        arguments = [
            "-m",
            "oriel.app.server.worker",
            *self._common_arguments(),
            f"--socket={descriptors[0]}",
            *self._worker_arguments,
        ]
        if self._certificate is not None:
            descriptors.append(self._certificate.fileno())
            arguments.append(f"--certificate={descriptors[1]}")
        return Child(f"worker {number}", arguments, descriptors)

    def _common_arguments(self) -> list[str]:
        return [
            f"--data={self._layout.root}",
            *([f"--index={self._layout.index_root}"] if self._layout.index_root else ()),
            f"--shard={self._layout.shard}",
            f"--parent-pid={os.getpid()}",
            f"--log-format={self._log_format}",
        ]

    def _suspect_indexes(self, child: Child, *, is_writer: bool) -> None:
        try:
            directories = [path for path in self._layout.indexes.iterdir() if path.is_dir()]
            generations = [IndexDirectory(directory).current() for directory in directories]
        except OSError:
            # The disk is unavailable. The tailer reports it.
            return
        current = [generation for generation in generations if generation is not None]
        used = [
            generation
            for generation in current
            if (is_open(generation) if is_writer else ended_in_read(generation, child.ended_pid))
        ]
        for generation in used:
            record_crash(generation, child.name)
        for generation in () if used else current:
            request_verification(generation, f"{child.name} crashed")
