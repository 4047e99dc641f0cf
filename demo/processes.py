"""The child processes of the demo: pipeline and service."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import oriel
from oriel.demo.errors import DemoError

HOST = "127.0.0.1"

#: The directory of the package ``oriel``: ``src`` of a clone, or ``site-packages``.
IMPORT_ROOT = Path(oriel.__file__).resolve().parents[1]

#: Less than the ports that systems use for connections (Linux: from 32768, others: from 49152).
_LISTENERS = range(20_000, 32_000)
#: Each process starts at another port and returns each port once.
_next_port = count(os.getpid() * 97)
_STOP_SECONDS = 20
#: How many lines of the output of a failed child process are shown.
_LAST_LINES = 15


@dataclass(frozen=True)
class Child:
    """A running child process whose output goes to a file."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def is_running(self) -> bool:
        """True while the process runs."""
        return self.process.poll() is None

    def require_running(self) -> None:
        """Raise DemoError with the last lines of the output if the process has ended."""
        if not self.is_running:
            raise self._ended()

    def require_success(self) -> None:
        """Wait for the end. Raise DemoError with the last lines if the exit code is not 0."""
        if self.process.wait() != 0:
            raise self._ended()

    def _ended(self) -> DemoError:
        lines = self.output.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        last_words = "\n".join(f"    {line}" for line in lines)
        code = self.process.returncode
        return DemoError(f"the {self.name} ended with code {code}. Its last lines:\n{last_words}")


@contextmanager
def running(name: str, arguments: Sequence[str], logs: Path) -> Iterator[Child]:
    """Run ``oriel ARGUMENTS`` during the ``with`` block."""
    output = logs / f"{name}.log"
    environment = os.environ | {"PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1"}
    with output.open("wb") as file:
        # In its own session, a child does not get Ctrl-C. The demo stops its children in order.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "oriel", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield Child(name, process, output)
    finally:
        _stop(process)


def _python_path() -> str:
    """Return PYTHONPATH for children, so that they import the package of this process."""
    directories = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([str(IMPORT_ROOT), *filter(None, directories)]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process, then kill the other processes of its session, for example Java."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    with suppress(ProcessLookupError):  # no process remains
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def choose_port(requested: int | None, default: int) -> int:
    """Return ``requested``. Without it, return ``default`` or, if that is in use, a free port.

    Raises:
        DemoError: ``requested`` is in use.
    """
    if _is_free(requested or default):
        return requested or default
    if requested:
        message = f"port {requested} is in use. Use another --port, or leave it out"
        raise DemoError(message)
    port = free_port()
    print(f"demo: port {default} is in use, so the demo uses {port}", file=sys.stderr)
    return port


def free_port() -> int:
    """Return a port that no process listens on.

    The system uses other ports for connections, because the listener can start some seconds later.
    """
    ports = (_LISTENERS[number % len(_LISTENERS)] for number in _next_port)
    return next(port for port in ports if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Bind it like the service, for which a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
