"""The tailer: a process that brings each new version of every table into its index.

    python -m oriel.storage.tailer --data DATA

In come the logs of the tables below one data folder (``oriel.storage.delta``), out go their indexes
(``oriel.storage.index``) and, for other processes, how each store fares: ``StatusFile`` reads that.
"""

from oriel.storage.tailer.lock import require_verifications
from oriel.storage.tailer.status import Heartbeat, StatusFile, StoreStatus, TailerStatus
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
]
