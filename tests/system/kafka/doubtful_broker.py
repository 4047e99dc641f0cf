"""A proxy to a broker that reports an error for one request to produce, although it succeeded.

A broker that shuts down does this: it appends the records, loses the leadership of the partition,
and then responds NOT_LEADER_OR_FOLLOWER. A test cannot cause this with a real broker, because the
time between these two steps is microseconds.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PRODUCE, _NOT_LEADER_OR_FOLLOWER = 0, 6
#: From this version of Produce on, a response has compact lengths. Versions from 13 on have an id
#: in place of the topic's name.
_COMPACT, _WITH_ID = 9, 13


class DoubtfulBroker:
    """The proxy.

    Attributes:
        address: The bootstrap address of the proxy. Its metadata name the proxy as the broker.
        denied: How many successful writes got the response NOT_LEADER_OR_FOLLOWER.
    """

    def __init__(self, broker: str, deny_at: int) -> None:
        """Forward to ``broker``, and deny the successful write with the number ``deny_at``."""
        host, port = broker.split(":")
        self._target = host, int(port)
        self._deny_at, self._writes, self.denied = deny_at, 0, 0
        self._listener = socket.create_server((host, 0))
        self._port = self._listener.getsockname()[1]
        self.address = f"{host}:{self._port}"
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def end(self) -> None:
        """Close all connections, and accept no more."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target)
                self._sockets += [client, broker]
                versions: dict[bytes, int] = {}
                for work in (self._requests, self._responses):
                    threading.Thread(
                        target=work, args=(client, broker, versions), daemon=True
                    ).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, versions: dict[bytes, int]
    ) -> None:
        """Forward requests, and note which correlation ids belong to writes."""
        for frame in _frames(client):
            key, version = struct.unpack_from(">hh", frame)
            if key == _PRODUCE:
                versions[bytes(frame[4:8])] = version
            _send(broker, frame)
        _end(broker)

    def _responses(
        self, client: socket.socket, broker: socket.socket, versions: dict[bytes, int]
    ) -> None:
        """Forward responses, with the proxy's port in metadata, and with the error once."""
        direct, ours = (
            b"\x0a127.0.0.1" + struct.pack(">i", port) for port in (self._target[1], self._port)
        )
        for frame in _frames(broker):
            version = versions.pop(bytes(frame[:4]), None)
            if version is not None:
                self._deny(frame, version)
            _send(client, frame.replace(direct, ours) if version is None else frame)
        _end(client)

    def _deny(self, frame: bytearray, version: int) -> None:
        assert _COMPACT <= version < _WITH_ID, version
        # The correlation id, no tags, the number of topics and the length of a name, all plus one.
        name = frame[6] - 1
        error = 7 + name + 1 + 4
        if frame[error : error + 2] != bytes(2):
            return
        self._writes += 1
        if self._writes == self._deny_at:
            struct.pack_into(">h", frame, error, _NOT_LEADER_OR_FOLLOWER)
            self.denied += 1


@contextmanager
def doubtful_broker(broker: str, deny_at: int) -> Iterator[DoubtfulBroker]:
    """Yield a proxy to ``broker`` that denies one successful write."""
    proxy = DoubtfulBroker(broker, deny_at)
    try:
        yield proxy
    finally:
        proxy.end()


def _frames(source: socket.socket) -> Iterator[bytearray]:
    """Yield the messages of a connection without their lengths, until it ends."""
    with suppress(OSError), source.makefile("rb") as stream:
        while size := stream.read(4):
            yield bytearray(stream.read(struct.unpack(">i", size)[0]))


def _send(target: socket.socket, frame: bytearray) -> None:
    with suppress(OSError):
        target.sendall(struct.pack(">i", len(frame)) + frame)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
