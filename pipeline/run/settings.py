"""The settings of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oriel.pipeline.plan import NO_LIMITS, WallClockLimits
from oriel.storage.delta import MaintenanceSettings


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run.

    Args:
        data: the directory of tables and checkpoints.
        application: the name of the pipeline in it.
        trigger_ms: the least ms between the starts of two batches. With 0, a batch starts as soon
            as records exist. None to process all records and stop.
        tasks: the number of tasks after each shuffle. It can change with every start.
        key_groups: the key groups of new stores.
        sync: whether files are forced to disk before another file refers to them.
        publish_options: options of Kafka's Java client for the output cluster, or None.
        wall_clock_limits: how wall-clock time limits the stream times of partitions.
        on_cluster: whether tasks run on other machines, with the same paths to all files.
        maintenance: the settings of the maintenance of tables.
    """

    data: Path
    application: str
    trigger_ms: int | None
    tasks: int
    key_groups: int = 64
    sync: bool = True
    publish_options: Mapping[str, str] | None = None
    wall_clock_limits: WallClockLimits = NO_LIMITS
    on_cluster: bool = False
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
