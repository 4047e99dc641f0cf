"""What aggregates keep of the records they have seen: one state column each, mergeable.

An aggregate is computed from a few parts (a mean: a count and an exact sum), and
aggregates of one column share equal parts. A part of a set of records depends on the set
only, never on the order or the steps in which it was put together, so results can't
depend on how a log was cut into batches. Merging works on whole columns: rows that belong
together stand side by side, and ``Ranges`` says which.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.members import Members, Values
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, lists, range_minima
from oriel.pipeline.windows.exact import limb_codes

#: The order of records inside a window, which ``first``, ``last`` and lists follow.
_PLACE = ("timestamp_ms", "partition", "offset", "suborder")


@dataclass(frozen=True)
class Part(ABC):
    """One state column; ``column`` is None where it reads none."""

    column: str | None

    @property
    def name(self) -> str:
        """The name of the state column."""
        return f"{type(self).__name__}({self.column or ''})"

    @abstractmethod
    def state_type(self, found: pa.DataType) -> pa.DataType:
        """The type of the state column for values of type ``found``."""

    @abstractmethod
    def of(self, members: Members) -> pa.Array:
        """The part of each window's records."""

    @abstractmethod
    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """One part for each range of rows; the ranges cover the rows one after the other."""


class CountPart(Part):
    """How many records, or how many values of a column."""

    def state_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A 64-bit integer."""
        return pa.int64()

    def of(self, members: Members) -> pa.Array:
        """Count records without a column, values with one."""
        if self.column is None:
            return pa.array(members.ranges.sizes)
        return pa.array(members.values(self.column).ranges.sizes)

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Add."""
        return pa.array(ranges.totals(np.asarray(rows)))


class WholeSumPart(Part):
    """The sum of whole numbers, wrapping in 64 bits."""

    def state_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A 64-bit integer."""
        return pa.int64()

    def of(self, members: Members) -> pa.Array:
        """Add the values of each window."""
        values = members.values(str(self.column))
        return pa.array(values.ranges.totals(values.integers))

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Add."""
        return pa.array(ranges.totals(np.asarray(rows)))


class LowSumPart(WholeSumPart):
    """The sum of the lower 32 bits of whole numbers, which doesn't wrap."""

    def of(self, members: Members) -> pa.Array:
        """Add the lower halves of each window's values."""
        values = members.values(str(self.column))
        return pa.array(values.ranges.totals(values.integers & (2**32 - 1)))


class HighSumPart(WholeSumPart):
    """The sum of the upper 32 bits of whole numbers, which doesn't wrap."""

    def of(self, members: Members) -> pa.Array:
        """Add the upper halves of each window's values."""
        values = members.values(str(self.column))
        return pa.array(values.ranges.totals(values.integers >> 32))


class ExactSumPart(Part):
    """The exact sum of numbers, as limbs: rounded only when it is read."""

    def state_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A list of coded limbs."""
        return limb_codes.CODES

    def of(self, members: Members) -> pa.Array:
        """Add the values of each window."""
        values = members.values(str(self.column))
        return limb_codes.sum_codes(values.numbers, values.ranges)

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Add."""
        return limb_codes.merged_codes(rows, ranges)


class SquaresPart(ExactSumPart):
    """The exact sum of the squares of finite numbers."""

    def of(self, members: Members) -> pa.Array:
        """Square and add the values of each window."""
        values = members.values(str(self.column))
        return limb_codes.square_codes(values.numbers, values.ranges)


class LeastPart(Part):
    """The least value; NaN is above every number."""

    def state_type(self, found: pa.DataType) -> pa.DataType:
        """The column's own type, widened."""
        return widened(found)

    def of(self, members: Members) -> pa.Array:
        """The least of each window's values."""
        return self._best(members.values(str(self.column)))

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """The least of the least."""
        return self._best(Values(rows, ranges))

    def _best(self, values: Values) -> pa.Array:
        ranks, distinct = values.ordered
        return taken(distinct, range_minima(ranks, values.ranges), values)


class GreatestPart(LeastPart):
    """The greatest value; NaN is above every number."""

    def _best(self, values: Values) -> pa.Array:
        ranks, distinct = values.ordered
        return taken(distinct, -range_minima(-ranks, values.ranges), values)


class ListPart(Part):
    """Every value with its place, in the order of places."""

    def state_type(self, found: pa.DataType) -> pa.DataType:
        """A list of values with their places."""
        return pa.list_(placed_type(found))

    def of(self, members: Members) -> pa.Array:
        """List the values of each window."""
        values = members.values(str(self.column))
        offsets, rows = values.ranges.rows()
        return lists(offsets, _placed(members, values, rows))

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Put the lists together, in the order of places."""
        bounds = np.asarray(rows.offsets).astype(np.int64)
        offsets = bounds[np.append(ranges.low, ranges.high[-1:])] - bounds[0]
        items = rows.flatten()
        owners = Ranges(offsets[:-1], offsets[1:]).owners
        return lists(offsets, items.take(pa.array(_by_place(items, owners))))


class FirstPart(Part):
    """The value with the least place, and that place; null where there is no value."""

    def state_type(self, found: pa.DataType) -> pa.DataType:
        """A value with its place."""
        return placed_type(found)

    def of(self, members: Members) -> pa.Array:
        """The first of each window's values."""
        values = members.values(str(self.column))
        rows = np.where(values.ranges.empty, 0, self._end(values.ranges))
        return _null_where(values.ranges.empty, _placed(members, values, rows))

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """The first of the first."""
        values = Values(rows, ranges)
        items, ranges = values.column, values.ranges
        order = _by_place(items, ranges.owners)
        chosen = order[self._end(ranges)[~ranges.empty]]
        places = np.zeros(len(ranges.low), dtype=np.int64)
        places[~ranges.empty] = chosen
        return items.take(pa.array(places, mask=ranges.empty))

    def _end(self, ranges: Ranges) -> Ints:
        return ranges.low


class LastPart(FirstPart):
    """The value with the greatest place."""

    def _end(self, ranges: Ranges) -> Ints:
        return ranges.high - 1


def widened(found: pa.DataType) -> pa.DataType:
    """The widest type of the same kind: what a table column of it should be."""
    if pa.types.is_integer(found):
        return pa.int64()
    if pa.types.is_floating(found):
        return pa.float64()
    return found


def taken(distinct: pa.Array, ranks: Ints, values: Values) -> pa.Array:
    """Turn ranks back into values; null where a window has none."""
    found = distinct.take(pa.array(ranks, mask=values.ranges.empty))
    return found.cast(widened(values.column.type))


def placed_type(found: pa.DataType) -> pa.DataType:
    """A value with its place."""
    return pa.struct([
        pa.field("value", widened(found)),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("suborder", pa.int64()),
    ])  # fmt: skip


def _placed(members: Members, values: Values, rows: Ints) -> pa.Array:
    """Values by their number, with the places of their records."""
    wide = values.column.cast(widened(values.column.type))
    if not len(wide):
        # No window has a value: what is taken is masked by the caller.
        return pa.nulls(len(rows), placed_type(values.column.type))
    places = [members.place(name, values.rows[rows]) for name in _PLACE]
    columns = [wide.take(pa.array(rows)), *places]
    return pa.StructArray.from_arrays(columns, fields=list(placed_type(values.column.type)))


def _null_where(empty: Flags, items: pa.Array) -> pa.Array:
    return items.take(pa.array(np.arange(len(items)), mask=empty))


def _by_place(items: pa.Array, owners: Ints) -> Ints:
    """The order of items by owner, then place."""
    places = [np.asarray(items.field(name)) for name in reversed(_PLACE)]
    order: Ints = np.lexsort((*places, owners))
    return order
