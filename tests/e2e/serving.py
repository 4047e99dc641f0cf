"""Start the real API on a free port and wait until it is ready."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 60


@contextmanager
def serving(data: Path) -> Iterator[httpx.Client]:
    """Yield a client of an API over ``data`` that says it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "app", "--data", str(data), "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            _wait_until_ready(client, process)
            yield client
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_until_ready(client: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _START_SECONDS
    answer = "no answer"
    while time.monotonic() < end:
        assert process.poll() is None, f"the API ended with {process.returncode}"
        try:
            response = client.get("/readyz")
        except httpx.TransportError:
            continue
        if response.status_code == httpx.codes.OK:
            return
        answer = response.text
    pytest.fail(f"the API was not ready in {_START_SECONDS} s: {answer}")
