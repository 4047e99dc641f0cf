"""The table of the built-in aggregates, and the functions that users call.

Each row names the column types that the aggregate accepts, the type of its result, its partial
aggregates (``parts.py``) and how the result is computed. Nulls are skipped. Without a value, the
result is null, for ``count`` 0, and for ``collect_list`` an empty list. The order inside a window
is time, partition and offset, so the order of arrival has no influence.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.aggregates.members import Members, Values
from oriel.pipeline.windows.aggregates.parts import (
    COUNT,
    EXACT_SUM,
    FIRST,
    GREATEST,
    HIGH_SUM,
    LAST,
    LEAST,
    LIST,
    LOW_SUM,
    NET,
    SQUARES,
    WHOLE_SUM,
    WITH_LINEAGE,
    PartialAggregate,
    PartialAggregateRule,
    TypeRule,
    type_for,
    widened,
)
from oriel.pipeline.windows.arrays import Ints, lists
from oriel.pipeline.windows.definitions import IllegalArgument
from oriel.pipeline.windows.exact import rounded, sample_deviation, sample_deviations


@dataclass(frozen=True)
class Rule:
    """One row of the table: how an aggregate is computed for columns of some types.

    Attributes:
        accepts: Returns whether the aggregate accepts a column type.
        result_type: The type of the result.
        parts: The partial aggregates.
        finish: Receives the partial aggregates in the order of ``parts``, and returns one result
            per window.
        directly: Returns the same results from the values of windows that keep their records. A
            rule has it only if it is faster: ``sum`` needs half of the time, and ``avg`` of similar
            doubles a twentieth.
    """

    accepts: Callable[[pa.DataType], bool] = field(compare=False)
    result_type: TypeRule = field(compare=False)
    parts: tuple[PartialAggregateRule, ...]
    finish: Callable[..., pa.Array] = field(compare=False)
    directly: Callable[[Values], pa.Array] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Aggregate:
    """A named aggregate of a window, such as ``count()`` or ``sum("amount")``.

    You get it from the functions of ``oriel.aggregates`` and pass it by name to ``aggregate``.
    Define your own with ``mergeable``.

    Example:
        >>> sum("distance").call
        'sum(distance)'
        >>> flights.group_by("carrier").aggregate(km=sum("distance")).materialize("km_by_carrier")
        <KTable flights: aggregate(km=sum(distance))>
    """

    name: str
    column: str | None
    #: Rows of the table. The first row that accepts the type of the column is used.
    rules: tuple[Rule, ...] = field(repr=False)
    #: The text after the column in ``call``.
    options: str = ""
    #: The numbers of ``options``, from which a reader of a table creates the aggregate again.
    arguments: tuple[float, ...] = field(default=(), repr=False)
    has_lineage: bool = field(default=False, repr=False)

    @property
    def call(self) -> str:
        """The aggregate as readable text, for example ``avg(delay)``."""
        return f"{self.name}({self.column or ''}{self.options})"

    def column_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the column, or the null type if the aggregate reads no column.

        Raises:
            IllegalArgument: The column is unknown.
        """
        if self.column is None:
            return pa.null()
        if self.column not in schema.names:
            message = (
                f"{self.call}: no column {self.column!r}. The columns are {schema.names}. Compute "
                "others in map_values first"
            )
            raise IllegalArgument(message)
        return schema.field(self.column).type

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the Arrow type of the result for values of ``schema``.

        Raises:
            IllegalArgument: The column is unknown, or the aggregate does not accept its type.
        """
        column_type = self.column_type(schema)
        return type_for(self.rule(column_type).result_type, column_type)

    def rule(self, column_type: pa.DataType) -> Rule:
        """Return the row of the table for columns of ``column_type``.

        Raises:
            IllegalArgument: The aggregate does not accept such a column.
        """
        for rule in self.rules:
            if rule.accepts(column_type):
                return rule
        message = (
            f"{self.call}: does not accept a column of type {column_type}. Cast it in "
            "map_values, or keep it with reduce or a function"
        )
        raise IllegalArgument(message)

    @property
    def is_subtractable(self) -> bool:
        """True if rows that a table has deleted can be subtracted."""
        return all(part.name in NET for rule in self.rules for part in rule.parts)

    def of_changes(self) -> "Aggregate":
        """Return the same aggregate for the changes of a table. It must be subtractable."""
        rules = (
            # ``directly`` reads the values of all records without their signs, so it would add the
            # old rows.
            replace(rule, parts=tuple(NET[part.name] for part in rule.parts), directly=None)
            for rule in self.rules
        )
        return replace(self, rules=tuple(rules))

    def with_lineage(self) -> "Aggregate":
        """Return the same aggregate for rows with a lineage."""
        rules = (
            replace(rule, parts=tuple(WITH_LINEAGE.get(part.name, part) for part in rule.parts))
            for rule in self.rules
        )
        return replace(self, rules=tuple(rules), has_lineage=True)

    def parts(self, column_type: pa.DataType) -> tuple[PartialAggregate, ...]:
        """Return the partial aggregates in the order in which ``finish`` receives them."""
        return tuple(PartialAggregate(part, self.column) for part in self.rule(column_type).parts)

    def of(self, members: Members) -> pa.Array:
        """Return the result for every window, from its records."""
        values = members.values(self.column)
        rule = self.rule(values.column.type)
        if rule.directly is not None:
            return rule.directly(values)
        return rule.finish(*(part.of_values(values) for part in rule.parts))


# Column types.


def is_number(column_type: pa.DataType) -> bool:
    """Return True if a column contains integers or floating-point numbers."""
    return bool(pa.types.is_integer(column_type) or pa.types.is_floating(column_type))


def is_scalar(column_type: pa.DataType) -> bool:
    """Return True if a column contains ordered values: numbers, strings or booleans."""
    types = pa.types
    return is_number(column_type) or bool(
        types.is_string(column_type) or types.is_boolean(column_type)
    )


def _is_any(_column_type: pa.DataType) -> bool:
    return True


def _list_type(column_type: pa.DataType) -> pa.DataType:
    return pa.list_(widened(column_type))


# From partial aggregates to results.


def _unchanged(part: pa.Array) -> pa.Array:
    return part


def _sum(sizes: pa.Array, totals: pa.Array) -> pa.Array:
    is_integer = pa.types.is_integer(totals.type)
    return _nullable(np.asarray(totals) if is_integer else rounded(totals), np.asarray(sizes))


def _exact_mean(sizes: pa.Array, totals: pa.Array) -> pa.Array:
    return _mean(rounded(totals), np.asarray(sizes))


def _integer_mean(sizes: pa.Array, low: pa.Array, high: pa.Array) -> pa.Array:
    # The sum of 64-bit integers can wrap, but the sums of their halves cannot.
    # Up to 2**21 values, both sums are below 2**53, so the conversions to doubles are exact, and
    # the sum is rounded once.
    low_sums, high_sums = (np.asarray(half).astype(np.float64) for half in (low, high))
    return _mean(high_sums * 2.0**32 + low_sums, np.asarray(sizes))


def _deviation(sizes: pa.Array, totals: pa.Array, squares: pa.Array) -> pa.Array:
    counts = np.asarray(sizes)
    # One value has no deviation from others: n - 1 is 0.
    return _nullable(sample_deviation(counts, totals, squares), counts, least=2)


def _values_only(values_with_coordinates: pa.Array) -> pa.Array:
    values = values_with_coordinates.field("value")
    # A null struct can have any value in its field.
    return pc.if_else(values_with_coordinates.is_valid(), values, pa.scalar(None, values.type))


def _lists_without_coordinates(values_with_coordinates: pa.Array) -> pa.Array:
    # The offsets of a slice do not start at 0, but its flattened values do.
    offsets = np.asarray(values_with_coordinates.offsets)
    return lists(offsets - offsets[0], values_with_coordinates.flatten().field("value"))


# From values to results.


def _sum_of_values(values: Values) -> pa.Array:
    return _nullable(values.sums, values.ranges.sizes)


def _mean_of_values(values: Values) -> pa.Array:
    return _mean(values.sums, values.ranges.sizes)


def _deviation_of_values(values: Values) -> pa.Array:
    deviations = sample_deviations(values.numbers, values.ranges)
    return _nullable(deviations, values.ranges.sizes, least=2)


def _end(values: Values, *, last: bool) -> pa.Array:
    """Return the first or last value of each window."""
    # Members are in the order of time, partition and offset.
    # The index of an empty range can be -1. It is not read, because ``take`` masks it.
    indices = values.ranges.high - 1 if last else values.ranges.low
    return values.take(indices).cast(widened(values.column.type))


def _lists_of_values(values: Values) -> pa.Array:
    offsets, indices = values.ranges.rows()
    items = values.column.take(pa.array(indices))
    return lists(offsets, items.cast(widened(values.column.type)))


def _mean(sums: NDArray[np.float64], sizes: Ints) -> pa.Array:
    # A window without a value is divided by 1, because numpy warns of 0 / 0. Its result is null.
    return _nullable(sums / np.maximum(sizes, 1), sizes)


def _nullable(numbers: NDArray[np.generic], sizes: Ints, *, least: int = 1) -> pa.Array:
    """Return ``numbers``, with null for windows with fewer than ``least`` values."""
    return pa.array(numbers, mask=sizes < least)


#: Name -> rows of the table: the accepted column types, the type of the result, the partial
#: aggregates, ``finish`` and ``directly``. With ``directly``, ``sum`` and ``avg`` of doubles need
#: no encoding of limbs, and other aggregates need no coordinates of records.
_TABLE: dict[str, tuple[Rule, ...]] = {
    "count": (Rule(_is_any, pa.int64(), (COUNT,), _unchanged),),
    "sum": (
        # The sums of integers are differences of prefix sums, so a sum from the values is not
        # faster.
        Rule(pa.types.is_integer, pa.int64(), (COUNT, WHOLE_SUM), _sum),
        Rule(pa.types.is_floating, pa.float64(), (COUNT, EXACT_SUM), _sum, _sum_of_values),
    ),
    "avg": (
        Rule(pa.types.is_integer, pa.float64(), (COUNT, LOW_SUM, HIGH_SUM), _integer_mean),
        Rule(pa.types.is_floating, pa.float64(), (COUNT, EXACT_SUM), _exact_mean, _mean_of_values),
    ),
    "stddev": (
        Rule(
            is_number, pa.float64(), (COUNT, EXACT_SUM, SQUARES), _deviation, _deviation_of_values
        ),
    ),
    "min": (Rule(is_scalar, widened, (LEAST,), _unchanged),),
    "max": (Rule(is_scalar, widened, (GREATEST,), _unchanged),),
    "first": (Rule(is_scalar, widened, (FIRST,), _values_only, partial(_end, last=False)),),
    "last": (Rule(is_scalar, widened, (LAST,), _values_only, partial(_end, last=True)),),
    "collect_list": (
        Rule(is_scalar, _list_type, (LIST,), _lists_without_coordinates, _lists_of_values),
    ),
}


#: The names of the built-in aggregates of this module.
BUILT_IN = frozenset(_TABLE)


def built_in(name: str, column: str | None) -> Aggregate:
    """Return an aggregate of this module by its name."""
    return Aggregate(name, column, _TABLE[name])


def count(column: str | None = None) -> Aggregate:
    """Count records, or the values of a column that are not null.

    Args:
        column: A column of any type. Default: count records.

    Returns:
        An aggregate of type BIGINT.

    Example:
        >>> delayed = flights.group_by("carrier").aggregate(delayed=count("delay"))
    """
    return built_in("count", column)


def sum(column: str) -> Aggregate:
    """Sum a column of numbers.

    Whole numbers wrap at 64 bits. Doubles are added exactly and rounded once, so the result does
    not depend on the order of records.

    Args:
        column: A column of numbers.

    Returns:
        An aggregate of type BIGINT for whole numbers, otherwise DOUBLE.

    Example:
        >>> distance = flights.group_by("carrier").aggregate(distance=sum("distance"))
    """
    return built_in("sum", column)


def avg(column: str) -> Aggregate:
    """Compute the mean of a column of numbers.

    It is the exact sum, rounded once and divided by the number of values.

    Args:
        column: A column of numbers.

    Returns:
        An aggregate of type DOUBLE.

    Example:
        >>> delay = flights.group_by("carrier").aggregate(delay=avg("delay"))
    """
    return built_in("avg", column)


def stddev(column: str) -> Aggregate:
    """Compute the sample standard deviation of a column of numbers.

    It is null for fewer than two values. It is computed from the exact sums of the values and their
    squares, so its relative error is below 2**-51.

    Args:
        column: A column of numbers.

    Returns:
        An aggregate of type DOUBLE.

    Example:
        >>> spread = flights.group_by("carrier").aggregate(spread=stddev("delay"))
    """
    return built_in("stddev", column)


def min(column: str) -> Aggregate:
    """Compute the least value of a column.

    NaN is greater than each number, and strings are compared by their UTF-8 bytes.

    Args:
        column: A column of numbers, strings or booleans.

    Returns:
        An aggregate of the type of the column.

    Example:
        >>> best = flights.group_by("carrier").aggregate(best=min("delay"))
    """
    return built_in("min", column)


def max(column: str) -> Aggregate:
    """Compute the greatest value of a column.

    NaN is greater than each number, and strings are compared by their UTF-8 bytes.

    Args:
        column: A column of numbers, strings or booleans.

    Returns:
        An aggregate of the type of the column.

    Example:
        >>> worst = flights.group_by("carrier").aggregate(worst=max("delay"))
    """
    return built_in("max", column)


def first(column: str) -> Aggregate:
    """Keep the first value of a column in the order of time, partition and offset.

    Args:
        column: A column of numbers, strings or booleans.

    Returns:
        An aggregate of the type of the column.

    Example:
        >>> first_delay = flights.group_by("carrier").aggregate(first_delay=first("delay"))
    """
    return built_in("first", column)


def last(column: str) -> Aggregate:
    """Keep the last value of a column in the order of time, partition and offset.

    Args:
        column: A column of numbers, strings or booleans.

    Returns:
        An aggregate of the type of the column.

    Example:
        >>> last_delay = flights.group_by("carrier").aggregate(last_delay=last("delay"))
    """
    return built_in("last", column)


def collect_list(column: str) -> Aggregate:
    """Collect all values of a column in the order of time, partition and offset.

    The state keeps all values. Without windows, it grows without a limit.

    Args:
        column: A column of numbers, strings or booleans.

    Returns:
        An aggregate of the type ARRAY.

    Example:
        >>> delays = flights.group_by("carrier").aggregate(delays=collect_list("delay"))
    """
    return built_in("collect_list", column)
