"""Rows by hash, as segments cover them: the hash first, then the columns of the state.

A row without a key is a tombstone: it covers its hash, of which there is no row.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows import heads


def newest(tables: Sequence[pa.Table]) -> pa.Table:
    """What the newest of ``tables`` (the last) that covers a hash has of it; by hash."""
    everything = pa.concat_tables(tables[::-1])
    age = np.repeat(np.arange(len(tables)), [len(table) for table in tables[::-1]])
    hashes = np.asarray(everything.column(0))
    # Stable: the newest table's rows, age 0, stand first among those of a hash. What has the
    # age of the first row of its hash counts, tombstones included.
    order = np.argsort(hashes, kind="stable")
    head = heads(hashes[order])
    age = age[order]
    counts = age == age[head][np.cumsum(head) - 1]
    return everything.take(pa.array(order[counts]))


def by_hash(tables: Sequence[pa.Table]) -> pa.Table:
    """All that ``tables`` have, by hash."""
    everything = pa.concat_tables(tables)
    return everything.take(pa.array(np.argsort(np.asarray(everything.column(0)), kind="stable")))


def without_tombstones(covered: pa.Table) -> pa.Table:
    """The rows that are there."""
    valid = covered["key"].is_valid()
    return covered if pc.all(valid).as_py() else covered.filter(valid)


def state_rows(covered: pa.Table) -> pa.Table:
    """The rows of the state, without hash and tombstones."""
    return without_tombstones(covered).select(range(1, covered.num_columns))
