"""Count and time the requests of all workers of a service, for Prometheus.

Each worker writes its numbers into files of one directory. At a scrape, prometheus_client adds the
files of all workers, also of workers that have ended. Operations and stores are labels. Keys are
not, and at most ``STORES_MAX`` stores are, because a label uses memory until the service ends.
"""

import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from oriel.app.contract import OPERATIONS

#: Stores with their own labels. All other stores have the label ``other``.
STORES_MAX = 200

#: The variable with which prometheus_client finds the directory.
_DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_DIRECTORY_PREFIX = "oriel-metrics-"

_BUCKETS_SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
)  # fmt: skip

#: Operations by the part of their path after the store, and other operations by their whole path.
_READS = {
    operation.path.split("/")[4].encode(): name
    for name, operation in OPERATIONS.items()
    if operation.path.startswith("/v1/stores/{store}/")
}
_PATHS = {
    operation.path.encode(): name
    for name, operation in OPERATIONS.items()
    if "{" not in operation.path
}


class Work(NamedTuple):
    """The work in progress of a worker."""

    requests: int
    waiting: int
    streams: int
    unsent_bytes: int
    connections: int


class _Tally:
    """Observations since they were last added to a histogram.

    An observation of a multi-process histogram costs 6 us of the 50 us of a fast read. This class
    costs less than 1 us, and updates the histogram once per second.
    """

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._counts = [0] * (len(_BUCKETS_SECONDS) + 1)
        self._seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS_SECONDS, seconds)] += 1
        self._seconds += seconds

    def flush(self) -> None:
        # Like Histogram.observe, which accepts only one value at a time.
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):  # noqa: SLF001
            if count:
                bucket.inc(count)
        self._histogram._sum.inc(self._seconds)  # noqa: SLF001
        self._counts = [0] * len(self._counts)
        self._seconds = 0.0


class Metrics:
    """The metrics of one worker."""

    def __init__(self, is_store: Callable[[str], bool]) -> None:
        """Start at zero. ``is_store`` returns whether a name is a store, and so a valid label."""
        self._is_store = is_store
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "oriel_http_request_seconds",
            "Time from a request to the start of its response, as a histogram. Its _count is the "
            "number of requests.",
            ["operation", "store"],
            buckets=_BUCKETS_SECONDS,
            registry=self._registry,
        )
        self._errors = Counter(
            "oriel_http_errors",
            "Responses with a status of 400 or above.",
            ["operation", "store", "status"],
            registry=self._registry,
        )
        self._work = {
            name: Gauge(
                f"oriel_http_{name}", meaning, multiprocess_mode="livesum", registry=self._registry
            )
            for name, meaning in (
                ("requests", "Requests in progress, see --limit-requests."),
                ("waiting", "Requests that wait for a position, see --limit-waiting-requests."),
                ("streams", "Open event streams, see --limit-streams."),
                ("unsent_bytes", "Unread bytes of long responses, see --limit-unsent-bytes."),
                ("connections", "Open connections, see --limit-connections."),
            )
        }
        self._tallies: dict[tuple[str, str], _Tally] = {}
        #: A fast path for most requests: the tally of a store's raw name and read.
        self._known: dict[tuple[bytes, bytes], _Tally] = {}
        self._stores: set[str] = set()

    def observe(self, raw_path: bytes, status: int, seconds: float) -> None:
        """Count a response that started after ``seconds``."""
        parts = raw_path.split(b"/", 5)
        place = (parts[3], parts[4]) if len(parts) > 4 else (raw_path, b"")
        tally = self._known.get(place)
        if tally is None or status >= 400:
            operation, store = self._labels(raw_path, parts)
            tally = self._tallies.get((operation, store))
            if tally is None:
                tally = _Tally(self._seconds.labels(operation, store))
                self._tallies[operation, store] = tally
            # Only for a limited number of paths, because clients choose them.
            if operation and (store or raw_path in _PATHS):
                self._known[place] = tally
            if status >= 400:
                self._errors.labels(operation, store, str(status)).inc()
        tally.observe(seconds)

    def flush(self) -> None:
        """Write the observations to the files that all workers read."""
        for tally in self._tallies.values():
            tally.flush()

    def set_work(self, work: Work) -> None:
        """Set the work in progress, and write all numbers to the files."""
        self.flush()
        for name, gauge in self._work.items():
            gauge.set(getattr(work, name))

    def families(self) -> Iterable[Metric]:
        """Return the families of metrics of this worker."""
        return self._registry.collect()

    def text(self) -> bytes:
        """Return the numbers of all workers for a scrape. Numbers of others are up to 1 s old.

        The method reads files and can run in a thread. ``flush`` cannot.
        """
        directory = os.environ.get(_DIRECTORY_VARIABLE)
        if directory is None:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, directory)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _labels(self, raw_path: bytes, parts: list[bytes]) -> tuple[str, str]:
        """Return operation and store of a path, each empty if the path does not have it."""
        if len(parts) < 4 or parts[1] != b"v1" or parts[2] != b"stores":
            return _PATHS.get(raw_path, ""), ""
        operation = _READS.get(parts[4], "") if len(parts) > 4 else "describeStore"
        name = parts[3].decode("latin-1")
        if not self._is_store(name):
            return operation, ""
        if name not in self._stores and len(self._stores) >= STORES_MAX:
            return operation, "other"
        self._stores.add(name)
        return operation, name


def share_metrics() -> Callable[[], None]:
    """Share the numbers of the workers that this process starts. Return a function that ends it.

    This also deletes the directories of killed services.
    """
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{_DIRECTORY_PREFIX}*"):
        owner = left.name.removeprefix(_DIRECTORY_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _runs(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    directory = tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}{os.getpid()}-")
    os.environ[_DIRECTORY_VARIABLE] = directory

    def end() -> None:
        del os.environ[_DIRECTORY_VARIABLE]
        shutil.rmtree(directory, ignore_errors=True)

    return end


def forget_dead_workers(environment: Mapping[str, str] = os.environ) -> None:
    """Remove the work in progress of workers that have ended. Their counts stay."""
    directory = environment.get(_DIRECTORY_VARIABLE)
    if directory is None:
        return
    for file in Path(directory).glob("gauge_live*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid.isdecimal() and not _runs(int(pid)):
            with suppress(FileNotFoundError):
                mark_process_dead(int(pid), directory)  # type: ignore[no-untyped-call]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
