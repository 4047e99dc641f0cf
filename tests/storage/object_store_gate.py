"""A proxy to an object store that can refuse connections or leave requests without a response."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

_RECEIVED_BYTES = 1 << 16


class Gate:
    """The proxy.

    Attributes:
        address: The URL of the proxy.
        attempts: The number of connections that arrived while the proxy was closed or silent.
    """

    def __init__(self, target: str) -> None:
        """Listen on a local port, and forward to the address ``target``."""
        parts = urlsplit(target)
        assert parts.hostname is not None
        self._target = parts.hostname, parts.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.attempts = 0
        self._opened = threading.Event()
        self._opened.set()
        self._state: Literal["open", "closed", "silent"] = "open"
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close all connections and reset new ones, as when a store restarts."""
        self._set("closed")
        for connection in list(self._sockets):
            _end(connection)

    def stop_responding(self) -> None:
        """Accept connections and requests, and respond to none."""
        self._set("silent")

    def open(self) -> None:
        """Forward again. Connections that wait for a response are closed."""
        self._state = "open"
        self._opened.set()

    def end(self) -> None:
        """Stop listening."""
        self.close()
        self._opened.set()
        _end(self._listener)

    def _set(self, state: Literal["closed", "silent"]) -> None:
        self._opened.clear()
        self._state, self.attempts = state, 0

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if self._state != "open":
            self.attempts += 1
            if self._state == "silent":
                self._opened.wait()
            _end(client)
            return
        with suppress(OSError):
            store = socket.create_connection(self._target)
            self._sockets |= {client, store}
            back = threading.Thread(target=self._forward, args=(store, client), daemon=True)
            back.start()
            self._forward(client, store)
            back.join()
            self._sockets -= {client, store}

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(_RECEIVED_BYTES):
                if self._state == "silent":
                    self._opened.wait()
                    break
                target.sendall(received)
        _end(source)
        _end(target)


@contextmanager
def gate_to(target: str) -> Iterator[Gate]:
    """Run a gate to the address ``target`` for a ``with`` block."""
    gate = Gate(target)
    try:
        yield gate
    finally:
        gate.end()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
