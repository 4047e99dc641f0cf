"""Measure a rolling restart for clients: ``./oriel bench restart [--rate 100] [--runs 3]``.

Starts two shards with two replicas each and nginx with TLS, configured as in
docs/how-to/routing.md. Clients send 100 requests per second for keys of the first shard, each over
a new connection. A request counts from the time when it is due, so a late client does not hide a
slow service. In the meantime, both replicas of the shard restart, one after the other. Every second
request is a POST.

Prints a table, and JSON in the last line. The exit code is 1 if a request fails or if the p99 of a
run is above 200 ms.
"""

import argparse
import http.client
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

import orjson

from oriel.storage import Shard
from tests.system.operations.routers import LIST_OF_KEYS, Router, running_router

LIMIT_MS = 200.0
_SHARDS = 2
_KEYS = 80
#: More than the concurrent requests, because a request must not wait for a client.
_CLIENTS = 16


@dataclass
class Run:
    """The requests of one rolling restart, in milliseconds, and the machine's load averages."""

    seconds: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    longest_ms: float = 0.0
    requests: int = 0
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    failed: list[str] = field(default_factory=list)


def restarted(router: Router, keys: Sequence[str], rate: float) -> Run:
    """Restart both replicas of the first shard while clients send requests at the rate."""
    is_over, numbers, run = threading.Event(), count(), Run()
    times_ms: list[float] = []
    began = time.perf_counter()

    def send() -> None:
        while True:
            number = next(numbers)
            due = began + number / rate
            if is_over.wait(max(0.0, due - time.perf_counter())):
                return
            key = keys[number % len(keys)]
            try:
                read = router.ask(LIST_OF_KEYS, [key]) if number % 2 else router.latest(key)
                if read[0] != http.client.OK:
                    run.failed.append(f"{key}: {read}")
            except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
                run.failed.append(f"{key}: {error!r}")
            times_ms.append((time.perf_counter() - due) * 1000)

    with ThreadPoolExecutor(_CLIENTS) as pool:
        clients = [pool.submit(send) for _ in range(_CLIENTS)]
        try:
            for place in [place for place in router.services if place[0] == 1]:
                router.restart(*place)
        finally:
            is_over.set()
        for client in clients:
            client.result()
    run.seconds = round(time.perf_counter() - began, 1)
    percents = statistics.quantiles(times_ms, n=100, method="inclusive")
    run.p50_ms, run.p99_ms = round(percents[49], 1), round(percents[98], 1)
    run.longest_ms, run.requests = round(max(times_ms), 1), len(times_ms)
    run.load = os.getloadavg()
    return run


def exceeded(number: int, run: Run) -> list[str]:
    """Return a line for each figure of a run that is not within its limit."""
    lines = [f"run {number}: {failure}" for failure in run.failed]
    if run.p99_ms > LIMIT_MS:
        lines.append(
            f"run {number}: the p99 is {run.p99_ms:.0f} ms, the limit is {LIMIT_MS:.0f} ms"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Restart the services, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(prog="oriel bench restart", description=__doc__)
    parser.add_argument(
        "--rate", type=float, default=100.0, help="requests per second. Default: 100"
    )
    parser.add_argument("--runs", type=int, default=3, help="rolling restarts. Default: 3")
    options = parser.parse_args(arguments)
    if shutil.which("nginx") is None:
        print("nginx not found (Debian: apt-get install nginx-light)", file=sys.stderr)
        return 2
    keys = [f"key-{number}" for number in range(_KEYS)]
    own = [key for key in keys if Shard(1, _SHARDS).owner(key) == 1]
    runs: list[Run] = []
    print(
        f"{'run':>4}{'seconds':>9}{'requests':>10}{'failed':>8}{'p50 ms':>9}{'p99 ms':>9}", end=""
    )
    print(f"{'longest ms':>12}{'load':>7}")
    with (
        tempfile.TemporaryDirectory(prefix="oriel-bench-restart-") as directory,
        running_router(Path(directory), keys, is_tls=True) as router,
    ):
        for number in range(1, options.runs + 1):
            run = restarted(router, own, options.rate)
            runs.append(run)
            print(
                f"{number:4}{run.seconds:9.1f}{run.requests:10}{len(run.failed):8}{run.p50_ms:9.1f}"
                f"{run.p99_ms:9.1f}{run.longest_ms:12.1f}{run.load[0]:7.1f}",
                flush=True,
            )
    problems = [problem for number, run in enumerate(runs, 1) for problem in exceeded(number, run)]
    for problem in problems:
        print(problem)
    print(json.dumps({
        "benchmark": "restart", "cores": os.cpu_count(), "rate": options.rate,
        "runs": [asdict(run) for run in runs],
    }))  # fmt: skip
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
