"""The HTTP protocol of one connection: uvicorn's protocol with limits of bytes and times.

    idle ---bytes--> header ---> body ---> response ---> idle
      |                |           |          |
      idle_seconds     header_seconds         send_seconds: the client reads nothing
                                   body_seconds

One check per second finds the connections that are past a deadline. So a request only stores a time
and needs no timer. If a response is still possible, it is a problem document.
"""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

import httptools
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
    Overloaded,
    ProblemResponse,
    RequestTimeout,
    UrlTooLong,
    malformed_request,
    problem_response,
)
from oriel.app.guards.connections import LONG_PIECE_BYTES, Connections
from oriel.app.guards.gate import ABORT, WHOLE_RESPONSE, Receive, Scope, Send
from oriel.app.guards.headers import ambiguity

#: Bytes of requests that a connection keeps unread while its queue of requests is full.
_UNREAD_BYTES = 64 * 1024


def protocol_of(connections: Connections) -> Callable[..., "GuardedProtocol"]:
    """Return the factory that uvicorn calls for each connection."""

    def make(config: Config, server_state: ServerState, **others: Any) -> GuardedProtocol:
        return GuardedProtocol(connections, config, server_state, **others)

    return make


class _Rejected(Exception):
    """The request being read is rejected. ``GuardedProtocol._rejection`` has the response."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, connections: Connections, config: Config, server_state: ServerState, **others: Any
    ) -> None:
        super().__init__(config, server_state, **others)
        self._connections = connections
        self._limits = connections.limits
        self._task: asyncio.Task[None] | None = None
        #: The request that ``_task`` responds to. ``cycle`` is the last request that was read.
        self._current: RequestResponseCycle | None = None
        #: The application of the next request while the client has not read the previous responses.
        self._postponed_app: Any = None
        #: The bytes that arrived after the requests that fill the queue.
        self._unread = b""
        #: Empty before the first request, because a line break before it is not a part of it.
        self.url = b""
        #: Since when the connection waits for the header (or for any byte), or for the body.
        self._since = self.loop.time()
        self._is_in_header = False
        self._is_in_body = False
        self._header_bytes = 0
        self._body_bytes = 0
        #: Bytes after the last piece of a body, for example trailer fields, which the parser keeps.
        self._trailer_bytes = 0
        #: Bytes of bodies that the connection has in ``Connections.body_bytes``.
        self._kept_bytes = 0
        self._rejection: ProblemResponse | None = None
        #: Since when the client has read no sent data, None if no data waits.
        self._unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection. At the limit, close an idle or slow one for it."""
        super().connection_made(transport)
        #: The ASGI extensions of the server.
        self._extensions: dict[str, Any] = {WHOLE_RESPONSE: {}, ABORT: transport.abort}
        connections = self._connections
        connections.all.add(self)
        if len(connections.all) > connections.most and not connections.close_slowest():
            message = (
                f"--limit-connections: the worker already has {connections.most} busy "
                "connections. Send the request again later."
            )
            self._refuse(problem_response(Overloaded(message), ""))
            return
        connections.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and cancel its request."""
        self._connections.all.discard(self)
        self._connections.idle.pop(self, None)
        self._connections.stuck.pop(self, None)
        self._forget_bodies()
        super().connection_lost(exc)
        if self._task is not None and self._current is not None:
            # uvicorn only marks the last request, which can be a queued one.
            self._current.disconnected = True
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Read what arrived, after the bytes that wait for a place in the queue."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._unread += data
        self._read_requests()
        if self._is_in_body and len(data) >= LONG_PIECE_BYTES and not self.transport.is_closing():
            self.transport.pause_reading()
            self._connections.read_later(self)

    def read_again(self) -> None:
        """Continue to read after a pause."""
        if not self.transport.is_closing() and not self.flow.read_paused:
            self.transport.resume_reading()

    def _read_requests(self) -> None:
        """Read the unread bytes, one request at a time, until the queue is full."""
        data, at = self._unread, 0
        while at < len(data) and not self.transport.is_closing():
            is_between = not self._is_in_header and not self._is_in_body
            if is_between and len(self.pipeline) >= self._limits.queued_requests:
                break
            if is_between:
                self._since = self.loop.time()
                self._header_bytes = 0
                self._is_in_header = True
            # A header ends with an empty line, so a piece completes at most one header.
            end = data.find(b"\r\n\r\n", at) + 4
            piece = data[at : end if end > 3 else len(data)]
            at += self._read_piece(piece)
        self._unread = b"" if self.transport.is_closing() else data[at:]
        if len(self._unread) > _UNREAD_BYTES:
            self.transport.abort()

    def _read_piece(self, piece: bytes) -> int:
        """Parse bytes and return how many were parsed.

        The bytes of a header are counted first, because the parser joins them.
        """
        if self._is_in_header:
            self._header_bytes += len(piece)
        self._trailer_bytes += len(piece)
        parsed = len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # The service supports no upgrade. Requests in HTTP/1.1 can follow (RFC 9110, 7.8).
            parsed = upgrade.args[0]
        except httptools.HttpParserError:
            self.send_400_response("The bytes are not an HTTP request. Send HTTP/1.1.")
            return parsed
        limits = self._limits
        if self._is_in_header:
            if len(self.url) > limits.url_bytes:
                self._refuse(self._too_long_url())
            elif self._header_bytes > limits.header_bytes + limits.url_bytes:
                self._refuse(self._too_large_header())
        elif self._is_in_body and self._trailer_bytes > limits.header_bytes + limits.url_bytes:
            self._refuse(self._too_large_header())
        return parsed

    def on_message_begin(self) -> None:
        """Start a request, which can directly follow another one in the same bytes."""
        super().on_message_begin()
        if not self._is_in_header:
            self._since = self.loop.time()
            self._is_in_header = True
            # The number of its bytes is unknown. With this value, its header fields are counted.
            self._header_bytes = self._limits.header_bytes + 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header field, and ignore fields of a trailer (RFC 9110, 6.5.1)."""
        if not self._is_in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to respond, or reject a header that is over the limit or ambiguous."""
        limits = self._limits
        if len(self.url) > limits.url_bytes:
            self._rejection = self._too_long_url()
            raise _Rejected
        # Count the fields only if the bytes could exceed the limit.
        if self._header_bytes > limits.header_bytes and (
            sum(len(name) + len(value) for name, value in self.headers) > limits.header_bytes
        ):
            self._rejection = self._too_large_header()
            raise _Rejected
        version, is_upgrade = self.parser.get_http_version(), self.parser.should_upgrade()
        problem = ambiguity(self.headers, version, is_upgrade=is_upgrade)
        if problem is not None:
            self._rejection = malformed_request(problem)
            raise _Rejected
        self._is_in_header = False
        self._is_in_body = True
        self._body_bytes = self._trailer_bytes = 0
        self._connections.idle.pop(self, None)
        super().on_headers_complete()
        self.cycle.keep_alive &= not self._connections.is_ending
        if self.pipeline:
            # Without reads, the end of the connection would not be detected.
            self.flow.resume_reading()
        self._connections.arriving.setdefault(self)
        self._connections.bound_bodies()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body.

        uvicorn stops reading if the body is long, and then does not detect the end of the
        connection. Here, the limits bound the bodies.
        """
        self._body_bytes += len(body)
        self._trailer_bytes = 0
        if self._body_bytes > self._limits.body_bytes:
            message = (
                f"--limit-body-bytes: the body must have at most {self._limits.body_bytes} "
                "bytes. Send a smaller body."
            )
            self._rejection = problem_response(BodyTooLarge(message), "")
            raise _Rejected
        if self.cycle.response_complete:
            return
        self._kept_bytes += len(body)
        self._connections.body_bytes += len(body)
        self._connections.bound_bodies()
        if self.transport.is_closing():
            raise _Rejected
        self.cycle.body += body
        self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Complete the request."""
        self._is_in_body = False
        self._leave_arriving()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Complete the response. The connection is idle until the next request."""
        self._task = self._current = None
        if not self.pipeline and not self.transport.is_closing():
            self._since = self.loop.time()
            self._connections.idle[self] = None
        super().on_response_complete()
        if self._kept_bytes:
            self._count_bodies()
        self._leave_arriving()
        if self._unread:
            self._read_requests()

    def _count_bodies(self) -> None:
        """Free the bytes of bodies whose requests are complete."""
        if self.cycle.response_complete:
            self.cycle.body = bytearray()
        waiting = [] if self._current is None else [self._current]
        waiting += [cycle for cycle, _ in self.pipeline]
        kept_bytes = sum(len(cycle.body) for cycle in waiting)
        self._connections.body_bytes += kept_bytes - self._kept_bytes
        self._kept_bytes = kept_bytes

    def _leave_arriving(self) -> None:
        """Remove the connection from ``arriving`` if no body arrives or waits in the queue."""
        if not self._is_in_body and not (self.pipeline and self._kept_bytes):
            self._connections.arriving.pop(self, None)

    def _forget_bodies(self) -> None:
        self._connections.arriving.pop(self, None)
        self._connections.body_bytes -= self._kept_bytes
        self._kept_bytes = 0
        self._unread = b""

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid bytes or a rejected request, and close the connection."""
        refusal, self._rejection = self._rejection, None
        self._refuse(refusal or malformed_request(msg))

    def pause_writing(self) -> None:
        """Stop writing until the client has read most of the sent data."""
        super().pause_writing()
        self._connections.stuck[self] = self.loop.time()

    def resume_writing(self) -> None:
        """Continue writing, because the client has read most of the sent data."""
        super().resume_writing()
        self._unread_since = None
        self._connections.stuck.pop(self, None)
        app, self._postponed_app = self._postponed_app, None
        if app is not None and self._current is not None and not self.transport.is_closing():
            self._start_asgi_task(self._current, app)

    def end_if_late(self, now: float) -> None:
        """Close the connection if it is past a deadline. ``now`` is the event loop's time."""
        is_header_late = now - self._since > self._limits.header_seconds
        if self._reads_nothing(now) or (self._unread and is_header_late):
            self.transport.abort()
        elif self._is_in_header and is_header_late:
            message = (
                "--limit-header-seconds: the header must arrive within "
                f"{self._limits.header_seconds} s. Send the request again."
            )
            self._refuse(problem_response(RequestTimeout(message), ""))
        elif self._is_in_body and now - self._since > (
            self._limits.header_seconds + self._limits.body_seconds
        ):
            message = (
                "--limit-body-seconds: the body must arrive within "
                f"{self._limits.body_seconds} s. Send the request again."
            )
            self._refuse(problem_response(RequestTimeout(message), ""))
        elif self in self._connections.idle and now - self._since > self._limits.idle_seconds:
            self.transport.close()

    def _reads_nothing(self, now: float) -> bool:
        if self.transport.get_write_buffer_size() == 0:
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = now
        return (
            self._unread_since is not None and now - self._unread_since > self._limits.send_seconds
        )

    def _too_long_url(self) -> ProblemResponse:
        message = (
            f"--limit-url-bytes: path and query must have at most {self._limits.url_bytes} "
            "bytes. Send a shorter URL."
        )
        return problem_response(UrlTooLong(message), "")

    def _too_large_header(self) -> ProblemResponse:
        message = (
            "--limit-header-bytes: the header fields must have at most "
            f"{self._limits.header_bytes} bytes. Send fewer or shorter fields."
        )
        return problem_response(HeaderTooLarge(message), "")

    def refuse(self, error: Overloaded) -> None:
        """Respond with an error and close the connection."""
        self._refuse(problem_response(error, ""))

    def _refuse(self, send_response: ProblemResponse) -> None:
        """Respond without an application, and close. A request in progress is canceled."""
        self._is_in_header = self._is_in_body = False
        self._connections.idle.pop(self, None)
        self._forget_bodies()
        self.pipeline.clear()
        if self.transport.is_closing():
            return
        if self._task is not None and self._current is not None:
            # After the start of a response, a second response would be read as a part of it.
            if self._current.response_started:
                self.transport.abort()
                return
            self._task.cancel()
            self._current.disconnected = True
        status = HTTPStatus(send_response.status)
        head = b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
        lines = b"".join(b"%b: %b\r\n" % header for header in send_response.headers)
        self.transport.write(head + lines + b"connection: close\r\n\r\n" + send_response.body)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current = cycle
        if self.flow.write_paused:
            # A request whose client does not read uses no slot of the gate.
            self._postponed_app = app
            return
        # Like uvicorn, but the task is kept, so that it ends with the connection.
        cycle.scope["extensions"] = self._extensions

        async def extended(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_response(message: Any) -> None:
                if message["type"] == WHOLE_RESPONSE:
                    await self._write_response(cycle, message)
                else:
                    await send(message)

            await app(scope, receive, send_response)

        self._task = self.loop.create_task(cycle.run_asgi(cast("Any", extended)))
        self._task.add_done_callback(self.tasks.discard)
        self.tasks.add(self._task)

    async def _write_response(
        self, cycle: RequestResponseCycle, send_response: Mapping[str, Any]
    ) -> None:
        """Write a whole response at once. Its header fields need no check."""
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        head = [
            STATUS_LINE[send_response["status"]],
            self._connections.default_head(self.server_state.default_headers),
            *[b"%b: %b\r\n" % header for header in send_response["headers"]],
            b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n",
        ]
        if cycle.scope["method"] != "HEAD":
            head.append(send_response["body"])
        self.transport.write(b"".join(head))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
