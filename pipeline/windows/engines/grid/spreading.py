"""Parts that go into many overlapping windows each, without a copy for each window."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import PartColumns
from oriel.pipeline.windows.arrays import Ints, Ranges, heads, pair_order


def spread(
    columns: PartColumns, rows: pa.Table, code: Ints, windows: Ranges
) -> tuple[Ints, Ints, pa.Table]:
    """Merge the rows that each window gets: (code of its key, its number, one row each).

    Row i, of the key with the code ``code[i]``, goes into the windows with the numbers in range i.
    """
    # A range of numbers is two aligned blocks of each size at most. A row goes into its blocks;
    # what the rows of a block are together goes on into both halves of it, down to blocks of one
    # window. So a row is merged once for each of its blocks, and each window once for each size.
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
