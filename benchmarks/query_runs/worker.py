"""Run one worker over an existing index, without some parts of the service.

    python -m benchmarks.query_runs.worker --data DATA --port PORT [--tokens FILE] [--without PART]

The cost of a part is the difference to the worker with this part. Only this module replaces the
parts, and the service itself has no such switch.
"""

import argparse
import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from oriel.app.server import Service
from oriel.storage import DataLayout

# Private modules of packages, because only they contain the parts to replace.
hot_reads, worker, pages = map(
    import_module,
    ("oriel.app.reads.hot_reads", "oriel.app.server.worker", "oriel.storage.index.reading.pages"),
)


class _Unguarded(Service):
    """The service without host checks, tokens, connection limits, metrics and access log."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _NoHash:
    """Replaces xxhash: all responses have the same tag."""

    @staticmethod
    def xxh3_128_hexdigest(_content: bytes, _seed: int) -> str:
        return "0" * 32


def _leave_out_guards() -> None:
    vars(worker)["Service"] = _Unguarded


def _leave_out_validators() -> None:
    vars(hot_reads)["xxhash"] = _NoHash


def _leave_out_checksums() -> None:
    vars(pages)["check"] = lambda _records: None


_PARTS: Mapping[str, Callable[[], None]] = {
    "guards": _leave_out_guards,
    "validators": _leave_out_validators,
    "checksums": _leave_out_checksums,
}


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tokens")
    parser.add_argument("--without", choices=_PARTS, action="append", default=[])
    options = parser.parse_args()
    for part in options.without:
        _PARTS[part]()
    listener = socket.create_server(("127.0.0.1", options.port), backlog=2_048)
    settings = worker.ServiceSettings(tokens=options.tokens)
    worker.serve(DataLayout(options.data), listener, settings)


if __name__ == "__main__":
    main()
