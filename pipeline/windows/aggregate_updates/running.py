"""Running aggregates: the aggregate after each row of a group."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import PartialAggregates
from oriel.pipeline.windows.arrays import Flags, Ranges, positions_in_runs


def running(columns: PartialAggregates, rows: pa.Table, starts_group: Flags) -> pa.Table:
    """Return for each state row the merge of all rows of its group up to this row.

    This is a prefix scan. The function merges adjacent rows into pairs and calls itself for the
    pairs. The result of a row is the result of the last pair up to it, merged with the row itself
    if the pair does not contain it. The number of pairs is about half the number of rows. The scan
    therefore needs about two merges per row, even if all rows are of one group.

    Args:
        columns: The partial aggregates of the rows.
        rows: The state rows, one group after the other.
        starts_group: True for the first row of each group.
    """
    position_in_group = positions_in_runs(starts_group)
    # With one row per group, each row is its own result. Each call halves the size of the largest
    # group, so a group of n rows needs about log2(n) calls.
    if not position_in_group.any():
        return rows
    starts_pair = position_in_group % 2 == 0
    pair = np.cumsum(starts_pair) - 1
    pairs = running(
        columns, columns.merged(rows, Ranges.of_runs(starts_pair)), starts_group[starts_pair]
    )
    # A row that begins a pair is merged with the pairs before it in its group, if any.
    has_earlier_pair = starts_pair & (position_in_group > 0)
    sizes = 1 + has_earlier_pair
    # A row that ends a pair has the result of this pair. A row that begins a pair has its own row,
    # merged with the result of the previous pair, which is before it in the argument of the merge.
    source = np.where(starts_pair, len(pairs) + np.arange(len(rows)), pair).repeat(sizes)
    parts = Ranges.side_by_side(sizes)
    source[parts.low[has_earlier_pair]] = pair[has_earlier_pair] - 1
    return columns.merged(pa.concat_tables([pairs, rows]).take(pa.array(source)), parts)
