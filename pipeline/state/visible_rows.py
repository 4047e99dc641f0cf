"""Rows by hash, as segments cover them: the column of the hash, then the columns of the state.

A row without a key is a tombstone. It covers its hash, for which no row exists.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows import run_starts


def newest(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the visible rows of ``tables``, sorted by hash. The last table is the newest.

    For each hash, only the newest table that covers it is visible. Tombstones are included.
    """
    everything = pa.concat_tables(tables[::-1])
    age = np.repeat(np.arange(len(tables)), [len(table) for table in tables[::-1]])
    hashes = np.asarray(everything.column(0))
    # The sort is stable, so the rows of the newest table (age 0) are first for their hash. A row is
    # visible if it has the age of the first row of its hash. Tombstones are included.
    order = np.argsort(hashes, kind="stable")
    head = run_starts(hashes[order])
    age = age[order]
    counts = age == age[head][np.cumsum(head) - 1]
    return everything.take(pa.array(order[counts]))


def sorted_by_hash(tables: Sequence[pa.Table]) -> pa.Table:
    """Return all rows of ``tables``, sorted by hash."""
    everything = pa.concat_tables(tables)
    return everything.take(pa.array(np.argsort(np.asarray(everything.column(0)), kind="stable")))


def without_tombstones(rows_by_hash: pa.Table) -> pa.Table:
    """Return the rows that are not tombstones."""
    valid = rows_by_hash["key"].is_valid()
    # Most segments have no tombstones. Then nothing is copied.
    return rows_by_hash if pc.all(valid).as_py() else rows_by_hash.filter(valid)


def state_rows(rows_by_hash: pa.Table) -> pa.Table:
    """Return the rows of the state, without the hash and without tombstones."""
    return without_tombstones(rows_by_hash).select(range(1, rows_by_hash.num_columns))
