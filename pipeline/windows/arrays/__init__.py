"""Door of oriel.pipeline.windows.arrays."""

from oriel.pipeline.windows.arrays.codes import coded_keys, heads, ranked
from oriel.pipeline.windows.arrays.ranges import Ranges, lists, prefix_sums, range_minima
from oriel.pipeline.windows.arrays.timeline import Timeline, pair_order
from oriel.pipeline.windows.arrays.types import Flags, Floats, Ints

__all__ = [
    "Flags",
    "Floats",
    "Ints",
    "Ranges",
    "Timeline",
    "coded_keys",
    "heads",
    "lists",
    "pair_order",
    "prefix_sums",
    "range_minima",
    "ranked",
]
