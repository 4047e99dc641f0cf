"""Door of oriel.pipeline.commit."""

from oriel.pipeline.commit.checkpoint import Checkpoint
from oriel.pipeline.commit.reports import count_found
from oriel.pipeline.commit.store_batch import StoreBatches
from oriel.pipeline.commit.store_tables import StoreTables, define

__all__ = [
    "Checkpoint",
    "StoreBatches",
    "StoreTables",
    "count_found",
    "define",
]
