"""The HTTP protocol of one connection: uvicorn's protocol with limits of bytes and times.

    between --bytes--> header ---> body ---> response ---> between
      |                  |           |          |
      idle_seconds       header_seconds         send_seconds: the client reads nothing
                                     body_seconds

While a response is computed, the connection reads the next requests of its queue. One check per
second finds the connections that are past a deadline. So a request only stores a time
and needs no timer. If a response is still possible, it is a problem document.
"""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NoReturn, cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from oriel.app.contract import (
    ApiError,
    Overloaded,
    ProblemResponse,
    malformed_request,
    problem_response,
)
from oriel.app.guards.connections import LONG_PIECE_BYTES, Connections
from oriel.app.guards.gate import ABORT, WHOLE_RESPONSE, Receive, Scope, Send
from oriel.app.guards.headers import ambiguity
from oriel.app.guards.reading import RequestReading

#: Bytes of requests that a connection keeps unread while its queue of requests is full.
_UNREAD_BYTES = 64 * 1024


def protocol_of(connections: Connections) -> Callable[..., "GuardedProtocol"]:
    """Return the factory that uvicorn calls for each connection."""

    def make(config: Config, server_state: ServerState, **others: Any) -> GuardedProtocol:
        return GuardedProtocol(connections, config, server_state, **others)

    return make


class _StopParser(Exception):
    """The request that the parser reads is rejected, or the connection is closed."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, connections: Connections, config: Config, server_state: ServerState, **others: Any
    ) -> None:
        super().__init__(config, server_state, **others)
        self._connections = connections
        self._limits = connections.limits
        #: Empty before the first request, because a line break before it is not a part of it.
        self.url = b""
        self._reading = RequestReading(connections.limits, self.loop.time())
        #: The request whose response is computed. ``cycle`` is the last request that was read.
        self._current: RequestResponseCycle | None = None
        #: The task of the application. None while the client has not read the previous responses.
        self._task: asyncio.Task[None] | None = None
        #: The bytes that arrived after the requests that fill the queue.
        self._unread = b""
        #: Bytes of bodies that the connection has in ``Connections.body_bytes``.
        self._kept_bytes = 0
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
        is_long = self._reading.state == "body" and len(data) >= LONG_PIECE_BYTES
        if is_long and not self.transport.is_closing():
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
            if self._reading.state == "between":
                if len(self.pipeline) >= self._limits.queued_requests:
                    break
                self._reading.begin(self.loop.time())
            # A header ends with an empty line, so a piece completes at most one header.
            end = data.find(b"\r\n\r\n", at) + 4
            piece = data[at : end if end > 3 else len(data)]
            at += self._read_piece(piece)
        self._unread = b"" if self.transport.is_closing() else data[at:]
        if len(self._unread) > _UNREAD_BYTES:
            self.transport.abort()

    def _read_piece(self, piece: bytes) -> int:
        """Parse bytes and return how many were parsed."""
        reading, parsed = self._reading, len(piece)
        reading.count(parsed)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # The service supports no upgrade. Requests in HTTP/1.1 can follow (RFC 9110, 7.8).
            parsed = upgrade.args[0]
        except httptools.HttpParserError:
            message = "The bytes are not an HTTP request. Send HTTP/1.1."
            self._refuse(reading.rejection or malformed_request(message))
            return parsed
        if reading.state != "between" and (problem := reading.problem(self.url)) is not None:
            self.refuse(problem)
        return parsed

    def on_message_begin(self) -> None:
        """Start a request, which can directly follow another one in the same bytes."""
        super().on_message_begin()
        if self._reading.state != "header":
            # The number of its bytes is unknown. With this value, its header fields are counted.
            self._reading.begin(self.loop.time(), self._limits.header_bytes + 1)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header field, and ignore fields of a trailer (RFC 9110, 6.5.1)."""
        if self._reading.state != "body":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to respond, or reject a header that is over the limit or ambiguous."""
        problem = self._reading.header_problem(self.url, self.headers)
        if problem is not None:
            self._reject(problem_response(problem, ""))
        version, is_upgrade = self.parser.get_http_version(), self.parser.should_upgrade()
        if (text := ambiguity(self.headers, version, is_upgrade=is_upgrade)) is not None:
            self._reject(malformed_request(text))
        self._reading.begin_body()
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
        if (problem := self._reading.count_body(len(body))) is not None:
            self._reject(problem_response(problem, ""))
        if self.cycle.response_complete:
            return
        self._kept_bytes += len(body)
        self._connections.body_bytes += len(body)
        self._connections.bound_bodies()
        if self.transport.is_closing():
            raise _StopParser
        self.cycle.body += body
        self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Complete the request."""
        self._reading.state = "between"
        self._leave_arriving()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Complete the response. The connection is idle until the next request."""
        self._task = self._current = None
        if not self.pipeline and not self.transport.is_closing():
            self._reading.since = self.loop.time()
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
        if self._reading.state != "body" and not (self.pipeline and self._kept_bytes):
            self._connections.arriving.pop(self, None)

    def _forget_bodies(self) -> None:
        self._connections.arriving.pop(self, None)
        self._connections.body_bytes -= self._kept_bytes
        self._kept_bytes = 0
        self._unread = b""

    def pause_writing(self) -> None:
        """Stop writing until the client has read most of the sent data."""
        super().pause_writing()
        self._connections.stuck[self] = self.loop.time()

    def resume_writing(self) -> None:
        """Continue writing, because the client has read most of the sent data."""
        super().resume_writing()
        self._unread_since = None
        self._connections.stuck.pop(self, None)
        waiting = self._current if self._task is None else None
        if waiting is not None and not self.transport.is_closing():
            self._start_asgi_task(waiting, self.app)

    def end_if_late(self, now: float) -> None:
        """Close the connection if it is past a deadline. ``now`` is the event loop's time."""
        waits_seconds = now - self._reading.since
        is_queue_late = self._unread and waits_seconds > self._limits.header_seconds
        if self._reads_nothing(now) or is_queue_late:
            self.transport.abort()
        elif (problem := self._reading.lateness(now)) is not None:
            self.refuse(problem)
        elif self in self._connections.idle and waits_seconds > self._limits.idle_seconds:
            self.transport.close()

    def _reads_nothing(self, now: float) -> bool:
        if self.transport.get_write_buffer_size() == 0:
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = now
        return (
            self._unread_since is not None and now - self._unread_since > self._limits.send_seconds
        )

    def _reject(self, response: ProblemResponse) -> NoReturn:
        """Stop the parser in a callback. Then ``_read_piece`` sends the response."""
        self._reading.reject(response)
        raise _StopParser

    def refuse(self, error: ApiError) -> None:
        """Respond with an error and close the connection."""
        self._refuse(problem_response(error, ""))

    def _refuse(self, send_response: ProblemResponse) -> None:
        """Respond without an application, and close. A request in progress is canceled."""
        self._reading.state = "between"
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

        self._task = task = self.loop.create_task(cycle.run_asgi(cast("Any", extended)))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

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
