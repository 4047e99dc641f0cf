"""Compaction, Delta checkpoints and clean-up of one table (decision 0029).

The input of ``TableMaintenance`` is the directory of a table, ``MaintenanceSettings``, and the last
committed batch of each store. Each step is small. It commits merged files, writes a Delta
checkpoint, or deletes files and log entries that no reader needs, while other threads and processes
write. The output of a complete compaction is a ``Compacted``.
"""

from oriel.storage.delta.maintenance.cleanup import dead_letters_name
from oriel.storage.delta.maintenance.compaction import Compacted, Limits
from oriel.storage.delta.maintenance.merging import newest_rows, window_columns
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
    "dead_letters_name",
    "newest_rows",
    "window_columns",
]
