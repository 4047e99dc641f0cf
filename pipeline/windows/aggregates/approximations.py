"""Quantiles, which are exact, and distinct counts, which are exact over sliding windows.

A result must depend only on the set of values. Sliding windows keep their records and count
distinct values exactly. For all other windows, HyperLogLog sketches of Apache DataSketches count
them. The estimate of a sketch that was never in a union depends on the order of arrival, so each
sketch is added to a union first.

Sketches of quantiles depend on the order of merges (t-digest) or on random bits (KLL, REQ). The
partial aggregate of a quantile is therefore the list of all values (docs/decisions/0024).
"""

from functools import partial
from numbers import Integral, Real

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, hll_union

from oriel.pipeline.windows.aggregates.built_in import Aggregate, Rule, is_number, is_scalar
from oriel.pipeline.windows.aggregates.members import Values
from oriel.pipeline.windows.aggregates.parts import PartialAggregateRule
from oriel.pipeline.windows.arrays import (
    Floats,
    Ints,
    Ranges,
    distinct_counts,
    kth_least,
    lexsort,
    lists,
)
from oriel.pipeline.windows.definitions import IllegalArgument

#: The bounds of ``lg_k`` in the library.
_MIN_LG_K, _MAX_LG_K = 4, 21


def approx_count_distinct(column: str, lg_k: int = 12) -> Aggregate:
    """Count the distinct values of a column.

    Over sliding windows, the count is exact, because the state keeps the records. For all other
    windows and without windows, it is the estimate of a HyperLogLog sketch. With ``lg_k=12``, its
    error is about 1.6 percent.

    Args:
        column: A column of numbers, strings or booleans.
        lg_k: The base-2 logarithm of the size of the sketch, from 4 to 21. Default: 12.

    Returns:
        An aggregate of type BIGINT.

    Raises:
        IllegalArgument: ``lg_k`` is not a whole number from 4 to 21.

    Example:
        >>> carriers = flights.group_by("carrier").aggregate(delays=approx_count_distinct("delay"))
        >>> carriers.materialize("carriers")
        <KTable flights: aggregate(delays=approx_count_distinct(delay, lg_k=12))>
    """
    if not _is_instance(lg_k, Integral) or not _MIN_LG_K <= lg_k <= _MAX_LG_K:
        message = (
            f"approx_count_distinct: lg_k must be a whole number from {_MIN_LG_K} to {_MAX_LG_K}, "
            f"not {lg_k!r}"
        )
        raise IllegalArgument(message)
    sketch = PartialAggregateRule(
        "DistinctPart",
        pa.binary(),
        partial(_sketches, lg_k),
        partial(_unions, lg_k),
        options=f", {lg_k}",
    )
    finish = partial(_distinct_estimates, lg_k)
    rule = Rule(is_scalar, pa.int64(), (sketch,), finish, _distinct_counts)
    return Aggregate(
        "approx_count_distinct", column, (rule,), options=f", lg_k={lg_k}", arguments=(int(lg_k),)
    )


def approx_quantile(column: str, probability: float) -> Aggregate:
    """Compute a quantile of a column of numbers.

    The result is exact for every kind of windows. For n sorted values, k is ``probability * n``,
    rounded down. The result is the value after the first k values, or the last value if k is n.
    NaN is skipped. For example, 0.5 returns the upper one of the two middle values if n is even.
    The state keeps all values.

    Args:
        column: A column of numbers.
        probability: The share of smaller values, from 0 to 1. For example, 0.95.

    Returns:
        An aggregate of type DOUBLE.

    Raises:
        IllegalArgument: ``probability`` is not a number from 0 to 1.

    Example:
        >>> carriers = flights.group_by("carrier").aggregate(late=approx_quantile("delay", 0.95))
        >>> carriers.materialize("carriers")
        <KTable flights: aggregate(late=approx_quantile(delay, 0.95))>
    """
    if not _is_instance(probability, Real) or not 0 <= probability <= 1:
        message = f"approx_quantile: probability must be a number from 0 to 1, not {probability!r}"
        raise IllegalArgument(message)
    finish, from_values = (
        partial(_quantiles, probability),
        partial(_quantiles_of_values, probability),
    )
    rule = Rule(is_number, pa.float64(), (_SORTED,), finish, from_values)
    return Aggregate(
        "approx_quantile", column, (rule,), options=f", {probability}",
        arguments=(float(probability),),
    )  # fmt: skip


def _is_instance(value: object, number: type) -> bool:
    # True is an Integral.
    return isinstance(value, number) and not isinstance(value, bool)


def _sketches(lg_k: int, values: Values) -> pa.Array:
    """Return the serialized sketch of the values of each window, null without values."""
    items = values.column.to_pylist()
    if pa.types.is_string(values.column.type):
        # The library skips empty strings, but they are values.
        items = ["=" + item for item in items]
    serialized: list[bytes | None] = []
    for low, high in values.ranges.pairs():
        sketch = hll_sketch(lg_k)
        # The library has no update for arrays, so each value costs one call in Python.
        for item in items[low:high]:
            sketch.update(item)
        serialized.append(bytes(sketch.serialize_compact()) if low < high else None)
    return pa.array(serialized, pa.binary())


def _unions(lg_k: int, rows: pa.Array, ranges: Ranges) -> pa.Array:
    sketches = rows.to_pylist()
    unions: list[bytes | None] = []
    for low, high in ranges.pairs():
        filled = [sketch for sketch in sketches[low:high] if sketch is not None]
        # One sketch needs no union. ``_distinct_estimates`` creates one before it estimates.
        if len(filled) < 2:
            unions.append(filled[0] if filled else None)
            continue
        union = hll_union(lg_k)
        for sketch in filled:
            union.update(hll_sketch.deserialize(sketch))
        unions.append(bytes(union.get_result().serialize_compact()))
    return pa.array(unions, pa.binary())


def _distinct_estimates(lg_k: int, sketches: pa.Array) -> pa.Array:
    """Return the estimated numbers of distinct values, 0 without values."""
    estimates = []
    for serialized in sketches.to_pylist():
        if serialized is None:
            estimates.append(0)
            continue
        sketch = hll_sketch.deserialize(serialized)
        union = hll_union(lg_k)
        # The first call only copies the sketch. The second call creates a union, whose estimate
        # depends only on the set of values.
        union.update(sketch)
        union.update(sketch)
        estimates.append(round(union.get_estimate()))
    return pa.array(estimates, pa.int64())


def _distinct_counts(values: Values) -> pa.Array:
    return pa.array(distinct_counts(values.codes, values.ranges))


def _sorted_lists(values: Values) -> pa.Array:
    """Return the values of each window as doubles in ascending order."""
    offsets, indices = values.ranges.rows()
    return lists(offsets, _sorted(values.doubles[indices], values.ranges.owners))


def _merged_sorted_lists(rows: pa.Array, ranges: Ranges) -> pa.Array:
    items = np.asarray(rows.flatten())
    list_sizes = np.diff(np.asarray(rows.offsets))
    # The lists of a range are adjacent, so the range has the items of all of its lists.
    merged = Ranges.side_by_side(ranges.totals(list_sizes))
    return lists(np.append(0, merged.high), _sorted(items, merged.owners))


def _sorted(items: Floats, owners: Ints) -> Floats:
    """Return ``items`` by owner. The items of each owner are ascending, with NaN at the end."""
    # Equal numbers have equal bits, because 0.0 has replaced -0.0. An unstable sort therefore has
    # only one result. numpy sorts NaN to the end.
    order = np.argsort(items)
    in_order: Floats = items[order[lexsort((owners[order],))]]
    return in_order


def _quantiles(probability: float, sorted_lists: pa.Array) -> pa.Array:
    """Return one quantile per list, null for a list without numbers."""
    # If the array is a slice, ``values`` still has all items, and the offsets count from the first
    # of all items.
    offsets = np.asarray(sorted_lists.offsets).astype(np.int64)
    items = np.asarray(sorted_lists.values)
    # NaN are at the end of each list, so the numbers of a list are its first ``sizes`` items.
    sizes = Ranges(offsets[:-1], offsets[1:]).totals(~np.isnan(items))
    filled = sizes > 0
    quantiles = np.zeros(len(sizes))
    quantiles[filled] = items[offsets[:-1][filled] + _quantile_index(probability, sizes[filled])]
    return pa.array(quantiles, mask=~filled)


def _quantiles_of_values(probability: float, values: Values) -> pa.Array:
    is_number = ~np.isnan(values.doubles)
    numbers, ranges = values.doubles[is_number], values.ranges.among(is_number)
    filled = ~ranges.empty
    non_empty = ranges.keep(filled)
    quantiles = np.zeros(len(filled))
    rows = kth_least(np.argsort(numbers), non_empty, _quantile_index(probability, non_empty.sizes))
    quantiles[filled] = numbers[rows]
    return pa.array(quantiles, mask=~filled)


def _quantile_index(probability: float, sizes: Ints) -> Ints:
    """Return the index of the quantile among ``sizes`` sorted numbers, at least one number."""
    # With the probability 1, the product is the number of values, which is 1 more than the last
    # index.
    place: Ints = np.minimum(np.floor(probability * sizes).astype(np.int64), sizes - 1)
    return place


#: All values in ascending order.
_SORTED = PartialAggregateRule(
    "QuantilePart", pa.list_(pa.float64()), _sorted_lists, _merged_sorted_lists
)
