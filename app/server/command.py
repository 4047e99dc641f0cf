"""Serve the stores of a data folder over HTTP."""

import argparse
import logging
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from oriel.app.contract import LIMIT_FIELDS, Limits
from oriel.app.guards import is_loopback
from oriel.app.server.settings import ServiceSettings
from oriel.app.server.supervisor import Supervisor
from oriel.storage import add_log_format, say, set_up_console

#: Connections that wait while a worker is started again.
_BACKLOG = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; exit code 1 where folder or address can't be used."""
    options = _parse(arguments)
    set_up_console(
        options.log_format, level=logging.INFO, text="%(levelname)s api: %(message)s", process="api"
    )
    try:
        # The pipeline may be started later.
        options.data.mkdir(parents=True, exist_ok=True)
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
    print(f"Oriel serves {options.data} at http://{host}:{listener.getsockname()[1]}", flush=True)
    settings = _settings(options)
    return Supervisor(
        options.data,
        listener,
        options.workers,
        options.log_format,
        options.stale_after,
        [f"--settings={settings.to_json()}"],
    ).run()


def _settings(options: argparse.Namespace) -> ServiceSettings:
    """What the workers are told of the options."""
    limits = {one.name: getattr(options, f"limit_{one.name}") for one in LIMIT_FIELDS}
    return ServiceSettings(Limits(**limits), tuple(options.allowed_host))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel serve", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=_within(0, 65_535), default=8080, help="port to listen on; 0: a free one"
    )
    parser.add_argument("--workers", type=_within(1, 256), default=1, help="processes that answer")
    parser.add_argument(
        "--stale-after", type=_within(1, 86_400), metavar="SECONDS",
        help="seconds that an index may be behind its table before /readyz says no (default 60)",
    )  # fmt: skip
    add_log_format(parser)
    parser.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME",
        help="a name that requests may give in their Host field, beside addresses and localhost; "
        "'*.NAME': all below it; '*': any; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--insecure", action="store_true",
        help="listen on an address that others reach though nobody has to show a token",
    )  # fmt: skip
    for limit in LIMIT_FIELDS:
        parser.add_argument(
            f"--limit-{limit.name.replace('_', '-')}", type=_within(1, 2**31), metavar="N",
            default=limit.default, help=f"{limit.meaning} (default {limit.default})",
        )  # fmt: skip
    options = parser.parse_args(arguments)
    if not is_loopback(options.host) and not options.insecure:
        parser.error(
            f"others reach {options.host}, and nobody has to show a token: give --insecure if a "
            "proxy or the network keeps strangers out, or listen on 127.0.0.1"
        )
    return options


def _within(low: int, high: int) -> Callable[[str], int]:
    """Make a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        message = f"must be an integer from {low} to {high}"
        raise argparse.ArgumentTypeError(message)

    return read
