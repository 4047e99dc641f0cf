"""Commit each batch of a store exactly once.

Input: the plans of a store, the reports of a batch's tasks, and the offsets at which the batch
ends. Output: the batch in the tables of the store. A batch is computed, then prepared by its state
version, and only then committed. In this order, a crash at any moment neither loses nor repeats a
record. This package also opens the checkpoint directory and the tables of a store, and rejects them
if they do not fit. ``Maintenance`` compacts the tables while batches run.
"""

from oriel.pipeline.commit.checkpoint import (
    Checkpoint,
    NewestPrepared,
    RecoveryPoint,
    StateVersions,
    StreamTimeOverride,
    check_log,
    check_not_running,
    is_locked,
    newest_prepared,
    remove_lock,
)
from oriel.pipeline.commit.differences import differences, refuse_differences, store_definition
from oriel.pipeline.commit.final_table import rows_of_files
from oriel.pipeline.commit.held_rebuild import HeldPosition, HeldRebuild
from oriel.pipeline.commit.maintenance import Maintenance
from oriel.pipeline.commit.pipeline_names import check_pipeline_exists, check_store_owners
from oriel.pipeline.commit.rescale import rescale
from oriel.pipeline.commit.sink_topic import (
    SINK_FILE,
    Publish,
    SinkDefinition,
    SinkTopic,
    mark_published,
    sink_differences,
)
from oriel.pipeline.commit.store_batch import StoreBatches, prepared_batch, topology_recovery_point
from oriel.pipeline.commit.store_tables import StoreTables
from oriel.pipeline.commit.switch import (
    Replacement,
    add_dead_letters,
    as_committed_batch,
    remove_old_generations,
    removed_stores,
)

__all__ = [
    "SINK_FILE",
    "Checkpoint",
    "HeldPosition",
    "HeldRebuild",
    "Maintenance",
    "NewestPrepared",
    "Publish",
    "RecoveryPoint",
    "Replacement",
    "SinkDefinition",
    "SinkTopic",
    "StateVersions",
    "StoreBatches",
    "StoreTables",
    "StreamTimeOverride",
    "add_dead_letters",
    "as_committed_batch",
    "check_log",
    "check_not_running",
    "check_pipeline_exists",
    "check_store_owners",
    "differences",
    "is_locked",
    "mark_published",
    "newest_prepared",
    "prepared_batch",
    "refuse_differences",
    "remove_lock",
    "remove_old_generations",
    "removed_stores",
    "rescale",
    "rows_of_files",
    "sink_differences",
    "store_definition",
    "topology_recovery_point",
]
