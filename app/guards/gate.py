"""Count the work of a worker, and reject requests beyond its limits.

Each limit is a number of slots. Requests do not queue: without a free slot, the response is 503
with ``Retry-After``. A request uses one slot at a time: in progress, as a long read, waiting for a
position, or as an open stream.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from oriel.app.contract import Limits, Overloaded, RequestTooSlow, ShuttingDown
from oriel.app.guards.turns import Turns

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: ASGI extension: one message of this type is a whole response (``status``, ``headers``, ``body``).
#: In uvicorn, a response has two messages, and two regular expressions check each header field.
#: That costs a quarter of the time of a hot read.
WHOLE_RESPONSE = "oriel.answer"
#: ASGI extension: a function that closes the connection and drops the data that is not sent yet.
ABORT = "oriel.abort"

#: Bytes of a body that are written to the connection at a time. The next bytes are written after
#: the client has read most of the previous ones. 64 KB is asyncio's high-water mark.
_PIECE_BYTES = 64 * 1024
#: Seconds in which a client must read each piece while the memory is full. So a client that reads
#: 64 KB/s keeps its response. With a round trip of 200 ms, TCP slow start needs 0.6 s for the first
#: piece.
_PIECE_SECONDS = 1.0

#: Paths that use no slot, so that they respond while all slots are in use. A connection has at
#: most one request in progress, so the limit of connections bounds them.
PROBE_PATHS = frozenset({b"/healthz", b"/readyz", b"/freshz", b"/metrics"})


async def whole_body(receive: Receive) -> Receive:
    """Wait for the body of a request, before the request uses a slot.

    Returns:
        A function that returns the body as one message, and then the next messages.
    """
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            # The client has disconnected.
            raise asyncio.CancelledError
        body += message.get("body", b"")
        more = message.get("more_body", False)
    messages = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def received() -> Any:
        return messages.pop() if messages else await receive()

    return received


class _LongResponse:
    """A response that is written to the connection piece by piece."""

    def __init__(self, size: int, now: float, abort: Callable[[], object] | None) -> None:
        """Create a response of ``size`` bytes. ``abort`` closes the connection and frees it."""
        self.size = size
        self.abort = abort
        #: Since when the response waits for the client.
        self.waits_since = now


class Gate:
    """The slots of one worker. Only the event loop uses it."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self.requests = 0
        self.long_reads = 0
        self.waiting = 0
        self.streams = 0
        self.watched_keys = 0
        self.unsent_bytes = 0
        #: Long responses that are being sent. The order is the order of their last pieces.
        self._long: OrderedDict[object, _LongResponse] = OrderedDict()
        self.is_closing = False
        #: One step of all long reads in each turn of the event loop.
        self.steps = Turns(1)

    async def begin_list(self) -> None:
        """Wait until the read of a list of keys can begin. Its first step lasts some ms.

        Without this wait, all lists that arrive in an iteration of the event loop would begin in
        this iteration.

        Raises:
            Overloaded: The number of waiting lists is the limit of requests.
        """
        if self.steps.waiting >= self.limits.requests:
            raise Overloaded(
                _full("waiting requests with a list of keys", self.limits.requests, "requests")
            )
        await self.steps.begin()

    def enter(self) -> None:
        """Use a slot for a request. Call ``leave`` at its end.

        Raises:
            Overloaded: All slots are in use.
        """
        if self.requests >= self.limits.requests:
            raise Overloaded(_full("requests in progress", self.limits.requests, "requests"))
        self.requests += 1

    def leave(self) -> None:
        """Free the slot of a request."""
        self.requests -= 1

    @contextmanager
    def long_read(self, *, always: bool = False) -> Iterator[None]:
        """Use a slot of long reads instead of the slot of the request.

        Args:
            always: Exceed the limit, because most of the work is already done.

        Raises:
            Overloaded: All slots are in use.
        """
        if self.long_reads >= self.limits.long_reads and not always:
            raise Overloaded(_full("long reads in progress", self.limits.long_reads, "long_reads"))
        self.long_reads += 1
        self.requests -= 1
        try:
            yield
        finally:
            self.long_reads -= 1
            self.requests += 1

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Use a slot of waiting requests instead of the slot of the request.

        Raises:
            Overloaded: All slots are in use.
            ShuttingDown: The worker ends, so no request can begin to wait.
        """
        self._reject_when_closing()
        if self.waiting >= self.limits.waiting_requests:
            limit = self.limits.waiting_requests
            raise Overloaded(_full("requests that wait for a position", limit, "waiting_requests"))
        self.waiting += 1
        self.requests -= 1
        try:
            yield
        finally:
            self.waiting -= 1
            self.requests += 1

    @contextmanager
    def stream(self, keys: int) -> Iterator[None]:
        """Use a slot of streams, for a stream that watches ``keys`` keys, instead of the request's.

        Raises:
            Overloaded: All slots are in use, or the limit of watched keys is reached.
            ShuttingDown: The worker ends.
        """
        self._reject_when_closing()
        if self.streams >= self.limits.streams:
            raise Overloaded(_full("open event streams", self.limits.streams, "streams"))
        if self.watched_keys + keys > self.limits.watched_keys:
            limit = self.limits.watched_keys
            raise Overloaded(_full("keys that event streams watch", limit, "watched_keys"))
        self.streams += 1
        self.watched_keys += keys
        self.requests -= 1
        try:
            yield
        finally:
            self.streams -= 1
            self.watched_keys -= keys
            self.requests += 1

    async def send(
        self,
        scope: Mapping[str, Any],
        send: Send,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        """Send a finished response. Send a long one in pieces, as fast as its client reads.

        Raises:
            Overloaded: With this response, unread responses exceed the limit. Nothing was sent.
        """
        is_short = len(body) <= _PIECE_BYTES
        if is_short and WHOLE_RESPONSE in scope.get("extensions", ()):
            whole = {"type": WHOLE_RESPONSE, "status": status, "headers": headers, "body": body}
            await send(whole)
            return
        start = {"type": "http.response.start", "status": status, "headers": headers}
        if is_short:
            await send(start)
            await send({"type": "http.response.body", "body": body})
            return
        with self._long_response(len(body), scope) as piece_is_read:
            await send(start)
            pieces = memoryview(body)
            for begin in range(0, len(body), _PIECE_BYTES):
                end = begin + _PIECE_BYTES
                piece = {"type": "http.response.body", "body": bytes(pieces[begin:end])}
                await send({**piece, "more_body": end < len(body)})
                piece_is_read()

    def bounded(self, scope: Mapping[str, Any], send: Send) -> Send:
        """Return a ``send`` for another application that sends its messages within the limits.

        With the first piece of a body, it raises the errors of ``Gate.send``.
        """
        start: Any = None

        async def send_bounded(message: Any) -> None:
            nonlocal start
            body, more = message.get("body", b""), message.get("more_body", False)
            if message["type"] == "http.response.start":
                start = message
            elif start is not None and not more and len(body) > _PIECE_BYTES:
                await self.send(scope, send, start["status"], start["headers"], body)
            else:
                # A file is sent piece by piece, and each piece can wait for the client.
                with self._without_slot():
                    if start is not None:
                        await send(start)
                    start = None
                    await send(message)

        return send_bounded

    @contextmanager
    def _without_slot(self) -> Iterator[None]:
        """Free the slot of the request while it waits for a client."""
        self.requests -= 1
        try:
            yield
        finally:
            self.requests += 1

    @contextmanager
    def _long_response(self, size: int, scope: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
        """Count a response as ``unsent_bytes`` instead of the slot of the request.

        Yields:
            A function to call when the client has read a piece.
        """
        self._close_slowest_clients(size)
        limit = self.limits.unsent_bytes
        if self.unsent_bytes + size > limit:
            raise Overloaded(
                _full("bytes of responses that clients have not read", limit, "unsent_bytes")
            )
        one = object()
        abort = scope.get("extensions", {}).get(ABORT)
        self._long[one] = response = _LongResponse(size, self._clock(), abort)
        self.unsent_bytes += size

        def piece_is_read() -> None:
            response.waits_since = self._clock()
            if one in self._long:
                self._long.move_to_end(one)

        try:
            with self._without_slot():
                yield piece_is_read
        finally:
            if self._long.pop(one, None) is not None:
                self.unsent_bytes -= size

    def _close_slowest_clients(self, size: int) -> None:
        """Close the connections of the slowest clients until a response of this size fits."""
        limit, late = self.limits.unsent_bytes, self._clock() - _PIECE_SECONDS
        while self._long and self.unsent_bytes + size > limit >= size:
            one, slowest = next(iter(self._long.items()))
            if slowest.abort is None or slowest.waits_since > late:
                return
            del self._long[one]
            self.unsent_bytes -= slowest.size
            slowest.abort()

    async def in_time(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Run an application whose response must begin within the time limit.

        Raises:
            RequestTooSlow: No response began in time.
        """
        seconds = self.limits.request_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:

                async def begin(message: Mapping[str, Any]) -> None:
                    deadline.reschedule(None)
                    await send(message)

                await app(scope, receive, begin)
        except TimeoutError as error:
            message = (
                f"--limit-request-seconds: no response began within {seconds} s. Request less data."
            )
            raise RequestTooSlow(message) from error

    def close(self) -> None:
        """Reject new waits, because the worker is shutting down."""
        self.is_closing = True

    def _reject_when_closing(self) -> None:
        if self.is_closing:
            message = "The worker is shutting down. Send the request again."
            raise ShuttingDown(message)


def _full(what: str, limit: int, name: str) -> str:
    option = "--limit-" + name.replace("_", "-")
    return f"{option}: the worker already has {limit} {what}. Send the request again later."
