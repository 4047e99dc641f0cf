"""The table of declarative aggregates, and the functions by which users name them.

Each row says which column types an aggregate takes, what it gives, which parts are kept of the
records (``parts.py``) and how the result is finished from them. Each skips nulls; a window
without a value gives null (a count 0, a list []). The order inside a window is (timestamp,
partition, offset), whatever the order of arrival.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
    OF_JOINED,
    SQUARES,
    WHOLE_SUM,
    Part,
    PartRule,
    TypeRule,
    type_for,
    widened,
)
from oriel.pipeline.windows.arrays import Ints, lists
from oriel.pipeline.windows.definitions import IllegalArgument
from oriel.pipeline.windows.exact import rounded, sample_deviation, sample_deviations


@dataclass(frozen=True)
class Rule:
    """One row of the table: how an aggregate treats columns of some types.

    ``finish`` takes the parts in the order of ``parts``, one row a window, and gives one result
    a row. ``directly`` gives the same results from the values. It is for windows that keep
    their records (sliding ones), and stands only where leaving out the parts pays: results
    then take a half (``sum``) to a twentieth (``avg`` of similar doubles) of the time.
    """

    accepts: Callable[[pa.DataType], bool] = field(compare=False)
    result_type: TypeRule = field(compare=False)
    parts: tuple[PartRule, ...]
    finish: Callable[..., pa.Array] = field(compare=False)
    directly: Callable[[Values], pa.Array] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a window; ``column`` is None where it reads none."""

    name: str
    column: str | None
    #: The rows of the table: the first one that takes the column's type counts.
    rules: tuple[Rule, ...] = field(repr=False)
    #: What follows the column in ``call``.
    options: str = ""

    @property
    def call(self) -> str:
        """How the aggregate is written in a topology, for people: ``avg(delay)``."""
        return f"{self.name}({self.column or ''}{self.options})"

    def column_type(self, schema: pa.Schema) -> pa.DataType:
        """The type of the column it reads, null where it reads none.

        Raises:
            IllegalArgument: the column is unknown.
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
        """The Arrow type of the result for values of ``schema``.

        Raises:
            IllegalArgument: the column is unknown or of a type this aggregate can't take.
        """
        column_type = self.column_type(schema)
        return type_for(self.rule(column_type).result_type, column_type)

    def rule(self, column_type: pa.DataType) -> Rule:
        """The row of the table for columns of ``column_type``.

        Raises:
            IllegalArgument: it can't take such a column.
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
        """Whether the rows that a table no longer has can be taken away from it."""
        return all(part.name in NET for rule in self.rules for part in rule.parts)

    def of_changes(self) -> "Aggregate":
        """The same aggregate of a table's rows, kept up by its changes; if it is subtractable."""
        rules = (
            replace(rule, parts=tuple(NET[part.name] for part in rule.parts), directly=None)
            for rule in self.rules
        )
        return replace(self, rules=tuple(rules))

    def of_joined(self) -> "Aggregate":
        """The same aggregate of results of more than one join of streams, which have partners."""
        rules = (
            replace(rule, parts=tuple(OF_JOINED.get(part.name, part) for part in rule.parts))
            for rule in self.rules
        )
        return replace(self, rules=tuple(rules))

    def parts(self, column_type: pa.DataType) -> tuple[Part, ...]:
        """What has to be kept of the records, in the order in which ``finish`` takes them."""
        return tuple(Part(part, self.column) for part in self.rule(column_type).parts)

    def of(self, members: Members) -> pa.Array:
        """The result for every window, from its records."""
        values = members.values(self.column)
        rule = self.rule(values.column.type)
        if rule.directly is not None:
            return rule.directly(values)
        return rule.finish(*(part.of_values(values) for part in rule.parts))


# Column types.


def is_number(column_type: pa.DataType) -> bool:
    """Whether a column holds integers or floating point numbers."""
    return bool(pa.types.is_integer(column_type) or pa.types.is_floating(column_type))


def is_scalar(column_type: pa.DataType) -> bool:
    """Whether a column holds what has an order: numbers, strings or booleans."""
    types = pa.types
    return is_number(column_type) or bool(
        types.is_string(column_type) or types.is_boolean(column_type)
    )


def _is_any(_column_type: pa.DataType) -> bool:
    return True


def _list_type(column_type: pa.DataType) -> pa.DataType:
    return pa.list_(widened(column_type))


# From parts to results.


def _unchanged(part: pa.Array) -> pa.Array:
    return part


def _sum(sizes: pa.Array, totals: pa.Array) -> pa.Array:
    return _nullable(np.asarray(totals), np.asarray(sizes))


def _exact_sum(sizes: pa.Array, totals: pa.Array) -> pa.Array:
    return _nullable(rounded(totals), np.asarray(sizes))


def _exact_mean(sizes: pa.Array, totals: pa.Array) -> pa.Array:
    return _mean(rounded(totals), np.asarray(sizes))


def _integer_mean(sizes: pa.Array, low: pa.Array, high: pa.Array) -> pa.Array:
    # The sum of 64-bit integers may wrap, that of their halves does not.
    low_sums, high_sums = (np.asarray(half).astype(np.float64) for half in (low, high))
    return _mean(high_sums * 2.0**32 + low_sums, np.asarray(sizes))


def _deviation(sizes: pa.Array, totals: pa.Array, squares: pa.Array) -> pa.Array:
    counts = np.asarray(sizes)
    # One value has no deviation from others: n - 1 is 0.
    return _nullable(sample_deviation(counts, totals, squares), counts, least=2)


def _without_coordinates(located: pa.Array) -> pa.Array:
    values = located.field("value")
    # A null struct may have any value in its field.
    return pc.if_else(located.is_valid(), values, pa.scalar(None, values.type))


def _lists_without_coordinates(located: pa.Array) -> pa.Array:
    offsets = np.asarray(located.offsets)
    return lists(offsets - offsets[0], located.flatten().field("value"))


# From values to results.


def _sum_of_values(values: Values) -> pa.Array:
    return _nullable(values.sums, values.ranges.sizes)


def _mean_of_values(values: Values) -> pa.Array:
    return _mean(values.sums, values.ranges.sizes)


def _deviation_of_values(values: Values) -> pa.Array:
    deviations = sample_deviations(values.numbers, values.ranges)
    return _nullable(deviations, values.ranges.sizes, least=2)


def _first_value(values: Values) -> pa.Array:
    # Members stand in canonical order.
    return values.take(values.ranges.low).cast(widened(values.column.type))


def _last_value(values: Values) -> pa.Array:
    return values.take(values.ranges.high - 1).cast(widened(values.column.type))


def _lists_of_values(values: Values) -> pa.Array:
    offsets, indices = values.ranges.rows()
    items = values.column.take(pa.array(indices))
    return lists(offsets, items.cast(widened(values.column.type)))


def _mean(sums: NDArray[np.float64], sizes: Ints) -> pa.Array:
    return _nullable(sums / np.maximum(sizes, 1), sizes)


def _nullable(numbers: NDArray[np.generic], sizes: Ints, *, least: int = 1) -> pa.Array:
    """``numbers``, null for windows with fewer than ``least`` values."""
    return pa.array(numbers, mask=sizes < least)


#: The table: by name the column types that are taken, the type of the result, the parts that are
#: kept, how they are finished, and how results come directly from the values of a window.
#: ``sum`` and ``avg`` of doubles save the coding of limbs, the others the records' coordinates.
_TABLE: dict[str, tuple[Rule, ...]] = {
    "count": (Rule(_is_any, pa.int64(), (COUNT,), _unchanged),),
    "sum": (
        Rule(pa.types.is_integer, pa.int64(), (COUNT, WHOLE_SUM), _sum),
        Rule(pa.types.is_floating, pa.float64(), (COUNT, EXACT_SUM), _exact_sum, _sum_of_values),
    ),
    "avg": (
        Rule(pa.types.is_integer, pa.float64(), (COUNT, LOW_SUM, HIGH_SUM), _integer_mean),
        Rule(pa.types.is_floating, pa.float64(), (COUNT, EXACT_SUM), _exact_mean, _mean_of_values),
    ),
    "stddev": (
        Rule(
            is_number,
            pa.float64(),
            (COUNT, EXACT_SUM, SQUARES),
            _deviation,
            _deviation_of_values,
        ),
    ),
    "min": (Rule(is_scalar, widened, (LEAST,), _unchanged),),
    "max": (Rule(is_scalar, widened, (GREATEST,), _unchanged),),
    "first": (Rule(is_scalar, widened, (FIRST,), _without_coordinates, _first_value),),
    "last": (Rule(is_scalar, widened, (LAST,), _without_coordinates, _last_value),),
    "collect_list": (
        Rule(is_scalar, _list_type, (LIST,), _lists_without_coordinates, _lists_of_values),
    ),
}


def _aggregate(name: str, column: str | None) -> Aggregate:
    return Aggregate(name, column, _TABLE[name])


def count(column: str | None = None) -> Aggregate:
    """Count the window's records, or with ``column`` its non-null values."""
    return _aggregate("count", column)


def sum(column: str) -> Aggregate:
    """Sum ``column``: integers wrap in 64 bits, doubles are exact and rounded once."""
    return _aggregate("sum", column)


def avg(column: str) -> Aggregate:
    """Take the mean of ``column``: its exact sum rounded once, divided by the count."""
    return _aggregate("avg", column)


def stddev(column: str) -> Aggregate:
    """Take the sample standard deviation of ``column``; null for fewer than two values.

    It is computed from the exact sums of x and x*x, so cancellation costs nothing: the
    relative error is below 2**-51, and the result depends on the window's records only.
    """
    return _aggregate("stddev", column)


def min(column: str) -> Aggregate:
    """Take the least value of ``column``; NaN is above every number, strings go by UTF-8 bytes."""
    return _aggregate("min", column)


def max(column: str) -> Aggregate:
    """Take the greatest value of ``column``, in the order that ``min`` has."""
    return _aggregate("max", column)


def first(column: str) -> Aggregate:
    """Take the value of ``column`` with the least (timestamp, partition, offset)."""
    return _aggregate("first", column)


def last(column: str) -> Aggregate:
    """Take the value of ``column`` with the greatest (timestamp, partition, offset)."""
    return _aggregate("last", column)


def collect_list(column: str) -> Aggregate:
    """Collect the values of ``column`` in order of (timestamp, partition, offset)."""
    return _aggregate("collect_list", column)
