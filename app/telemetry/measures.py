"""What the workers of a service count and time, for Prometheus.

Each worker keeps its numbers in files of one folder, which prometheus_client adds up at a scrape,
whichever worker it meets; a worker that was started again leaves what it had counted. Routes and
stores are labels, keys are not, and there are no more stores than ``STORES_MAX``: a label costs
memory for as long as the service runs.
"""

import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from oriel.app.contract import OPERATIONS

#: Stores that have numbers of their own; all others together are ``other``.
STORES_MAX = 200

#: The variable by which prometheus_client knows the folder.
_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_FOLDER_PREFIX = "oriel-metrics-"

_BUCKETS_SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
)  # fmt: skip

#: Operations by the part of their path behind the store; and those of other paths by all of it.
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
    """How much a worker has under way."""

    requests: int
    waiting: int
    streams: int
    unsent_bytes: int
    connections: int


class _Tally:
    """What was observed since it was last added to its histogram.

    To observe in a histogram of several processes takes 6 us, of a hot read's 50; this takes
    less than one, and the histogram is told once a second.
    """

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._counts = [0] * (len(_BUCKETS_SECONDS) + 1)
        self._seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS_SECONDS, seconds)] += 1
        self._seconds += seconds

    def flush(self) -> None:
        # As Histogram.observe does it, which knows one value at a time only.
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):  # noqa: SLF001
            if count:
                bucket.inc(count)
        self._histogram._sum.inc(self._seconds)  # noqa: SLF001
        self._counts = [0] * len(self._counts)
        self._seconds = 0.0


class Measures:
    """The numbers of one worker."""

    def __init__(self, is_store: Callable[[str], bool]) -> None:
        """Count nothing yet; ``is_store`` says whether a name is one, so that it may be a label."""
        self._is_store = is_store
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "oriel_http_request_seconds",
            "Seconds until responses began, by operation and store. Its count is the number of "
            "requests.",
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
                ("requests", "Requests in progress."),
                ("waiting", "Requests that wait for a position."),
                ("streams", "Open event streams."),
                ("unsent_bytes", "Bytes of long responses that clients have not read yet."),
                ("connections", "Open connections."),
            )
        }
        self._tallies: dict[tuple[str, str], _Tally] = {}
        #: What most requests find at once: the tally of a store's raw name and read.
        self._known: dict[tuple[bytes, bytes], _Tally] = {}
        self._stores: set[str] = set()

    def observe(self, raw_path: bytes, status: int, seconds: float) -> None:
        """Count an answer that began after so many seconds."""
        parts = raw_path.split(b"/", 5)
        place = (parts[3], parts[4]) if len(parts) > 4 else (raw_path, b"")
        tally = self._known.get(place)
        if tally is None or status >= 400:
            operation, store = self._labels(raw_path, parts)
            tally = self._tallies.get((operation, store))
            if tally is None:
                tally = _Tally(self._seconds.labels(operation, store))
                self._tallies[operation, store] = tally
            # Only what there are few of: a path is what a stranger makes of it.
            if operation and (store or raw_path in _PATHS):
                self._known[place] = tally
            if status >= 400:
                self._errors.labels(operation, store, str(status)).inc()
        tally.observe(seconds)

    def flush(self) -> None:
        """Let the other workers see what was observed."""
        for tally in self._tallies.values():
            tally.flush()

    def set_work(self, work: Work) -> None:
        """Take over how much is under way, and let the other workers see all."""
        self.flush()
        for name, gauge in self._work.items():
            gauge.set(getattr(work, name))

    def text(self) -> bytes:
        """The numbers of all workers, as a scrape gets them; those of others a second old.

        It reads files, so it may run in a thread; ``flush`` may not.
        """
        folder = os.environ.get(_FOLDER_VARIABLE)
        if folder is None:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _labels(self, raw_path: bytes, parts: list[bytes]) -> tuple[str, str]:
        """Operation and store of a path; empty where it is of none."""
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


def share_measures() -> Callable[[], None]:
    """Let the workers that this process starts add up their numbers; returns how to end that.

    Folders of services that were killed go.
    """
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{_FOLDER_PREFIX}*"):
        owner = left.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _runs(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-")
    os.environ[_FOLDER_VARIABLE] = folder

    def end() -> None:
        del os.environ[_FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)

    return end


def forget_dead_workers(environment: Mapping[str, str] = os.environ) -> None:
    """Leave out what workers that have ended said they had under way; what they counted stays."""
    folder = environment.get(_FOLDER_VARIABLE)
    if folder is None:
        return
    for file in Path(folder).glob("gauge_live*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid.isdecimal() and not _runs(int(pid)):
            with suppress(FileNotFoundError):
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
