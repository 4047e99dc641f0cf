"""Door of oriel.pipeline.windows.exact."""

from oriel.pipeline.windows.exact import limb_codes
from oriel.pipeline.windows.exact.deviation import sample_deviation
from oriel.pipeline.windows.exact.sums import RangeSums, finite_or_zero, odd_flags, with_odd

__all__ = [
    "RangeSums",
    "finite_or_zero",
    "limb_codes",
    "odd_flags",
    "sample_deviation",
    "with_odd",
]
