"""The HTTP protocol of one connection: uvicorn's, with bounds on bytes and times.

    silent ---bytes--> header ---> body ---> answer ---> silent
      |                  |           |          |
      idle_seconds       header_seconds         send_seconds: the client takes nothing
                                     body_seconds

One look around a second finds the connections that are past a deadline, so a request costs a
time stamp and no timer. What can still be answered is answered with a problem document.
"""

import asyncio
import resource
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from oriel.app.contract import (
    BodyTooLarge,
    HeaderTooLarge,
    Limits,
    Overloaded,
    ProblemAnswer,
    RequestTimeout,
    UrlTooLong,
    malformed_request,
    problem_answer,
)
from oriel.app.guards.gate import WHOLE_ANSWER, Receive, Scope, Send

#: What the server does beside ASGI's own messages.
_EXTENSIONS: dict[str, dict[str, Any]] = {WHOLE_ANSWER: {}}

#: Seconds between two looks for connections that are past a deadline.
_LOOK_SECONDS = 1.0
#: File descriptors that are left for indexes, logs and whatever else the worker opens.
_RESERVED_DESCRIPTORS = 64


class Connections:
    """The connections of one worker: what they may do, and which of them are silent."""

    def __init__(self, limits: Limits) -> None:
        """There are none."""
        self.limits = limits
        self.all: set[GuardedProtocol] = set()
        #: Those that have no whole request, in the order in which they became silent.
        self.silent: dict[GuardedProtocol, None] = {}
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Where the system allows fewer files, accepting one too many would fail and stay unseen.
        affordable = max(descriptors // 2, descriptors - _RESERVED_DESCRIPTORS)
        self.most = min(limits.connections, affordable)
        #: The fields of every answer as uvicorn has them, anew each second, and as bytes.
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._default_head = b""

    def protocol(self) -> Callable[..., "GuardedProtocol"]:
        """What uvicorn is to call for each connection."""

        def make(config: Config, server_state: ServerState, **others: Any) -> GuardedProtocol:
            return GuardedProtocol(self, config, server_state, **others)

        return make

    def default_head(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The fields of every answer as bytes; made once for each list of them."""
        if headers is not self._default_headers:
            self._default_head = b"".join(b"%b: %b\r\n" % header for header in headers)
            self._default_headers = headers
        return self._default_head

    async def look_around(self, say_number: Callable[[int], None]) -> None:
        """End what is past a deadline, once a second, as long as the task of this runs.

        ``say_number`` is told each time how many connections there are.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = loop.time()
            for connection in list(self.all):
                connection.end_if_late(now)
            say_number(len(self.all))

    def make_room(self) -> bool:
        """Close the connection that is silent for longest; False when none is silent."""
        oldest = next(iter(self.silent), None)
        if oldest is None:
            return False
        del self.silent[oldest]
        oldest.transport.abort()
        return True


class _Refused(Exception):
    """The request being read can't be taken; ``GuardedProtocol.refusal`` has the answer."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, connections: Connections, config: Config, server_state: ServerState, **others: Any
    ) -> None:
        """Wait for a first request."""
        super().__init__(config, server_state, **others)
        self._connections = connections
        self._limits = connections.limits
        self._task: asyncio.Task[None] | None = None
        #: Since when it is waited for the header (or for any byte), or for the body.
        self._since = self.loop.time()
        self._is_in_header = False
        self._is_in_body = False
        self._header_bytes = 0
        self._body_bytes = 0
        self._refusal: ProblemAnswer | None = None
        #: Since when the client has taken nothing of what is to be sent; None: nothing is.
        self._stuck_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, if need be for one that is silent."""
        super().connection_made(transport)
        connections = self._connections
        connections.all.add(self)
        if len(connections.all) > connections.most and not connections.make_room():
            message = f"{connections.most} connections are busy; ask again a little later"
            self._refuse(problem_answer(Overloaded(message), ""))
            return
        connections.silent[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; whatever is done for it ends."""
        self._connections.all.discard(self)
        self._connections.silent.pop(self, None)
        super().connection_lost(exc)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on; the header is counted before it is parsed, for the parser joins what it got."""
        if self.transport.is_closing():
            return
        if not self._is_in_header and not self._is_in_body:
            self._since = self.loop.time()
            self._header_bytes = 0
            self._is_in_header = True
        if self._is_in_header:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._is_in_header:
            limits = self._limits
            if len(self.url) > limits.url_bytes:
                self._refuse(self._too_long_url())
            elif self._header_bytes > limits.header_bytes + limits.url_bytes:
                self._refuse(self._too_large_header())

    def on_message_begin(self) -> None:
        """A request begins, perhaps right behind another one."""
        super().on_message_begin()
        if not self._is_in_header:
            self._since = self.loop.time()
            self._is_in_header = True
            # How many of the bytes at hand are of this request isn't known: it is counted.
            self._header_bytes = self._limits.header_bytes + 1

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the header is too long."""
        limits = self._limits
        if len(self.url) > limits.url_bytes:
            self._refusal = self._too_long_url()
            raise _Refused
        # Counted only where what came could be too long.
        if self._header_bytes > limits.header_bytes and (
            sum(len(name) + len(value) for name, value in self.headers) > limits.header_bytes
        ):
            self._refusal = self._too_large_header()
            raise _Refused
        self._is_in_header = False
        self._is_in_body = True
        self._body_bytes = 0
        self._connections.silent.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            message = f"a body may have {self._limits.body_bytes} bytes (--limit-body-bytes)"
            self._refusal = problem_answer(BodyTooLarge(message), "")
            raise _Refused
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._is_in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is written: the connection is silent until the next request."""
        self._task = None
        if not self.pipeline and not self.transport.is_closing():
            self._since = self.loop.time()
            self._connections.silent[self] = None
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, or one that is refused, and close."""
        refusal, self._refusal = self._refusal, None
        self._refuse(refusal or malformed_request(msg))

    def resume_writing(self) -> None:
        """The client has taken most of what was to be sent."""
        super().resume_writing()
        self._stuck_since = None

    def end_if_late(self, now: float) -> None:
        """Close the connection when it is past a deadline; ``now`` is the event loop's time."""
        if self._takes_nothing(now):
            self.transport.abort()
        elif self._is_in_header and now - self._since > self._limits.header_seconds:
            message = f"the header must arrive within {self._limits.header_seconds} s"
            self._refuse(problem_answer(RequestTimeout(message), ""))
        elif self._is_in_body and now - self._since > (
            self._limits.header_seconds + self._limits.body_seconds
        ):
            message = f"the body must arrive within {self._limits.body_seconds} s"
            self._refuse(problem_answer(RequestTimeout(message), ""))
        elif self in self._connections.silent and now - self._since > self._limits.idle_seconds:
            self.transport.close()

    def _takes_nothing(self, now: float) -> bool:
        if self.transport.get_write_buffer_size() == 0:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        return self._stuck_since is not None and now - self._stuck_since > self._limits.send_seconds

    def _too_long_url(self) -> ProblemAnswer:
        message = f"path and query may have {self._limits.url_bytes} bytes (--limit-url-bytes)"
        return problem_answer(UrlTooLong(message), "")

    def _too_large_header(self) -> ProblemAnswer:
        message = (
            f"the header fields may have {self._limits.header_bytes} bytes (--limit-header-bytes)"
        )
        return problem_answer(HeaderTooLarge(message), "")

    def _refuse(self, answer: ProblemAnswer) -> None:
        """Answer without an application and close; a request under way is dropped."""
        self._is_in_header = self._is_in_body = False
        self._connections.silent.pop(self, None)
        self.pipeline.clear()
        if self.cycle is not None and not self.cycle.response_complete:
            # An answer in the middle of another would be taken for a part of it.
            if not self.cycle.response_started and self._task is not None:
                self._task.cancel()
                self.cycle.disconnected = True
            else:
                self.transport.abort()
                return
        status = HTTPStatus(answer.status)
        head = b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
        lines = b"".join(b"%b: %b\r\n" % header for header in answer.headers)
        self.transport.write(head + lines + b"connection: close\r\n\r\n" + answer.body)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # As uvicorn does it; the task is kept, so that it ends with the connection.
        cycle.scope["extensions"] = _EXTENSIONS  # type: ignore[typeddict-item]

        async def extended(scope: Scope, receive: Receive, send: Send) -> None:
            async def answer(message: Any) -> None:
                if message["type"] == WHOLE_ANSWER:
                    await self._write_answer(cycle, message)
                else:
                    await send(message)

            await app(scope, receive, answer)

        self._task = self.loop.create_task(cycle.run_asgi(cast("Any", extended)))
        self._task.add_done_callback(self.tasks.discard)
        self.tasks.add(self._task)

    async def _write_answer(self, cycle: RequestResponseCycle, answer: Mapping[str, Any]) -> None:
        """Write a whole answer at once, whose header fields are the service's own."""
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        head = [
            STATUS_LINE[answer["status"]],
            self._connections.default_head(self.server_state.default_headers),
            *[b"%b: %b\r\n" % header for header in answer["headers"]],
            b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n",
        ]
        if cycle.scope["method"] != "HEAD":
            head.append(answer["body"])
        self.transport.write(b"".join(head))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
