"""Commit each batch of a store exactly once.

Input: the plans of a store, the reports of a batch's tasks, and the offsets at which the batch
ends. Output: the batch in the tables of the store. A batch is computed, then prepared by its state
version, and only then committed. In this order, a crash at any moment neither loses nor repeats a
record. This package also opens the checkpoint directory and the tables of a store, and rejects them
if they do not fit. ``Maintenance`` compacts the tables while batches run.
"""

from oriel.pipeline.commit.checkpoint import (
    Checkpoint,
    DecidedBatch,
    decided_up_to,
    refuse_running,
)
from oriel.pipeline.commit.differences import define, differences, refuse_changes
from oriel.pipeline.commit.log_identity import settle_log
from oriel.pipeline.commit.maintenance import Maintenance
from oriel.pipeline.commit.mend import Mend
from oriel.pipeline.commit.pipeline_names import refuse_new_pipeline, refuse_other_pipelines
from oriel.pipeline.commit.rescale import rescale
from oriel.pipeline.commit.resumption import Resumption
from oriel.pipeline.commit.sink_topic import (
    SINK_FILE,
    Publish,
    SinkDefinition,
    SinkTopic,
    note_published,
    sink_differences,
)
from oriel.pipeline.commit.store_batch import StoreBatches, last_batch, prepared_batch
from oriel.pipeline.commit.store_tables import StoreTables
from oriel.pipeline.commit.switch import (
    Replacement,
    add_dead_letters,
    as_version,
    remove_left,
    stores_left,
)
from oriel.pipeline.commit.versions import StateVersions

__all__ = [
    "SINK_FILE",
    "Checkpoint",
    "DecidedBatch",
    "Maintenance",
    "Mend",
    "Publish",
    "Replacement",
    "Resumption",
    "SinkDefinition",
    "SinkTopic",
    "StateVersions",
    "StoreBatches",
    "StoreTables",
    "add_dead_letters",
    "as_version",
    "decided_up_to",
    "define",
    "differences",
    "last_batch",
    "note_published",
    "prepared_batch",
    "refuse_changes",
    "refuse_new_pipeline",
    "refuse_other_pipelines",
    "refuse_running",
    "remove_left",
    "rescale",
    "settle_log",
    "sink_differences",
    "stores_left",
]
