"""The table of partial aggregates, from which all named aggregates are computed.

An aggregate is computed from a few partial aggregates. For example, a mean needs a count and an
exact sum. Aggregates of one column share equal partial aggregates, and each is one column of the
state. A partial aggregate depends only on the set of its records, not on the order or the steps of
the merge. Results therefore do not depend on how a log is cut into batches. The table is at the end
of this module, after the functions that its rows name.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.members import Members, Values
from oriel.pipeline.windows.arrays import Ints, Ranges, lexsort, lists, range_extremes
from oriel.pipeline.windows.exact import (
    ENCODED_SUM_TYPE,
    merged_sums,
    net_square_codes,
    net_sum_codes,
    square_codes,
    sum_codes,
)
from oriel.pipeline.windows.records import LINEAGE, lineage_keys

#: A type, or a function of the type of the column that is read.
TypeRule: TypeAlias = pa.DataType | Callable[[pa.DataType], pa.DataType]

#: The order of records inside a window, which ``first``, ``last`` and lists follow.
_COORDINATES = (
    pa.field("timestamp_ms", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)


@dataclass(frozen=True)
class PartialAggregateRule:
    """One row of the table: a kind of state column.

    Two rules are equal if their names, options and user functions are equal. ``of_values`` and
    ``merged`` are not compared, because they are new objects after unpickling.

    Attributes:
        name: Part of the name of a state column. Checkpoints of users have it, so it cannot change.
        state_type: The type of the state column.
        of_values: Returns the partial aggregate of the values of each window.
        merged: Returns one partial aggregate per range of rows. The ranges cover the rows in order.
        options: The text after the column in the name of a state column.
        functions: A user's functions. Rules with other functions are not equal.
    """

    name: str
    state_type: TypeRule = field(compare=False)
    of_values: Callable[[Values], pa.Array] = field(compare=False)
    merged: Callable[[pa.Array, Ranges], pa.Array] = field(compare=False)
    options: str = ""
    functions: object = None


@dataclass(frozen=True)
class PartialAggregate:
    """A partial aggregate of one column, or without a column of the records."""

    rule: PartialAggregateRule
    column: str | None

    @property
    def name(self) -> str:
        """The name of the state column, for example ``CountPart(delay)``."""
        return f"{self.rule.name}({self.column or ''}{self.rule.options})"

    def state_type(self, column_type: pa.DataType) -> pa.DataType:
        """Return the type of the state column for values of ``column_type``."""
        return type_for(self.rule.state_type, column_type)

    def of(self, members: Members) -> pa.Array:
        """Return the partial aggregate of the records of each window."""
        return self.rule.of_values(members.values(self.column))

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Return one partial aggregate per range of rows. The ranges cover the rows in order."""
        return self.rule.merged(rows, ranges)


def type_for(type_rule: TypeRule, column_type: pa.DataType) -> pa.DataType:
    """Return the type that a rule has for a column of ``column_type``."""
    return type_rule if isinstance(type_rule, pa.DataType) else type_rule(column_type)


def widened(column_type: pa.DataType) -> pa.DataType:
    """Return the widest type of the same kind, which is the type of a column in a table."""
    if pa.types.is_integer(column_type):
        return pa.int64()
    if pa.types.is_floating(column_type):
        return pa.float64()
    return column_type


# Counts and sums. ``net`` is for the changes of a table: new rows are added, old rows subtracted.


def _sizes(values: Values, *, net: bool = False) -> pa.Array:
    return pa.array(values.ranges.totals(values.signs) if net else values.ranges.sizes)


def _integer_sums(values: Values, half: str = "", *, net: bool = False) -> pa.Array:
    """Return the sums of integers, or of their ``lower`` or ``upper`` 32 bits.

    x = (x >> 32) * 2**32 + (x & (2**32 - 1)) also for negative x, because the shift rounds down.
    The sum of 2**31 halves fits into 64 bits. The sum of x can wrap.
    """
    numbers = values.integers
    if half:
        numbers = numbers & (2**32 - 1) if half == "lower" else numbers >> 32
    return pa.array(values.ranges.totals(numbers * values.signs if net else numbers))


def _codes(encode: Callable[..., pa.Array], values: Values) -> pa.Array:
    return encode(values.numbers, values.ranges)


def _net_codes(encode: Callable[..., pa.Array], values: Values) -> pa.Array:
    return encode(values.numbers, values.signs, values.ranges)


def _added(rows: pa.Array, ranges: Ranges) -> pa.Array:
    return pa.array(ranges.totals(np.asarray(rows)))


# The least and the greatest value. NaN is greater than each number: of a number and NaN, fmin
# returns the number, and maximum returns NaN.


def _merged_extremes(pick: np.ufunc, rows: pa.Array, ranges: Ranges) -> pa.Array:
    return _extremes(pick, Values(rows, ranges))


def _extremes(pick: np.ufunc, values: Values) -> pa.Array:
    """Return the least or the greatest value of each window, or null without a value."""
    empty = values.ranges.empty
    if values.is_number:
        return pa.array(range_extremes(values.numbers, values.ranges, pick), mask=empty)
    ranks, distinct = values.ordered
    indices = pa.array(range_extremes(ranks, values.ranges, pick), mask=empty)
    return distinct.take(indices)


# Values with the coordinates of their records.


def _located_type(column_type: pa.DataType, *, has_lineage: bool = False) -> pa.DataType:
    """Return the type of a value with the coordinates of its record."""
    coordinates = (*_COORDINATES, LINEAGE) if has_lineage else _COORDINATES
    return pa.struct([pa.field("value", widened(column_type)), *coordinates])


def _located_list_type(column_type: pa.DataType, *, has_lineage: bool = False) -> pa.DataType:
    return pa.list_(_located_type(column_type, has_lineage=has_lineage))


def _located(values: Values, indices: Ints) -> pa.Array:
    """Return values by index, with the coordinates of their records."""
    has_lineage = values.has_coordinate(LINEAGE.name)
    located_type = _located_type(values.column.type, has_lineage=has_lineage)
    if not len(values.column):
        # No window has a value, and the caller masks the result.
        return pa.nulls(len(indices), located_type)
    column = values.column.cast(widened(values.column.type)).take(pa.array(indices))
    _, *fields = located_type
    coordinates = [values.coordinate(field.name, indices) for field in fields]
    return pa.StructArray.from_arrays([column, *coordinates], fields=list(located_type))


def _order(items: pa.Array, owners: Ints) -> Ints:
    """Return the order of located values by their window, then by coordinates."""
    # The last key of lexsort counts first.
    keys = [np.asarray(items.field(field.name)) for field in reversed(_COORDINATES)]
    if items.type.get_field_index(LINEAGE.name) >= 0:
        keys = [*lineage_keys(items.field(LINEAGE.name)), *keys]
    return lexsort((*keys, owners))


def _end(values: Values, *, last: bool) -> pa.Array:
    """Return the first or last located value of each window, or null without a value."""
    # Members are in canonical order, so the first value is at the start of its range.
    indices = values.ranges.high - 1 if last else values.ranges.low
    empty = values.ranges.empty
    located = _located(values, np.where(empty, 0, indices))
    return located.take(pa.array(np.arange(len(located)), mask=empty))


def _merged_end(rows: pa.Array, ranges: Ranges, *, last: bool) -> pa.Array:
    """Return the first or last located value of each range in the order of coordinates."""
    values = Values(rows, ranges)
    positions = values.ranges.high - 1 if last else values.ranges.low
    # The ranges cover the values in order, so a sort by owner first keeps each range in place.
    order = _order(values.column, values.ranges.owners)
    indices = np.zeros(len(positions), dtype=np.int64)
    filled = ~values.ranges.empty
    indices[filled] = order[positions[filled]]
    return values.take(indices)


def _located_lists(values: Values) -> pa.Array:
    offsets, indices = values.ranges.rows()
    return lists(offsets, _located(values, indices))


def _merged_lists(rows: pa.Array, ranges: Ranges) -> pa.Array:
    bounds = np.asarray(rows.offsets).astype(np.int64)
    # The lists of a range are adjacent, so the range owns the items between two bounds.
    offsets = bounds[np.append(ranges.low, ranges.high[-1:])] - bounds[0]
    items = rows.flatten()
    owners = Ranges(offsets[:-1], offsets[1:]).owners
    return lists(offsets, items.take(pa.array(_order(items, owners))))


# The table: name, type in the state, function of values, function that merges.

#: The number of records, or of values of a column.
COUNT = PartialAggregateRule("CountPart", pa.int64(), _sizes, _added)
#: The sum of integers, wrapping in 64 bits.
WHOLE_SUM = PartialAggregateRule("WholeSumPart", pa.int64(), _integer_sums, _added)
#: The sums of the lower and of the upper 32 bits of integers, which do not wrap.
LOW_SUM = PartialAggregateRule(
    "LowSumPart", pa.int64(), partial(_integer_sums, half="lower"), _added
)
HIGH_SUM = PartialAggregateRule(
    "HighSumPart", pa.int64(), partial(_integer_sums, half="upper"), _added
)
#: The exact sum of numbers as limbs, which is rounded only when it is read.
EXACT_SUM = PartialAggregateRule(
    "ExactSumPart", ENCODED_SUM_TYPE, partial(_codes, sum_codes), merged_sums
)
#: The exact sum of the squares of finite numbers.
SQUARES = PartialAggregateRule(
    "SquaresPart", ENCODED_SUM_TYPE, partial(_codes, square_codes), merged_sums
)
#: The least and the greatest value. NaN is greater than each number. Null without a value.
LEAST = PartialAggregateRule(
    "LeastPart", widened, partial(_extremes, np.fmin), partial(_merged_extremes, np.fmin)
)
GREATEST = PartialAggregateRule(
    "GreatestPart", widened, partial(_extremes, np.maximum), partial(_merged_extremes, np.maximum)
)
#: The value with the least (greatest) coordinates, and the coordinates. Null without a value.
FIRST = PartialAggregateRule(
    "FirstPart", _located_type, partial(_end, last=False), partial(_merged_end, last=False)
)
LAST = PartialAggregateRule(
    "LastPart", _located_type, partial(_end, last=True), partial(_merged_end, last=True)
)
#: Every value with its coordinates, in their order.
LIST = PartialAggregateRule("ListPart", _located_list_type, _located_lists, _merged_lists)

#: Name of a partial aggregate -> its form for rows with a lineage. The name is the same, because
#: the inputs of a store decide which form it has.
WITH_LINEAGE = {
    rule.name: replace(rule, state_type=partial(state_type, has_lineage=True))
    for rule, state_type in (
        (FIRST, _located_type), (LAST, _located_type), (LIST, _located_list_type),
    )
}  # fmt: skip

#: Name of a partial aggregate -> its form for the changes of a table, from which old rows can be
#: subtracted exactly. The others have no such form. For example, when the least value is deleted,
#: the next one is unknown.
NET = {
    rule.name: replace(rule, name=f"Net{rule.name}", of_values=of_values)
    for rule, of_values in (
        (COUNT, partial(_sizes, net=True)),
        (WHOLE_SUM, partial(_integer_sums, net=True)),
        (LOW_SUM, partial(_integer_sums, half="lower", net=True)),
        (HIGH_SUM, partial(_integer_sums, half="upper", net=True)),
        (EXACT_SUM, partial(_net_codes, net_sum_codes)),
        (SQUARES, partial(_net_codes, net_square_codes)),
    )
}

#: Partial aggregates of a bounded size with exactly the results of the values. They merge windows
#: whose records arrive in several pieces.
SMALL = (COUNT, WHOLE_SUM, LOW_SUM, HIGH_SUM, EXACT_SUM, SQUARES, LEAST, GREATEST, FIRST, LAST)
