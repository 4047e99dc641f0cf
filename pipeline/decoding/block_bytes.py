"""The values of a block as one array of bytes."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows import Ints


class BlockBytes:
    """The bytes of a block of lines or other binary values.

    Attributes:
        lines: The lines.
        data: The bytes of all lines, in order and without separators.
        starts: The position in ``data`` of the first byte of each line.
        ends: The position in ``data`` after the last byte of each line.
    """

    def __init__(self, lines: pa.BinaryArray) -> None:
        """Read the buffers of ``lines``, which has no nulls, without a copy."""
        self.lines = lines
        _, offsets, data = lines.buffers()
        ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
        everything = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        self.data = everything[ends[0] : ends[-1]]
        self.starts = ends[:-1] - ends[0]
        self.ends = ends[1:] - ends[0]

    def line_indexes(self, positions: Ints) -> Ints:
        """Return the index of the line that contains the byte at each of ``positions``."""
        indexes: Ints = np.searchsorted(self.ends, positions, side="right")
        return indexes
