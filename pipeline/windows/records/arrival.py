"""The two orders of records: of arrival, and inside a window.

Arrival is (partition, offset, suborder): what users' functions see. Inside a window it is
(timestamp, partition, offset, suborder). Both are properties of the log, so lists, ``first`` and
``last`` and the last bits of float sums are equal however the log was cut into batches and its
partitions interleaved (design promise 1).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, pair_order, prefix_sums


def arrival_keys(records: pa.Table) -> tuple[Ints, ...]:
    """Sort keys of arrival, the last first as ``np.lexsort`` takes them.

    A log that is no result of a join has no column ``suborder``; a record beside a join's
    results has a null there, which counts as 0.
    """
    names = [name for name in ("suborder", "offset", "partition") if name in records.column_names]
    return tuple(np.asarray(pc.fill_null(records[name], 0)) for name in names)


def window_order(group: Ints, records: pa.Table) -> Ints:
    """The order of records by ``group``, and within a group as inside a window.

    ``group`` has a number from 0 on for each record: the code of its key, usually.
    """
    time = np.asarray(records["timestamp_ms"])
    # One sort of single integers for all; only equal times of a group need the other keys, and
    # these stand side by side, so sorting them by their rank first leaves each where it belongs.
    order = pair_order(group, time)
    equal_next: Flags = (np.diff(group[order]) == 0) & (np.diff(time[order]) == 0)
    if equal_next.any():
        tied = np.append(equal_next, False) | np.append(False, equal_next)
        rows, rank = order[tied], prefix_sums(~equal_next)[tied]
        arrival = (key[rows] for key in arrival_keys(records))
        order[tied] = rows[np.lexsort((*arrival, rank))]
    return order
