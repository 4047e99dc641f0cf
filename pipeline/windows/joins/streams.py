"""The stream-stream join: pairs of records within a time range, for all keys of a batch at once.

Every rule is a property of records alone. ``l.t`` is the time of a left record, ``r.t`` of
a right one, ``st`` the stream time of a record's own partition when it came, G the grace:

    left record late   l.t + max(after, 0) + G < st
    right record late  r.t + max(before, 0) + G < st
    pair               same key, neither late, l.t - before <= r.t <= l.t + after
    left one alone     no pair, and right clock > l.t + after + max(before, 0) + G
    right one alone    no pair, and left clock > r.t + before + max(after, 0) + G

A side's clock is the least stream time of its partitions. A right record that is still to
come and not late has ``r.t >= right clock - max(before, 0) - G``, so after the fourth line
no pair can appear: that is when a record leaves the state, and comes out alone if the join
wants it. So neither interleaving nor batch cuts can matter. (Kafka Streams shares one clock
between the sides, and there they do.) The ``max`` is for a range that lies wholly before or
after the record: a record in time order is never late.

A side may be a join's results itself. Then its records are results, its clock is the least of all
partitions of its streams, and a result's stream time the greatest of its records'. One that is made
with a record still to come has a stream time of at least the clock, as a record has. One that comes
because clocks have moved (a record alone, and what is joined with it) has not; but its time is at
most H behind the clock, the time that the join in front says (``delay_ms``). So for such a side
``max(before, 0) + G`` in the last two lines is at least H.

The state is the records that can still pair. Sorted by (key, time) with both sides on one
axis, the partners of a record are an index range, found by binary search.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, Timeline, coded_keys, pair_order
from oriel.pipeline.windows.definitions import LEFT, RIGHT, JoinWindows
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.places import (
    Places,
    joined_numbers,
    place_numbers,
    refuse_large_places,
)
from oriel.pipeline.windows.joins.sides import (
    MATCHED,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    How,
    JoinResult,
    OpenRecordsEngine,
    SideRows,
    are_behind,
    joined_values,
)
from oriel.pipeline.windows.records import PLACE_FIELDS


@dataclass(frozen=True)
class _SortedRecords:
    """Both sides' records of state and batch, sorted by (key code, time), as arrays.

    ``keys`` has the key of each code, ``left`` tells the sides apart, ``new`` marks the batch's.
    ``input_row`` is where each record was before, in the state with the batch behind it. Of
    ``numbers`` the first are those of left records, the second of right ones; no others are read.
    """

    table: pa.Table
    keys: pa.Array
    key_code: Ints
    timestamp_ms: Ints
    left: Flags
    new: Flags
    input_row: Ints
    numbers: tuple[Ints, Ints]

    @classmethod
    def of(
        cls, state: pa.Table, batch: pa.Table, places: tuple[Places, Places]
    ) -> "_SortedRecords":
        """Sort the records of the state and of the batch together."""
        unmatched = pa.repeat(pa.scalar(value=False), len(batch))
        table = pa.concat_tables([state, batch.append_column(MATCHED, unmatched)]).combine_chunks()
        (key_code,), keys = coded_keys(table["key"])
        timestamp_ms = np.asarray(table["timestamp_ms"])
        order = pair_order(key_code, timestamp_ms)
        table = table.take(pa.array(order))
        left = np.asarray(table["side"]) == LEFT
        numbers = places[LEFT].read(table), places[RIGHT].read(table)
        return cls(
            table, keys, key_code[order], timestamp_ms[order], left, order >= len(state), order,
            numbers,
        )  # fmt: skip

    def column(self, name: str) -> Ints:
        """A column of whole numbers."""
        return np.asarray(self.table[name]).astype(np.int64)


#: How many pairs are made at a time.
PIECE = 2**17

#: Row numbers of the left and of the right record of each result; -1 where there is none.
_ResultRows = tuple[Ints, Ints]


class StreamJoinEngine(OpenRecordsEngine):
    """Join of two streams within a time range.

    The state is the records that can still pair or come out alone, with ``matched``. Results
    are each pair, and each record that stays alone where ``how`` asks for it, once: with the
    greater of both times and of both stream times, and the place of the left record, if there
    is one. The right record's place is among the numbers behind it (``places``), so no two results
    have the same ones. Late records pair with nothing, nor do they come out alone; they are
    counted.
    """

    def __init__(
        self,
        windows: JoinWindows,
        how: How,
        left: pa.Schema,
        right: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: tuple[SideRows, SideRows] = (RECORDS, RECORDS),
    ) -> None:
        """Join columns as ``JoinEngine`` says; ``rows`` are what the sides' records are.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        own = (*RESULT_FIELDS, SIDE, MATCHED)
        values = joined_values(how, How, own, carried, (left, right))
        self._windows = windows
        self._places = places = (rows[LEFT].places, rows[RIGHT].places)
        self._sides_alone = {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[how]
        self._left_values, self._right_values = left.names, right.names
        numbers = max((side.fields for side in places), key=len)
        self.record_schema = pa.schema([*SIDE_FIELDS, *numbers, *(carried or ()), *values])
        self.state_schema = self.record_schema.append(MATCHED)
        numbers = places[LEFT].joined(places[RIGHT]).fields
        self.result_schema = pa.schema([*PLACE_FIELDS, *numbers, STREAM_TIME, *values])
        self._wait_ms = (
            windows.wait_ms(LEFT, rows[RIGHT].held_ms),
            windows.wait_ms(RIGHT, rows[LEFT].held_ms),
        )
        # A pair comes with one of its records, and that record's stream time says how late it
        # is, as for any record. A record alone comes when the other side's clock has passed its
        # time by ``wait_ms``; it was in time when it came, so windows behind the join have to be
        # open until then.
        self.delay_ms = max((self._wait_ms[side] for side in self._sides_alone), default=0)

    @property
    def keeps_matches(self) -> bool:
        """Whether records may come out alone: not for an inner join."""
        return bool(self._sides_alone)

    def refuse_place(self, partition: int, offset: int) -> None:
        # Of a result, the place of the right record is a number (``places``).
        refuse_large_places(partition, offset)

    def is_late(self, batch: pa.Table) -> Flags:
        """Which records of ``batch`` pair with nothing because they came too late."""
        allowed_ms = np.where(
            np.asarray(batch["side"]) == LEFT,
            self._windows.allowed_lateness_ms(LEFT),
            self._windows.allowed_lateness_ms(RIGHT),
        )
        return are_behind(batch, allowed_ms)

    def stays(self, records: pa.Table, clocks: Clocks) -> Flags:
        """Which records can still pair, or have yet to come out alone, at these clocks."""
        left = np.asarray(records["side"]) == LEFT
        return ~self._expired(np.asarray(records["timestamp_ms"]), left, clocks)

    def concerned(
        self, records: pa.Table, matched: Flags, batch: pa.Table, clocks: tuple[Clocks, Clocks]
    ) -> Flags:
        """Which of the state's ``records`` may pair with the batch's, or come out alone with it."""
        before, after = clocks
        timestamp_ms, side = np.asarray(records["timestamp_ms"]), np.asarray(records["side"])
        # A version's files keep expired records, too; those pair no more.
        unexpired = ~self._expired(timestamp_ms, side == LEFT, before)
        # A record expires in one batch. If it comes out alone, it is a result of that batch; if
        # not, nothing is written of it.
        concerned = unexpired & ~matched & np.isin(side, self._sides_alone)
        concerned &= self._expired(timestamp_ms, side == LEFT, after)
        if len(batch):
            # Pairs are ``reach_ms`` apart at most, so a partner of any record of the batch lies
            # between these times. Too many records do no harm: ``apply`` pairs by the exact
            # range. Keys are compared for those records only, as that costs far more than times.
            batch_ms, reach_ms = np.asarray(batch["timestamp_ms"]), self._windows.reach_ms
            in_reach = (
                unexpired
                & (timestamp_ms >= batch_ms.min() - reach_ms)
                & (timestamp_ms <= batch_ms.max() + reach_ms)
            )
            keys = records["key"].filter(pa.array(in_reach))
            concerned[in_reach] |= np.asarray(pc.is_in(keys, value_set=batch["key"].unique()))
        return concerned

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """See ``JoinEngine``; ``state`` may be those records only that ``concerned`` names.

        Raises:
            IllegalArgument: a record's partition or offset is too large for ``suborder``.
        """
        batch = self._read(batch)
        late, of_left = self.is_late(batch), np.asarray(batch["side"]) == LEFT
        accepted = batch.filter(pa.array(~late))
        if len(accepted):
            refuse_large_places(
                *(pc.max(accepted[name]).as_py() for name in ("partition", "offset"))
            )
        records = _SortedRecords.of(state, accepted, self._places)
        pairs = self._new_pairs(records)
        matched = np.asarray(records.table[MATCHED.name]).copy()
        for one in pairs:
            matched |= one.matched(len(matched))
        # Pairs come first: a record of this batch may be the only partner of one that expires
        # with this batch's clocks.
        expired = self._expired(records.timestamp_ms, records.left, times.after)
        alone = expired & ~matched
        left_alone = np.flatnonzero(alone & records.left & (LEFT in self._sides_alone))
        right_alone = np.flatnonzero(alone & ~records.left & (RIGHT in self._sides_alone))
        rows_alone = (
            np.concatenate([left_alone, np.full_like(right_alone, -1)]),
            np.concatenate([np.full_like(left_alone, -1), right_alone]),
        )
        # Back into the order of the state and the batch behind it, as ``stayed`` promises.
        row_of = np.empty_like(records.input_row)
        row_of[records.input_row] = np.arange(len(row_of))
        stays = ~expired[row_of]
        table = records.table.drop_columns([MATCHED.name]).append_column(MATCHED, pa.array(matched))
        return JoinResult(
            state=table.take(pa.array(row_of[stays])),
            pieces=_Results(self._results, records, pairs, rows_alone),
            late=(int(late[of_left].sum()), int(late[~of_left].sum())),
            stayed=stays[: len(state)],
        )

    def _expired(self, timestamp_ms: Ints, left: Flags, clocks: Clocks) -> Flags:
        """Which records nothing can pair with any more: those leave the state.

        Take a left record l. A right record that is still to come has a stream time of at least
        the right clock; if it is not late, ``r.t >= right clock - max(before, 0) - G``. A pair
        needs ``r.t <= l.t + after``. So there is none once
        ``l.t + after + max(before, 0) + G < right clock``; the sum is ``wait_ms``. A right
        record is the same with the sides changed.
        """
        expired: Flags = np.where(
            left,
            timestamp_ms + self._wait_ms[LEFT] < clocks[RIGHT],
            timestamp_ms + self._wait_ms[RIGHT] < clocks[LEFT],
        )
        return expired

    def _new_pairs(self, records: _SortedRecords) -> tuple["_Pairs", "_Pairs"]:
        """The pairs with a record of the batch; older pairs came out with earlier batches.

        New left records pair with every right one, old left records with the new right ones
        only, so that a pair of two new records comes once.
        """
        timeline = Timeline(records.key_code, records.timestamp_ms)
        before_ms, after_ms = self._windows.before_ms, self._windows.after_ms
        old_left = records.left & ~records.new
        # l.t - before <= r.t <= l.t + after is r.t - after <= l.t <= r.t + before.
        return (
            _partners(records, timeline, LEFT, ~records.left, (before_ms, after_ms)),
            _partners(records, timeline, RIGHT, old_left, (after_ms, before_ms)),
        )

    def _results(self, records: _SortedRecords, rows: _ResultRows) -> pa.Table:
        left, right = rows
        no_left, no_right = left < 0, right < 0
        # A record that is alone stands for both sides: then both times are its own.
        first, second = np.where(no_left, right, left), np.where(no_right, left, right)
        partition, offset = records.column("partition"), records.column("offset")
        of_left, of_right = records.numbers
        numbers = joined_numbers(
            self._places,
            (of_left[left], of_right[right]),
            place_numbers(partition[second], offset[second]),
            (no_left, no_right),
        )
        places = self._places[LEFT].joined(self._places[RIGHT])
        timestamp_ms, stream_time_ms = records.timestamp_ms, records.column("stream_time_ms")
        left_rows, right_rows = pa.array(left, mask=no_left), pa.array(right, mask=no_right)
        columns = [
            records.keys.take(pa.array(records.key_code[first])),
            # semantics.md#5-1: the later of both records.
            np.maximum(timestamp_ms[first], timestamp_ms[second]),
            partition[first].astype(np.int32),
            offset[first],
            *places.written(numbers).values(),
            np.maximum(stream_time_ms[first], stream_time_ms[second]),
            *(records.table[name].take(left_rows) for name in self._left_values),
            *(records.table[name].take(right_rows) for name in self._right_values),
        ]
        return pa.table(columns, schema=self.result_schema)


@dataclass(frozen=True)
class _Pairs:
    """Pairs without a list of them: ``rows[i]`` pairs with ``others[ranges]`` of range i.

    Both are rows of ``_SortedRecords``; ``rows`` are records of the side ``side``.
    """

    side: int
    rows: Ints
    others: Ints
    ranges: Ranges

    def matched(self, length: int) -> Flags:
        """Which of ``length`` records are in a pair."""
        matched = np.zeros(length, dtype=np.bool_)
        matched[self.rows[~self.ranges.empty]] = True
        matched[self.others[self.ranges.covered(len(self.others))]] = True
        return matched

    def pieces(self) -> Iterator[_ResultRows]:
        """The pairs, a bounded number at a time."""
        for first, ranges in self.ranges.pieces(PIECE):
            row, other = self.rows[first + ranges.owners], self.others[ranges.rows()[1]]
            yield (row, other) if self.side == LEFT else (other, row)


@dataclass(frozen=True)
class _Results:
    """Results piece by piece, as often as they are asked for: pairs, then who is alone."""

    table_of: Callable[[_SortedRecords, _ResultRows], pa.Table]
    records: _SortedRecords
    pairs: tuple[_Pairs, _Pairs]
    alone: _ResultRows

    def __iter__(self) -> Iterator[pa.Table]:
        """Make one table after the other; there is one at least, which may have no row."""
        waiting: list[_ResultRows] = []
        for rows in chain(*(pairs.pieces() for pairs in self.pairs), [self.alone]):
            # Few results are one table, however they came.
            if waiting and sum(len(left) for left, _ in (*waiting, rows)) > PIECE:
                yield self._table(waiting)
                waiting = []
            waiting.append(rows)
        yield self._table(waiting)

    def _table(self, rows: Sequence[_ResultRows]) -> pa.Table:
        left, right = (np.concatenate(side) for side in zip(*rows, strict=True))
        return self.table_of(self.records, (left, right))


def _partners(
    records: _SortedRecords,
    timeline: Timeline,
    side: int,
    others: Flags,
    range_ms: tuple[int, int],
) -> _Pairs:
    """Pair the new records of ``side`` with ``others`` in a range (ms before, ms after) of them."""
    rows = np.flatnonzero((records.left == (side == LEFT)) & records.new)
    before_ms, after_ms = range_ms
    key_code, timestamp_ms = records.key_code[rows], records.timestamp_ms[rows]
    # The axis has both sides' records; ``among`` counts the range in those of the other side.
    ranges = timeline.within(key_code, timestamp_ms - before_ms, timestamp_ms + after_ms)
    ranges = ranges.among(others)
    return _Pairs(side, rows, np.flatnonzero(others), ranges)
