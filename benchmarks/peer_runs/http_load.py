"""Load one HTTP service over keep-alive connections and measure the latency of each response.

    python -m benchmarks.peer_runs.http_load HOST PORT CONNECTIONS SECONDS WARMUP [FIELD] < paths

WARMUP is also in seconds. FIELD is one more header field of each request, for example
``Authorization: Bearer ...``.

The client uses raw sockets in its own process. It builds each request once and reads only the
status and the length of a response, so it needs less processor time than the service. Each
connection sends its next request after the response (closed loop).
"""

import json
import random
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Load(NamedTuple):
    """The figures of one run. Latencies are milliseconds. ``requests`` includes the warm-up."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    requests: int


class Connection:
    """A keep-alive connection with at most one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._sent_at = 0.0

    def send(self, request: bytes) -> None:
        """Send a request, and record the time for its latency."""
        self._received = b""
        self._sent_at = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> tuple[float, bool] | None:
        """Read the available bytes. Return latency (s) and success once the response is complete.

        Raises:
            ConnectionError: The service closed the connection.
        """
        received = self.socket.recv(262_144)
        if not received:
            message = "the service has ended the connection"
            raise ConnectionError(message)
        self._received += received
        head_end = self._received.find(_HEAD_END)
        if head_end < 0:
            return None
        at = self._received[:head_end].lower().find(_LENGTH) + len(_LENGTH)
        length = int(self._received[at : self._received.index(b"\r\n", at)])
        if len(self._received) < head_end + len(_HEAD_END) + length:
            return None
        succeeded = self._received.startswith(b"HTTP/1.1 200 ")
        return time.perf_counter() - self._sent_at, succeeded


def run_load(
    address: tuple[str, int], requests: Sequence[bytes], connections: int, seconds: float
) -> tuple[list[float], int, float]:
    """Send requests for some seconds, and longer until two responses exist, as quantiles need.

    Returns latencies, the number of errors and the elapsed seconds.
    """
    selector = selectors.DefaultSelector()
    chooser = random.Random(7)
    for _ in range(connections):
        connection = Connection(address)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(chooser.choice(requests))
    latencies: list[float] = []
    errors = 0
    started = time.perf_counter()
    while (now := time.perf_counter()) - started < seconds or len(latencies) < 2:
        for event, _ in selector.select(1.0):
            connection = event.data
            response = connection.receive()
            if response is not None:
                latencies.append(response[0])
                errors += not response[1]
                connection.send(requests[len(latencies) % len(requests)])
    for event in list(selector.get_map().values()):
        event.data.socket.close()
    return latencies, errors, now - started


def measure(
    address: tuple[str, int],
    paths: Sequence[str],
    seconds: float,
    connections: int = 8,
    field: str | None = None,
) -> Load:
    """Run the load in a separate process, after a warm-up of a fifth of the time."""
    command = [
        sys.executable, "-m", "benchmarks.peer_runs.http_load",
        address[0], str(address[1]), str(connections), str(seconds), str(seconds / 5),
        *([] if field is None else [field]),
    ]  # fmt: skip
    process = subprocess.run(
        command, input="\n".join(paths), text=True, stdout=subprocess.PIPE, check=True
    )
    return Load(**json.loads(process.stdout))


def main() -> int:
    """Run the load of the command line, and print a ``Load`` as JSON."""
    host, port, connections, seconds, warmup_seconds, *fields = sys.argv[1:]
    address = (host, int(port))
    header = "\r\n".join([f"Host: {host}", *fields])
    requests = [
        f"GET {path} HTTP/1.1\r\n{header}\r\n\r\n".encode() for path in sys.stdin.read().split()
    ]
    warm_up, _, _ = run_load(address, requests, int(connections), float(warmup_seconds))
    latencies, errors, elapsed_seconds = run_load(
        address, requests, int(connections), float(seconds)
    )
    cuts = statistics.quantiles(latencies, n=100)
    load = Load(
        requests_per_second=len(latencies) / elapsed_seconds,
        p50_ms=cuts[49] * 1000,
        p99_ms=cuts[98] * 1000,
        errors=errors,
        requests=len(warm_up) + len(latencies),
    )
    print(json.dumps(load._asdict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
