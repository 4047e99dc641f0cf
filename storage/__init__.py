"""The shared package of pipeline and service: definitions of stores, tables and indexes.

- The pipeline writes Arrow tables and commit records as plain Delta tables
  (``oriel.storage.delta``).

- The tailer applies each table version to an LMDB index (``oriel.storage.tailer``,
  ``oriel.storage.index``).

- The service reads windows as encoded JSON from the index, with their position.

This module exports the types that all subpackages use: definitions and kinds of stores, positions,
the read protocols (``oriel.storage.contracts``), and the layout of the data directory. It also
exports errors and durable file operations. It does not depend on Spark or HTTP.
"""

from oriel.storage import errors
from oriel.storage.console import add_log_format, log_line, one_line, say, set_up_console
from oriel.storage.contracts import (
    KEY_BYTES_MAX,
    LATEST_MS,
    UNBOUNDED,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyStore,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
    ScanPage,
    ScanRange,
    SessionRange,
    WindowId,
    WindowPage,
    WindowRange,
)
from oriel.storage.definition import (
    PARTIALS_COLUMN,
    RESERVED_COLUMNS,
    STORE_PROPERTY,
    VALIDITY_FIELDS,
    AggregateSpec,
    PartialsSpec,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.drawing import Drawing, DrawnArrow, DrawnNode
from oriel.storage.errors import (
    BehindPositionBound,
    ForeignCheckpoint,
    HistoryLost,
    IncompatibleStore,
    InvalidCursor,
    InvalidDefinition,
    KeyTypeMismatch,
    ObjectStoreFailed,
    StorageError,
    StoreNotReady,
    UnknownStore,
)
from oriel.storage.files import (
    absolute,
    add_filename_to_errors,
    create_file,
    current_files,
    disk_problem,
    is_object,
    parse_data_directory,
    replace_file,
    sync_directories,
    sync_directory,
    sync_file,
    uri,
    with_digest,
    without_digest,
)
from oriel.storage.key_types import LONG, TEXT, CompositeKeys, KeyType, key_type
from oriel.storage.layout import DataLayout, check_store_name, is_sink_name, sink_name
from oriel.storage.parent_watch import end_with_parent
from oriel.storage.position import (
    COMMIT_INFO_KEY,
    HISTORY_PATTERN,
    CommitRecord,
    OffsetBound,
    Offsets,
    Place,
    PositionBound,
    parse_offset_bound,
)
from oriel.storage.shards import ALL_KEYS, Shard
from oriel.storage.stop_signal import stop_on_signal

__all__ = [
    "ALL_KEYS",
    "COMMIT_INFO_KEY",
    "HISTORY_PATTERN",
    "KEY_BYTES_MAX",
    "LATEST_MS",
    "LONG",
    "PARTIALS_COLUMN",
    "RESERVED_COLUMNS",
    "STORE_PROPERTY",
    "TEXT",
    "UNBOUNDED",
    "VALIDITY_FIELDS",
    "AggregateSpec",
    "BehindPositionBound",
    "CommitRecord",
    "CompositeKeys",
    "DataLayout",
    "Drawing",
    "DrawnArrow",
    "DrawnNode",
    "ForeignCheckpoint",
    "HistoryLost",
    "IncompatibleStore",
    "InvalidCursor",
    "InvalidDefinition",
    "KeyType",
    "KeyTypeMismatch",
    "ObjectStoreFailed",
    "OffsetBound",
    "Offsets",
    "PartialsSpec",
    "Place",
    "PositionBound",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "ScanPage",
    "ScanRange",
    "SessionRange",
    "Shard",
    "StorageError",
    "StoreDefinition",
    "StoreKind",
    "StoreNotReady",
    "UnknownStore",
    "WindowId",
    "WindowPage",
    "WindowRange",
    "WindowSpec",
    "absolute",
    "add_filename_to_errors",
    "add_log_format",
    "check_store_name",
    "create_file",
    "current_files",
    "disk_problem",
    "end_with_parent",
    "errors",
    "is_object",
    "is_sink_name",
    "key_type",
    "log_line",
    "one_line",
    "parse_data_directory",
    "parse_offset_bound",
    "replace_file",
    "say",
    "set_up_console",
    "sink_name",
    "stop_on_signal",
    "sync_directories",
    "sync_directory",
    "sync_file",
    "uri",
    "with_digest",
    "without_digest",
]
