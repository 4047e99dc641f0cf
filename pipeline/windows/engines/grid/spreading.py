"""Merge of partial aggregates into many overlapping windows, without a copy per window."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import PartialAggregates
from oriel.pipeline.windows.arrays import Ints, Ranges, pair_order, run_starts


def spread(
    columns: PartialAggregates, rows: pa.Table, code: Ints, windows: Ranges
) -> tuple[Ints, Ints, pa.Table]:
    """Merge the rows of each window.

    Args:
        columns: The partial aggregates.
        rows: The rows to merge.
        code: The code of the key of each row.
        windows: The indices of the windows to which each row is added.

    Returns:
        The code of the key, the index, and the merged row of each window.
    """
    # A range of indices has at most two aligned blocks of each size. A row is added to its blocks.
    # The merged row of a block is added to both halves of the block, until a block is one window. A
    # row is therefore merged once per block, and a window once per size.
    block_rows, block_code = rows.slice(0, 0), np.zeros(0, dtype=np.int64)
    block_index = block_code
    for level in reversed(range(windows.levels)):
        which, block = windows.blocks(level)
        codes = np.concatenate([block_code, block_code, code[which]])
        blocks = np.concatenate([2 * block_index, 2 * block_index + 1, block])
        halves = np.arange(len(block_rows))
        source = np.concatenate([halves, halves, len(block_rows) + which])
        order = pair_order(codes, blocks)
        codes, blocks = codes[order], blocks[order]
        same = Ranges.of_runs(run_starts(codes, blocks))
        together = pa.concat_tables([block_rows, rows]).take(pa.array(source[order]))
        block_rows = columns.merged(together, same)
        block_code, block_index = codes[same.low], blocks[same.low]
    return block_code, block_index, block_rows
