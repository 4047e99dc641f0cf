"""The connections of one worker, with limits of their number, bytes and times."""

import asyncio
import resource
from collections import deque
from collections.abc import Callable
from typing import Protocol

from oriel.app.contract import Limits, Overloaded

#: Seconds between two checks for connections that are past a deadline.
_CHECK_SECONDS = 1.0
#: File descriptors that are reserved for indexes, logs and other files of the worker.
_RESERVED_DESCRIPTORS = 64
#: Bytes of a body after which a connection pauses, and the number of paused connections that
#: continue in one iteration of the event loop. Otherwise, many long bodies would block the loop.
LONG_PIECE_BYTES = 32 * 1024
_READS_PER_TURN = 16


class Connection(Protocol):
    """The interface of a connection."""

    transport: asyncio.Transport

    def end_if_late(self, now: float) -> None:
        """Close the connection if it is past a deadline."""

    def refuse(self, error: Overloaded) -> None:
        """Respond with an error and close the connection."""

    def read_again(self) -> None:
        """Continue to read after a pause."""


class Connections:
    """The connections of one worker, by the state of their request."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.all: set[Connection] = set()
        #: Connections without a complete header, in the order in which they became idle.
        self.idle: dict[Connection, None] = {}
        #: Connections whose request waits for its body, or has a body and waits in the queue. The
        #: order is the order in which the requests began.
        self.arriving: dict[Connection, None] = {}
        #: Connections whose clients do not read sent data, and since when, ordered by this time.
        self.stuck: dict[Connection, float] = {}
        #: Connections that pause before they read more of a body.
        self._paused: deque[Connection] = deque()
        #: Bytes of the bodies of all connections.
        self.body_bytes = 0
        self.is_ending = False  # If True, each response is the last one of its connection.
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # If the system allows fewer files, an accept beyond this number would fail silently.
        affordable = max(descriptors // 2, descriptors - _RESERVED_DESCRIPTORS)
        self.most = min(limits.connections, affordable)
        #: The header fields of every response: uvicorn's list, which it replaces every second, and
        #: the same fields as bytes.
        self._default_head: tuple[list[tuple[bytes, bytes]], bytes] = [], b""

    def default_head(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the header fields of every response as bytes, cached per list of uvicorn."""
        known_headers, head = self._default_head
        if headers is not known_headers:
            head = b"".join(b"%b: %b\r\n" % header for header in headers)
            self._default_head = headers, head
        return head

    async def close_late_connections(self, report_count: Callable[[int], None]) -> None:
        """Close connections that are past a deadline, once per second, until the task is canceled.

        Each time, call ``report_count`` with the number of connections.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = loop.time()
            for connection in list(self.all):
                connection.end_if_late(now)
            report_count(len(self.all))

    def read_later(self, connection: Connection) -> None:
        """Let a paused connection continue to read when it is its turn."""
        if not self._paused:
            asyncio.get_running_loop().call_soon(self._let_read)
        self._paused.append(connection)

    def _let_read(self) -> None:
        for _ in range(min(len(self._paused), _READS_PER_TURN)):
            self._paused.popleft().read_again()
        if self._paused:
            asyncio.get_running_loop().call_soon(self._let_read)

    def close_slowest(self) -> bool:
        """Close the connection that has been idle for longest, or otherwise the slowest one.

        Slow clients do not read the response to their request, or do not send its body.

        Returns:
            False if no connection is idle or slow.
        """
        late = asyncio.get_running_loop().time() - _CHECK_SECONDS
        oldest = next(iter(self.idle), None)
        if oldest is None:
            oldest, since = next(iter(self.stuck.items()), (None, late))
            if oldest is None or since > late:
                oldest = next(iter(self.arriving), None)
        if oldest is None:
            return False
        for kind in (self.idle, self.stuck, self.arriving):
            kind.pop(oldest, None)
        oldest.transport.abort()
        return True

    def bound_bodies(self) -> None:
        """Reject the requests that wait longest for their bodies until the others fit."""
        limits = self.limits
        while self.arriving:
            if len(self.arriving) > limits.arriving_bodies:
                message = (
                    f"the worker already waits for the bodies of {limits.arriving_bodies} requests"
                )
                option = "--limit-arriving-bodies"
            elif self.body_bytes > limits.arriving_bytes:
                message = f"the bodies of all requests already have {limits.arriving_bytes} bytes"
                option = "--limit-arriving-bytes"
            else:
                return
            oldest = next(iter(self.arriving))
            oldest.refuse(Overloaded(f"{option}: {message}. Send the request again later."))
