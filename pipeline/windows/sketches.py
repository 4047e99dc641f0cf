"""Approximate aggregates by Apache DataSketches, one sketch a window.

A sketch is always built anew from the window's values in canonical order, so that its
estimate does not depend on how the log was cut into batches. Only sketches without
random choices are used (HLL and t-digest; KLL and REQ draw random bits).
"""

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, tdigest_double

from pipeline.windows.exact_sum import Floats, Ints
from pipeline.windows.members import Ranges

MIN_LG_K = 4
MAX_LG_K = 21


def approximate_distinct_counts(column: pa.Array, ranges: Ranges, lg_k: int) -> Ints:
    """Return the HLL estimate of the number of distinct values of each range, 0 for none."""
    values = column.to_pylist()
    estimates = np.zeros(len(ranges.low), dtype=np.int64)
    for window, (low, high) in enumerate(
        zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)
    ):
        sketch = hll_sketch(lg_k)
        for value in values[low:high]:
            sketch.update(value)
        estimates[window] = round(sketch.get_estimate())
    return estimates


def approximate_quantiles(values: Floats, ranges: Ranges, probability: float) -> Floats:
    """Return the t-digest estimate of one quantile of each range; NaN for an empty range."""
    estimates = np.full(len(ranges.low), np.nan)
    for window, (low, high) in enumerate(
        zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)
    ):
        sketch = tdigest_double()
        sketch.update(values[low:high])
        if not sketch.is_empty():
            estimates[window] = sketch.get_quantile(probability)
    return estimates
