"""The Delta table of a store: columns, writes, log and maintenance.

- Writes: tasks write rows as Parquet files (``write_file``). The driver commits the files of a
  batch with its position in one transaction (``open_table``, ``Table.commit``).

- Reads: ``DeltaLog`` reads the log entry of one version, or a whole version with its files.

- Maintenance: ``TableMaintenance`` keeps a table small while other threads and processes write. It
  compacts files, drops expired rows, writes Delta checkpoints, and deletes unused files.

The tables are plain Delta, so every reader of Delta can read them.
"""

from oriel.storage.delta.columns import (
    DEAD_LETTER_MESSAGE_FIELDS,
    DEAD_LETTER_SCHEMA,
    TIMESTAMP,
    arrow_type,
    delta_type,
    store_schema,
    table_rows,
)
from oriel.storage.delta.data_files import (
    DIGEST_TAG,
    AddedFile,
    missing_file,
    open_data_file,
    run_name,
    run_revisions,
    write_file,
)
from oriel.storage.delta.entries import entry_name
from oriel.storage.delta.file_ranges import Range, file_ranges, group_range
from oriel.storage.delta.log import (
    DeltaLog,
    LogEntry,
    TableMetadata,
    TableSnapshot,
    file_in_table,
    read_definition,
)
from oriel.storage.delta.maintenance import (
    Compacted,
    Limits,
    MaintenanceSettings,
    TableMaintenance,
    TableSize,
    dead_letters_name,
    newest_rows,
    window_columns,
)
from oriel.storage.delta.opening import (
    LOG_DIRECTORY,
    has_table,
    open_delta,
    open_with_files,
    table_directories,
    verify_checkpoint,
)
from oriel.storage.delta.replacement import TableContent, replace_rows
from oriel.storage.delta.table import (
    CHECKPOINT_INTERVAL,
    Table,
    add_checkpoint,
    open_table,
)

__all__ = [
    "CHECKPOINT_INTERVAL",
    "DEAD_LETTER_MESSAGE_FIELDS",
    "DEAD_LETTER_SCHEMA",
    "DIGEST_TAG",
    "LOG_DIRECTORY",
    "TIMESTAMP",
    "AddedFile",
    "Compacted",
    "DeltaLog",
    "Limits",
    "LogEntry",
    "MaintenanceSettings",
    "Range",
    "Table",
    "TableContent",
    "TableMaintenance",
    "TableMetadata",
    "TableSize",
    "TableSnapshot",
    "add_checkpoint",
    "arrow_type",
    "dead_letters_name",
    "delta_type",
    "entry_name",
    "file_in_table",
    "file_ranges",
    "group_range",
    "has_table",
    "missing_file",
    "newest_rows",
    "open_data_file",
    "open_delta",
    "open_table",
    "open_with_files",
    "read_definition",
    "replace_rows",
    "run_name",
    "run_revisions",
    "store_schema",
    "table_directories",
    "table_rows",
    "verify_checkpoint",
    "window_columns",
    "write_file",
]
