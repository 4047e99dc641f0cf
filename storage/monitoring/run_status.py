"""What a running pipeline says of itself, for whoever asks beside it.

    CHECKPOINT/status.json     written after a batch, at most once a second; its modification
                               time is the heartbeat, renewed every second while nothing comes

It decides nothing: a pipeline that starts does not look at it, and a power loss may take it.
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
    """One store as the last batch left it.

    ``record`` is what the batch's commit says, ``open_records`` the number of rows in the state,
    ``changed`` that of windows that the batch changed. ``held_by`` is the clock and partition that
    hold windows open, None where nothing waits; the partition is -1 where the clock has none yet.
    ``idle`` are, by clock, the partitions that are left out of what is final, ``idle_times`` counts
    how often one began to be.
    """

    record: CommitRecord
    open_records: int
    changed: int
    held_by: tuple[str, int] | None = None
    idle: Mapping[str, Sequence[int]] = field(default_factory=dict)
    idle_times: int = 0

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Read back what JSON says."""
        told = {**fields, "record": CommitRecord(**fields["record"])}
        if told.get("held_by") is not None:
            clock, partition = told["held_by"]
            told["held_by"] = clock, partition
        return cls(**told)


@dataclass(frozen=True)
class RunStatus:
    """One run of a pipeline, from its start until now.

    ``process`` and ``host`` say who it is. ``batches`` counts what this process has committed,
    ``phase_seconds`` is how long the last of them took, by phase, and ``total_phase_seconds`` all
    of them. ``log_ends`` is where each partition of the log ends, as far as that is known, in the
    unit of its offsets: ``offset_unit`` is ``records`` (Kafka) or ``bytes`` (event log). ``lags``
    has for each store the distance from its offsets to these ends when the ends were read.
    ``maintenance_failures`` counts how often a table could not be compacted or cleaned up, ``lost``
    the offsets of each topic that were gone before they were read. ``has_ended``: it ended as it
    should. ``log_ends_ms`` is when the ends were read, 0 before the first reading and in the status
    of an older version. ``records_per_second`` is how many records the pipeline reads, as a mean
    over about ten seconds, None if it is not known. ``problem`` is what the run itself finds wrong,
    for checks that only read this file (``oriel status --check --pipeline``). ``retired_ms`` is
    when ``oriel retire`` retired the pipeline, 0 if it did not: the next run writes a new status.
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
        """Put ``status`` in the place of what was said before."""
        replace_file(self._path, with_digest(orjson.dumps(asdict(status))), sync=sync)

    def read(self) -> tuple[RunStatus, bool] | None:
        """What was last said, and whether the process lives; None if nothing was."""
        try:
            stamp = current_files().stamp(self._path)
            if stamp is None:
                return None
            content = without_digest(current_files().read(self._path))
            fields: dict[str, Any] = orjson.loads(content)
            stores = {
                name: StoreRun.from_fields(store) for name, store in fields.pop("stores").items()
            }
            status = RunStatus(**fields, stores=stores)
        except (OSError, AttributeError, KeyError, TypeError, ValueError):
            return None
        age_seconds = time.time() - stamp[1] / 1e9
        return status, not status.has_ended and age_seconds <= HEARTBEAT_SECONDS_MAX

    def seen_ms(self) -> int:
        """Return the time of the last heartbeat in ms since the epoch, 0 if there is none."""
        stamp = current_files().stamp(self._path)
        return 0 if stamp is None else stamp[1] // 1_000_000


def run_status_files(layout: DataLayout) -> dict[str, RunStatusFile]:
    """The status files of all checkpoints of a data directory, by the checkpoint's name."""
    names = sorted(current_files().names(layout.checkpoints))
    folders = (layout.checkpoints / name for name in names)
    return {
        folder.name: RunStatusFile(folder)
        for folder in folders
        if current_files().is_folder(folder)
    }
