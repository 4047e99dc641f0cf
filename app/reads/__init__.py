"""Door of oriel.app.reads."""

from oriel.app.reads.catalog import StoreCatalog, StoreView, position_of, require_version
from oriel.app.reads.window_reads import WindowReads, route

__all__ = [
    "StoreCatalog",
    "StoreView",
    "WindowReads",
    "position_of",
    "require_version",
    "route",
]
