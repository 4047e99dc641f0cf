"""What all joins share: the columns of both sides, the engine's contract, a table's records.

Which record of a key counts in a table
---------------------------------------
A table record replaces what its key had; one without a value deletes it. In Kafka Streams the
record that came last counts, which makes the table depend on how partitions interleave. Here it
is a property of the records alone: of each source partition the one with the greatest offset,
and of those the one with the greatest (timestamp, partition). So neither batch cuts nor
interleaving can matter. A key normally has one partition, and then its last record counts, as
in Kafka Streams.

The state keeps the last record of each key and partition, deletions included: a deletion that
counts may be newer than what another partition is still to bring, and that must not revive the
row.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
from oriel.pipeline.windows.definitions import LEFT, IllegalArgument
from oriel.pipeline.windows.engines import Operator
from oriel.pipeline.windows.joins.places import (
    NO_NUMBERS,
    Places,
    merged_places,
    places_side_by_side,
)
from oriel.pipeline.windows.records import (
    EFFECT,
    NULL_VALUE,
    PLACE_FIELDS,
    SUBORDER,
    arrival_keys,
)

How = Literal["inner", "left", "outer"]
#: The least stream time of the left side's partitions, and of the others', in ms; or that of each
#: partition of one side (``JoinEngine.by_partition``).
Clocks = tuple[int, ...]

STREAM_TIME = pa.field("stream_time_ms", pa.int64())
SIDE = pa.field("side", pa.int8())
#: What a join reads of a record beside its values; ``side`` is ``LEFT`` or ``RIGHT``.
SIDE_FIELDS = (*PLACE_FIELDS, STREAM_TIME, SIDE)
#: What a join gives of a result beside the values of both sides.
RESULT_FIELDS = (*PLACE_FIELDS, SUBORDER, STREAM_TIME)
#: What a table keeps of a record beside its values; ``null_value`` marks a deletion.
TABLE_FIELDS = (*PLACE_FIELDS, NULL_VALUE)
#: Whether a record in the state had a partner.
MATCHED = pa.field("matched", pa.bool_())


@dataclass(frozen=True)
class SideRows:
    """What the rows of a side are beside records.

    ``places``: how they are told apart. ``have_effect``: they come of several logs, as of joined
    tables, or have waited, and take effect in their own order (``EFFECT``). ``are_changes``: of a
    table; its suborder says which take a row away. ``are_elements``: of records. ``tell_rows``: of
    an aggregation or of joined tables, of which the last one of a key is its row, whatever
    partition it is of. ``held_ms``: so far behind the side's clock the time of one can be that came
    because clocks have moved (``JoinEngine.delay_ms`` of the join in front).
    """

    places: Places = NO_NUMBERS
    have_effect: bool = False
    are_changes: bool = False
    are_elements: bool = False
    tell_rows: bool = False
    held_ms: int = 0

    @property
    def order_fields(self) -> list[pa.Field]:
        """The columns that have the order in which they take effect, beside place and time."""
        return [*self.places.fields, *([EFFECT] if self.have_effect else [])]


#: Rows of a source, or what these looked up.
RECORDS = SideRows()


@dataclass(frozen=True)
class SideLogs:
    """The logs of several sides, side by side; ``places`` say how each side's rows are told apart.

    Rows of all sides stand in one table, with ``side``.
    """

    places: Sequence[Places]

    @property
    def count(self) -> int:
        """How many logs there are."""
        return sum(places.logs for places in self.places)

    @property
    def merged(self) -> SideRows:
        """What the rows of all sides become as those of one."""
        return SideRows(places_side_by_side(self.places), have_effect=True)

    def numbers(self, rows: pa.Table) -> Ints:
        """The number of each row's log."""
        side = np.asarray(rows[SIDE.name])
        log, first = np.zeros(len(rows), dtype=np.int64), 0
        for number, places in enumerate(self.places):
            of_side = side == number
            log[of_side] = first
            if places.logs > 1:
                log[of_side] += places.log_of(places.read(rows.filter(pa.array(of_side))))
            first += places.logs
        return log

    def merged_numbers(self, rows: pa.Table) -> Ints:
        """The numbers of rows in ``merged_places``, by [row, number]."""
        numbers = np.zeros((len(rows), merged_places(self.places).numbers), dtype=np.int64)
        numbers[:, 0] = self.numbers(rows)
        side = np.asarray(rows[SIDE.name])
        for number, places in enumerate(self.places):
            of_side = np.flatnonzero(side == number)
            numbers[of_side, 1 : 1 + places.numbers] = places.read(rows.take(pa.array(of_side)))
        return numbers

    def update_numbers(self, rows: pa.Table) -> Ints:
        """The numbers that rows have in ``merged``, by [row, number]."""
        if self.merged.places.has_room:
            return self.numbered(self.own_numbers(rows), self.numbers(rows))[:, np.newaxis]
        return self.merged_numbers(rows)

    def effect_keys(self, rows: pa.Table) -> tuple[Ints, ...]:
        """Sort keys of the order of effect, the last first as in ``np.lexsort``.

        The stream time is the order of arrival as far as a partition knows it; log, partition,
        offset and number make the order total, so that a replayed batch gives the same results.
        """
        return (*arrival_keys(rows), self.numbers(rows), np.asarray(rows[STREAM_TIME.name]))

    def own_numbers(self, rows: pa.Table) -> Ints:
        """What tells rows of equal places in one log apart."""
        own = np.zeros(len(rows), dtype=np.int64)
        if SUBORDER.name not in rows.column_names:
            return own
        side, first = np.asarray(rows[SIDE.name]), np.asarray(pc.fill_null(rows[SUBORDER.name], 0))
        for number, places in enumerate(self.places):
            own = np.where(side == number, places.without_log(first), own)
        return own

    def numbered(self, own: Ints, log: Ints) -> Ints:
        """The suborders of ``own`` numbers in logs.

        Raises:
            IllegalArgument: there is no room for them in 64 bits, of changes twice as large.
        """
        most = int(own.max(initial=0))
        if (most + 1) * self.count >= 2**62:
            message = (
                f"rows of one record have indexes up to {most} after successive joins, which is "
                "more than a record id can hold. Write the rows before this join to a topic with "
                "to(topic) and read this topic"
            )
            raise IllegalArgument(message)
        return own * self.count + log


@dataclass(frozen=True)
class JoinResult:
    """What one batch makes of the state of a join.

    ``state`` is the next state. ``pieces`` are rows of the engine's ``result_schema``, in one table
    or more; their places tell them apart: (timestamp_ms, partition, offset, suborder), and perhaps
    partners. Records of a key that are many on both sides have so many pairs that only a piece may
    fit into memory: a join of streams makes each when it is asked for. ``late`` counts the batch's
    records of each side that came too late to be joined, ``filtered`` those that were taken and
    gave no result because an inner or a left join has none for them. ``stayed`` is of open records:
    which of the old state's rows the new one begins with, in order. ``flattened`` is how many of
    the batch's records end here, for their results are elements of them, and ``elements`` how many
    more elements there are than came. ``before``: of a table whose updates the results are, the
    rows that their keys had ahead of the batch, if the engine ``tells_before``: key,
    ``timestamp_ms``, perhaps the window's bounds, and the table's columns. ``added``: the rows of
    ``state`` that came with the batch, where rows never change.
    """

    state: pa.Table
    pieces: Iterable[pa.Table]
    late: tuple[int, ...] = (0,)
    filtered: tuple[int, ...] = (0,)
    stayed: Flags | None = None
    flattened: int = 0
    elements: int = 0
    before: pa.Table | None = None
    added: pa.Table | None = None

    @property
    def results(self) -> pa.Table:
        """All pieces as one table."""
        return pa.concat_tables(self.pieces)


class JoinEngine(Operator[JoinResult]):
    """An operator whose results continue like records. See ``Operator``.

    It has the value columns of all inputs, with no name in common, and columns ``carried`` that the
    state keeps with each record for the caller. Its times are the stream times of its inputs.
    """

    #: ``RESULT_FIELDS`` and the values of both sides, each of which can be missing.
    result_schema: pa.Schema
    #: How far behind both clocks the time of a result can be that comes because clocks have moved,
    #: in ms: windows and joins behind wait so long.
    delay_ms: int = 0
    #: Of the updates of a table: the columns of its rows.
    row_schema: pa.Schema
    #: Whether somebody behind wants to know ``JoinResult.before``.
    tells_before: bool = False
    #: The side of whose partitions ``Clocks`` have the stream times; None: the least of both.
    by_partition: int | None = None
    #: True if results are the records of the left input with more columns.
    keeps_records: bool = False
    #: True if the results of one stream are one stream: in its order, with its stream time.
    keeps_order: bool = False
    #: True if its records advance a stream time of their own: it drops records that are late for
    #: it, or lets them wait, so the stream time of its results is another one.
    owns_stream_time: bool = False
    #: True if it uses records with a null value, though they are not of a table.
    takes_null_values: bool = False
    #: True if a record can change several rows, each of which is a flattened record of it.
    makes_elements: bool = False
    #: True if its results are messages between the operators of a foreign-key join.
    is_between_tables: bool = False
    #: False if another operator of the store counts its records.
    counts_records: bool = True

    def ends_records(self, side: int) -> bool:
        """Return whether the accepted records of an input end here.

        They become part of the state or of results. Otherwise, they continue with more columns, or
        another operator counts them.
        """
        return not (self.keeps_records and side == LEFT)

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        """Return whether an input is a table, whose records with a null value are tombstones."""
        return False

    def waits_for(self, side: int) -> bool:  # noqa: ARG002
        """Return whether final windows wait for the stream time of an input."""
        return True

    def held_back_ms(self, held_ms: Sequence[int]) -> int:
        """Return how far behind the stream times the time of a result can be.

        ``held_ms`` has the same of the results of upstream joins, for each input.
        """
        return max(self.delay_ms, *held_ms)

    def refuse_place(self, partition: int, offset: int) -> None:
        """Reject a record that results could not be distinguished by.

        Raises:
            IllegalArgument: The partition or the offset is too large.
        """


class OpenRecordsEngine(JoinEngine):
    """A join whose state is records as they came, with ``matched``, until clocks let them leave.

    ``JoinResult.stayed`` says which of the old state's rows the new one begins with.
    """

    state_layout = "open records"

    @property
    @abstractmethod
    def keeps_matches(self) -> bool:
        """Whether it matters later which records had a partner."""

    @abstractmethod
    def stays(self, records: pa.Table, clocks: Clocks) -> Flags:
        """Which records are still in the state at these clocks."""

    @abstractmethod
    def concerned(
        self, records: pa.Table, matched: Flags, batch: pa.Table, clocks: tuple[Clocks, Clocks]
    ) -> Flags:
        """Which of the state's ``records`` have to do with the batch, or leave with it.

        ``matched`` has a flag for each of ``records``, ``clocks`` are those before and after the
        batch. ``apply`` gives with these records the results that it gives with all of them;
        ``stays`` tells which of the others are in the next state, as they are.
        """


def joined_values(
    how: str,
    hows: object,
    own: tuple[pa.Field, ...],
    carried: pa.Schema | None,
    sides: tuple[pa.Schema, pa.Schema],
) -> list[pa.Field]:
    """The value columns of both ``sides``, left first, each of which can be missing.

    ``hows`` is the ``Literal`` of the joins there are; see ``values_beside``.

    Raises:
        IllegalArgument: ``how`` is unknown, or two columns have one name.
    """
    if how not in get_args(hows):
        message = f"a join must be one of {', '.join(get_args(hows))}, not {how!r}"
        raise IllegalArgument(message)
    return values_beside(own, carried, sides)


def values_beside(
    own: tuple[pa.Field, ...], carried: pa.Schema | None, sides: Iterable[pa.Schema]
) -> list[pa.Field]:
    """The value columns of ``sides`` in order, each of which can be missing.

    Beside the values a join's tables have the columns ``own`` and ``carried``.

    Raises:
        IllegalArgument: two columns have one name; case does not tell names apart, as in Spark.
    """
    values = [field for side in sides for field in side]
    seen: set[str] = set()
    for name in (field.name for field in (*own, *(carried or ()), *values)):
        if name.lower() in seen:
            message = (
                f"column {name!r} exists twice in a join (names ignore case). "
                "Rename it in one of the inputs with map_values(other=...)"
            )
            raise IllegalArgument(message)
        seen.add(name.lower())
    return [field.with_nullable(nullable=True) for field in values]


@dataclass(frozen=True)
class TableRecords:
    """Records of a table, or of several by ``side``, in any order, as arrays.

    ``rows`` has ``TABLE_FIELDS``; without a column ``side`` all are of side 0. ``keys`` are the
    distinct keys by their UTF-8 bytes, ``key_code`` numbers them for each record.
    """

    rows: pa.Table
    keys: pa.Array
    key_code: Ints
    side: Ints
    partition: Ints
    offset: Ints
    timestamp_ms: Ints
    deletes: Flags

    @classmethod
    def of(cls, rows: pa.Table) -> "TableRecords":
        """Read the columns of ``rows``."""
        rows = rows.combine_chunks()
        (key_code,), keys = coded_keys(rows["key"])
        side, partition, offset, timestamp_ms = (
            np.asarray(rows[name]).astype(np.int64)
            if name in rows.column_names
            else np.zeros(len(rows), dtype=np.int64)
            for name in (SIDE.name, "partition", "offset", "timestamp_ms")
        )
        deletes = np.asarray(rows[NULL_VALUE.name])
        return cls(rows, keys, key_code, side, partition, offset, timestamp_ms, deletes)

    def take(self, numbers: Ints) -> pa.Table:
        """The rows with these numbers."""
        return self.rows.take(pa.array(numbers))

    def newest(self) -> Ints:
        """The numbers of the last record of each key, side and partition: the next state."""
        return greatest((self.key_code, self.side, self.partition), (self.offset,))

    def counting(self, newest: Ints, sides: int = 2) -> NDArray[np.int64]:
        """The number of the record that counts, by [side, key code]; -1 where there is none.

        ``newest`` has one record for each key, side and partition. A deletion counts like any
        other record, see ``has_row``.
        """
        groups = (self.key_code[newest], self.side[newest])
        # The partition decides between equal times; any fixed choice would do, as long as it
        # is not the order of arrival.
        by = (self.timestamp_ms[newest], self.partition[newest])
        chosen = newest[greatest(groups, by)]
        counting = np.full((sides, len(self.keys)), -1, dtype=np.int64)
        counting[self.side[chosen], self.key_code[chosen]] = chosen
        return counting

    def has_row(self, counting: NDArray[np.int64]) -> Flags:
        """Where a record counts that is not a deletion."""
        present: Flags = counting >= 0
        # Without any record there is nothing to index, not even with -1.
        return present & ~self.deletes[counting] if len(self.deletes) else present


def are_behind(records: pa.Table, allowed_ms: Ints | int) -> Flags:
    """Which records are further behind their stream time than allowed."""
    timestamp_ms, stream_time_ms = (
        np.asarray(records[name]) for name in ("timestamp_ms", STREAM_TIME.name)
    )
    behind: Flags = timestamp_ms + allowed_ms < stream_time_ms
    return behind


def effect_order(records: pa.Table) -> Ints:
    """The numbers of records of a stream in the order in which they take effect, of all keys.

    That is (stream time, partition, offset, numbers); of joined tables stream time and table stand
    in front (``EFFECT``).
    """
    order: Ints = np.lexsort((*arrival_keys(records), np.asarray(records[STREAM_TIME.name])))
    return order


def in_effect_order(state: pa.Table, arrived: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows of a table and updates that tell them, as records of one partition in order of effect.

    An update has all records of its key before it, of whatever partition: the last one is the key's
    row, and each of a batch comes behind those of the batches before.
    """
    arrived = arrived.take(pa.array(effect_order(arrived)))
    return (
        replaced(state, {"partition": 0, "offset": -1}),
        replaced(arrived, {"partition": 0, "offset": np.arange(len(arrived))}),
    )


def replaced(
    rows: pa.Table, values: Mapping[str, Ints | Flags | int], chosen: Flags | None = None
) -> pa.Table:
    """``rows`` with other ``values`` of some columns, all or the ``chosen`` ones."""
    chosen = np.ones(len(rows), dtype=np.bool_) if chosen is None else chosen
    for name, value in values.items():
        place = rows.column_names.index(name)
        field = rows.schema.field(name)
        column = np.where(chosen, value, np.asarray(rows[name]))
        rows = rows.set_column(place, field, pa.array(column, field.type))
    return rows


def split_by_key(rows: pa.Table, keys: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """The rows of other keys, and those of ``keys``."""
    of_keys = pc.is_in(rows["key"], value_set=pc.unique(keys))
    return rows.filter(pc.invert(of_keys)), rows.filter(of_keys)


def greatest(groups: tuple[Ints, ...], by: tuple[Ints, ...]) -> Ints:
    """The row with the greatest ``by`` in each group of rows equal in all of ``groups``."""
    order = np.lexsort((*by[::-1], *groups[::-1]))
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = np.logical_or.reduce([np.diff(group[order]) != 0 for group in groups])
    return order[last]
