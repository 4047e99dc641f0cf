"""Running aggregates: after each row of a group what all rows up to it give."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import PartColumns
from oriel.pipeline.windows.arrays import Flags, Ranges, places_in_runs


def running(columns: PartColumns, rows: pa.Table, head: Flags) -> pa.Table:
    """For each row of state all rows of its group up to it, merged; ``head`` begins each group.

    Neighbours are merged into pairs, of which half as many rows the same is found out; a row is
    then the pairs in front of it, and perhaps itself. Twice as many merges as rows, however many
    of them are one group's.
    """
    of_group = places_in_runs(head)
    if not of_group.any():
        return rows
    begins = of_group % 2 == 0
    pair = np.cumsum(begins) - 1
    pairs = running(columns, columns.merged(rows, Ranges.of_runs(begins)), head[begins])
    # Of a row that begins a pair: the pairs before, if there are any, and itself.
    has_before = begins & (of_group > 0)
    sizes = 1 + has_before
    source = np.where(begins, len(pairs) + np.arange(len(rows)), pair).repeat(sizes)
    parts = Ranges.side_by_side(sizes)
    source[parts.low[has_before]] = pair[has_before] - 1
    return columns.merged(pa.concat_tables([pairs, rows]).take(pa.array(source)), parts)
