"""Serve the stores of a data folder over HTTP."""

import argparse
import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from oriel.app.server.supervisor import Supervisor
from oriel.storage import (
    DataLayout,
    ObjectStoreFailed,
    add_log_format,
    current_files,
    data_folder,
    is_object,
    say,
    set_up_console,
    uri,
)

#: Connections that wait while a worker is started again.
_BACKLOG = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; exit code 1 where folder or address can't be used."""
    options = _parse(arguments)
    set_up_console(
        options.log_format, level=logging.INFO, text="%(levelname)s api: %(message)s", process="api"
    )
    place = options.index or options.data
    if is_object(place):
        line = f"{uri(place)} has no index: name a folder of this machine with --index"
        say("error", line, level="error")
        return 1
    try:
        current_files().reach(options.data)
        # The pipeline may be started later.
        current_files().make_folder(options.data, sync=False)
    except ObjectStoreFailed as error:
        say("error", str(error), level="error")
        return 1
    except OSError as error:
        line = f"can't use {options.data} as the data folder: {error.strerror}"
        say("error", line, level="error")
        return 1
    try:
        # The listening socket that all workers share; port 0 takes a free one.
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        address = (options.host, options.port)
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        line = f"can't listen on {options.host}:{options.port}: {error.strerror}"
        say("error", line, level="error")
        return 1
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(
        f"Oriel serves {uri(options.data)} at http://{host}:{listener.getsockname()[1]}", flush=True
    )
    layout = DataLayout(options.data, options.index)
    return Supervisor(layout, listener, options.workers, options.log_format).run()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel serve", description=__doc__)
    parser.add_argument("--data", type=data_folder, required=True, help="the data folder")
    parser.add_argument(
        "--index", type=Path, help="where the indexes are, on this machine (default: DATA/index)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=_within(0, 65_535), default=8080, help="port to listen on; 0: a free one"
    )
    parser.add_argument("--workers", type=_within(1, 256), default=1, help="processes that answer")
    add_log_format(parser)
    return parser.parse_args(arguments)


def _within(low: int, high: int) -> Callable[[str], int]:
    """Make a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        message = f"must be an integer from {low} to {high}"
        raise argparse.ArgumentTypeError(message)

    return read
