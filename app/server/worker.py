"""One worker process: uvicorn on the socket that the supervisor opened."""

import argparse
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oriel.app.contract import malformed_request
from oriel.app.server.service import Service
from oriel.storage import add_log_format, data_folder, end_with_parent, set_up_console

#: Seconds for which an idle connection is kept; pollers come back within it.
_KEEP_ALIVE_SECONDS = 60
_FINISH_SECONDS = 5


class ProblemProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, answering bytes that are no request with a problem document."""

    def send_400_response(self, msg: str) -> None:
        """Answer and close; there is no request that an application could be given."""
        status, headers, body = malformed_request(msg)
        head = b"HTTP/1.1 %d Bad Request\r\n" % status
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(head + lines + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def serve(data: Path, index: Path | None, listener: socket.socket) -> None:
    """Answer until SIGTERM, then finish what is under way."""
    config = uvicorn.Config(
        Service(data, index),
        http=ProblemProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        access_log=False,
        server_header=False,
        log_config=None,
        log_level="warning",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_FINISH_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one worker; only the supervisor calls this."""
    parser = argparse.ArgumentParser(prog="python -m oriel.app.server.worker", description=__doc__)
    parser.add_argument("--data", type=data_folder, required=True)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--socket", type=int, required=True)
    add_log_format(parser)
    options = parser.parse_args(arguments)
    set_up_console(options.log_format, text="%(levelname)s worker: %(message)s", process="worker")
    end_with_parent(options.parent_pid)
    serve(options.data, options.index, socket.socket(fileno=options.socket))
    return 0


if __name__ == "__main__":
    sys.exit(main())
