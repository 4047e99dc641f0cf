"""The approximate aggregates, by Apache DataSketches, with parts that merge.

An estimate may depend on the set of values only. HLL registers do, and an estimate that
is taken after a union does too (a sketch that was never in a union estimates from the
order of arrival, so each goes through one). A t-digest depends on the order in which it
is fed and how it is merged, so its part is the values themselves, and the digest is built
from them in order. KLL and REQ draw random bits and are not used.
"""

from functools import partial
from itertools import pairwise
from numbers import Integral, Real

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, hll_union, tdigest_double

from oriel.pipeline.windows.aggregates.built_in import Aggregate, Rule, is_number, is_scalar
from oriel.pipeline.windows.aggregates.members import Values
from oriel.pipeline.windows.aggregates.parts import PartRule
from oriel.pipeline.windows.arrays import Ranges, lists
from oriel.pipeline.windows.definitions import IllegalArgument

#: What the library takes.
_MIN_LG_K, _MAX_LG_K = 4, 21


def approx_count_distinct(column: str, lg_k: int = 12) -> Aggregate:
    """Estimate the number of distinct values of ``column`` by a HyperLogLog sketch.

    ``lg_k`` is the base-2 logarithm of the sketch's size; 12 gives about 1.6 % error.

    Raises:
        IllegalArgument: ``lg_k`` is no whole number from 4 to 21.
    """
    if not _is_instance(lg_k, Integral) or not _MIN_LG_K <= lg_k <= _MAX_LG_K:
        message = (
            f"approx_count_distinct: lg_k must be a whole number from {_MIN_LG_K} to {_MAX_LG_K}, "
            f"not {lg_k!r}"
        )
        raise IllegalArgument(message)
    sketch = PartRule(
        "DistinctPart",
        pa.binary(),
        partial(_sketches, lg_k),
        partial(_unions, lg_k),
        options=f", {lg_k}",
    )
    rule = Rule(is_scalar, pa.int64(), (sketch,), partial(_distinct_estimates, lg_k))
    return Aggregate("approx_count_distinct", column, (rule,), options=f", lg_k={lg_k}")


def approx_quantile(column: str, probability: float) -> Aggregate:
    """Estimate the value of ``column`` below which the share ``probability`` of values lies.

    Raises:
        IllegalArgument: ``probability`` is no number from 0 to 1.
    """
    if not _is_instance(probability, Real) or not 0 <= probability <= 1:
        message = f"approx_quantile: probability must be a number from 0 to 1, not {probability!r}"
        raise IllegalArgument(message)
    finish = partial(_quantile_estimates, probability)
    rule = Rule(is_number, pa.float64(), (_SORTED,), finish)
    return Aggregate("approx_quantile", column, (rule,), options=f", {probability}")


def _is_instance(value: object, number: type) -> bool:
    # True is an Integral.
    return isinstance(value, number) and not isinstance(value, bool)


def _sketches(lg_k: int, values: Values) -> pa.Array:
    """The serialized sketch of each window's values, null where there is none."""
    items = values.column.to_pylist()
    if pa.types.is_string(values.column.type):
        # The library leaves empty strings out; they are values like others.
        items = ["=" + item for item in items]
    return pa.array([_sketch(lg_k, items[low:high]) for low, high in values.ranges.pairs()])


def _sketch(lg_k: int, items: list[object]) -> bytes | None:
    if not items:
        return None
    sketch = hll_sketch(lg_k)
    for item in items:
        sketch.update(item)
    return bytes(sketch.serialize_compact())


def _unions(lg_k: int, rows: pa.Array, ranges: Ranges) -> pa.Array:
    sketches = rows.to_pylist()
    unions = [_union(lg_k, sketches[low:high]) for low, high in ranges.pairs()]
    return pa.array(unions, pa.binary())


def _union(lg_k: int, sketches: list[bytes | None]) -> bytes | None:
    filled = [sketch for sketch in sketches if sketch is not None]
    if len(filled) < 2:
        return filled[0] if filled else None
    union = hll_union(lg_k)
    for sketch in filled:
        union.update(hll_sketch.deserialize(sketch))
    return bytes(union.get_result().serialize_compact())


def _distinct_estimates(lg_k: int, sketches: pa.Array) -> pa.Array:
    """The estimated number of distinct values, 0 where there is no value."""
    estimates = [_distinct_estimate(lg_k, sketch) for sketch in sketches.to_pylist()]
    return pa.array(estimates, pa.int64())


def _distinct_estimate(lg_k: int, serialized: bytes | None) -> int:
    if serialized is None:
        return 0
    sketch = hll_sketch.deserialize(serialized)
    union = hll_union(lg_k)
    # The first is only copied; the second makes it a union, whose estimate depends on the set.
    union.update(sketch)
    union.update(sketch)
    estimate: float = union.get_estimate()
    return round(estimate)


def _sorted_lists(values: Values) -> pa.Array:
    """Each window's values as doubles in ascending order."""
    offsets, indices = values.ranges.rows()
    items = values.doubles[indices]
    return lists(offsets, items[np.lexsort((items, values.ranges.owners))])


def _merged_sorted_lists(rows: pa.Array, ranges: Ranges) -> pa.Array:
    items = np.asarray(rows.flatten())
    list_sizes = np.diff(np.asarray(rows.offsets))
    # The lists of a range lie side by side: the range owns as many items as they have together.
    merged = Ranges.side_by_side(ranges.totals(list_sizes))
    offsets = np.append(0, merged.high)
    return lists(offsets, items[np.lexsort((items, merged.owners))])


def _quantile_estimates(probability: float, sorted_lists: pa.Array) -> pa.Array:
    """The t-digest's estimate of one quantile of each list, null for an empty one."""
    offsets = np.asarray(sorted_lists.offsets).tolist()
    items = np.asarray(sorted_lists.values)
    estimates = []
    for low, high in pairwise(offsets):
        digest = tdigest_double()
        digest.update(items[low:high].copy())
        estimates.append(None if digest.is_empty() else digest.get_quantile(probability))
    return pa.array(estimates, pa.float64())


#: All values in ascending order.
_SORTED = PartRule("QuantilePart", pa.list_(pa.float64()), _sorted_lists, _merged_sorted_lists)
