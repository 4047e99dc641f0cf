"""Tests of a worker's limits over sockets: requests above a limit are rejected."""

import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from oriel.app.server import main
from tests.app.serving import ROOT, Serving
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_for, wait_until

pytestmark = pytest.mark.slow

_ROWS = 10_000
_GET = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _serving(data: Path, **limits: int) -> Serving:
    options = [f"--limit-{name.replace('_', '-')}={value}" for name, value in limits.items()]
    return Serving(data, *options)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return a service with small limits and a store with a page of 10,000 windows."""
    data = tmp_path_factory.mktemp("strict")
    table = StoreTable(data, make_definition())
    table.commit([{"key": "a", "start": start} for start in range(_ROWS)])
    made = _serving(
        data, header_bytes=4_000, url_bytes=5_000, body_bytes=1_000, header_seconds=1,
        body_seconds=1, send_seconds=1, idle_seconds=2, waiting_requests=2, connections=40,
        unsent_bytes=4_000_000,
    )  # fmt: skip
    made.wait_for(1)
    yield made
    assert made.end() == 0


def _response(client: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Return the one response on a connection that the service then closes."""
    content = b"".join(iter(lambda: client.recv(65_536), b""))
    head, _, body = content.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
    return int(status.split()[1]), headers, orjson.loads(body) if body else None


def _code(response: tuple[int, dict[str, str], Any]) -> tuple[int, str]:
    status, headers, body = response
    assert headers["content-type"] == "application/problem+json"
    return status, body["code"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 5_000 + b"\r\n\r\n", (431, "header-too-large")),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000, (431, "header-too-large")),
        (b"GET /" + b"x" * 6_000 + b" HTTP/1.1\r\n\r\n", (414, "url-too-long")),
        (b"GET /" + b"x" * 6_000, (414, "url-too-long")),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3_000 + b"\r\n", (431, "header-too-large")),
        (b"GET / HTTP/1.1\r\nHost: local", (408, "request-timeout")),
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n" + b"x" * 2_000,
            (413, "body-too-large"),
        ),
    ],
)
def test_what_is_too_long_or_too_slow_is_refused(
    strict: Serving, sent: bytes, expected: tuple[int, str]
) -> None:
    """Header fields, paths and bodies above a limit are rejected, complete or incomplete."""
    with strict.connect() as client:
        client.sendall(sent)
        assert _code(_response(client)) == expected
    assert strict.get("/healthz").status == 200


def test_an_address_may_be_as_long_as_the_parser_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A URL above the parser's maximum is a 414, and the limit cannot be set higher."""
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 1}])
    serving = Serving(tmp_path)
    for url_bytes, status in ((65_535, 404), (65_536, 414), (120_000, 414)):
        with serving.connect() as client:
            url = b"/" + b"x" * (url_bytes - 1)
            client.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % url)
            assert _response(client)[0] == status
    assert serving.end() == 0
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path), "--limit-url-bytes", "65536"])
    assert "65535" in capsys.readouterr().err


def test_many_requests_at_once_are_no_long_header(strict: Serving) -> None:
    """Each pipelined request has its own header limit, wherever the packets are cut."""
    requests = (_GET % b"/healthz") * 500
    last = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n"
    with strict.connect() as client:
        client.sendall(requests[:-10])
        client.sendall(requests[-10:] + last)
        received = b"".join(iter(lambda: client.recv(65_536), b""))
    assert received.count(b"HTTP/1.1 200 ") == 501


def test_a_long_header_after_a_response_is_rejected(strict: Serving) -> None:
    """The header limit counts each request on a connection separately."""
    long = b"GET / HTTP/1.1\r\nX: " + b"x" * 5_000 + b"\r\n\r\n"
    with strict.connect() as client:
        client.sendall(_GET % b"/healthz")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")
        client.sendall(long)
        assert _code(_response(client)) == (431, "header-too-large")


def test_a_header_of_many_megabytes_is_not_read(strict: Serving) -> None:
    """The service closes the connection long before the end of a very long header."""
    with strict.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        sent = 0
        with suppress(ConnectionError):
            while sent < 100_000_000:
                sent += client.send(b"x" * 65_536)
    assert sent < 50_000_000
    assert strict.get("/healthz").status == 200


def test_a_dripping_header_ends_at_its_deadline(strict: Serving) -> None:
    """A header that arrives byte by byte ends with a 408 at its deadline."""
    # If a byte is sent after the service closed the connection, the response is lost.
    received, _ = wait_until(
        lambda: _drip(strict), "a response after more than five bytes",
        lambda seen: seen[1] > 5, passing=(ConnectionError,),
    )  # fmt: skip
    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"request-timeout" in received


def _drip(strict: Serving) -> tuple[bytes, int]:
    """Return the response to an endless header, and the number of bytes sent one by one."""
    with strict.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        for dripped in range(1_000):
            if select.select([client], [], [], 0.05)[0]:
                return b"".join(iter(lambda: client.recv(65_536), b"")), dripped
            client.sendall(b"x")
    return b"", 0


def test_silent_connections_are_closed_for_others(strict: Serving) -> None:
    """If silent connections exceed the limit, new clients are still served."""
    with ExitStack() as opened:
        clients = [opened.enter_context(strict.connect()) for _ in range(100)]
        for _ in range(5):
            assert strict.get("/healthz").status == 200
        _read_to_the_end(clients[0])


def test_a_silent_connection_is_closed_in_time(strict: Serving) -> None:
    """Silent connections are closed in time, both new ones and used ones."""
    with strict.connect() as idle, strict.connect() as used:
        used.sendall(_GET % b"/healthz")
        assert used.recv(65_536).startswith(b"HTTP/1.1 200 ")
        _read_to_the_end(idle)
        _read_to_the_end(used)


def _read_to_the_end(client: socket.socket) -> None:
    """Read until the service closes the connection. Otherwise the socket's timeout fails."""
    with suppress(ConnectionError):
        while client.recv(65_536):
            pass


def test_a_client_that_never_reads_loses_its_connection(strict: Serving) -> None:
    """The response to a client that never reads is dropped, and others get the same page."""
    target = f"{ROOT}/fetch/a?limit=10000".encode()
    with ExitStack() as opened:
        deaf = []
        for _ in range(4):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(("127.0.0.1", strict.port))
            client.sendall((_GET % target) * 8)
            deaf.append(opened.enter_context(client))
        strict.wait_for_status(target.decode(), 503)
        assert strict.get("/healthz").status == 200
        # After their responses are dropped, memory for another response is available.
        strict.wait_for_status(target.decode(), 200)


def _wait_target(wait_ms: int = 30_000) -> bytes:
    return f"{ROOT}/latest/a?min_version=99&wait_ms={wait_ms}".encode()


def _refused_waiter(serving: Serving) -> bool:
    """Return True if another waiting request is rejected because all slots are in use."""
    response = serving.get(_wait_target(1).decode())
    assert response.status == 503
    return bool(response.json["code"] == "overloaded")


def test_only_so_many_may_wait_and_who_goes_gives_its_place_back(strict: Serving) -> None:
    """A waiting request above the limit gets 503 at once, and a closed one frees its slot."""
    with strict.connect() as first, strict.connect() as second:
        for client in (first, second):
            client.sendall(_GET % _wait_target())
        wait_for(True, lambda: _refused_waiter(strict), "the refusal of a third one that waits")
        assert strict.get(f"{ROOT}/latest/a").status == 200
        first.close()
        wait_for(False, lambda: _refused_waiter(strict), "the refusal after one has left")


def test_a_worker_responds_to_waiting_requests_when_it_ends(tmp_path: Path) -> None:
    """On SIGTERM, a waiting request gets a problem with Retry-After, and the exit code is 0."""
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 1}])
    serving = _serving(tmp_path)
    serving.wait_for(1)
    with serving.connect() as waiting, serving.connect() as other:
        waiting.sendall(_GET % _wait_target())
        # The timeout of a second waiting request shows that the first one is also in progress.
        other.sendall(_GET % _wait_target(1))
        refused = b""
        while b"behind-position-bound" not in refused:
            refused += other.recv(65_536)
        os.kill(serving.process.pid, signal.SIGTERM)
        status, headers, body = _response(waiting)
    assert (status, body["code"]) == (503, "shutting-down")
    assert int(headers["retry-after"]) > 0
    assert headers["content-type"] == "application/problem+json"
    assert serving.end() == 0
    assert b"Traceback" not in serving.stderr.read_bytes()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:80", "192.0.2.1"])
def test_addresses_and_localhost_are_hosts(strict: Serving, host: str) -> None:
    """Addresses and localhost are valid hosts, and other names are rejected."""
    request = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: "
    assert strict.raw(request + host.encode() + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    refused = strict.raw(request + b"stranger.example\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 421 ")
    assert b"unknown-host" in refused


def test_every_response_has_the_security_headers(strict: Serving) -> None:
    """Each response has `nosniff`, and pages cannot be framed and send no referrer."""
    for target in ("/healthz", f"{ROOT}/latest/a", "/nothing", "/"):
        assert strict.get(target).headers["x-content-type-options"] == "nosniff"
    page = strict.get("/").headers
    assert page["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in page["content-security-policy"]


def test_the_limits_are_in_the_document(strict: Serving) -> None:
    """The document has the limits of this service instead of the defaults."""
    limits = strict.get("/openapi.json").json["x-oriel-limits"]
    assert limits["header_bytes"]["value"] == 4_000
    assert (limits["requests"]["value"], limits["requests"]["unit"]) == (500, "requests")
    assert limits["page_rows_max"]["value"] == 10_000
