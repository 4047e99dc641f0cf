"""Stores read from their Delta tables: for the versions that the index has not.

In comes the folder of a store's table; out come its versions (``TableVersions``), each as the
read-only store of its kind (``oriel.storage.contracts``), with windows as the same JSON as the
index gives, and which windows changed between two versions (``changes``). A read costs what the
rows of its keys, times or versions cost, within a ``ReadBudget``.
"""

from oriel.storage.table_store.budget import READ_BYTES_MAX, ReadBudget
from oriel.storage.table_store.changed_windows import Change, ChangePage, ChangeRange, changes
from oriel.storage.table_store.order import is_behind
from oriel.storage.table_store.store import (
    TableKeyValueStore,
    TableSessionStore,
    TableStore,
    TableWindowStore,
)
from oriel.storage.table_store.versions import TableVersions

__all__ = [
    "READ_BYTES_MAX",
    "Change",
    "ChangePage",
    "ChangeRange",
    "ReadBudget",
    "TableKeyValueStore",
    "TableSessionStore",
    "TableStore",
    "TableVersions",
    "TableWindowStore",
    "changes",
    "is_behind",
]
