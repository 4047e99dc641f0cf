"""Exact arithmetic over many windows at once: sums that depend on a window's members only.

In come columns of numbers and the index ranges of windows; out go one sum a window, as doubles
that are rounded once or as lists of limbs, which the state keeps and which merge without loss,
and the standard deviation that such sums give.
"""

from oriel.pipeline.windows.exact.coded_sums import (
    CODES,
    merged_codes,
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
    "CODES",
    "merged_codes",
    "net_square_codes",
    "net_sum_codes",
    "rounded",
    "rounded_sums",
    "sample_deviation",
    "sample_deviations",
    "square_codes",
    "sum_codes",
]
