"""Array functions of all engines: index ranges, and keys and times as sorted integers.

The functions read and return numpy and Arrow arrays of all keys together. This package does not
depend on windows, records or state.
"""

from oriel.pipeline.windows.arrays.order import (
    Timeline,
    coded_keys,
    lexsort,
    pair_order,
    positions_in_runs,
    ranked,
    run_ends,
    run_starts,
    running_max,
)
from oriel.pipeline.windows.arrays.python_values import python_rows, python_values
from oriel.pipeline.windows.arrays.ranges import (
    Flags,
    Floats,
    Ints,
    Ranges,
    lists,
    prefix_sums,
    range_extremes,
)
from oriel.pipeline.windows.arrays.selection import distinct_counts, kth_least

__all__ = [
    "Flags",
    "Floats",
    "Ints",
    "Ranges",
    "Timeline",
    "coded_keys",
    "distinct_counts",
    "kth_least",
    "lexsort",
    "lists",
    "pair_order",
    "positions_in_runs",
    "prefix_sums",
    "python_rows",
    "python_values",
    "range_extremes",
    "ranked",
    "run_ends",
    "run_starts",
    "running_max",
]
