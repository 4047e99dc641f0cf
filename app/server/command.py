"""Serve the stores of a data folder over HTTP."""

import argparse
import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from oriel.app.server.supervisor import Supervisor


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s api: %(message)s")
    try:
        # The pipeline may be started later.
        options.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"can't use {options.data} as the data folder: {error.strerror}", file=sys.stderr)
        return 1
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        print(f"can't listen on {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"Oriel serves {options.data} at http://{host}:{listener.getsockname()[1]}", flush=True)
    return Supervisor(options.data, listener, options.workers).run()


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket that all workers share; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel serve", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=_port, default=8080, help="port to listen on; 0: a free one")
    parser.add_argument("--workers", type=_workers, default=1, help="processes that answer")
    return parser.parse_args(arguments)


def _port(text: str) -> int:
    return _within(text, 0, 65_535)


def _workers(text: str) -> int:
    return _within(text, 1, 256)


def _within(text: str, low: int, high: int) -> int:
    if text.isascii() and text.isdigit() and low <= int(text) <= high:
        return int(text)
    message = f"must be an integer from {low} to {high}"
    raise argparse.ArgumentTypeError(message)
