"""What a run tells of itself to whoever asks beside it: the checkpoint's status file.

Written behind a batch, at most once a second, so that a batch costs the same however short it is;
what a quick batch leaves out is written by the next heartbeat.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from oriel.pipeline.plan import PreparedBatch
from oriel.storage import Offsets
from oriel.storage.monitoring import RunStatus, RunStatusFile, StoreRun

_WRITE_SECONDS = 1.0


class RunReport:
    """Keeps the status file of one run up to date."""

    def __init__(
        self, checkpoint: Path, application: str, offset_unit: str, log_ends: Callable[[], Offsets]
    ) -> None:
        """Write to the file of ``checkpoint``; ``log_ends`` is asked at most once a second."""
        self._file = RunStatusFile(checkpoint)
        self._application = application
        self._offset_unit = offset_unit
        self._log_ends = log_ends
        self._started_ms = _now_ms()
        self._batches = 0
        self._batch_ms = self._started_ms
        self._phases: Mapping[str, float] = {}
        self._totals: dict[str, float] = {}
        self._stores: dict[str, StoreRun] = {}
        self._written_at = 0.0

    def on_batch(self, stores: Mapping[str, PreparedBatch], phases: Mapping[str, float]) -> None:
        """Note a batch that is committed; ``phases`` are the seconds that it took."""
        self._batches += 1
        self._batch_ms = _now_ms()
        self._phases = phases
        for phase, seconds in phases.items():
            self._totals[phase] = self._totals.get(phase, 0.0) + seconds
        self._stores = {
            name: StoreRun(prepared.record, prepared.open_records, prepared.changed)
            for name, prepared in stores.items()
        }

    def beat(self) -> None:
        """Say how the run fares, if it was said a second ago or earlier."""
        now = time.monotonic()
        if now - self._written_at < _WRITE_SECONDS:
            return
        self._written_at = now
        self._write()

    def end(self) -> None:
        """Say the last word."""
        self._write()
        self._file.end()

    def _write(self) -> None:
        self._file.write(
            RunStatus(
                application=self._application,
                process=os.getpid(),
                host=socket.gethostname(),
                started_ms=self._started_ms,
                batch_ms=self._batch_ms,
                batches=self._batches,
                phase_seconds=dict(self._phases),
                total_phase_seconds=dict(self._totals),
                offset_unit=self._offset_unit,
                log_ends=self._log_ends(),
                stores=dict(self._stores),
            )
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
