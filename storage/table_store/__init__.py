"""Read-only stores over Delta tables, for versions that the index does not have.

``TableVersions`` opens a version of a store's table as the read-only store of its kind
(``oriel.storage.contracts``). Windows have the same JSON as in the index. The function ``changes``
returns the windows that changed between two versions. The cost of a read depends on the rows of its
keys, times or versions, and a ``ReadBudget`` limits it.
"""

from oriel.storage.table_store.budget import READ_BYTES_MAX, ReadBudget
from oriel.storage.table_store.changed_windows import Change, ChangePage, ChangeRange, changes
from oriel.storage.table_store.order import is_after
from oriel.storage.table_store.store import (
    TableKeyValueStore,
    TableSessionStore,
    TableStore,
    TableVersionedStore,
    TableWindowStore,
)
from oriel.storage.table_store.version_rows import TableFile, VersionRows, store_columns
from oriel.storage.table_store.versions import TableVersions

__all__ = [
    "READ_BYTES_MAX",
    "Change",
    "ChangePage",
    "ChangeRange",
    "ReadBudget",
    "TableFile",
    "TableKeyValueStore",
    "TableSessionStore",
    "TableStore",
    "TableVersionedStore",
    "TableVersions",
    "TableWindowStore",
    "VersionRows",
    "changes",
    "is_after",
    "store_columns",
]
