"""The demo's child processes: pipeline and service."""

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

#: The folder that holds the package ``oriel``: ``src`` of a checkout, or ``site-packages``.
IMPORT_ROOT = Path(oriel.__file__).resolve().parents[1]

#: Below those that systems give to connections (Linux from 32768, others from 49152 on).
_LISTENERS = range(20_000, 32_000)
#: Each process begins elsewhere, and gives no port twice.
_next_port = count(os.getpid() * 97)
_STOP_SECONDS = 20
#: How many lines of a failed child's output are shown.
_LAST_LINES = 15


@dataclass(frozen=True)
class Child:
    """A running child process whose output goes to a file."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def require_running(self) -> None:
        """Raise DemoError, with its last lines of output, if it has ended."""
        if not self.is_running:
            raise self._ended()

    def require_success(self) -> None:
        """Raise DemoError, with its last lines of output, unless it ended well."""
        if self.process.wait() != 0:
            raise self._ended()

    def _ended(self) -> DemoError:
        lines = self.output.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        last_words = "\n".join(f"    {line}" for line in lines)
        code = self.process.returncode
        return DemoError(f"the {self.name} ended with code {code}. Its last lines:\n{last_words}")


@contextmanager
def running(name: str, arguments: Sequence[str], logs: Path) -> Iterator[Child]:
    """Run ``oriel ARGUMENTS`` for the time of the ``with`` block, then stop it."""
    output = logs / f"{name}.log"
    environment = os.environ | {"PYTHONPATH": _python_path(), "PYTHONUNBUFFERED": "1"}
    with output.open("wb") as file:
        # A session of its own: Ctrl-C reaches only the demo, which stops its children in order.
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
    """The places of imports for children: they find the package that this process found."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([str(IMPORT_ROOT), *filter(None, folders)]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to stop, then end what is left of its session (Spark's JVM too)."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    with suppress(ProcessLookupError):  # raised when nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def choose_port(requested: int | None, default: int) -> int:
    """Return ``requested``, or else ``default``, or else, where that is busy, a free port.

    Raises:
        DemoError: ``requested`` is busy.
    """
    if _is_free(requested or default):
        return requested or default
    if requested:
        message = f"port {requested} is in use. Name another --port, or leave it out"
        raise DemoError(message)
    port = free_port()
    print(f"demo: port {default} is in use, so the demo uses {port}", file=sys.stderr)
    return port


def free_port() -> int:
    """Return a port that nothing listens on now.

    None of those that the system gives to connections: whoever is to listen may start some seconds
    later.
    """
    ports = (_LISTENERS[number % len(_LISTENERS)] for number in _next_port)
    return next(port for port in ports if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the service binds it: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
