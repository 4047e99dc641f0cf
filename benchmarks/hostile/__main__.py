"""Measure what hostile clients cost other clients: ``./oriel bench hostile [--clients N ...]``.

Runs ``oriel serve`` with one worker and default limits. For each attack, hostile clients open their
connections again as soon as the service closes them. Meanwhile, two connections of another process
read the newest windows of random keys, one connection reads ``/healthz``, and a client sends one
request per second for a long response. The limits are:

- latency: The p99 is 100 ms for the reads and 1 s for ``/healthz``, without an error.
- long responses: At least one succeeds.
- memory: The worker grows by at most 512 MB. This includes 256 MB for unsent responses, 64 MB for
  bodies, and 64 MB for changes of stores. The rest is for up to 1,000 connections.

Prints a table, and JSON in the last line. The exit code is 1 if a figure is above its limit.
"""

import argparse
import http.client
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]

from benchmarks.hostile.attacks import LONG_WINDOWS, ROOT, Attack, attacks, under
from benchmarks.peer_runs.http_load import measure
from benchmarks.query_runs.services import Running, service
from benchmarks.query_runs.tables import SLIDE_MS, BenchTable, key_name

#: The greatest figures, by their names in the JSON.
_LIMITS = {"p99_ms": 100.0, "health_p99_ms": 1_000.0, "errors": 0, "grown_mb": 512}
#: Seconds between two requests for a long response, and between two looks at the memory.
_LONG_SECONDS, _LOOK_SECONDS = 1.0, 0.1


class _Observer:
    """Requests long responses and finds the worker's largest memory, until it is stopped."""

    def __init__(self, running: Running) -> None:
        self._address = running.address
        children = psutil.Process(running.pid).children(recursive=True)
        (self._worker,) = (one for one in children if "oriel.app.server.worker" in one.cmdline())
        self._is_over = threading.Event()
        self.first_mb = self.most_mb = self._megabytes()
        self.long_responses = 0

    def _megabytes(self) -> int:
        return int(self._worker.memory_info().rss // 1024**2)

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self.most_mb = max(self.most_mb, self._megabytes())

    def _read(self) -> None:
        target = f"{ROOT}/fetch/{key_name(0)}?limit={LONG_WINDOWS}"
        while not self._is_over.wait(_LONG_SECONDS):
            client = http.client.HTTPConnection(*self._address)
            try:
                client.request("GET", target)
                response = client.getresponse()
                self.long_responses += len(response.read()) > 0 and response.status == 200
            except (OSError, http.client.HTTPException) as error:
                print(f"a long response: {error!r}", file=sys.stderr)
            finally:
                client.close()

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Observe until the block ends."""
        with ThreadPoolExecutor(2) as threads:
            tasks = [threads.submit(self._look), threads.submit(self._read)]
            try:
                yield
            finally:
                self._is_over.set()
            for task in tasks:
                task.result()


def _measured(attack: Attack, running: Running, keys: int, seconds: float) -> dict[str, Any]:
    reads = [f"{ROOT}/latest/{key_name(number)}" for number in range(keys)]
    observer = _Observer(running)
    with (
        under(attack, running.address),
        observer.observing(),
        ThreadPoolExecutor(1) as threads,
    ):
        health = threads.submit(measure, running.address, ["/healthz"], seconds, 1)
        load = measure(running.address, reads, seconds, 2)
        healthy = health.result()
    return {
        "clients": attack.clients,
        "p50_ms": load.p50_ms,
        "p99_ms": load.p99_ms,
        "errors": load.errors + healthy.errors,
        "health_p50_ms": healthy.p50_ms,
        "health_p99_ms": healthy.p99_ms,
        "long_responses": observer.long_responses,
        "grown_mb": observer.most_mb - observer.first_mb,
    }


def _make_table(data: Path, keys: int, versions: int) -> None:
    """Commit long responses for the first key, and versions with a window of each key."""
    table = BenchTable(data)
    starts_ms = np.arange(LONG_WINDOWS, dtype=np.int64) * SLIDE_MS
    table.commit(np.zeros(LONG_WINDOWS, np.int64), starts_ms)
    for version in range(versions):
        later_ms = np.full(keys, (LONG_WINDOWS + version) * SLIDE_MS)
        table.commit(np.arange(keys), later_ms)


def _run(data: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    _make_table(data, options.keys, options.versions)
    found: dict[str, dict[str, Any]] = {}
    print(f"{'':26}{'clients':>8}{'p50 ms':>9}{'p99 ms':>9}{'errors':>8}", end="")
    print(f"{'health p50':>12}{'health p99':>12}{'long':>6}{'grown MB':>10}")
    for name, attack in attacks(options.clients, options.keys, options.versions).items():
        if options.attack and name not in options.attack:
            continue
        with service(["oriel", "serve"], data, options.port) as running:
            one = found[name] = _measured(attack, running, options.keys, options.seconds)
        print(
            f"{name:26}{one['clients']:8}{one['p50_ms']:9.1f}{one['p99_ms']:9.1f}"
            f"{one['errors']:8}{one['health_p50_ms']:12.1f}{one['health_p99_ms']:12.1f}"
            f"{one['long_responses']:6}{one['grown_mb']:10}",
            flush=True,
        )
    return found


def exceeded(name: str, figures: dict[str, Any]) -> list[str]:
    """Return a line for each figure that is not within its limit."""
    lines = [
        f"{name}: {figure} is {figures[figure]:.0f}, the limit is {limit:.0f}"
        for figure, limit in _LIMITS.items()
        if figures[figure] > limit
    ]
    if not figures["long_responses"]:
        lines.append(f"{name}: no long response")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attacks, print a table and one line of JSON."""
    parser = argparse.ArgumentParser(prog="oriel bench hostile", description=__doc__)
    parser.add_argument("--clients", type=int, help="at most this many hostile clients")
    parser.add_argument("--keys", type=int, default=1_000, help="keys per stream. Default: 1,000")
    parser.add_argument(
        "--versions", type=int, default=100, help="versions to catch up. Default: 100"
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds per attack. Default: 10"
    )
    parser.add_argument("--attack", action="append", help="only this attack. Can be repeated")
    parser.add_argument("--port", type=int, default=18_580)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oriel-bench-hostile-") as directory:
        found = _run(Path(directory), options)
    problems = [problem for name, one in found.items() for problem in exceeded(name, one)]
    for problem in problems:
        print(problem)
    print(json.dumps({"benchmark": "hostile", "cores": os.cpu_count(), "attacks": found}))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
