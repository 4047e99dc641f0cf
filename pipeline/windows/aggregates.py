"""The declarative aggregates: definitions with a column, evaluated for all windows at once.

Each skips nulls; a window without a value gives null (a count 0, a list []). The order
inside a window is (timestamp, partition, offset), whatever the order of arrival.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.windows.errors import IllegalArgument
from pipeline.windows.exact_sum import Floats, Ints, RangeSums, prefix_sums
from pipeline.windows.members import Members, Values, range_minima
from pipeline.windows.sketches import (
    MAX_LG_K,
    MIN_LG_K,
    approximate_distinct_counts,
    approximate_quantiles,
)

_TypeTest = Callable[[pa.DataType], bool]
_NUMBERS: tuple[_TypeTest, ...] = (pa.types.is_integer, pa.types.is_floating)
_SCALARS: tuple[_TypeTest, ...] = (*_NUMBERS, pa.types.is_string, pa.types.is_boolean)


@dataclass(frozen=True)
class Aggregate(ABC):
    """One aggregate of a window; ``column`` is None where it reads none."""

    column: str | None

    #: Which column types it takes.
    accepts = _NUMBERS

    @property
    def call(self) -> str:
        """How the aggregate is written in a topology, for people: ``avg(delay)``."""
        return f"{type(self).__name__.lower()}({self.column or ''})"

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        """The Arrow type of the result for values of ``schema``.

        Raises:
            IllegalArgument: the column is unknown or of a type this aggregate can't take.
        """
        if self.column is None:
            return self.result_type(pa.null())
        if self.column not in schema.names:
            message = f"{self.call}: no column {self.column!r}; the columns are {schema.names}"
            raise IllegalArgument(message)
        found = schema.field(self.column).type
        if not any(test(found) for test in self.accepts):
            message = f"{self.call}: can't take a column of type {found}; cast it in map_values"
            raise IllegalArgument(message)
        return self.result_type(found)

    def of(self, members: Members) -> pa.Array:
        """The result for every window."""
        return self.of_values(members.values(str(self.column)))

    @abstractmethod
    def result_type(self, found: pa.DataType) -> pa.DataType:
        """The type of the result for a column of type ``found``."""

    @abstractmethod
    def of_values(self, values: Values) -> pa.Array:
        """The result for every window, from one column's values."""


class Count(Aggregate):
    """How many records, or how many non-null values of a column."""

    accepts = (lambda _: True,)

    def of(self, members: Members) -> pa.Array:
        """Count records without a column, values with one."""
        if self.column is None:
            return pa.array(members.ranges.sizes)
        return super().of(members)

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A 64-bit integer."""
        return pa.int64()

    def of_values(self, values: Values) -> pa.Array:
        """The number of values, 0 where there is none."""
        return pa.array(values.ranges.sizes)


class Sum(Aggregate):
    """Sum: integers wrap in 64 bits, doubles are exact and rounded once."""

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """As wide as the column's kind allows."""
        return _widened(found)

    def of_values(self, values: Values) -> pa.Array:
        """The sum of each window's values."""
        if values.is_floating:
            return values.nullable(values.sums)
        before = prefix_sums(values.integers)
        return values.nullable(before[values.ranges.high] - before[values.ranges.low])


class Avg(Aggregate):
    """Mean: the exactly rounded sum, divided by the count."""

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A double."""
        return pa.float64()

    def of_values(self, values: Values) -> pa.Array:
        """The mean of each window's values."""
        sizes = np.maximum(values.ranges.sizes, 1)
        if values.is_floating:
            return values.nullable(values.sums / sizes)
        before = prefix_sums(values.integers)
        sums = before[values.ranges.high] - before[values.ranges.low]
        return values.nullable(sums.astype(np.float64) / sizes)


class Stddev(Aggregate):
    """Sample standard deviation, null for fewer than two values.

    From exact sums of x and x*x kept to 106 bits, so the usual cancellation of
    ``n * sum(x*x) - sum(x)**2`` costs nothing until the deviation is as small as the last
    place of the values, and the result depends on the members only.
    """

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A double."""
        return pa.float64()

    def of_values(self, values: Values) -> pa.Array:
        """The standard deviation of each window's values."""
        with np.errstate(invalid="ignore", over="ignore"):
            deviation = np.sqrt(_sample_variance(values))
        deviation[~np.isfinite(values.sums)] = np.nan
        return values.nullable(deviation, least=2)


class Min(Aggregate):
    """Least value; NaN is above every number."""

    accepts = _SCALARS

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """The column's own type, widened."""
        return _widened(found)

    def of_values(self, values: Values) -> pa.Array:
        """The least of each window's values."""
        ranks, distinct = values.ordered
        return _taken(distinct, range_minima(ranks, values.ranges), values)


class Max(Min):
    """Greatest value; NaN is above every number."""

    def of_values(self, values: Values) -> pa.Array:
        """The greatest of each window's values: the least by negated rank."""
        ranks, distinct = values.ordered
        return _taken(distinct, -range_minima(-ranks, values.ranges), values)


class First(Aggregate):
    """The value that comes first by (timestamp, partition, offset)."""

    accepts = _SCALARS

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """The column's own type, widened."""
        return _widened(found)

    def of_values(self, values: Values) -> pa.Array:
        """The first of each window's values."""
        return values.take(values.ranges.low).cast(_widened(values.column.type))


class Last(First):
    """The value that comes last by (timestamp, partition, offset)."""

    def of_values(self, values: Values) -> pa.Array:
        """The last of each window's values."""
        return values.take(values.ranges.high - 1).cast(_widened(values.column.type))


class CollectList(Aggregate):
    """All values in order of (timestamp, partition, offset)."""

    accepts = _SCALARS

    @property
    def call(self) -> str:
        """The call in Spark's spelling."""
        return f"collect_list({self.column})"

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """A list of the column's own type, widened."""
        return pa.list_(_widened(found))

    def of_values(self, values: Values) -> pa.Array:
        """The values of each window."""
        offsets, rows = values.ranges.rows()
        taken = values.column.take(pa.array(rows)).cast(_widened(values.column.type))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), taken)


@dataclass(frozen=True)
class ApproxCountDistinct(Aggregate):
    """About how many distinct values (Apache DataSketches HLL)."""

    lg_k: int

    accepts = _SCALARS

    @property
    def call(self) -> str:
        """The call with its precision."""
        return f"approx_count_distinct({self.column}, lg_k={self.lg_k})"

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A 64-bit integer."""
        return pa.int64()

    def of_values(self, values: Values) -> pa.Array:
        """The estimate for each window."""
        return pa.array(approximate_distinct_counts(values.column, values.ranges, self.lg_k))


@dataclass(frozen=True)
class ApproxQuantile(Aggregate):
    """About the value below which a share of the values lies (Apache DataSketches t-digest)."""

    probability: float

    @property
    def call(self) -> str:
        """The call with its share."""
        return f"approx_quantile({self.column}, {self.probability})"

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A double."""
        return pa.float64()

    def of_values(self, values: Values) -> pa.Array:
        """The estimate for each window."""
        estimates = approximate_quantiles(values.doubles, values.ranges, self.probability)
        return values.nullable(estimates)


def count(column: str | None = None) -> Aggregate:
    """Count the window's records, or with ``column`` its non-null values."""
    return Count(column)


def sum(column: str) -> Aggregate:
    """Sum ``column``: integers wrap in 64 bits, doubles are exact and rounded once."""
    return Sum(column)


def min(column: str) -> Aggregate:
    """Take the least value of ``column``."""
    return Min(column)


def max(column: str) -> Aggregate:
    """Take the greatest value of ``column``."""
    return Max(column)


def avg(column: str) -> Aggregate:
    """Take the mean of ``column``."""
    return Avg(column)


def stddev(column: str) -> Aggregate:
    """Take the sample standard deviation of ``column``; null for fewer than two values."""
    return Stddev(column)


def first(column: str) -> Aggregate:
    """Take the value of ``column`` with the least (timestamp, partition, offset)."""
    return First(column)


def last(column: str) -> Aggregate:
    """Take the value of ``column`` with the greatest (timestamp, partition, offset)."""
    return Last(column)


def collect_list(column: str) -> Aggregate:
    """Collect the values of ``column`` in order of (timestamp, partition, offset)."""
    return CollectList(column)


def approx_count_distinct(column: str, lg_k: int = 12) -> Aggregate:
    """Estimate the number of distinct values of ``column``.

    ``lg_k`` is the base-2 logarithm of the sketch's size; 12 gives about 1.6 % error.

    Raises:
        IllegalArgument: ``lg_k`` is outside 4 to 21.
    """
    if not MIN_LG_K <= lg_k <= MAX_LG_K:
        message = f"approx_count_distinct: lg_k must be {MIN_LG_K} to {MAX_LG_K}, it is {lg_k}"
        raise IllegalArgument(message)
    return ApproxCountDistinct(column, lg_k)


def approx_quantile(column: str, probability: float) -> Aggregate:
    """Estimate the value of ``column`` below which the share ``probability`` of values lies.

    Raises:
        IllegalArgument: ``probability`` is outside 0 to 1.
    """
    if not 0 <= probability <= 1:
        message = f"approx_quantile: probability must be 0 to 1, it is {probability}"
        raise IllegalArgument(message)
    return ApproxQuantile(column, probability)


def _widened(found: pa.DataType) -> pa.DataType:
    """The widest type of the same kind: what a table column of it should be."""
    if pa.types.is_integer(found):
        return pa.int64()
    if pa.types.is_floating(found):
        return pa.float64()
    return found


def _taken(distinct: pa.Array, ranks: Ints, values: Values) -> pa.Array:
    """Turn ranks back into values; null where a window has none."""
    taken = distinct.take(pa.array(ranks, mask=values.ranges.empty))
    return taken.cast(_widened(values.column.type))


def _sample_variance(values: Values) -> Floats:
    """(n * sum(x*x) - sum(x)**2) / (n * (n-1)), the difference in double-double arithmetic."""
    low, high = values.ranges.low, values.ranges.high
    finite = np.where(np.isfinite(values.doubles), values.doubles, 0.0)
    square, square_error = _product(finite, finite)
    squares = RangeSums(square).double_doubles(low, high)
    errors = RangeSums(np.where(np.isfinite(square_error), square_error, 0.0)).sums(low, high)
    head, tail = values.range_sums.double_doubles(low, high)
    n = values.ranges.sizes.astype(np.float64)
    scaled, scaled_error = _product(squares[0], n)
    squared, squared_error = _product(head, head)
    difference = scaled - squared
    recovered = difference - scaled
    rest = (scaled - (difference - recovered)) - (squared + recovered)
    rest += (scaled_error + (squares[1] + errors) * n) - (squared_error + 2.0 * head * tail)
    variance = (difference + rest) / np.maximum(n * (n - 1.0), 1.0)
    return np.maximum(variance, 0.0)


def _product(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The product and its exact rounding error (Dekker's two-product)."""
    product = left * right
    left_high, left_low = _halves(left)
    right_high, right_low = _halves(right)
    error = ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + (
        left_low * right_low
    )
    return product, error


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Split each double in two of 26 bits (Veltkamp)."""
    scaled = values * 134_217_729.0
    high = scaled - (scaled - values)
    return high, values - high
