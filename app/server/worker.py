"""One worker process: uvicorn on the socket that the supervisor opened."""

import argparse
import asyncio
import errno
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from oriel.app.guards import Connections, protocol_of
from oriel.app.server.certificates import ServedCertificate
from oriel.app.server.service import Service
from oriel.app.server.settings import ServiceSettings
from oriel.app.server.supervisor import ADDRESS_IN_USE
from oriel.app.telemetry import forget_dead_workers
from oriel.storage import (
    ALL_KEYS,
    DataLayout,
    Shard,
    add_log_format,
    end_with_parent,
    parse_data_directory,
    set_up_console,
)

#: Header fields of every response: a browser must not guess the type. Pages add more fields.
_SECURITY_HEADERS = [("x-content-type-options", "nosniff")]
#: After one connection with TLS, a browser never connects without TLS.
_TLS_ONLY = ("strict-transport-security", "max-age=31536000")
#: Seconds for responses in progress when the worker ends.
_FINISH_SECONDS = 5
#: Seconds in which a client can confirm the end of a TLS connection. Few clients confirm it.
_TLS_END_SECONDS = 1
#: Connections that wait while a worker is started again.
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """uvicorn's server with deadlines for connections. At its end, all waits end."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        connections: Connections,
        certificate: ServedCertificate | None,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._connections = connections
        self._certificate = certificate
        self.exit_code = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen after the startup of the application, as uvicorn does.

        In addition, the TLS context can change, and the end of a TLS connection has a time limit.
        """
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        make = partial(
            cast("Any", self.config.http_protocol_class), config=self.config,
            server_state=self.server_state, app_state=self.lifespan.state,
        )  # fmt: skip
        tls = self._certificate
        more: dict[str, Any] = {} if tls is None else {
            "ssl": tls.context, "ssl_shutdown_timeout": _TLS_END_SECONDS
        }  # fmt: skip
        loop = asyncio.get_running_loop()
        self.servers = []
        for listener in sockets or ():
            try:
                # uvloop also listens, but raises another error.
                listener.listen(_BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                # Another service was starting with the same address, and listened first.
                self.exit_code, self.should_exit = ADDRESS_IN_USE, True
                await self.lifespan.shutdown()
                return
            server = await loop.create_server(make, sock=listener, backlog=_BACKLOG, **more)
            self.servers.append(cast("Any", server))
        self.started = True

    async def main_loop(self) -> None:
        deadline_checks = self._connections.close_late_connections(self._each_second)
        self._looking = asyncio.create_task(deadline_checks)
        await super().main_loop()

    def _each_second(self, connections: int) -> None:
        self._service.set_work_metrics(connections)
        self._service.follow_tokens()
        if self._certificate is not None:
            self._certificate.follow()
        if self._connections.is_ending:
            # uvicorn closed the other idle connections, but not the ones in a TLS handshake.
            for connection in list(self._connections.idle):
                connection.transport.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._connections.is_ending = True
        # Requests that wait get a response at once. The others have a few seconds.
        self._service.stop_waiting()
        await super().shutdown(sockets)
        self._looking.cancel()


def serve(
    layout: DataLayout,
    listener: socket.socket,
    settings: ServiceSettings,
    certificate: ServedCertificate | None = None,
) -> int:
    """Serve until SIGTERM, finish the requests in progress, and return the exit code."""
    service = Service(layout.root, settings, layout.index_root, layout.shard)
    connections = Connections(settings.limits)
    config = uvicorn.Config(
        service,
        http=cast("Any", protocol_of(connections)),
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        access_log=False,
        server_header=False,
        headers=[*_SECURITY_HEADERS, _TLS_ONLY] if settings.is_tls else _SECURITY_HEADERS,
        log_config=None,
        # Its warnings are about the bytes that clients send, so any client could fill the log.
        log_level="error",
        timeout_keep_alive=settings.limits.idle_seconds,
        timeout_graceful_shutdown=_FINISH_SECONDS,
    )
    server = _Server(config, service, connections, certificate)
    server.run(sockets=[listener])
    return server.exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one worker. Only the supervisor calls this."""
    parser = argparse.ArgumentParser(prog="python -m oriel.app.server.worker", description=__doc__)
    parser.add_argument("--data", type=parse_data_directory, required=True)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--shard", type=Shard.parse, default=ALL_KEYS)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--certificate", type=int)
    parser.add_argument("--settings", type=ServiceSettings.from_json, default=ServiceSettings())
    add_log_format(parser)
    options = parser.parse_args(arguments)
    set_up_console(options.log_format, text="%(levelname)s worker: %(message)s", process="worker")
    # The supervisor reloads the certificate. `systemctl kill` also sends the signal to workers.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_with_parent(options.parent_pid)
    forget_dead_workers()
    layout = DataLayout(options.data, options.index, options.shard)
    certificate = None if options.certificate is None else ServedCertificate(options.certificate)
    listener = socket.socket(fileno=options.socket)
    return serve(layout, listener, options.settings, certificate)


if __name__ == "__main__":
    sys.exit(main())
