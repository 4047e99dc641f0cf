"""Read an index: snapshots of one version of a store, and their pages."""

from oriel.storage.index.reading.pages import FINAL
from oriel.storage.index.reading.reader import IndexReader, open_indexes_max
from oriel.storage.index.reading.sessions import SessionSnapshot
from oriel.storage.index.reading.snapshot import (
    IndexSnapshot,
    KeyValueSnapshot,
    WindowSnapshot,
)
from oriel.storage.index.reading.versions import VersionedSnapshot

__all__ = [
    "FINAL",
    "IndexReader",
    "IndexSnapshot",
    "KeyValueSnapshot",
    "SessionSnapshot",
    "VersionedSnapshot",
    "WindowSnapshot",
    "open_indexes_max",
]
