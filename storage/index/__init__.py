"""The disposable ordered index over a store's table: LMDB, written by the tailer, read by the API.

In come rows of the table (``file_rows``) and the state that they lead to: ``IndexWriter`` puts one
table version on top of the one before, ``build_generation`` a whole version into a new generation.
Out come snapshots of one version (``IndexReader``), which answer what the contracts of
``oriel.storage`` promise, as finished JSON. Damage is an error, a mark for the tailer and a
rebuild, never a crash.

Layout of one index folder::

    FOLDER = DATA/index/_format-<n>/<store>
    FOLDER/CURRENT                  name of the generation that readers use
    FOLDER/COMPARED                 when the index was last compared with its table
    FOLDER/<generation>/            one LMDB environment (data.mdb, lock.mdb)
    FOLDER/<generation>/DAMAGED     left by a reader that found the generation unreadable
    FOLDER/<generation>/SUSPECT     left when a reader's process crashed
    FOLDER/<generation>/...         other marks: see ``oriel.storage.index.trust``

An environment has four databases: ``windows`` (record key -> JSON, see
``oriel.storage.key_codec``), ``lengths`` (sessions by class of length), ``meta`` (one record, the
``IndexState``) and ``ahead`` (record key -> revision, of rows that others wrote with one that the
pipeline has still to come to). Each value has a checksum. All change in one
write transaction per table version. Invariants: the state names the table version
whose rows are there, all of them and none of a later one; a generation that ``CURRENT`` names is
complete; a generation's files are never replaced in place.
"""

from oriel.storage.index.build import build_generation
from oriel.storage.index.check import (
    check_in_own_process,
    outcome_of_look,
    start_comparison,
    start_look,
)
from oriel.storage.index.comparison import index_differences
from oriel.storage.index.folder import (
    IndexFolder,
    clear_suspicion,
    damage,
    data_bytes,
    is_suspect,
    is_unverified,
    mark_damaged,
    mark_suspect,
    release,
    require_verification,
    withdraw,
)
from oriel.storage.index.reading import (
    FINAL,
    IndexReader,
    IndexSnapshot,
    KeyValueSnapshot,
    SessionSnapshot,
    open_indexes_max,
)
from oriel.storage.index.rows import (
    IndexRows,
    Kept,
    file_rows,
    json_texts,
    newest_of_each,
    row_identity_json,
    row_json,
    table_batches,
    window_json,
)
from oriel.storage.index.state import Extent, IndexState
from oriel.storage.index.trust import (
    is_open,
    note_crash,
    release_if_sound,
    verify_found,
    was_reading,
)
from oriel.storage.index.writer import IndexWriter, revision_range

__all__ = [
    "FINAL",
    "Extent",
    "IndexFolder",
    "IndexReader",
    "IndexRows",
    "IndexSnapshot",
    "IndexState",
    "IndexWriter",
    "Kept",
    "KeyValueSnapshot",
    "SessionSnapshot",
    "build_generation",
    "check_in_own_process",
    "clear_suspicion",
    "damage",
    "data_bytes",
    "file_rows",
    "index_differences",
    "is_open",
    "is_suspect",
    "is_unverified",
    "json_texts",
    "mark_damaged",
    "mark_suspect",
    "newest_of_each",
    "note_crash",
    "open_indexes_max",
    "outcome_of_look",
    "release",
    "release_if_sound",
    "require_verification",
    "revision_range",
    "row_identity_json",
    "row_json",
    "start_comparison",
    "start_look",
    "table_batches",
    "verify_found",
    "was_reading",
    "window_json",
    "withdraw",
]
