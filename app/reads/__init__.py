"""The hot reads, which serve raw ASGI requests. Each response is from one table version.

``route`` detects a hot read by its raw path, and ``HotReads`` serves it from the stores of a
``StoreCatalog``. The cold routes read the same catalog.
"""

from oriel.app.reads.catalog import Lag, StoreCatalog, StoreView, position_of
from oriel.app.reads.changes import ChangeReader, Changes, ResetNeeded, Rows
from oriel.app.reads.columns import excluded_columns, without_columns
from oriel.app.reads.histories import LogDigests
from oriel.app.reads.hot_reads import HotReads, route
from oriel.app.reads.merged import mergeable_aggregates
from oriel.app.reads.page_contents import content_of
from oriel.app.reads.pages import ReadPage, ReadRequest, wrong_kind
from oriel.app.reads.sharding import key_of_target, require_own_keys
from oriel.app.reads.snapshot_reads import COLD_READS
from oriel.app.reads.steps import read_page_at
from oriel.app.reads.table_reads import TableReads, is_as_of

__all__ = [
    "COLD_READS",
    "ChangeReader",
    "Changes",
    "HotReads",
    "Lag",
    "LogDigests",
    "ReadPage",
    "ReadRequest",
    "ResetNeeded",
    "Rows",
    "StoreCatalog",
    "StoreView",
    "TableReads",
    "content_of",
    "excluded_columns",
    "is_as_of",
    "key_of_target",
    "mergeable_aggregates",
    "position_of",
    "read_page_at",
    "require_own_keys",
    "route",
    "without_columns",
    "wrong_kind",
]
