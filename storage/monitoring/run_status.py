"""The status that a running pipeline reports to other processes.

    CHECKPOINT/status.json     written after a batch, at most once per second. Its modification
                               time is the heartbeat, renewed every second without records

The status is informational. A pipeline does not read it at its start, and a power loss can delete
it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from oriel.storage.files import current_files, replace_file, with_digest, without_digest
from oriel.storage.layout import DataLayout
from oriel.storage.position import CommitRecord, Offsets

#: Age in seconds from which a heartbeat counts as missing.
HEARTBEAT_SECONDS_MAX = 10.0

STATUS_FILE = "status.json"


@dataclass(frozen=True)
class StoreRun:
    """One store after the last batch.

    Attributes:
        record: The commit record of the batch.
        open_records: The number of rows in the state.
        changed: The number of windows that the batch changed.
        held_by: The stream and partition that keep windows from becoming final, None if no window
            waits. The partition is -1 if the stream does not have one yet.
        idle: The idle partitions by stream. Windows become final without them.
        idle_times: How often a partition became idle.
    """

    record: CommitRecord
    open_records: int
    changed: int
    held_by: tuple[str, int] | None = None
    idle: Mapping[str, Sequence[int]] = field(default_factory=dict)
    idle_times: int = 0

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Create the status of a store from its JSON fields."""
        parsed = {**fields, "record": CommitRecord(**fields["record"])}
        if parsed.get("held_by") is not None:
            clock, partition = parsed["held_by"]
            parsed["held_by"] = clock, partition
        return cls(**parsed)


@dataclass(frozen=True)
class RunStatus:
    """One run of a pipeline, from its start until now.

    Attributes:
        application: The name of the application.
        process: The process id.
        host: The name of the host.
        started_ms: The start of the run.
        batch_ms: The end of the last batch. Before the first batch, the start of the run.
        batches: The number of batches that this process has committed.
        phase_seconds: The duration of the last batch, by phase.
        total_phase_seconds: The duration of all batches of this process, by phase.
        offset_unit: The unit of offsets, ``records`` (Kafka) or ``bytes`` (event log).
        log_ends: The known ends of the partitions of the log.
        stores: The stores by name.
        maintenance_failures: How often a table could not be compacted or cleaned up.
        lost: The number of offsets, by topic, that were deleted before they were read.
        lags: The distance from the offsets of each store to ``log_ends`` when these were read.
        has_ended: True if the run has ended normally.
        log_ends_ms: When the ends were read, 0 before the first reading and in the status of an
            older version.
        records_per_second: The rate of read records as a mean over about ten seconds, None if it
            is not known.
        problem: The problem that the run itself finds, for checks that only read this file
            (``oriel status --check --pipeline``).
        retired_ms: When ``oriel retire`` retired the pipeline, otherwise 0. The next run writes a
            new status.
    """

    application: str
    process: int
    host: str
    started_ms: int
    batch_ms: int
    batches: int
    phase_seconds: Mapping[str, float]
    total_phase_seconds: Mapping[str, float]
    offset_unit: str
    log_ends: Offsets
    stores: Mapping[str, StoreRun]
    maintenance_failures: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    lags: Mapping[str, Offsets] = field(default_factory=dict)
    has_ended: bool = False
    log_ends_ms: int = 0
    records_per_second: float | None = None
    problem: str | None = None
    retired_ms: int = 0


class RunStatusFile:
    """The status file of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint / STATUS_FILE

    def write(self, status: RunStatus, *, sync: bool = False) -> None:
        """Replace the previous status with ``status``."""
        replace_file(self._path, with_digest(orjson.dumps(asdict(status))), sync=sync)

    def read(self) -> tuple[RunStatus, bool] | None:
        """Return the last status, and whether the process is alive.

        Returns:
            None if the file does not exist or cannot be read.
        """
        try:
            identity = current_files().identity(self._path)
            if identity is None:
                return None
            content = without_digest(current_files().read(self._path))
            fields: dict[str, Any] = orjson.loads(content)
            stores = {
                name: StoreRun.from_fields(store) for name, store in fields.pop("stores").items()
            }
            status = RunStatus(**fields, stores=stores)
        except (OSError, AttributeError, KeyError, TypeError, ValueError):
            return None
        age_seconds = time.time() - identity[1] / 1e9
        return status, not status.has_ended and age_seconds <= HEARTBEAT_SECONDS_MAX

    def seen_ms(self) -> int:
        """Return the time of the last heartbeat in ms since the epoch, 0 without a heartbeat."""
        identity = current_files().identity(self._path)
        return 0 if identity is None else identity[1] // 1_000_000


def run_status_files(layout: DataLayout) -> dict[str, RunStatusFile]:
    """Return the status files of all checkpoints in a data directory, by name of the checkpoint."""
    names = sorted(current_files().names(layout.checkpoints))
    directories = (layout.checkpoints / name for name in names)
    return {
        directory.name: RunStatusFile(directory)
        for directory in directories
        if current_files().is_directory(directory)
    }
