"""The hot reads: raw ASGI requests in, finished answers out, each from one table version.

``route`` says from the raw path whether a request is a hot read, and ``HotReads`` answers it from
the stores of a ``StoreCatalog``. The cold routes read the same catalog.
"""

from oriel.app.reads.catalog import Lag, StoreCatalog, StoreView, position_of
from oriel.app.reads.hot_reads import HotReads, route
from oriel.app.reads.table_reads import TableReads, is_as_of

__all__ = [
    "HotReads",
    "Lag",
    "StoreCatalog",
    "StoreView",
    "TableReads",
    "is_as_of",
    "position_of",
    "route",
]
