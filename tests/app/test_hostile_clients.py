"""Tests of hostile clients over sockets: the worker bounds the cost of each and serves others."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from oriel.app.contract import Limits, Overloaded
from oriel.app.guards import Connections
from tests.app.serving import ROOT, Serving
from tests.app.test_access import token_in
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import WAIT_SECONDS, wait_for, wait_until

pytestmark = pytest.mark.slow

_GET = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"
_WATCH = _GET % f"{ROOT}/watch".encode()
_LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_POST = (
    b"POST %b/latestOfKeys HTTP/1.1\r\nHost: localhost\r\nContent-Length: %%d\r\n\r\n"
    % ROOT.encode()
)
#: The length of a body with one key.
_BODY_BYTES = 40_000
_BODY = b'["a"]'.ljust(_BODY_BYTES)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return a service with small limits that needs no token."""
    data = tmp_path_factory.mktemp("strict")
    table = StoreTable(data, make_definition())
    table.commit([{"key": "a", "start": start} for start in range(10_000)])
    made = Serving(
        data, "--limit-requests=2", "--limit-header-seconds=1", "--limit-body-bytes=50000",
        "--limit-arriving-bodies=4", "--limit-arriving-bytes=100000", "--limit-long-reads=1",
    )  # fmt: skip
    made.wait_for(1)
    yield made
    assert made.end() == 0
    assert b"Traceback" not in made.stderr.read_bytes()


def _resident_megabytes(serving: Serving) -> int:
    pid = serving.children()["oriel.app.server.worker"]
    match = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) // 1024


def _streams(serving: Serving) -> int:
    """Return the number of open event streams."""
    metrics = serving.get_text("/metrics")
    match = re.search(r"^oriel_http_streams (\d+)", metrics, re.MULTILINE)
    return 0 if match is None else int(match[1])


def _watching(serving: Serving, opened: ExitStack, queued: bytes = b"") -> socket.socket:
    """Open an event stream, wait for its first event, and send more requests."""
    client = opened.enter_context(serving.connect())
    client.sendall(_WATCH)
    received = b""
    while b"event: position" not in received:
        received += client.recv(65_536)
    client.sendall(queued)
    return client


def _read(client: socket.socket) -> bytes:
    """Read until the service closes or resets the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65_536):
            received += piece
    return received


def _statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", received)]


@pytest.mark.parametrize("queued", [18, 20_000])
def test_a_connection_with_many_queued_requests_is_closed(strict: Serving, queued: int) -> None:
    """The service closes a connection that sends more than 16 requests after an event stream."""
    megabytes = _resident_megabytes(strict)
    with ExitStack() as opened:
        clients = [_watching(strict, opened) for _ in range(40)]
        for client in clients:
            client.setblocking(False)
            client.send((_GET % b"/healthz") * queued)
            client.setblocking(True)
        assert strict.get("/healthz").status == 200
        for client in clients:
            assert _statuses(_read(client)) == []
    assert _resident_megabytes(strict) < megabytes + 50


def test_sixteen_requests_can_wait_for_a_response(strict: Serving) -> None:
    """A client can send 16 more requests before it reads the first response."""
    waiting = _GET % f"{ROOT}/latest/a?min_version=99&wait_ms=2000".encode()
    with strict.connect() as client:
        client.sendall(waiting + (_GET % b"/healthz") * 15 + _LAST)
        assert _statuses(_read(client)) == [503] + [200] * 16


def test_a_stream_ends_when_its_client_leaves_although_requests_are_queued(
    strict: Serving,
) -> None:
    """A stream ends when its client disconnects, although the client sent more requests."""
    with ExitStack() as opened:
        for _ in range(5):
            _watching(strict, opened, (_GET % b"/healthz") * 3)
        wait_for(5, lambda: _streams(strict), "the open streams")
    wait_for(0, lambda: _streams(strict), "the open streams")
    assert "Traceback" not in strict.stderr.read_text()


def test_a_request_whose_body_has_not_arrived_takes_no_place(strict: Serving) -> None:
    """While more clients than slots send their bodies slowly, reads are served."""
    with ExitStack() as opened:
        for _ in range(4):
            client = opened.enter_context(strict.connect())
            client.sendall(_POST % _BODY_BYTES + b"[")
        for _ in range(5):
            assert strict.get(f"{ROOT}/latest/a").status == 200
        assert strict.post(f"{ROOT}/latestOfKeys", b'["a"]').status == 200


def test_the_oldest_request_without_its_body_is_refused_for_a_new_one(strict: Serving) -> None:
    """Above the limit of arriving bodies, the request that waits longest for its body gets 503."""
    with ExitStack() as opened:
        clients = [opened.enter_context(strict.connect()) for _ in range(6)]
        for client in clients:
            client.sendall(_POST % _BODY_BYTES)
            client.sendall(b"[")
        for client in clients[:2]:
            received = _read(client)
            assert _statuses(received) == [503]
            assert b"--limit-arriving-bodies" in received
        clients[-1].sendall(_BODY[1:-1] + b"]")
        assert clients[-1].recv(65_536).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("first", [b"", _WATCH])
def test_the_bytes_of_all_bodies_are_bounded(strict: Serving, first: bytes) -> None:
    """The service rejects the oldest bodies, also those of queued requests, and serves others."""
    with ExitStack() as opened:
        for _ in range(6):
            client = opened.enter_context(strict.connect())
            client.sendall(first + _POST % _BODY_BYTES + _BODY[:-1])
        assert strict.get(f"{ROOT}/latest/a").status == 200
        assert strict.post(f"{ROOT}/latestOfKeys", _BODY).status == 200


def test_bodies_give_their_bytes_back(strict: Serving) -> None:
    """The bytes of finished bodies are free again, on one connection and on many."""
    with closing(HTTPConnection("127.0.0.1", strict.port, timeout=WAIT_SECONDS)) as client:
        for _ in range(20):
            client.request("POST", f"{ROOT}/latestOfKeys", _BODY)
            response = client.getresponse()
            assert (response.status, response.read()[:8]) == (200, b'{"store"')
    for _ in range(3):
        received = strict.raw((_POST % _BODY_BYTES + _BODY) * 2 + _LAST)
        assert _statuses(received) == [200] * 3


def test_a_client_that_waits_for_100_continue_gets_it(strict: Serving) -> None:
    """A client that sends `Expect: 100-continue` gets the response 100."""
    head = (_POST % _BODY_BYTES)[:-2] + b"Expect: 100-continue\r\n\r\n"

    def responses() -> tuple[bytes, bytes]:
        with strict.connect() as client:
            client.sendall(head)
            first = client.recv(65_536)
            client.sendall(_BODY)
            return first, client.recv(65_536)

    # Requests of the previous test can still use both slots.
    first, _ = wait_until(
        responses, "a place", lambda seen: seen[1].startswith(b"HTTP/1.1 200 "),
        passing=(ConnectionError,),
    )  # fmt: skip
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"


@contextmanager
def _slow_readers(serving: Serving, target: str, clients: int) -> Iterator[list[socket.socket]]:
    """Open connections whose clients request long responses and read nothing."""
    with ExitStack() as opened:
        made = [opened.enter_context(socket.socket()) for _ in range(clients)]
        for client in made:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(("127.0.0.1", serving.port))
            client.sendall((_GET % target.encode()) * 8)
        yield made


@pytest.mark.parametrize(
    "target",
    [
        f"{ROOT}/fetch/a?limit=200",
        f"{ROOT}/fetch/a?limit=10000",
        "/openapi.json",
        "/docs/swagger-ui-bundle.js",
        "/nothing",
    ],
)
def test_slow_readers_take_no_places(strict: Serving, target: str) -> None:
    """While more clients than slots read slowly, reads, probes and metrics respond."""
    with _slow_readers(strict, target, 8):
        # A request uses a slot until its response is computed.
        for _ in range(50):
            strict.wait_for_status(f"{ROOT}/latest/a", 200)
        assert strict.get("/healthz").status == 200
        assert strict.get("/readyz").json["tailer_alive"]
        assert "oriel_http_requests" in strict.get_text("/metrics")


@pytest.fixture(scope="module", params=[[], ["--cors-origin=https://app.example.org"]])
def tight(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Serving]:
    """Return a service with little memory for long responses, and with few connections."""
    data = tmp_path_factory.mktemp("tight")
    table = StoreTable(data, make_definition())
    table.commit([{"key": "a", "start": start} for start in range(10_000)])
    made = Serving(
        data, "--limit-unsent-bytes=4000000", "--limit-connections=20",
        "--limit-send-seconds=600", "--limit-header-seconds=600", *request.param,
    )  # fmt: skip
    made.wait_for(1)
    yield made
    assert made.end() == 0
    assert "Traceback" not in made.stderr.read_text()


@pytest.mark.parametrize("target", [f"{ROOT}/fetch/a?limit=10000", "/openapi.json"])
def test_a_slow_long_response_loses_its_memory_to_a_new_one(tight: Serving, target: str) -> None:
    """If unsent responses reach their limit, the worker closes the slowest connection."""
    whole = tight.get(target).body
    assert 4_000_000 // len(whole) in range(2, 8)
    with _slow_readers(tight, target, 8) as clients:
        for _ in range(3):
            tight.wait_for_status(target, 200)
        assert tight.get(target).body == whole
        assert len(_read(clients[0])) < len(whole)


@pytest.mark.parametrize("sent", [_GET % f"{ROOT}/fetch/a?limit=10000".encode() * 9, _POST % 9])
def test_slow_clients_lose_their_connections_to_new_ones(tight: Serving, sent: bytes) -> None:
    """If all connections belong to slow clients, the worker closes the slowest one."""
    with ExitStack() as opened:
        for _ in range(20):
            client = opened.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(("127.0.0.1", tight.port))
            client.sendall(sent)
        for _ in range(5):
            wait_until(
                lambda: tight.get("/healthz"), "a response to a health check",
                lambda response: response.status == 200, passing=(OSError, HTTPException),
            )  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", [400]),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", [400]),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nHOST: stranger.example\r\n\r\n", [400]),
        (
            (_GET % b"/healthz")[:-2] + b"Authorization: a\r\nauthorization: b\r\n\r\n",
            [400],
        ),
        (b"GET /healthz HTTP/1.0\r\n\r\n", [200]),
        # An upgrade with a body. If it were accepted, its body would be read as a request.
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
            b"Content-Length: %d\r\n\r\n" % len(_LAST) + _LAST,
            [400],
        ),
        # A field of a trailer is not a header field.
        (
            b"POST /nothing HTTP/1.1\r\nHost: stranger.example\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\nHost: localhost\r\n\r\n" + _LAST,
            [421, 200],
        ),
        (
            b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\nHost: stranger.example\r\n\r\n" + _LAST,
            [404, 200],
        ),
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\nX: " + b"x" * 1_000_000,
            [431],
        ),
    ],
)
def test_ambiguous_requests_are_refused(strict: Serving, sent: bytes, expected: list[int]) -> None:
    """The service rejects requests that a proxy could read in another way."""
    with strict.connect() as client:
        with suppress(ConnectionError):
            client.sendall(sent)
        received = _read(client)
    assert _statuses(received) == expected
    assert expected[0] != 400 or b"malformed-request" in received


def test_a_token_in_a_trailer_does_not_count(tmp_path: Path) -> None:
    """Only a header field authenticates a request."""
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 1}])
    tokens = tmp_path.with_name("tokens.toml")
    field = b"Authorization: Bearer %b\r\n" % token_in(tokens, "all").encode()
    serving = Serving(tmp_path, "--tokens", str(tokens))
    try:
        start = b"POST /v1/stores HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        chunked = b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
        assert _statuses(serving.raw(start + field + chunked + b"\r\n")) == [405]
        assert _statuses(serving.raw(start + chunked + field + b"\r\n")) == [401]
    finally:
        assert serving.end() == 0


@pytest.mark.parametrize("offered", [b"h2c", b"websocket"])
def test_requests_in_the_same_packet_as_an_upgrade_are_served(
    strict: Serving, offered: bytes
) -> None:
    """The service ignores an unsupported upgrade, and serves the requests after it."""
    upgrade = (_GET % b"/healthz")[:-2] + b"Connection: Upgrade\r\nUpgrade: %b\r\n\r\n" % offered
    received = strict.raw(upgrade + _GET % b"/healthz" + upgrade + _LAST)
    assert _statuses(received) == [200] * 4


@pytest.mark.parametrize("line_breaks", [b"\r\n", b"\n", b"\r\n\r\n\r\n"])
def test_line_breaks_before_a_request_are_ignored(strict: Serving, line_breaks: bytes) -> None:
    """Line breaks before a request are ignored and do not cause a log line."""
    with strict.connect() as client:
        client.sendall(line_breaks)
        assert strict.get("/healthz").status == 200
        client.sendall(_LAST)
        assert _statuses(_read(client)) == [200]
    assert "AttributeError" not in strict.stderr.read_text()


def test_streams_that_catch_up_let_others_read(tmp_path: Path) -> None:
    """Each of 40 streams of 1,000 keys gets all changes, and other reads are served."""
    table, versions = StoreTable(tmp_path, make_definition()), 12
    keys = [f"k{number}" for number in range(1_000)]
    for version in range(versions):
        table.commit([{"key": key, "start": version} for key in keys])
    serving = Serving(tmp_path, "--limit-watched-keys=40000")
    serving.wait_for(versions)
    target = f"{ROOT}/watch?after=1&" + "&".join(f"key={key}" for key in keys)
    with ExitStack() as opened:
        clients = [opened.enter_context(serving.connect()) for _ in range(40)]
        for client in clients:
            client.sendall(_GET % target.encode())
        wait_for(40, lambda: _streams(serving), "the open streams")
        assert serving.get(f"{ROOT}/watch?key=a").status == 503
        assert serving.get(f"{ROOT}/latest/k1").status == 200
        for client in clients:
            received = b""
            while received.count(b'"window_start_ms":11,') < len(keys):
                received += client.recv(262_144)
            assert received.count(b'"window_start_ms":') == len(keys) * (versions - 1)
        assert serving.get("/healthz").status == 200
    assert serving.end() == 0


class _Paused:
    """A connection that counts its reads per turn of the event loop."""

    transport = asyncio.Transport()

    def __init__(self, turns: list[int]) -> None:
        self._turns = turns

    def read_again(self) -> None:
        self._turns[-1] += 1

    def end_if_late(self, now: float) -> None:
        """Do nothing."""

    def refuse(self, error: Overloaded) -> None:
        """Do nothing."""


def test_few_connections_read_long_bodies_in_one_turn() -> None:
    """At most 16 connections read per turn, so that a turn stays short for others."""
    turns = [0]
    loop = asyncio.new_event_loop()

    def next_turn() -> None:
        turns.append(0)
        if len(turns) <= 3:
            loop.call_soon(next_turn)
        else:
            loop.stop()

    async def pause() -> None:
        connections = Connections(Limits())
        for _ in range(40):
            connections.read_later(_Paused(turns))
        loop.call_soon(next_turn)

    loop.run_until_complete(pause())
    loop.run_forever()
    loop.close()
    assert turns == [16, 16, 8, 0]
