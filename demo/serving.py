"""The real service of a data directory, for tests and benchmarks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from oriel.demo.processes import free_port, running
from oriel.demo.service import Service


@contextmanager
def serving(data: Path) -> Iterator[httpx.Client]:
    """Yield a client of a ready service of ``data``."""
    port = free_port()
    with (
        running("api", ["serve", "--data", str(data), "--port", str(port)], data) as child,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        Service(str(client.base_url), child.require_running).wait_ready(60)
        yield client
