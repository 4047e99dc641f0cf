"""The checkpoint of a pipeline: everything that a restart needs.

Input: the checkpoint directory, and the batches that the stores prepare. Output: the recovery point
(``RecoveryPoint``) from which the next start continues, and the files from which Spark resumes.

    Checkpoint            the directory, for one process (an epoch, decision 0031)
    StateVersions         the prepared batches of one store
    StreamTimeOverride    the stream times of ``oriel clock --set`` (decision 0032)
    check_log             rejects a log that is not the log of the checkpoint
"""

from oriel.pipeline.commit.checkpoint.checkpoint import (
    Checkpoint,
    NewestPrepared,
    check_not_running,
    is_locked,
    newest_prepared,
    remove_lock,
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
    "is_locked",
    "newest_prepared",
    "remove_lock",
]
