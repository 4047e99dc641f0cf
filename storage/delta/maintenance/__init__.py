"""The maintenance of a table: compaction, merges of small files, and the cleanup of old files.

``TableMaintenance`` runs one step at a time, between the commits of batches (decision 0029).
"""

from oriel.storage.delta.maintenance.compaction import Compacted, Limits
from oriel.storage.delta.maintenance.table_maintenance import (
    MaintenanceSettings,
    TableMaintenance,
    TableSize,
)

__all__ = [
    "Compacted",
    "Limits",
    "MaintenanceSettings",
    "TableMaintenance",
    "TableSize",
]
