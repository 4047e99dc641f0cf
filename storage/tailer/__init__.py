"""The tailer: a process that applies each new version of every table to its index.

    python -m oriel.storage.tailer --data DATA

The tailer reads the logs of the tables of one data directory (``oriel.storage.delta``). It writes
their indexes (``oriel.storage.index``) and the status of each store, which ``StatusFile`` reads.
"""

from oriel.storage.tailer.lock import require_verifications
from oriel.storage.tailer.status import (
    Heartbeat,
    StatusFile,
    StoreStatus,
    TailerStatus,
    versions_in_use,
)
from oriel.storage.tailer.tables import has_entries, has_tables_or_indexes, stores_with_tables

__all__ = [
    "Heartbeat",
    "StatusFile",
    "StoreStatus",
    "TailerStatus",
    "has_entries",
    "has_tables_or_indexes",
    "require_verifications",
    "stores_with_tables",
    "versions_in_use",
]
