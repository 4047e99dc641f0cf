"""Measure how soon HTTP clients see a commit, if they poll and if they wait for it."""

import http.client
import random
import statistics
import time
from typing import NamedTuple

import numpy as np

from benchmarks.query_runs.services import Address
from benchmarks.query_runs.tables import SLIDE_MS, STORE, BenchTable, key_name

_KEY = 0
_WAIT_MS = 10_000
#: Later than all windows that already exist.
_AFTER_ALL_MS = 10**9


class Visibility(NamedTuple):
    """Milliseconds from the end of a commit to the end of the first response that contains it."""

    p50_ms: float
    p99_ms: float


def commit_to_visible(address: Address, table: BenchTable, commits: int) -> dict[str, Visibility]:
    """Commit a window of one key repeatedly, at irregular times, to a store that is served."""
    connection = http.client.HTTPConnection(*address)
    chance = random.Random(5)
    measured = {}
    for name, see in {"asked each ms": _ask_again, "waited for": _wait_for}.items():
        times_ms = []
        for _ in range(commits):
            time.sleep(chance.uniform(0.05, 0.15))
            start_ms = _AFTER_ALL_MS + table.next_batch * SLIDE_MS
            version = table.commit(np.array([_KEY]), np.array([start_ms]))
            committed_at = time.perf_counter()
            see(connection, version)
            times_ms.append((time.perf_counter() - committed_at) * 1000)
        cuts = statistics.quantiles(times_ms, n=100)
        measured[name] = Visibility(cuts[49], cuts[98])
    connection.close()
    return measured


def _ask_again(connection: http.client.HTTPConnection, version: int) -> None:
    while _version(connection, "") < version:
        time.sleep(0.001)


def _wait_for(connection: http.client.HTTPConnection, version: int) -> None:
    seen = _version(connection, f"?min_version={version}&wait_ms={_WAIT_MS}")
    assert seen >= version, f"version {version} was not visible within {_WAIT_MS} ms"


def _version(connection: http.client.HTTPConnection, query: str) -> int:
    connection.request("GET", f"/v1/stores/{STORE}/latest/{key_name(_KEY)}{query}")
    response = connection.getresponse()
    response.read()
    return int(response.getheader("Oriel-Version", "-1"))
