"""What tells the results of a join of streams apart, and puts them in order: places, as numbers.

A result is made of a record of each stream that is joined; of an outer join one may be missing. It
has the place (partition, offset) of the first record that is there. The others' places are
numbers behind it, in the order in which the streams are joined:

    a record                        none
    an element of a record          element
    an element of anything below    its numbers, element
    a row of many that one changed  row; of an element: element * (most rows) + row; of what has
                                    more numbers, or a place as the first one: its numbers, row
    an update of joined tables      table; of rows without room: table, its numbers
    a change of joined tables       2 * table, of the old row; 2 * table + 1, of the new one; of
                                    rows without room: table, its numbers, 0 or 1
    (a, b)                          place of b
    ((a, b), c)                     place of b, place of c
    ((a, b), (c, d))                place of b, place of c, place of d
    (element of a, b)               element, place of b
    (a, element of b)               place of b, element
    a record of merged streams      log; of an element: log, element; and so on

``element`` is its number in what it is of, ``table`` that of whose record made the update. A
place is (partition << 48) + offset + 1: 15 and 48 of a positive number's 63 bits; 0 is none. Where
the result has no record of the first stream, the first number is negative: -n where its place is in
the n-th log behind the first one's. So the numbers say all, and no two results of a join have the
same ones with the same place.

The first number is the row's ``suborder``. The others, where there are any, are its ``partners``: 8
bytes each, the greatest first, which are in the order of their bytes as the numbers are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import IllegalArgument, Windows
from oriel.pipeline.windows.records import PARTNER_BYTES, PARTNERS, SUBORDER

_OFFSET_BITS = 48
_PARTITION_BITS = 15
#: What makes the order of signed numbers that of bytes.
_SIGN = np.uint64(2**63)
#: Two leave 23 bits of the first number to elements, hopping windows and logs.
_MOST_OF_MANY = 2


def refuse_large_places(partition: int, offset: int) -> None:
    """Refuse a record whose place does not fit into a number.

    Raises:
        IllegalArgument: its partition or its offset is too large.
    """
    for name, number, bits in (
        ("partition", partition, _PARTITION_BITS),
        ("offset", offset, _OFFSET_BITS),
    ):
        if number >= 2**bits - 1:
            message = f"the {name} must be below 2**{bits} - 1 in a join of streams, not {number}"
            raise IllegalArgument(message)


def place_numbers(partition: Ints, offset: Ints) -> Ints:
    """The numbers of places, greater than 0 and in their order."""
    return (partition << _OFFSET_BITS) + offset + 1


def numbered_places(numbers: Ints) -> tuple[Ints, Ints]:
    """Partition and offset of each place, from its number."""
    return numbers >> _OFFSET_BITS, (numbers & (1 << _OFFSET_BITS) - 1) - 1


@dataclass(frozen=True)
class Places:
    """How the rows of a stream are told apart.

    ``numbers``: how many they have beside partition and offset. ``logs``: in how many topics'
    logs those can be. ``of_tables``: the rows are of joined tables, in so many logs, or of one that
    is grouped; 0: of no table. Then ``of_each_table`` of the first number, from 0 on, are of a
    record in the first log, as many behind of one in the second, and so on; and again for the next
    row of a record, where a table is an aggregation of elements or changes. ``of_pairs``: the first
    number is a place. ``of_many``: so many windows, one behind the other, each with the number of a
    row in the first number, of which a record may change any number.
    """

    numbers: int = 0
    logs: int = 1
    of_tables: int = 0
    of_each_table: int = 1
    of_pairs: bool = False
    of_many: int = 0

    @property
    def has_room(self) -> bool:
        """Whether further numbers can go into the first one, and rows stay in order."""
        return self.numbers <= 1 and not self.of_pairs

    def joined(self, right: "Places") -> Self:
        """How the results of a join with ``right`` are told apart."""
        numbers, logs = self.numbers + 1 + right.numbers, self.logs + right.logs
        return replace(self, numbers=numbers, logs=logs, of_pairs=True)

    def flattened(self) -> Self:
        """How the elements of such rows are told apart."""
        return replace(self, numbers=self.numbers + 1)

    def of_changes(self) -> Self:
        """How the old row and the new one of such updates are told apart."""
        return self.flattened() if self.numbers > 1 else replace(self, of_each_table=2)

    def of_updates(self, windows: Windows) -> Self:
        """How the rows of ``windows`` are told apart that such rows change."""
        if not windows.rule.changes_several:
            return self
        # Of hopping windows the number is known.
        of_many = self.of_many + (windows.kind in {"sliding", "session"})
        if not self.has_room or of_many > _MOST_OF_MANY:
            return self.flattened()
        return replace(self, numbers=1, of_many=of_many)

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of the numbers."""
        return [SUBORDER, PARTNERS][: self.numbers]

    def log_of(self, numbers: Ints) -> Ints:
        """In which log each row's place is, from 0; ``numbers`` has a row for each row."""
        if not self.numbers:
            return np.zeros(len(numbers), dtype=np.int64)
        first = numbers[:, 0]
        log = first // self.of_each_table % self.of_tables if self.of_tables else 0
        return np.where(first < 0, -first, log)

    def without_log(self, first: Ints) -> Ints:
        """What tells rows of one place in one log apart, from their ``first`` numbers."""
        if not self.of_tables:
            return first
        of_log = self.of_tables * self.of_each_table
        return first // of_log * self.of_each_table + first % self.of_each_table

    def numbers_of_rows(self, first: Ints, number: Ints, rows: int) -> Ints:
        """The first numbers of rows of which each record or element changes up to ``rows``.

        ``first`` are those of what makes them, ``number`` counts its rows from 0.

        Raises:
            IllegalArgument: there are more rows, or the numbers have no room in 64 bits.
        """
        logs = max(self.of_tables * self.of_each_table, 1)
        most, highest = int(number.max(initial=0)), int(first.max(initial=0))
        if most >= rows or (highest // logs * rows + most + 1) * logs >= 2**63:
            message = (
                f"a record changes {most + 1} rows, and {highest // logs} record ids are used "
                "before this step, which is more than a record id can hold. Use shorter windows, "
                "emit only final rows with emit(EmitStrategy.on_window_close()), or write the rows "
                "before this step to a topic with to(topic) and read this topic"
            )
            raise IllegalArgument(message)
        return (first // logs * rows + number) * logs + first % logs

    def read(self, rows: pa.Table) -> Ints:
        """The numbers of ``rows``, by [row, number]; 0 in rows of another stream, with fewer."""
        numbers = np.zeros((len(rows), self.numbers), dtype=np.int64)
        if self.numbers:
            numbers[:, 0] = np.asarray(pc.fill_null(rows[SUBORDER.name], 0))
        if self.numbers > 1:
            width = (self.numbers - 1) * PARTNER_BYTES
            partners = rows[PARTNERS.name].cast(pa.large_binary()).combine_chunks()
            own = np.asarray(pc.equal(pc.fill_null(pc.binary_length(partners), 0), width))
            # Of rows with bytes of one width alone, all bytes stand one behind the other.
            coded = _bytes_of(partners.filter(pa.array(own))).view(">u8").astype(np.uint64)
            numbers[own, 1:] = (coded ^ _SIGN).view(np.int64).reshape(-1, self.numbers - 1)
        return numbers

    def beside(self, rows: pa.Table, number: Ints) -> dict[str, pa.Array]:
        """The columns, by name, of the numbers of ``rows`` with one more ``number`` behind them."""
        return self.flattened().written(np.column_stack([self.read(rows), number]))

    def written(self, numbers: Ints) -> dict[str, pa.Array]:
        """The columns ``fields``, by name, of rows with these numbers, by [row, number]."""
        columns = [pa.array(np.ascontiguousarray(numbers[:, 0]))] if self.numbers else []
        if self.numbers > 1:
            coded = np.ascontiguousarray(numbers[:, 1:]).view(np.uint64) ^ _SIGN
            width = (self.numbers - 1) * PARTNER_BYTES
            ends = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(width)
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(coded.astype(">u8").tobytes())]
            columns.append(pa.Array.from_buffers(PARTNERS.type, len(numbers), buffers))
        return {field.name: column for field, column in zip(self.fields, columns, strict=True)}


#: Of records of a source, or what these looked up.
NO_NUMBERS = Places()


def merged_places(streams: Sequence[Places]) -> Places:
    """How the records of merged streams are told apart: by log, then as in their own stream."""
    logs = sum(places.logs for places in streams)
    numbers = 1 + max(places.numbers for places in streams)
    return Places(numbers, logs, of_tables=logs)


def places_side_by_side(sides: Sequence[Places]) -> Places:
    """How rows of several sides are told apart as those of one."""
    if not all(places.has_room for places in sides):
        return merged_places(sides)
    logs = sum(places.logs for places in sides)
    return Places(1, logs, of_tables=logs, of_many=max(places.of_many for places in sides))


def joined_numbers(
    sides: tuple[Places, Places],
    numbers: tuple[Ints, Ints],
    right_place: Ints,
    missing: tuple[Flags, Flags],
) -> Ints:
    """The numbers of a join's results, by [result, number].

    ``numbers`` has those of both sides' rows, ``right_place`` the number of the right rows' place.
    ``missing``: which results have no left, or no right row; whatever stands there is not read.
    """
    (left, right), (of_left, of_right), (no_left, no_right) = sides, numbers, missing
    joined = np.zeros((len(no_left), left.joined(right).numbers), dtype=np.int64)
    joined[:, : left.numbers] = np.where(no_left[:, None], 0, of_left)
    joined[:, left.numbers] = np.where(no_left | no_right, 0, right_place)
    joined[:, left.numbers + 1 :] = np.where(no_right[:, None], 0, of_right)
    log = left.logs + right.log_of(of_right)
    joined[:, 0] = np.where(no_left, -log, joined[:, 0])
    return joined


def _bytes_of(values: pa.Array) -> NDArray[np.uint8]:
    """All bytes of ``values``, of which none is null."""
    _, ends, data = values.buffers()
    if not len(values):
        return np.zeros(0, dtype=np.uint8)
    first, last = np.frombuffer(ends, np.int64)[[values.offset, values.offset + len(values)]]
    return np.frombuffer(data, np.uint8)[first:last]
