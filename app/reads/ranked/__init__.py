"""Reads with ``order_by``.

A read of all items runs in steps (``RankedRead``). A read of the newest window or row of each key
first selects candidates from columns in memory, which follow the versions of the store
(``NewestColumns``). These columns are sorted once per column of an order (``SortedColumns``). Then
the read orders only the candidates.
"""

from oriel.app.reads.ranked.newest import NewestColumns, NewestColumnsOfStores
from oriel.app.reads.ranked.read import RankedRead, is_ranked

__all__ = ["NewestColumns", "NewestColumnsOfStores", "RankedRead", "is_ranked"]
