"""The declarative aggregates: definitions with a column, evaluated for all windows at once.

Each is computed from parts (``aggregates/parts.py``), which state can keep and merge.
Each skips nulls; a window without a value gives null (a count 0, a list []). The order
inside a window is (timestamp, partition, offset), whatever the order of arrival.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.aggregates.members import Members, Values
from oriel.pipeline.windows.aggregates.parts import (
    CountPart,
    ExactSumPart,
    FirstPart,
    GreatestPart,
    HighSumPart,
    LastPart,
    LeastPart,
    ListPart,
    LowSumPart,
    Part,
    SquaresPart,
    WholeSumPart,
    widened,
)
from oriel.pipeline.windows.arrays import Ints, lists
from oriel.pipeline.windows.definitions import IllegalArgument
from oriel.pipeline.windows.exact import limb_codes, sample_deviation

_TypeTest = Callable[[pa.DataType], bool]
_NUMBERS: tuple[_TypeTest, ...] = (pa.types.is_integer, pa.types.is_floating)
#: What has an order and fits into a column.
SCALARS: tuple[_TypeTest, ...] = (*_NUMBERS, pa.types.is_string, pa.types.is_boolean)


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
        """The result for every window, from its records."""
        found = pa.null() if self.column is None else members.values(self.column).column.type
        return self.from_parts([part.of(members) for part in self.parts(found)])

    @abstractmethod
    def result_type(self, found: pa.DataType) -> pa.DataType:
        """The type of the result for a column of type ``found``."""

    @abstractmethod
    def parts(self, found: pa.DataType) -> tuple[Part, ...]:
        """What has to be kept of the records, for a column of type ``found``."""

    @abstractmethod
    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The result for every window, from its parts in the order of ``parts``."""


class Count(Aggregate):
    """How many records, or how many non-null values of a column."""

    accepts = (lambda _: True,)

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A 64-bit integer."""
        return pa.int64()

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """A count."""
        return (CountPart(self.column),)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The count, 0 where there is no value."""
        return parts[0]


class Sum(Aggregate):
    """Sum: integers wrap in 64 bits, doubles are exact and rounded once."""

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """As wide as the column's kind allows."""
        return widened(found)

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:
        """A count, and a sum that loses nothing."""
        floating = pa.types.is_floating(found)
        total = ExactSumPart(self.column) if floating else WholeSumPart(self.column)
        return (CountPart(self.column), total)

    def of(self, members: Members) -> pa.Array:
        """The sum of each window's values: rounded at once, where no state is between."""
        values = members.values(str(self.column))
        sums = values.sums if values.is_floating else values.ranges.totals(values.integers)
        return _nullable(sums, values.ranges.sizes)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The sum, rounded now."""
        number, total = parts
        sums = limb_codes.rounded(total) if total.type == limb_codes.CODES else np.asarray(total)
        return _nullable(sums, np.asarray(number))


class Avg(Aggregate):
    """Mean: the exactly rounded sum, divided by the count."""

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A double."""
        return pa.float64()

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:
        """A count, and a sum that loses nothing: of whole numbers in two halves."""
        if pa.types.is_floating(found):
            return (CountPart(self.column), ExactSumPart(self.column))
        return (CountPart(self.column), LowSumPart(self.column), HighSumPart(self.column))

    def of(self, members: Members) -> pa.Array:
        """The mean of each window's values: rounded at once, where no state is between."""
        values = members.values(str(self.column))
        if not values.is_floating:
            return super().of(members)
        sizes = values.ranges.sizes
        return _nullable(values.sums / np.maximum(sizes, 1), sizes)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The mean, from the sum rounded now."""
        sizes = np.asarray(parts[0])
        if len(parts) == 2:
            sums = limb_codes.rounded(parts[1])
        else:
            low, high = (np.asarray(half).astype(np.float64) for half in parts[1:])
            sums = high * 2.0**32 + low
        return _nullable(sums / np.maximum(sizes, 1), sizes)


class Stddev(Aggregate):
    """Sample standard deviation, null for fewer than two values.

    From exact sums of x and x*x, so the usual cancellation of ``n * sum(x*x) - sum(x)**2``
    costs nothing: the relative error is below 2**-51 for all doubles and whole numbers, and
    the result depends on the members only.
    """

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A double."""
        return pa.float64()

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """A count, the sum and the sum of squares."""
        return (CountPart(self.column), ExactSumPart(self.column), SquaresPart(self.column))

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The standard deviation of each window's values."""
        sizes = np.asarray(parts[0])
        return _nullable(sample_deviation(sizes, *parts[1:]), sizes, least=2)


class Min(Aggregate):
    """Least value; NaN is above every number."""

    accepts = SCALARS

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """The column's own type, widened."""
        return widened(found)

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """The least value."""
        return (LeastPart(self.column),)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The value itself."""
        return parts[0]


class Max(Min):
    """Greatest value; NaN is above every number."""

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """The greatest value."""
        return (GreatestPart(self.column),)


class First(Min):
    """The value that comes first by (timestamp, partition, offset)."""

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """The first value and its place."""
        return (FirstPart(self.column),)

    def of(self, members: Members) -> pa.Array:
        """The value at the beginning of each window: members stand in order."""
        values = members.values(str(self.column))
        return self._widened(values, values.ranges.low)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The value without its place."""
        value, valid = parts[0].field("value"), parts[0].is_valid()
        return pc.if_else(valid, value, pa.scalar(None, value.type))

    def _widened(self, values: Values, rows: Ints) -> pa.Array:
        return values.take(rows).cast(widened(values.column.type))


class Last(First):
    """The value that comes last by (timestamp, partition, offset)."""

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """The last value and its place."""
        return (LastPart(self.column),)

    def of(self, members: Members) -> pa.Array:
        """The value at the end of each window."""
        values = members.values(str(self.column))
        return self._widened(values, values.ranges.high - 1)


class CollectList(Aggregate):
    """All values in order of (timestamp, partition, offset)."""

    accepts = SCALARS

    @property
    def call(self) -> str:
        """The call in Spark's spelling."""
        return f"collect_list({self.column})"

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """A list of the column's own type, widened."""
        return pa.list_(widened(found))

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """The values with their places."""
        return (ListPart(self.column),)

    def of(self, members: Members) -> pa.Array:
        """The values of each window: they stand in order, so no place is needed."""
        values = members.values(str(self.column))
        offsets, rows = values.ranges.rows()
        taken = values.column.take(pa.array(rows)).cast(widened(values.column.type))
        return lists(offsets, taken)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The values without their places."""
        offsets = np.asarray(parts[0].offsets)
        return lists(offsets - offsets[0], parts[0].flatten().field("value"))


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


def _nullable(numbers: NDArray[np.generic], sizes: Ints, *, least: int = 1) -> pa.Array:
    """``numbers``, null for windows with fewer than ``least`` values."""
    return pa.array(numbers, mask=sizes < least)
