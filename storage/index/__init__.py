"""The ordered index of a store's table: LMDB, written by the tailer and read by the service.

An index contains only data of its table. If it is damaged or deleted, the tailer builds it again.

- Input: rows of the table (``file_rows``) and the ``IndexState`` after them. ``IndexWriter``
  applies one table version after the other. ``build_generation`` writes one whole version to a new
  generation.

- Output: snapshots of one version (``IndexReader``). They implement the protocols of
  ``oriel.storage.contracts`` and return windows as encoded JSON.

- Damage raises an error, leaves a marker file for the tailer, and leads to a rebuild. It does not
  crash the process that reads.

Files of one index::

    INDEX = DATA/index/_format-<n>/<store>
    INDEX/CURRENT                   name of the generation that readers use
    INDEX/COMPARED                  when the index was last compared with its table
    INDEX/<generation>/             one LMDB environment (data.mdb, lock.mdb)
    INDEX/<generation>/DAMAGED      written by a reader that found the generation unreadable
    INDEX/<generation>/SUSPECT      written after the process of a reader crashed
    INDEX/<generation>/...          other marker files: see ``oriel.storage.index.trust``

An LMDB environment has four databases, and each value has a checksum::

    windows    record key -> JSON (``oriel.storage.key_codec``)
    lengths    sessions by length class (``oriel.storage.index.lengths``)
    meta       one record, the ``IndexState``
    ahead      record key -> revision of rows with a revision above the pipeline's

Other programs can write rows with a revision that the pipeline has not reached yet. These rows are
listed in ``ahead``.

Invariants:

- One write transaction applies a table version with its rows and its state.
- The state names a table version. The index has all visible rows of this version, and no rows of a
  later version.
- ``CURRENT`` always names a complete generation.
- The files of a generation are never replaced. A rebuild creates a new generation.
"""

from oriel.storage.index.build import build_generation
from oriel.storage.index.check import (
    raise_findings,
    start_comparison,
    start_verification,
    verify_in_subprocess,
)
from oriel.storage.index.comparison import index_differences
from oriel.storage.index.directory import (
    IndexDirectory,
    are_reads_blocked,
    block_reads_until_verified,
    clear_verification_request,
    damage,
    data_bytes,
    is_verification_requested,
    mark_damaged,
    release,
    request_verification,
    withdraw,
)
from oriel.storage.index.reading import (
    FINAL,
    IndexReader,
    IndexSnapshot,
    KeyValueSnapshot,
    SessionSnapshot,
    VersionedSnapshot,
    WindowSnapshot,
    open_indexes_max,
)
from oriel.storage.index.rows import (
    IndexRows,
    LiveRowMask,
    file_rows,
    json_strings,
    newest_row_indices,
    row_identity_json,
    row_json,
    table_batches,
    table_columns,
    window_json,
)
from oriel.storage.index.state import Extent, IndexState
from oriel.storage.index.trust import (
    ended_in_read,
    is_open,
    record_crash,
    verify_existing,
    verify_unfollowed,
)
from oriel.storage.index.writer import IndexWriter, revision_range
from oriel.storage.key_codec import record_keys

__all__ = [
    "FINAL",
    "Extent",
    "IndexDirectory",
    "IndexReader",
    "IndexRows",
    "IndexSnapshot",
    "IndexState",
    "IndexWriter",
    "KeyValueSnapshot",
    "LiveRowMask",
    "SessionSnapshot",
    "VersionedSnapshot",
    "WindowSnapshot",
    "are_reads_blocked",
    "block_reads_until_verified",
    "build_generation",
    "clear_verification_request",
    "damage",
    "data_bytes",
    "ended_in_read",
    "file_rows",
    "index_differences",
    "is_open",
    "is_verification_requested",
    "json_strings",
    "mark_damaged",
    "newest_row_indices",
    "open_indexes_max",
    "raise_findings",
    "record_crash",
    "record_keys",
    "release",
    "request_verification",
    "revision_range",
    "row_identity_json",
    "row_json",
    "start_comparison",
    "start_verification",
    "table_batches",
    "table_columns",
    "verify_existing",
    "verify_in_subprocess",
    "verify_unfollowed",
    "window_json",
    "withdraw",
]
