"""Door of oriel.storage.delta."""

from oriel.storage.delta.columns import TIMESTAMP, arrow_type, delta_type, store_schema, table_rows
from oriel.storage.delta.log import DeltaLog, LogEntry, Stamp, TableSnapshot, read_definition
from oriel.storage.delta.table import (
    CHECKPOINT_INTERVAL,
    AddedFile,
    Table,
    add_checkpoint,
    open_table,
    write_file,
)

__all__ = [
    "CHECKPOINT_INTERVAL",
    "TIMESTAMP",
    "AddedFile",
    "DeltaLog",
    "LogEntry",
    "Stamp",
    "Table",
    "TableSnapshot",
    "add_checkpoint",
    "arrow_type",
    "delta_type",
    "open_table",
    "read_definition",
    "store_schema",
    "table_rows",
    "write_file",
]
