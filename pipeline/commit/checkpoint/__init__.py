"""The checkpoint of a pipeline: everything that a restart needs.

``Checkpoint`` opens the directory for one process (an epoch, decision 0031). ``StateVersions`` has
the prepared batches of one store, and ``RecoveryPoint`` is where a start continues. A start also
checks that it reads the same log (``check_log``).
"""

from oriel.pipeline.commit.checkpoint.checkpoint import (
    Checkpoint,
    NewestPrepared,
    check_not_running,
    newest_prepared,
)
from oriel.pipeline.commit.checkpoint.log_identity import check_log
from oriel.pipeline.commit.checkpoint.recovery_point import RecoveryPoint
from oriel.pipeline.commit.checkpoint.stream_time_override import StreamTimeOverride
from oriel.pipeline.commit.checkpoint.versions import StateVersions

__all__ = [
    "Checkpoint",
    "NewestPrepared",
    "RecoveryPoint",
    "StateVersions",
    "StreamTimeOverride",
    "check_log",
    "check_not_running",
    "newest_prepared",
]
