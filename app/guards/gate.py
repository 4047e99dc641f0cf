"""How much a worker has under way, and the refusal of what is beyond its limits.

Nothing is queued: a request that finds no place is answered 503 at once, with ``Retry-After``. A
request has one place at a time: under way, waiting for a position, or as an open stream.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from oriel.app.contract import Limits, Overloaded, RequestTooSlow, ShuttingDown

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: ASGI extension: one message of this type is a whole answer (``status``, ``headers``, ``body``).
#: uvicorn's own way checks each header field by two regular expressions and takes two messages,
#: which is a quarter of a hot read.
WHOLE_ANSWER = "oriel.answer"

#: Bytes of a body that are handed to the connection at once; before the next ones it is waited
#: until the client has taken most of these. asyncio's own mark for a full buffer.
_PIECE_BYTES = 64 * 1024


class Gate:
    """The places of one worker. For its event loop only."""

    def __init__(self, limits: Limits) -> None:
        """Nothing is under way."""
        self.limits = limits
        self.requests = 0
        self.waiting = 0
        self.streams = 0
        self.unsent_bytes = 0
        self.is_closing = False

    def enter(self) -> None:
        """Take a place for a request; ``leave`` gives it back.

        Raises:
            Overloaded: there is none.
        """
        if self.requests >= self.limits.requests:
            raise Overloaded(_full("requests are under way", self.limits.requests, "requests"))
        self.requests += 1

    def leave(self) -> None:
        """Give a place back."""
        self.requests -= 1

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Change a place under way for one among those that wait for a position.

        Raises:
            Overloaded: there is none.
            ShuttingDown: the worker ends, so it begins to wait for nothing.
        """
        self._refuse_when_closing()
        if self.waiting >= self.limits.waiting_requests:
            limit = self.limits.waiting_requests
            raise Overloaded(_full("requests wait for a position", limit, "waiting_requests"))
        self.waiting += 1
        self.requests -= 1
        try:
            yield
        finally:
            self.waiting -= 1
            self.requests += 1

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Change a place under way for one of an open stream.

        Raises:
            Overloaded: there is none.
            ShuttingDown: the worker ends.
        """
        self._refuse_when_closing()
        if self.streams >= self.limits.streams:
            raise Overloaded(_full("event streams are open", self.limits.streams, "streams"))
        self.streams += 1
        self.requests -= 1
        try:
            yield
        finally:
            self.streams -= 1
            self.requests += 1

    async def send(
        self,
        scope: Mapping[str, Any],
        send: Send,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        """Send a finished answer; a long one piece by piece, as fast as its client takes it.

        Raises:
            Overloaded: with this answer more than the limit would wait for slow clients; nothing
                was sent.
        """
        is_short = len(body) <= _PIECE_BYTES
        if is_short and WHOLE_ANSWER in scope.get("extensions", ()):
            whole = {"type": WHOLE_ANSWER, "status": status, "headers": headers, "body": body}
            await send(whole)
            return
        start = {"type": "http.response.start", "status": status, "headers": headers}
        if is_short:
            await send(start)
            await send({"type": "http.response.body", "body": body})
            return
        if self.unsent_bytes + len(body) > self.limits.unsent_bytes:
            limit = self.limits.unsent_bytes
            raise Overloaded(
                _full("bytes of answers wait for their clients", limit, "unsent_bytes")
            )
        self.unsent_bytes += len(body)
        try:
            await send(start)
            pieces = memoryview(body)
            for begin in range(0, len(body), _PIECE_BYTES):
                end = begin + _PIECE_BYTES
                piece = {"type": "http.response.body", "body": bytes(pieces[begin:end])}
                await send({**piece, "more_body": end < len(body)})
        finally:
            self.unsent_bytes -= len(body)

    async def in_time(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Let an application answer, whose answer must begin within the time that a request has.

        Raises:
            RequestTooSlow: it did not.
        """
        seconds = self.limits.request_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:

                async def begin(message: Mapping[str, Any]) -> None:
                    deadline.reschedule(None)
                    await send(message)

                await app(scope, receive, begin)
        except TimeoutError as error:
            message = f"no answer within {seconds} s (--limit-request-seconds); ask for less"
            raise RequestTooSlow(message) from error

    def close(self) -> None:
        """Begin to wait for nothing more: the worker ends."""
        self.is_closing = True

    def _refuse_when_closing(self) -> None:
        if self.is_closing:
            message = "this worker ends; ask again"
            raise ShuttingDown(message)


def _full(what: str, limit: int, name: str) -> str:
    option = "--limit-" + name.replace("_", "-")
    return f"{limit} {what} already ({option}); ask again a little later"
