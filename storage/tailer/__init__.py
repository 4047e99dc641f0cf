"""Door of oriel.storage.tailer."""

from oriel.storage.tailer.status import StatusFile, StoreStatus, TailerStatus

__all__ = [
    "StatusFile",
    "StoreStatus",
    "TailerStatus",
]
