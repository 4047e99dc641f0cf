"""One worker process: uvicorn on the socket that the supervisor opened."""

import argparse
import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import uvicorn

from oriel.app.guards import Connections
from oriel.app.server.service import Service
from oriel.app.server.settings import ServiceSettings
from oriel.app.telemetry import forget_dead_workers
from oriel.storage import (
    ALL_KEYS,
    DataLayout,
    Shard,
    add_log_format,
    data_folder,
    end_with_parent,
    set_up_console,
)

#: Fields of every answer: a browser must not guess what it is. Pages have more of their own.
_SECURITY_HEADERS = [("x-content-type-options", "nosniff")]
#: A browser that came by TLS once never comes without it.
_TLS_ONLY = ("strict-transport-security", "max-age=31536000")
#: Seconds that answers under way have when the worker ends.
_FINISH_SECONDS = 5


class _Server(uvicorn.Server):
    """uvicorn's server, which ends connections past a deadline, and all waiting when it ends."""

    def __init__(self, config: uvicorn.Config, service: Service, connections: Connections) -> None:
        super().__init__(config)
        self._service = service
        self._connections = connections

    async def main_loop(self) -> None:
        looking = asyncio.create_task(self._connections.look_around(self._service.say_work))
        try:
            await super().main_loop()
        finally:
            looking.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Those who wait are answered at once; the rest has a few seconds.
        self._service.stop_waiting()
        await super().shutdown(sockets)


def serve(layout: DataLayout, listener: socket.socket, settings: ServiceSettings) -> None:
    """Answer until SIGTERM, then finish what is under way."""
    service = Service(layout.root, settings, layout.index_root, layout.shard)
    connections = Connections(settings.limits)
    config = uvicorn.Config(
        service,
        http=cast("Any", connections.protocol()),
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        access_log=False,
        server_header=False,
        headers=_SECURITY_HEADERS if settings.tls_key is None else [*_SECURITY_HEADERS, _TLS_ONLY],
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        log_config=None,
        # Its warnings are about what clients send: strangers could fill the log.
        log_level="error",
        timeout_keep_alive=settings.limits.idle_seconds,
        timeout_graceful_shutdown=_FINISH_SECONDS,
    )
    _Server(config, service, connections).run(sockets=[listener])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one worker; only the supervisor calls this."""
    parser = argparse.ArgumentParser(prog="python -m oriel.app.server.worker", description=__doc__)
    parser.add_argument("--data", type=data_folder, required=True)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--shard", type=Shard.parse, default=ALL_KEYS)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--settings", type=ServiceSettings.from_json, default=ServiceSettings())
    add_log_format(parser)
    options = parser.parse_args(arguments)
    set_up_console(options.log_format, text="%(levelname)s worker: %(message)s", process="worker")
    end_with_parent(options.parent_pid)
    forget_dead_workers()
    layout = DataLayout(options.data, options.index, options.shard)
    serve(layout, socket.socket(fileno=options.socket), options.settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
