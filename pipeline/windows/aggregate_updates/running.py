"""Running aggregates: the aggregate after each row of a group."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import PartColumns
from oriel.pipeline.windows.arrays import Flags, Ranges, places_in_runs


def running(columns: PartColumns, rows: pa.Table, head: Flags) -> pa.Table:
    """Return for each state row the merge of all rows of its group up to this row.

    This is a prefix scan. The function merges adjacent rows into pairs and calls itself for the
    pairs. The result of a row is the result of the last pair up to it, merged with the row itself
    if the pair does not contain it. The number of pairs is about half the number of rows. The scan
    therefore needs about two merges per row, even if all rows are of one group.

    Args:
        columns: The partial aggregates of the rows.
        rows: The state rows, one group after the other.
        head: True for the first row of each group.
    """
    of_group = places_in_runs(head)
    if not of_group.any():
        return rows
    begins = of_group % 2 == 0
    pair = np.cumsum(begins) - 1
    pairs = running(columns, columns.merged(rows, Ranges.of_runs(begins)), head[begins])
    # A row that begins a pair is merged with the pairs before it in its group, if any.
    has_before = begins & (of_group > 0)
    sizes = 1 + has_before
    source = np.where(begins, len(pairs) + np.arange(len(rows)), pair).repeat(sizes)
    parts = Ranges.side_by_side(sizes)
    source[parts.low[has_before]] = pair[has_before] - 1
    return columns.merged(pa.concat_tables([pairs, rows]).take(pa.array(source)), parts)
