"""Measure the reads of one worker of the service: ``./oriel bench query [--windows N ...]``.

Writes a Delta table of N windows with 1,000 windows per key, and lets the tailer index it. Then
another process loads the service with one worker over 8 keep-alive connections. The figures are:

- reads: Requests/s of the newest window and of 100 windows in both orders, for each N. The same
  reads through ordinary FastAPI routes over the same index are the comparison.
- costs: The cost of tokens, limits, metrics and validators, and of the checksums of the index. The
  same worker runs with and without them.
- commit to visible: The time from a commit to a response that contains it.

Comparisons run in turns, so that the load of the machine is the same for all. For rates and
latencies, the turn with the most requests/s counts, because it was disturbed least. For the
processor time per request, the median of all turns counts, because it is the most stable figure on
a busy machine. Prints tables, and JSON in the last line. Tables and indexes are in a directory that
is deleted at the end, with 350 bytes per window.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.peer_runs.http_load import Load, measure
from benchmarks.query_runs.services import Running, service
from benchmarks.query_runs.tables import SLIDE_MS, STORE, BenchTable, key_name, make_table
from benchmarks.query_runs.visibility import Visibility, commit_to_visible

_WINDOWS_OF_A_KEY = 1_000
#: Requests of one read, over random keys and times. Each benchmark sends the same requests.
_REQUESTS = 5_000

#: The default of ``--windows``. Costs are measured at this size if it is one of the sizes.
_USUAL_WINDOWS = 1_000_000


class _Target(NamedTuple):
    """A service to load, its number of keys, and a header field of its requests."""

    service: Running
    keys: int
    field: str | None = None


def main() -> int:
    """Run the benchmark and print what it measured."""
    options = _parse()
    with tempfile.TemporaryDirectory(prefix="oriel-bench-query-", dir=options.folder) as directory:
        results = _run(Path(directory), options)
    print(json.dumps({"benchmark": "query", "cores": os.cpu_count(), "connections": 8, **results}))
    return 0


def _run(directory: Path, options: argparse.Namespace) -> dict[str, object]:
    sizes = sorted(options.windows)
    usual = _USUAL_WINDOWS if _USUAL_WINDOWS in sizes else sizes[0]
    targets: dict[str, _Target] = {}
    with ExitStack() as running:
        for number, windows in enumerate(sizes):
            _say(f"making and indexing {windows:,} windows")
            data, keys = directory / str(windows), max(1, windows // _WINDOWS_OF_A_KEY)
            make_table(data, keys, min(windows, _WINDOWS_OF_A_KEY))
            oriel = service(["oriel", "serve"], data, options.port + number)
            targets[f"{windows:,} windows"] = _Target(running.enter_context(oriel), keys)
        data, own = directory / str(usual), targets[f"{usual:,} windows"]
        plain = service(["benchmarks.query_runs.plain_fastapi"], data, options.port + len(sizes))
        with plain as peer:
            name = f"{usual:,}, plain FastAPI"
            loads = _loads({**targets, name: own._replace(service=peer)}, options)
        costs = _costs(data, own.keys, options)
        _say("committing")
        visible = commit_to_visible(own.service.address, BenchTable(data), options.commits)
    _print_visibility(visible)
    return {
        "reads": _as_data(loads),
        "costs": _as_data(costs),
        "commit_to_visible": {name: one._asdict() for name, one in visible.items()},
    }


def _costs(data: Path, keys: int, options: argparse.Namespace) -> "_Loads":
    """Load the same worker with all parts, and without some parts."""
    tokens = data / "tokens.toml"
    command = [sys.executable, "-m", "oriel", "token", "bench", "--file", str(tokens)]
    token = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    field = f"Authorization: Bearer {token}"
    parts = {
        "all on": ["--tokens", str(tokens)],
        "no tokens": [],
        "no guards, metrics": ["--without", "guards"],
        "nor validators": ["--without", "guards", "--without", "validators"],
        "no checksums": ["--tokens", str(tokens), "--without", "checksums"],
    }
    with ExitStack() as running:
        targets = {}
        for number, (name, left_out) in enumerate(parts.items()):
            port = options.port + 20 + number
            module = ["benchmarks.query_runs.worker"]
            worker = service(module, data, port, *left_out, token=token)
            targets[name] = _Target(running.enter_context(worker), keys, field)
        return _loads(targets, options)


class _Turn(NamedTuple):
    """One measurement, and the processor time of the worker per request."""

    load: Load
    processor_us: float


#: Read -> target -> turns.
_Loads = dict[str, dict[str, list[_Turn]]]


def _loads(targets: Mapping[str, _Target], options: argparse.Namespace) -> _Loads:
    """Load all targets in turns, and print the results."""
    loads: _Loads = {read: {name: [] for name in targets} for read in _requests(1)}
    for turn in range(options.turns):
        _say(f"turn {turn + 1} of {options.turns}")
        for name, target in targets.items():
            for read, requests in _requests(target.keys).items():
                loads[read][name].append(_measured(target, requests, options.seconds))
    print(f"{'':56}requests/s   p50 ms   p99 ms  errors  processor us")
    for read, by_target in _as_data(loads).items():
        for name, figures in by_target.items():
            print(
                f"{read:28}{name:28}{figures['requests_per_second']:10,.0f}{figures['p50_ms']:9.2f}"
                f"{figures['p99_ms']:9.2f}{figures['errors']:8}{figures['processor_us']:14.1f}"
            )
    print(flush=True)
    return loads


def _measured(target: _Target, requests: list[str], seconds: float) -> _Turn:
    before = target.service.processor_seconds()
    load = measure(target.service.address, requests, seconds, field=target.field)
    after = target.service.processor_seconds()
    # The worker is the process with the most processor time.
    taken_s = max(after[pid] - before.get(pid, 0.0) for pid in after)
    return _Turn(load, 1e6 * taken_s / load.requests)


def _requests(keys: int) -> dict[str, list[str]]:
    """Return the paths of each read, over random keys and ranges. They are always the same."""
    chooser = random.Random(11)
    names = [key_name(chooser.randrange(keys)) for _ in range(_REQUESTS)]
    starts_ms = [chooser.randrange(_WINDOWS_OF_A_KEY - 100) * SLIDE_MS for _ in names]
    root = f"/v1/stores/{STORE}"
    return {
        "latest": [f"{root}/latest/{name}" for name in names],
        "fetch 100 windows": [
            f"{root}/fetch/{name}?from_ms={start_ms}&to_ms={start_ms + 99 * SLIDE_MS}"
            for name, start_ms in zip(names, starts_ms, strict=True)
        ],
        "backwardFetch 100 windows": [f"{root}/backwardFetch/{name}?limit=100" for name in names],
    }


def _as_data(loads: _Loads) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of each read and target: of the best turn, and of all turns."""
    return {
        read: {
            name: {
                **max(turn.load for turn in turns)._asdict(),
                "errors": sum(turn.load.errors for turn in turns),
                "processor_us": statistics.median(turn.processor_us for turn in turns),
            }
            for name, turns in by_target.items()
        }
        for read, by_target in loads.items()
    }


def _print_visibility(visible: Mapping[str, Visibility]) -> None:
    print(f"{'commit to visible':28}{'p50 ms':>9}{'p99 ms':>9}")
    for name, one in visible.items():
        print(f"{name:28}{one.p50_ms:9.1f}{one.p99_ms:9.1f}")
    print(flush=True)


def _say(what: str) -> None:
    print(f"bench query: {what}", file=sys.stderr, flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oriel bench query", description=__doc__)
    parser.add_argument(
        "--windows", type=int, nargs="+", default=[_USUAL_WINDOWS], metavar="N",
        help="windows of a store, 1,000 per key. Several sizes run in turns",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per measurement")
    parser.add_argument("--turns", type=int, default=5, help="measurements per read")
    parser.add_argument("--commits", type=int, default=200, help="commits to wait for")
    parser.add_argument("--port", type=int, default=18_480, help="first of 31 ports")
    parser.add_argument("--folder", help="directory of the tables. Default: a temporary one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
