"""Merge of partial aggregates into many overlapping windows, without a copy per window."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import PartColumns
from oriel.pipeline.windows.arrays import Ints, Ranges, heads, pair_order


def spread(
    columns: PartColumns, rows: pa.Table, code: Ints, windows: Ranges
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
    held, held_code = rows.slice(0, 0), np.zeros(0, dtype=np.int64)
    held_block = held_code
    for level in reversed(range(windows.levels)):
        which, block = windows.blocks(level)
        codes = np.concatenate([held_code, held_code, code[which]])
        blocks = np.concatenate([2 * held_block, 2 * held_block + 1, block])
        halves = np.arange(len(held))
        source = np.concatenate([halves, halves, len(held) + which])
        order = pair_order(codes, blocks)
        codes, blocks = codes[order], blocks[order]
        same = Ranges.of_runs(heads(codes, blocks))
        together = pa.concat_tables([held, rows]).take(pa.array(source[order]))
        held = columns.merged(together, same)
        held_code, held_block = codes[same.low], blocks[same.low]
    return held_code, held_block, held
