"""From the reports of a batch's tasks to a commit that happens exactly once.

In come a store's plans, a runner for the stages of a batch, and where Spark ends the batch.
Out comes the batch in the store's tables: computed, decided by writing its state version, and
only then committed, in an order in which a crash at any instant loses and repeats nothing. The
checkpoint folder and the tables of a store are opened, and refused if they do not fit, here.
``Maintenance`` keeps the tables small beside the batches.
"""

from oriel.pipeline.commit.checkpoint import Checkpoint
from oriel.pipeline.commit.maintenance import Maintenance
from oriel.pipeline.commit.store_batch import StoreBatches, prepared_batch
from oriel.pipeline.commit.store_tables import StoreTables, define

__all__ = [
    "Checkpoint",
    "Maintenance",
    "StoreBatches",
    "StoreTables",
    "define",
    "prepared_batch",
]
