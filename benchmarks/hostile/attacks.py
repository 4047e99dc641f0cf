"""Hostile clients: the bytes that each client sends and reads, and how slowly."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.query_runs.tables import STORE, key_name

ROOT = f"/v1/stores/{STORE}"
LONG_WINDOWS = 10_000
#: Seconds between two steps of clients that send or read slowly.
_STEP_SECONDS = 1.0


class Attack(NamedTuple):
    """The behavior of each of ``clients`` connections.

    A connection sends one of ``first`` immediately and ``later`` every second. It reads
    ``read_bytes`` every second, or everything immediately without ``read_bytes``.
    """

    clients: int
    first: Sequence[bytes]
    later: bytes = b""
    read_bytes: int | None = None


def _get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _post(body_bytes: int) -> bytes:
    target = f"POST {ROOT}/latestOfKeys HTTP/1.1\r\nHost: localhost\r\n"
    return f"{target}Content-Length: {body_bytes}\r\n\r\n".encode()


def attacks(clients: int | None, keys: int, versions: int) -> dict[str, Attack]:
    """Return the attacks by their names, each with its own number of clients or with this one."""
    watched = "&".join(f"key={key_name(number)}" for number in range(keys))
    long_read = _get(f"{ROOT}/fetch/{key_name(0)}?limit={LONG_WINDOWS}")
    watches = [_get(f"{ROOT}/watch?after={version + 1}") for version in range(versions)]
    listed = b"[" + b",".join(b'"%b"' % key_name(number).encode() for number in range(keys)) + b"]"
    made = {
        "none": Attack(0, []),
        "streams that catch up": Attack(500, [_get(f"{ROOT}/watch?after=1&{watched}")]),
        "slow bodies": Attack(600, [_post(1_000)], b" "),
        "pipelined requests": Attack(400, [_get(f"{ROOT}/watch") + _get("/healthz") * 20_000]),
        "slow readers": Attack(140, [long_read], read_bytes=1_200),
        "slow readers, pipelined": Attack(600, [long_read * 8], read_bytes=1_200),
        "slow readers of POST": Attack(600, [(_post(len(listed)) + listed) * 8], read_bytes=1_200),
        "slow readers of pages": Attack(600, [_get("/openapi.json") * 8], read_bytes=1_200),
        "slow streams": Attack(1_000, watches, read_bytes=1_200),
        "many bodies": Attack(800, [_post(4_000_000) + b" " * 3_999_999]),
    }
    return {
        name: one._replace(clients=min(one.clients, clients or one.clients))
        for name, one in made.items()
    }


class _Client:
    """One hostile connection."""

    def __init__(self, address: tuple[str, int], attack: Attack, number: int) -> None:
        self.attack = attack
        self.number = number
        self.socket = socket.socket()
        # The buffers of all clients must not use up the memory that this machine has for TCP: the
        # service would measure that. Clients on other machines have buffers of their own.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        if attack.read_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.connect(address)
        self.socket.settimeout(0)
        self._unsent = memoryview(attack.first[number % len(attack.first)])

    def step(self, *, is_ready: bool) -> bool:
        """Send and read what is due. Returns False if the service closed the connection."""
        try:
            if not self._unsent and not is_ready:
                self._unsent = memoryview(self.attack.later)
            if self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        if is_ready == (self.attack.read_bytes is not None):
            return True
        try:
            return bool(self.socket.recv(self.attack.read_bytes or 262_144))
        except BlockingIOError:
            return True
        except OSError:
            return False


@contextmanager
def under(attack: Attack, address: tuple[str, int]) -> Iterator[None]:
    """Run an attack until the block ends."""
    is_over = threading.Event()

    def run() -> None:
        clients = [_Client(address, attack, number) for number in range(attack.clients)]
        with selectors.DefaultSelector() as selector:
            for client in clients:
                selector.register(client.socket, selectors.EVENT_READ, client)
            step_at = 0.0
            while not is_over.is_set():
                if attack.read_bytes is None and clients:
                    due = [event.data for event, _ in selector.select(0.1)]
                    _renew(due, selector, address, is_ready=True)
                else:
                    is_over.wait(0.1)
                if time.monotonic() >= step_at:
                    everyone = [event.data for event in list(selector.get_map().values())]
                    _renew(everyone, selector, address, is_ready=False)
                    step_at = time.monotonic() + _STEP_SECONDS
            for event in list(selector.get_map().values()):
                event.data.socket.close()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run)
        try:
            yield
        finally:
            is_over.set()
        running.result()


def _renew(
    clients: Sequence[_Client],
    selector: selectors.BaseSelector,
    address: tuple[str, int],
    *,
    is_ready: bool,
) -> None:
    """Let clients do what is due, and open closed connections again."""
    for client in clients:
        if not client.step(is_ready=is_ready):
            selector.unregister(client.socket)
            client.socket.close()
            again = _Client(address, client.attack, client.number)
            selector.register(again.socket, selectors.EVENT_READ, again)
