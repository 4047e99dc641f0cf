"""Door of oriel.storage."""

from oriel.storage import errors
from oriel.storage.contracts import LATEST_MS, SessionRange, WindowId, WindowPage, WindowRange
from oriel.storage.definition import (
    KINDS,
    NONE,
    RESERVED_COLUMNS,
    SESSION,
    STORE_PROPERTY,
    AggregateSpec,
    StoreDefinition,
    WindowSpec,
)
from oriel.storage.errors import (
    BehindPositionBound,
    ForeignCheckpoint,
    IncompatibleStore,
    InvalidCursor,
    InvalidDefinition,
    StorageError,
    StoreNotReady,
    UnknownStore,
)
from oriel.storage.files import replace_file, sync_file, sync_folder
from oriel.storage.layout import DataLayout, check_store_name
from oriel.storage.parent_watch import end_with_parent
from oriel.storage.position import COMMIT_INFO_KEY, CommitRecord, Offsets
from oriel.storage.position_bound import PositionBound, parse_offset_bound

__all__ = [
    "COMMIT_INFO_KEY",
    "KINDS",
    "LATEST_MS",
    "NONE",
    "RESERVED_COLUMNS",
    "SESSION",
    "STORE_PROPERTY",
    "AggregateSpec",
    "BehindPositionBound",
    "CommitRecord",
    "DataLayout",
    "ForeignCheckpoint",
    "IncompatibleStore",
    "InvalidCursor",
    "InvalidDefinition",
    "Offsets",
    "PositionBound",
    "SessionRange",
    "StorageError",
    "StoreDefinition",
    "StoreNotReady",
    "UnknownStore",
    "WindowId",
    "WindowPage",
    "WindowRange",
    "WindowSpec",
    "check_store_name",
    "end_with_parent",
    "errors",
    "parse_offset_bound",
    "replace_file",
    "sync_file",
    "sync_folder",
]
