"""How many window reads one API process answers: ``python -m benchmarks.query``.

Makes a Delta table of 1,000 keys x 1,000 windows, lets the real tailer index it, starts the
real API with one worker, and loads it over 8 keep-alive connections from another process. The
same reads through an ordinary FastAPI route with ``Query`` parameters, over the same index in
the same run, are what the raw ASGI reads are compared with.

Prints a table, and JSON in the last line. Figures to aim for: latest >= 15,000 requests/s,
100 windows >= 9,000/s, p99 < 5 ms.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.peer_runs.http_load import Load, measure
from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    AggregateSpec,
    CommitRecord,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.delta import TIMESTAMP, arrow_type, open_table, store_schema, write_file

_STORE = "bench"
_COMMITS = 10
_SLIDE_MS = 1_000
_START_SECONDS = 120.0

_DEFINITION = StoreDefinition(
    name=_STORE,
    topic="events",
    grouped_by="key",
    window=WindowSpec(StoreKind.SLIDING, 10_000, 60_000),
    aggregates=(
        AggregateSpec("count", "count()", "long"),
        AggregateSpec("mean", "avg(value)", "double"),
        AggregateSpec("worst", "max(value)", "double"),
    ),
    key_groups=8,
)


def make_table(data: Path, keys: int, windows: int) -> None:
    """Write the store's table: each commit holds some windows of all keys."""
    path = data / "tables" / _STORE
    schema = store_schema({a.name: arrow_type(a.type) for a in _DEFINITION.aggregates})
    table = open_table(path, schema, {STORE_PROPERTY: _DEFINITION.to_json()}, sync=False)
    for batch, starts in enumerate(np.array_split(np.arange(windows) * _SLIDE_MS, _COMMITS)):
        end = int(starts[-1]) if len(starts) else 0
        offsets = {"events": {"0": 100 * end}}
        record = CommitRecord(batch, offsets, {"events": {"0": end}}, end - 60_000, {"input": end})
        file = write_file(path, _rows(keys, starts, batch, schema), "part", sync=False)
        table.commit([file], "bench", batch, {COMMIT_INFO_KEY: record.to_json()})


def _rows(keys: int, starts: npt.NDArray[np.int64], batch: int, schema: pa.Schema) -> pa.Table:
    start = np.repeat(starts, keys)
    values = np.random.default_rng(batch).normal(10.0, 3.0, len(start))
    times = {
        "window_start": start,
        "window_end": start + 10_000,
        "timestamp": start + 9_000,
    }
    columns = {
        "key": pa.array([_key(i) for i in range(keys)] * len(starts)),
        "count": pa.array(np.full(len(start), 10)),
        "mean": pa.array(values),
        "worst": pa.array(values + 9.5),
        "final": pa.repeat(pa.scalar(value=True), len(start)),
        "deleted": pa.repeat(pa.scalar(value=False), len(start)),
        "revision": pa.repeat(pa.scalar(batch, pa.int64()), len(start)),
        **{name: pa.array(time_ms * 1000).cast(TIMESTAMP) for name, time_ms in times.items()},
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _key(number: int) -> str:
    return f"key-{number:05d}"


@contextmanager
def service(module: Sequence[str], data: Path, port: int) -> Iterator[tuple[str, int]]:
    """Run a service until the block ends; begins when it says that it is ready."""
    command = [sys.executable, "-m", *module, "--data", str(data), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        yield ("127.0.0.1", port)
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own service
                answer.read()
                return
        except (URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def read_paths(windows: int) -> dict[str, list[str]]:
    """The requests of each read, over random keys and ranges (always the same ones)."""
    chooser = random.Random(11)
    keys = [_key(chooser.randrange(1_000)) for _ in range(500)]
    froms = [chooser.randrange(max(1, windows - 100)) * _SLIDE_MS for _ in keys]
    root = f"/v1/stores/{_STORE}"
    return {
        "latest": [f"{root}/latest/{key}" for key in keys],
        "fetch 100 windows": [
            f"{root}/fetch/{key}?from_ms={start}&to_ms={start + 99 * _SLIDE_MS}"
            for key, start in zip(keys, froms, strict=True)
        ],
        "backwardFetch 100 windows": [f"{root}/backwardFetch/{key}?limit=100" for key in keys],
    }


def main() -> int:
    """Run the benchmark and print what it measured."""
    options = _parse()
    data = Path(options.data or tempfile.mkdtemp(prefix="oriel-bench-query-"))
    try:
        results = run(data, options)
    finally:
        if options.data is None:
            shutil.rmtree(data, ignore_errors=True)
    _print(results)
    return 0


def run(data: Path, options: argparse.Namespace) -> dict[str, dict[str, Load]]:
    """Measure each read on both services; alternating, so that both meet the same machine."""
    if not (data / "tables" / _STORE).exists():
        make_table(data, options.keys, options.windows)
    paths = read_paths(options.windows)
    results: dict[str, dict[str, Load]] = {name: {} for name in paths}
    with (
        service(["oriel", "serve"], data, options.port) as ours,
        service(["benchmarks.peer_runs.plain_fastapi"], data, options.port + 1) as plain,
    ):
        for name, requests in paths.items():
            results[name]["oriel"] = measure(ours, requests, options.seconds)
            results[name]["plain FastAPI route"] = measure(plain, requests, options.seconds)
    return results


def _print(results: dict[str, dict[str, Load]]) -> None:
    print(f"{'read':28}{'service':22}{'requests/s':>11}{'p50 ms':>9}{'p99 ms':>9}{'errors':>8}")
    for read, by_service in results.items():
        for name, load in by_service.items():
            print(
                f"{read:28}{name:22}{load.requests_per_second:11,.0f}{load.p50_ms:9.2f}"
                f"{load.p99_ms:9.2f}{load.errors:8}"
            )
    summary = {
        "benchmark": "query",
        "cores": os.cpu_count(),
        "connections": 8,
        "results": {
            read: {name: load._asdict() for name, load in by_service.items()}
            for read, by_service in results.items()
        },
    }
    print(json.dumps(summary))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel bench query", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--windows", type=int, default=1_000, help="windows of each key")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--port", type=int, default=18_480, help="this and the next are used")
    parser.add_argument("--data", help="use (and keep) this data folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
