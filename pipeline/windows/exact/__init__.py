"""Exact sums of many windows together. A sum depends only on the members of its window.

The input is columns of numbers and the index ranges of windows. The output is one sum per window,
as a double that is rounded once, or as a list of limbs. The state keeps the limbs, which merge
without loss. Standard deviations are computed from such sums.
"""

from oriel.pipeline.windows.exact.coded_sums import (
    ENCODED_SUM_TYPE,
    merged_sums,
    net_square_codes,
    net_sum_codes,
    rounded,
    sample_deviation,
    sample_deviations,
    square_codes,
    sum_codes,
)
from oriel.pipeline.windows.exact.sums import rounded_sums

__all__ = [
    "ENCODED_SUM_TYPE",
    "merged_sums",
    "net_square_codes",
    "net_sum_codes",
    "rounded",
    "rounded_sums",
    "sample_deviation",
    "sample_deviations",
    "square_codes",
    "sum_codes",
]
