"""Start services for a benchmark, each as a process that is ready for requests."""

import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import NamedTuple
from urllib.error import URLError

import psutil  # type: ignore[import-untyped]

from benchmarks.query_runs.tables import STORE, key_name

Address = tuple[str, int]

#: Long enough to build an index of 50,000,000 windows on a busy machine.
_START_SECONDS = 3_600.0


class Running(NamedTuple):
    """A service: its address, and its first process."""

    address: Address
    pid: int

    def processor_seconds(self) -> dict[int, float]:
        """Return the processor time that its processes have used so far."""
        first = psutil.Process(self.pid)
        times = {one.pid: one.cpu_times() for one in (first, *first.children(recursive=True))}
        return {pid: time.user + time.system for pid, time in times.items()}


@contextmanager
def service(
    module: Sequence[str], data: Path, port: int, *options: str, token: str | None = None
) -> Iterator[Running]:
    """Run a service until the block ends. The block starts once a read of the store succeeds.

    Args:
        module: The module that Python runs, and its first arguments.
        data: The data directory.
        port: The port of the service.
        options: More arguments.
        token: Sent with requests, unless it is None.
    """
    command = [sys.executable, "-m", *module, "--data", str(data), "--port", str(port), *options]
    process = Popen(command, stdout=DEVNULL)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{port}/v1/stores/{STORE}/latest/{key_name(0)}"
    try:
        _wait_until_ready(process, urllib.request.Request(url, headers=headers))
        yield Running(("127.0.0.1", port), process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: "Popen[bytes]", request: urllib.request.Request) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request) as response:  # noqa: S310 - our own service
                response.read()
                return
        except (URLError, OSError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                message = f"{process.args!r} does not respond: {error}"
                raise RuntimeError(message) from error
            time.sleep(0.1)
