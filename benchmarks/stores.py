"""Measure many stores in one data directory: ``oriel bench stores --stores 1000``.

Writes that many tables with one commit each, starts ``oriel serve`` and waits until all stores are
ready. Then the service is idle for some time, and each store receives one request.

The figures are the seconds until all stores are ready, and the ms of the first read of a store. For
the idle service, they are processor time, memory (all processes, and their unshared memory),
threads and descriptors.

Progress is written to stderr. stdout has a table, and JSON in the last line.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError

import psutil  # type: ignore[import-untyped]

from benchmarks.query_runs.tables import key_name, make_table

_READY_SECONDS = 600.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="oriel bench stores", description=__doc__)
    parser.add_argument(
        "--stores", type=int, default=1_000, help="number of stores. Default: 1,000"
    )
    parser.add_argument("--idle-s", type=float, default=30.0, help="seconds without requests")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oriel-bench-") as directory:
        figures = measure(Path(directory), options.stores, options.idle_s)
    for name, value in figures.items():
        print(f"{name:<24} {value:>12,}")
    print(json.dumps(figures))


def measure(data: Path, stores: int, idle_seconds: float) -> dict[str, Any]:
    """Create the stores, serve them, and return the figures of the service by name."""
    _say(f"writing {stores:,} tables")
    make_tables(data, stores)
    port = _free_port()
    root = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "oriel", "serve", "--data", str(data), "--port", str(port)]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        ready = _wait(lambda: _get(f"{root}/readyz"), stores, began)
        service = psutil.Process(process.pid)
        _say("idle")
        idle = _idle(service, idle_seconds)
        began = time.perf_counter()
        for number in range(stores):
            _get(f"{root}/v1/stores/{_name(number)}/latest/{key_name(0)}")
        reads_s = time.perf_counter() - began
        after = _memory(service)
    finally:
        process.terminate()
        process.wait()
    return {
        "stores": stores,
        "all_ready_s": round(ready, 1),
        **idle,
        "first_read_ms": round(1_000 * reads_s / stores, 2),
        "mb_after_reads": after,
    }


def make_tables(data: Path, stores: int) -> None:
    """Write tables with two keys of two windows each. They differ only in their names."""
    make_table(data, 2, 2)
    (made,) = (data / "tables").iterdir()
    for number in range(stores):
        table = data / "tables" / _name(number)
        shutil.copytree(made, table)
        for entry in (table / "_delta_log").glob("*.json"):
            entry.write_text(entry.read_text().replace(made.name, table.name))
    shutil.rmtree(made)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _name(number: int) -> str:
    return f"store-{number:05d}"


def _wait(get: Any, stores: int, began: float) -> float:
    while True:
        try:
            response = json.loads(get())
            if response["ready"] and len(response["stores"]) == stores:
                return time.perf_counter() - began
        except (URLError, OSError):
            if time.perf_counter() - began > _READY_SECONDS:
                raise
        time.sleep(0.2)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:  # noqa: S310 - our own service
        content: bytes = response.read()
        return content


def _idle(service: psutil.Process, seconds: float) -> dict[str, Any]:
    processes = [service, *service.children(recursive=True)]
    before = sum(sum(one.cpu_times()[:2]) for one in processes)
    time.sleep(seconds)
    used = sum(sum(one.cpu_times()[:2]) for one in processes) - before
    return {
        "idle_core_percent": round(100 * used / seconds, 1),
        "mb": _memory(service),
        "threads": sum(one.num_threads() for one in processes),
        "descriptors": sum(one.num_fds() for one in processes),
    }


def _memory(service: psutil.Process) -> int:
    """Return the MB of all processes together. A page that they share counts once."""
    processes = [service, *service.children(recursive=True)]
    return int(sum(one.memory_full_info().pss for one in processes) / 1e6)


def _say(text: str) -> None:
    print(f"stores: {text} (process {os.getpid()})", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
