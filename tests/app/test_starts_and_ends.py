"""Tests of when the service's port accepts connections: from the first response until SIGTERM."""

import errno
import os
import re
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.app.serving import SERVE, Serving, environment
from tests.certificates import write_certificate
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_for, wait_until

pytestmark = pytest.mark.slow

_UNTRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_UNTRUSTING.check_hostname, _UNTRUSTING.verify_mode = False, ssl.CERT_NONE


def _connected(port: int) -> int:
    """Return the error number of a new connection, or 0 if it is accepted."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port))


def _workers(process: "subprocess.Popen[bytes]") -> list[int]:
    listed = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "oriel.app.server.worker"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [int(pid) for pid in listed.stdout.split()]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_starting_service_refuses_connections(tmp_path: Path, workers: str) -> None:
    """A starting service refuses connections, so that a router uses another service at once."""
    port = reserved_port()
    command = [*SERVE, "--data", str(tmp_path), "--port", str(port), "--workers", workers]
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    with process, process.stdout as printed:
        started = wait_until(
            lambda: _workers(process), "the workers", lambda found: len(found) == int(workers),
            process=process,
        )  # fmt: skip
        for pid in started:
            # Its imports are not finished yet.
            os.kill(pid, signal.SIGSTOP)
        refused = _connected(port)
        for pid in started:
            os.kill(pid, signal.SIGCONT)
        line = printed.readline()
        accepted = _connected(port)
        process.terminate()
        assert (refused, accepted) == (errno.ECONNREFUSED, 0)
        assert re.search(rb":\d+$", line.strip())


def test_one_of_two_services_that_start_together_says_that_the_address_is_taken(
    tmp_path: Path,
) -> None:
    """Two starting services can bind one address, but only the first ready one listens."""
    port = reserved_port()
    processes = [
        subprocess.Popen(
            [*SERVE, "--data", str(tmp_path / name), "--port", str(port)],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name in ("first", "second")
    ]  # fmt: skip
    try:
        ended = wait_until(
            lambda: [process for process in processes if process.poll() is not None], "one end"
        )
    finally:
        others = [process for process in processes if process.poll() is None]
        for process in others:
            process.terminate()
    outputs = [process.communicate(timeout=WAIT_SECONDS) for process in processes]
    assert len(ended) == len(others) == 1
    (_, line) = outputs[processes.index(ended[0])]
    assert ended[0].returncode == 1
    assert f"127.0.0.1:{port}: cannot listen: Address already in use" in line.decode()
    assert b"Traceback" not in line
    assert b"Oriel serves" in outputs[processes.index(others[0])][0]


def _request(more: bytes = b"") -> bytes:
    return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n"


def test_an_ending_service_refuses_connections_and_closes_those_it_has(tmp_path: Path) -> None:
    """A response in progress is finished, and is the last one of its connection."""
    certificate, key = write_certificate(tmp_path)
    serving = Serving(
        tmp_path / "data", "--workers", "2", "--tls-cert", str(certificate), "--tls-key", str(key)
    )
    # The handshake of this connection is in progress while the service ends.
    late = serving.connect()
    idle = _UNTRUSTING.wrap_socket(serving.connect())
    idle.sendall(_request())
    # The body of a response can arrive later than its header.
    response = b"".join(iter(lambda: idle.recv(1_000), b'{"status":"ok"}'))
    assert b"connection: close" not in response
    busy = _UNTRUSTING.wrap_socket(serving.connect())
    body = b'["a"]'
    head = b"POST /v1/stores/store/latestOfKeys HTTP/1.1\r\nHost: localhost\r\n"
    busy.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body))
    serving.process.terminate()
    wait_for(errno.ECONNREFUSED, lambda: _connected(serving.port), "the result of connecting")
    assert serving.process.poll() is None, "it ended before it refused connections"
    assert idle.recv(1_000) == b""
    late_tls = _UNTRUSTING.wrap_socket(late)
    late_tls.sendall(_request())
    busy.sendall(body)
    for connection in (late_tls, busy):
        response = b"".join(iter(lambda one=connection: one.recv(65_536), b""))  # type: ignore[misc]
        assert response.count(b"HTTP/1.1 ") == 1
        assert b"connection: close\r\n" in response
    assert serving.end() == 0
