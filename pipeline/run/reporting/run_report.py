"""Write the status file of a run, which other processes read in the checkpoint.

The loop that waits for the query writes it, at most once per second, so short batches do not cost
additional writes. A thread reads the ends of the log, because brokers can respond late. Neither a
batch nor the heartbeat waits for the brokers.
"""

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from oriel.pipeline.errors import PipelineError
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import Offsets, StorageError, is_object
from oriel.storage.monitoring import RunStatus, RunStatusFile, StoreRun, run_problem

_WRITE_SECONDS = 1.0
#: The same for a file in an object store, where each write costs money.
_OBJECTS_SECONDS = 4.0
#: The pause between two reads of the log's ends: this many times the duration of a read, within
#: these bounds.
_READ_PAUSE_FACTOR = 20
_READ_PAUSE_SECONDS, _READ_PAUSE_SECONDS_MAX = 1.0, 10.0
#: Records per second are a mean over this time.
_RATE_SECONDS = 10.0


class RunReport:
    """Keeps the status file of one run up to date."""

    def __init__(
        self,
        checkpoint: Path,
        application: str,
        offset_unit: str,
        log_ends: Callable[[], Offsets],
        lost: Callable[[], Mapping[str, int]],
    ) -> None:
        """Write to the file of ``checkpoint``, from the first ``write_heartbeat`` on.

        Args:
            checkpoint: The directory of the checkpoint.
            application: The name of the pipeline.
            offset_unit: The unit of the log's offsets.
            log_ends: Returns the ends of the log. A thread calls it, at most once per second.
            lost: Returns how many offsets of each topic were skipped. It is called for each batch.
        """
        self._file = RunStatusFile(checkpoint)
        self._write_seconds = _OBJECTS_SECONDS if is_object(checkpoint) else _WRITE_SECONDS
        self._application = application
        self._offset_unit = offset_unit
        self._log_ends = _LogEnds(log_ends, self._committed)
        self._rate = _Rate()
        self._read_lost = lost
        self._lost: Mapping[str, int] = {}
        self._started_ms = _now_ms()
        #: Spark's callback notes batches while another thread calls ``beat``.
        self._lock = threading.Lock()
        self._batches = 0
        self._batch_ms = self._started_ms
        self._phases: Mapping[str, float] = {}
        self._totals: dict[str, float] = {}
        self._stores: Mapping[str, StoreRun] = {}
        self._maintenance_failures = 0
        self._written_at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the file was written. Only the process that holds the checkpoint can write it."""
        return self._written_at is not None

    def on_batch(self, stores: Mapping[str, PreparedBatch], phases: Mapping[str, float]) -> None:
        """Note a committed batch. ``phases`` has its duration in seconds, by phase."""
        with self._lock:
            self._batches += 1
            self._batch_ms = _now_ms()
            self._phases = dict(phases)
            self._lost = dict(self._read_lost())
            for phase, seconds in phases.items():
                self._totals[phase] = self._totals.get(phase, 0.0) + seconds
            self._stores = {name: _store_run(prepared) for name, prepared in stores.items()}

    def note_failures(self, failures: int) -> None:
        """Add the maintenance failures of a query that has ended."""
        self._maintenance_failures += failures

    @property
    def is_due(self) -> bool:
        """Whether the next ``write_heartbeat`` writes."""
        if self._written_at is None:
            return True
        return time.monotonic() - self._written_at >= self._write_seconds

    def write_heartbeat(self, failures: int = 0) -> None:
        """Write the status, at most once per second (every 4 s in an object store).

        ``failures`` are the maintenance failures of the current query, in addition to the noted
        ones.
        """
        if not self.is_due:
            return
        if self._written_at is None:
            self._log_ends.start()
        self._written_at = time.monotonic()
        self._write(failures)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Write heartbeats in a thread until the block ends.

        A start can compute a new store for hours. Without heartbeats, a standby would replace this
        process.
        """
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(self._write_seconds):
                self.write_heartbeat()

        thread = threading.Thread(target=run, name="heartbeats", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def end(self) -> None:
        """Write the final status, if any status was written."""
        if not self.has_begun:
            return
        self._log_ends.end()
        self._write(0, has_ended=True)

    def _committed(self) -> dict[str, Offsets]:
        """Return the offsets of each store's newest batch."""
        with self._lock:
            return {name: store.record.offsets for name, store in self._stores.items()}

    def _write(self, failures: int, *, has_ended: bool = False) -> None:
        earlier_status = self._file.read()
        # Until the first batch, the values of an earlier run stay.
        before = earlier_status[0] if earlier_status is not None and not self._batches else None
        with self._lock:
            status = RunStatus(
                application=self._application,
                process=os.getpid(),
                host=socket.gethostname(),
                started_ms=self._started_ms,
                batch_ms=self._batch_ms,
                batches=self._batches,
                phase_seconds=self._phases,
                total_phase_seconds=dict(self._totals),
                offset_unit=self._offset_unit,
                log_ends=self._log_ends.known,
                lags=self._log_ends.lags,
                log_ends_ms=self._log_ends.known_ms,
                records_per_second=self._rate.with_total(time.monotonic(), _records(self._stores)),
                stores=self._stores if before is None else before.stores,
                maintenance_failures=self._maintenance_failures + failures,
                lost=self._lost if before is None else before.lost,
                has_ended=has_ended,
            )
            status = replace(status, problem=run_problem(self._application, status, _now_ms()))
        if (
            earlier_status is not None
            and earlier_status[1]
            and earlier_status[0].started_ms > self._started_ms
        ):
            # This process was suspended, and another has taken over.
            return
        # On a full disk, the batches report it, and nothing depends on this file.
        with suppress(OSError):
            self._file.write(status)


def note_rebuilt(checkpoint: Path, store: str, prepared: PreparedBatch) -> None:
    """Write a rebuilt store to the status of the last run, if there is a status.

    A rebuild holds the checkpoint, so the run has ended, also if it was killed.
    """
    file = RunStatusFile(checkpoint)
    if (earlier_status := file.read()) is not None:
        stores = {**earlier_status[0].stores, store: _store_run(prepared)}
        # As in RunReport: nothing depends on this file.
        with suppress(OSError):
            file.write(replace(earlier_status[0], stores=stores, has_ended=True))


class _LogEnds:
    """Reads the log's ends again and again, in a thread from ``start`` to ``end``.

    ``committed`` returns the offsets of each store. They are read before the log's ends, so that
    no lag is negative, however many batches are committed while the log is slow to respond.
    """

    def __init__(
        self, read_ends: Callable[[], Offsets], committed: Callable[[], dict[str, Offsets]]
    ) -> None:
        self._ask = read_ends
        self._committed = committed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-ends", daemon=True)
        #: The last ends, when they were read, and the lag of each store at that moment.
        self.known: Offsets = {}
        self.known_ms = 0
        self.lags: Mapping[str, Offsets] = {}

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        # A thread that hangs ends with the process.
        self._thread.join(_READ_PAUSE_SECONDS)

    def _run(self) -> None:
        wait_seconds = 0.0
        while not self._stop.wait(wait_seconds):
            began = time.monotonic()
            # The brokers are down, a topic is deleted or Java has ended: the query reports it.
            with suppress(PipelineError, StorageError, OSError, PySparkException, Py4JError):
                began_ms, committed, ends = _now_ms(), self._committed(), self._ask()
                self.lags = {store: _lags(ends, offsets) for store, offsets in committed.items()}
                self.known, self.known_ms = ends, began_ms
            took = time.monotonic() - began
            wait_seconds = min(
                max(_READ_PAUSE_SECONDS, _READ_PAUSE_FACTOR * took), _READ_PAUSE_SECONDS_MAX
            )


class _Rate:
    """Measures records per second from the totals of the last seconds."""

    def __init__(self) -> None:
        self._totals: deque[tuple[float, int]] = deque()

    def with_total(self, now: float, total: int | None) -> float | None:
        """Note a total, and return the rate, None before the second total."""
        if total is None:
            return None
        self._totals.append((now, total))
        while len(self._totals) > 2 and now - self._totals[1][0] >= _RATE_SECONDS:
            self._totals.popleft()
        began, before = self._totals[0]
        return (total - before) / (now - began) if now > began else None


def _records(stores: Mapping[str, StoreRun]) -> int | None:
    """Count the records that the stores have read, None before the first batch.

    A store whose topics are all read by the stores before it does not count.
    """
    records = [store.record for store in stores.values()]
    total, topics = 0, set[str]()
    for record in sorted(records, key=lambda record: len(record.offsets), reverse=True):
        if not topics.issuperset(record.offsets):
            topics.update(record.offsets)
            total += record.counters.get("input", 0)
    return total if records else None


def _lags(ends: Offsets, offsets: Offsets) -> Offsets:
    """Subtract a store's offsets from the log's ends, where both are known."""
    return {
        topic: {
            partition: end - offsets[topic][partition]
            for partition, end in partitions.items()
            if partition in offsets.get(topic, {})
        }
        for topic, partitions in ends.items()
    }


def _store_run(prepared: PreparedBatch) -> StoreRun:
    notes = prepared.clock_notes
    return StoreRun(
        prepared.record,
        prepared.open_records,
        prepared.changed,
        notes.held_by,
        notes.idle,
        notes.idle_times,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
