"""The disposable ordered index over a store's table: LMDB, written by the tailer, read by the API.

Layout of one index folder::

    DATA/index/<store>/CURRENT              name of the generation that readers use
    DATA/index/<store>/<generation>/        one LMDB environment (data.mdb, lock.mdb)
    DATA/index/<store>/<generation>/DAMAGED left by a reader that found the generation unreadable
    DATA/index/<store>/<generation>/SUSPECT left when a reader's process crashed

An environment has two databases: ``windows`` (record key -> JSON, see ``oriel.storage.key_codec``)
and ``meta`` (one record, the ``IndexState``). Both change in one write transaction per table
version. Invariants: the state names the table version whose rows are there, all of them and
none of a later one; a generation that ``CURRENT`` names is complete; a generation's files are
never replaced in place.
"""

from oriel.storage.index.check import check_in_own_process
from oriel.storage.index.folder import (
    IndexFolder,
    clear_suspicion,
    damage,
    is_suspect,
    mark_suspect,
)
from oriel.storage.index.reader import IndexReader
from oriel.storage.index.rebuild import build_generation
from oriel.storage.index.rows import IndexRows, index_rows, read_batches
from oriel.storage.index.sessions import SessionSnapshot
from oriel.storage.index.snapshot import IndexSnapshot, KeyValueSnapshot
from oriel.storage.index.state import IndexState
from oriel.storage.index.writer import IndexWriter

__all__ = [
    "IndexFolder",
    "IndexReader",
    "IndexRows",
    "IndexSnapshot",
    "IndexState",
    "IndexWriter",
    "KeyValueSnapshot",
    "SessionSnapshot",
    "build_generation",
    "check_in_own_process",
    "clear_suspicion",
    "damage",
    "index_rows",
    "is_suspect",
    "mark_suspect",
    "read_batches",
]
