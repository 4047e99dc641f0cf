"""What a run tells of itself to whoever asks beside it: the checkpoint's status file.

Written by the loop that waits for the query, at most once a second, so that a batch costs the same
however short it is. Where the log ends is asked by a thread: brokers that are down answer late, and
neither a batch nor the heartbeat waits for them.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from oriel.pipeline.errors import PipelineError
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import Offsets, StorageError, is_object
from oriel.storage.monitoring import RunStatus, RunStatusFile, StoreRun

_WRITE_SECONDS = 1.0
#: The same where a file is an object, which costs money.
_OBJECTS_SECONDS = 4.0
#: Between two questions where the log ends: so many times what an answer took, within these bounds.
_ASK_SHARE = 20
_ASK_SECONDS, _ASK_SECONDS_MAX = 1.0, 10.0


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
        """Write to the file of ``checkpoint``, from the first ``beat`` on.

        ``log_ends`` is asked by a thread, at most once a second, ``lost`` with each batch.
        """
        self._file = RunStatusFile(checkpoint)
        self._write_seconds = _OBJECTS_SECONDS if is_object(checkpoint) else _WRITE_SECONDS
        self._application = application
        self._offset_unit = offset_unit
        self._log_ends = _LogEnds(log_ends, self._committed)
        self._ask_lost = lost
        self._lost: Mapping[str, int] = {}
        self._started_ms = _now_ms()
        #: Batches are noted by Spark's callback, beside the loop that beats.
        self._noting = threading.Lock()
        self._batches = 0
        self._batch_ms = self._started_ms
        self._phases: Mapping[str, float] = {}
        self._totals: dict[str, float] = {}
        self._stores: Mapping[str, StoreRun] = {}
        self._maintenance_failures = 0
        self._written_at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has said anything: only who holds the checkpoint may."""
        return self._written_at is not None

    def on_batch(self, stores: Mapping[str, PreparedBatch], phases: Mapping[str, float]) -> None:
        """Note a batch that is committed; ``phases`` are the seconds that it took."""
        with self._noting:
            self._batches += 1
            self._batch_ms = _now_ms()
            self._phases = dict(phases)
            self._lost = dict(self._ask_lost())
            for phase, seconds in phases.items():
                self._totals[phase] = self._totals.get(phase, 0.0) + seconds
            self._stores = {name: _store_run(prepared) for name, prepared in stores.items()}

    def note_failures(self, failures: int) -> None:
        """Note so many more failures of maintenance."""
        self._maintenance_failures += failures

    def beat(self, failures: int = 0) -> None:
        """Say how the run fares, if it was said a second ago or earlier.

        ``failures`` are those of the query's maintenance, beside the ones that were noted.
        """
        now = time.monotonic()
        if self._written_at is None:
            self._log_ends.start()
        elif now - self._written_at < self._write_seconds:
            return
        self._written_at = now
        self._write(failures)

    def end(self) -> None:
        """Say the last word, if anything was said."""
        if not self.has_begun:
            return
        self._log_ends.end()
        self._write(0, has_ended=True)

    def _committed(self) -> dict[str, Offsets]:
        """Return the offsets of each store's newest batch."""
        with self._noting:
            return {name: store.record.offsets for name, store in self._stores.items()}

    def _write(self, failures: int, *, has_ended: bool = False) -> None:
        said = self._file.read()
        # Until the first batch, as an earlier run has left them.
        before = said[0] if said is not None and not self._batches else None
        with self._noting:
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
                stores=self._stores if before is None else before.stores,
                maintenance_failures=self._maintenance_failures + failures,
                lost=self._lost if before is None else before.lost,
                has_ended=has_ended,
            )
        if said is not None and said[1] and said[0].started_ms > self._started_ms:
            # This process was suspended, and another has taken over.
            return
        # A full disk: batches tell of it, and nothing depends on this file.
        with suppress(OSError):
            self._file.write(status)


class _LogEnds:
    """Reads the log's ends again and again, in a thread from ``start`` to ``end``.

    ``committed`` returns the offsets of each store. They are read before the log's ends, so that
    no lag is negative, however many batches are committed while the log is slow to respond.
    """

    def __init__(
        self, ask: Callable[[], Offsets], committed: Callable[[], dict[str, Offsets]]
    ) -> None:
        self._ask = ask
        self._committed = committed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-ends", daemon=True)
        #: The last ends, and the lag of each store at that moment.
        self.known: Offsets = {}
        self.lags: Mapping[str, Offsets] = {}

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        # One that hangs ends with the process.
        self._thread.join(_ASK_SECONDS)

    def _run(self) -> None:
        wait_seconds = 0.0
        while not self._stop.wait(wait_seconds):
            began = time.monotonic()
            # The brokers are down, a topic is deleted or Java has ended: the query reports it.
            with suppress(PipelineError, StorageError, OSError, PySparkException, Py4JError):
                committed, ends = self._committed(), self._ask()
                self.lags = {store: _lags(ends, offsets) for store, offsets in committed.items()}
                self.known = ends
            took = time.monotonic() - began
            wait_seconds = min(max(_ASK_SECONDS, _ASK_SHARE * took), _ASK_SECONDS_MAX)


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
