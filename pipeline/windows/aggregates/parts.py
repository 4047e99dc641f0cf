"""The table of partial aggregates, from which all named aggregates are computed.

An aggregate is computed from a few partial aggregates. For example, a mean needs a count and an
exact sum. Aggregates of one column share equal partial aggregates, and each is one column of the
state. A partial aggregate depends only on the set of its records, not on the order or the steps of
the merge. Results therefore do not depend on how a log is cut into batches. The table is at the end
of this module, after the functions that its rows name.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
#: The same for rows with a lineage.
_COORDINATES_WITH_LINEAGE = (*_COORDINATES, LINEAGE)


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


# Counts and sums.


def _sizes(values: Values) -> pa.Array:
    return pa.array(values.ranges.sizes)


def _integer_sums(values: Values) -> pa.Array:
    return pa.array(values.ranges.totals(values.integers))


def _low_sums(values: Values) -> pa.Array:
    # x = (x >> 32) * 2**32 + (x & (2**32 - 1)) also for negative x, because the shift rounds down.
    # Each half has 32 bits, so the sum of 2**31 halves fits into 64 bits. The sum of x can wrap.
    return pa.array(values.ranges.totals(values.integers & (2**32 - 1)))


def _high_sums(values: Values) -> pa.Array:
    return pa.array(values.ranges.totals(values.integers >> 32))


def _added(rows: pa.Array, ranges: Ranges) -> pa.Array:
    return pa.array(ranges.totals(np.asarray(rows)))


def _exact_sums(values: Values) -> pa.Array:
    return sum_codes(values.numbers, values.ranges)


def _exact_squares(values: Values) -> pa.Array:
    return square_codes(values.numbers, values.ranges)


# The same for the changes of a table: new rows are added, and old rows are subtracted.


def _net_sizes(values: Values) -> pa.Array:
    return pa.array(values.ranges.totals(values.signs))


def _net_integer_sums(values: Values) -> pa.Array:
    return pa.array(values.ranges.totals(values.integers * values.signs))


def _net_low_sums(values: Values) -> pa.Array:
    return pa.array(values.ranges.totals((values.integers & (2**32 - 1)) * values.signs))


def _net_high_sums(values: Values) -> pa.Array:
    return pa.array(values.ranges.totals((values.integers >> 32) * values.signs))


def _net_exact_sums(values: Values) -> pa.Array:
    return net_sum_codes(values.numbers, values.signs, values.ranges)


def _net_exact_squares(values: Values) -> pa.Array:
    return net_square_codes(values.numbers, values.signs, values.ranges)


# The least and the greatest value.


def _least(values: Values) -> pa.Array:
    # NaN is greater than each number, and fmin of a number and NaN returns the number.
    return _extremes(values, np.fmin)


def _greatest(values: Values) -> pa.Array:
    # The maximum of a number and NaN is NaN.
    return _extremes(values, np.maximum)


def _extremes(values: Values, pick: np.ufunc) -> pa.Array:
    """Return the least or the greatest value of each window, or null without a value."""
    empty = values.ranges.empty
    if values.is_number:
        return pa.array(range_extremes(values.numbers, values.ranges, pick), mask=empty)
    ranks, distinct = values.ordered
    indices = pa.array(range_extremes(ranks, values.ranges, pick), mask=empty)
    return distinct.take(indices)


def _merged_least(rows: pa.Array, ranges: Ranges) -> pa.Array:
    return _least(Values(rows, ranges))


def _merged_greatest(rows: pa.Array, ranges: Ranges) -> pa.Array:
    return _greatest(Values(rows, ranges))


# Values with the coordinates of their records.


def _located_type(column_type: pa.DataType) -> pa.DataType:
    """Return the type of a value with the coordinates of its record."""
    return pa.struct([pa.field("value", widened(column_type)), *_COORDINATES])


def _located_list_type(column_type: pa.DataType) -> pa.DataType:
    return pa.list_(_located_type(column_type))


def _located_type_with_lineage(column_type: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("value", widened(column_type)), *_COORDINATES_WITH_LINEAGE])


def _located_list_type_with_lineage(column_type: pa.DataType) -> pa.DataType:
    return pa.list_(_located_type_with_lineage(column_type))


def _located(values: Values, indices: Ints) -> pa.Array:
    """Return values by index, with the coordinates of their records."""
    has_lineage = values.has_coordinate(LINEAGE.name)
    type_of = _located_type_with_lineage if has_lineage else _located_type
    located_type = type_of(values.column.type)
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


def _first(values: Values) -> pa.Array:
    # Members are in canonical order, so the first value is at the start of its range.
    return _one_located(values, values.ranges.low)


def _last(values: Values) -> pa.Array:
    return _one_located(values, values.ranges.high - 1)


def _one_located(values: Values, indices: Ints) -> pa.Array:
    """Return the located value at one index per window, or null for a window without a value."""
    empty = values.ranges.empty
    located = _located(values, np.where(empty, 0, indices))
    return located.take(pa.array(np.arange(len(located)), mask=empty))


def _merged_first(rows: pa.Array, ranges: Ranges) -> pa.Array:
    values = Values(rows, ranges)
    return _at_order(values, values.ranges.low)


def _merged_last(rows: pa.Array, ranges: Ranges) -> pa.Array:
    values = Values(rows, ranges)
    return _at_order(values, values.ranges.high - 1)


def _at_order(values: Values, positions: Ints) -> pa.Array:
    """Return the located value at one position per range, in the order of coordinates."""
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
LOW_SUM = PartialAggregateRule("LowSumPart", pa.int64(), _low_sums, _added)
HIGH_SUM = PartialAggregateRule("HighSumPart", pa.int64(), _high_sums, _added)
#: The exact sum of numbers as limbs, which is rounded only when it is read.
EXACT_SUM = PartialAggregateRule("ExactSumPart", ENCODED_SUM_TYPE, _exact_sums, merged_sums)
#: The exact sum of the squares of finite numbers.
SQUARES = PartialAggregateRule("SquaresPart", ENCODED_SUM_TYPE, _exact_squares, merged_sums)
#: The least and the greatest value. NaN is greater than each number. Null without a value.
LEAST = PartialAggregateRule("LeastPart", widened, _least, _merged_least)
GREATEST = PartialAggregateRule("GreatestPart", widened, _greatest, _merged_greatest)
#: The value with the least (greatest) coordinates, and the coordinates. Null without a value.
FIRST = PartialAggregateRule("FirstPart", _located_type, _first, _merged_first)
LAST = PartialAggregateRule("LastPart", _located_type, _last, _merged_last)
#: Every value with its coordinates, in their order.
LIST = PartialAggregateRule("ListPart", _located_list_type, _located_lists, _merged_lists)

#: Name of a partial aggregate -> its form for rows with a lineage. The name is the same, because
#: the inputs of a store decide which form it has.
WITH_LINEAGE = {
    FIRST.name: replace(FIRST, state_type=_located_type_with_lineage),
    LAST.name: replace(LAST, state_type=_located_type_with_lineage),
    LIST.name: replace(LIST, state_type=_located_list_type_with_lineage),
}

#: Name of a partial aggregate -> its form for the changes of a table, from which old rows can be
#: subtracted exactly. The others have no such form. For example, when the least value is deleted,
#: the next one is unknown.
NET = {
    COUNT.name: PartialAggregateRule("NetCountPart", pa.int64(), _net_sizes, _added),
    WHOLE_SUM.name: PartialAggregateRule("NetWholeSumPart", pa.int64(), _net_integer_sums, _added),
    LOW_SUM.name: PartialAggregateRule("NetLowSumPart", pa.int64(), _net_low_sums, _added),
    HIGH_SUM.name: PartialAggregateRule("NetHighSumPart", pa.int64(), _net_high_sums, _added),
    EXACT_SUM.name: PartialAggregateRule(
        "NetExactSumPart", ENCODED_SUM_TYPE, _net_exact_sums, merged_sums
    ),
    SQUARES.name: PartialAggregateRule(
        "NetSquaresPart", ENCODED_SUM_TYPE, _net_exact_squares, merged_sums
    ),
}

#: Partial aggregates of a bounded size with exactly the results of the values. They merge windows
#: whose records arrive in several pieces.
SMALL = (COUNT, WHOLE_SUM, LOW_SUM, HIGH_SUM, EXACT_SUM, SQUARES, LEAST, GREATEST, FIRST, LAST)
