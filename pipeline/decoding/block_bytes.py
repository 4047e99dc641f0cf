"""A block's values as one array of bytes."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows import Ints


class BlockBytes:
    """The bytes of a block's lines, and where each line begins and ends in them."""

    def __init__(self, lines: pa.BinaryArray) -> None:
        """Look at ``lines``, which has no nulls, without a copy."""
        self.lines = lines
        _, offsets, data = lines.buffers()
        ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
        everything = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        self.data = everything[ends[0] : ends[-1]]
        self.starts = ends[:-1] - ends[0]
        self.ends = ends[1:] - ends[0]

    def lines_of(self, positions: Ints) -> Ints:
        """The numbers of the lines in which the bytes at ``positions`` are."""
        numbers: Ints = np.searchsorted(self.ends, positions, side="right")
        return numbers
