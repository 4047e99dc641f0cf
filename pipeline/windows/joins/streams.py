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

The state is the records that can still pair. Sorted by (key, time) with both sides on one
axis, the partners of a record are an index range, found by binary search.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, Timeline, coded_keys, pair_order
from oriel.pipeline.windows.definitions import LEFT, RIGHT, IllegalArgument, JoinWindows
from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    How,
    check_how,
    joined_values,
)

#: Whether a record in the state had a partner.
MATCHED = pa.field("matched", pa.bool_())
#: The least stream time of the left side's partitions, and of the right one's.
Clocks = tuple[int, int]

#: ``suborder`` of results without a right record, and without a left one.
LEFT_ALONE, RIGHT_ALONE = 0, -1

#: ``suborder`` of a pair is made of the right record's partition and offset.
_OFFSET_BITS = 48
_PARTITION_BITS = 15
_PLACE = ("partition", "offset")


@dataclass(frozen=True)
class JoinResult:
    """What one batch made of the state.

    ``state`` has the records that stay: of the old ones, in their order, those that ``stayed``
    marks, then those of the batch. ``results`` has each new pair, and each record that stays
    alone, once: key, timestamp_ms (the greater of both), partition and offset (the left
    record's, if there is one), suborder, stream_time_ms (the greater of both), the columns of
    both sides.
    (timestamp_ms, partition, offset, suborder) is different for each result. ``late``
    counts records of the batch that were late: they pair with nothing, nor come out alone.
    """

    state: pa.Table
    stayed: Flags
    results: pa.Table
    late: int


@dataclass(frozen=True)
class _Records:
    """Both sides sorted by (key code, time) as arrays.

    ``place`` is where each was, in the state and the batch behind it.
    """

    table: pa.Table
    keys: pa.Array
    code: Ints
    time: Ints
    left: Flags
    new: Flags
    place: Ints

    def column(self, name: str) -> Ints:
        return np.asarray(self.table.column(name)).astype(np.int64)


@dataclass(frozen=True)
class _Found:
    """Results as row numbers of both sides; -1 where there is no record of the side."""

    left: Ints
    right: Ints

    def __add__(self, other: "_Found") -> "_Found":
        return _Found(
            np.concatenate([self.left, other.left]), np.concatenate([self.right, other.right])
        )


class StreamJoinEngine:
    """Join of two streams within a time range; holds no state between calls."""

    def __init__(
        self,
        windows: JoinWindows,
        how: How,
        left: pa.Schema,
        right: pa.Schema,
        carried: pa.Schema | None = None,
    ) -> None:
        """``left`` and ``right`` are the sides' value columns, without a name in common.

        ``carried`` are columns that the state keeps with each record for the caller's use.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        check_how(how, get_args(How))
        values = joined_values((*RESULT_FIELDS, SIDE, MATCHED), carried, left, right)
        self._windows = windows
        self._alone = {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[how]
        self._left, self._right = left, right
        self.record_schema = pa.schema([*SIDE_FIELDS, *(carried or ()), *values])
        self.state_schema = self.record_schema.append(MATCHED)
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])

    @property
    def delay_ms(self) -> int:
        """How far behind both clocks a result's time can be: what later windows must wait for.

        A pair comes with one of its records, so its stream time says how late it is.
        """
        return max((self._windows.wait_ms(side) for side in self._alone), default=0)

    def empty_state(self) -> pa.Table:
        """The state before the first record."""
        return self.state_schema.empty_table()

    @property
    def keeps_matches(self) -> bool:
        """Whether it matters later which records had a partner."""
        return bool(self._alone)

    def is_late(self, batch: pa.Table) -> Flags:
        """Which records of ``batch`` pair with nothing because they came too late."""
        time, stream_time, side = (
            np.asarray(batch.column(name)) for name in ("timestamp_ms", "stream_time_ms", "side")
        )
        allowed = np.where(
            side == LEFT,
            self._windows.allowed_lateness_ms(LEFT),
            self._windows.allowed_lateness_ms(RIGHT),
        )
        late: Flags = time + allowed < stream_time
        return late

    def stays(self, records: pa.Table, clocks: Clocks) -> Flags:
        """Which records can still pair, or have yet to come out alone, at these clocks."""
        left = np.asarray(records["side"]) == LEFT
        return ~self._gone(np.asarray(records["timestamp_ms"]), left, clocks)

    def concerned(
        self, records: pa.Table, matched: Flags, batch: pa.Table, clocks: tuple[Clocks, Clocks]
    ) -> Flags:
        """Which of the state's records a batch between two ``clocks`` has to do with.

        Those may be among its records' partners, or come out alone now.
        """
        before, after = clocks
        time, side = np.asarray(records["timestamp_ms"]), np.asarray(records["side"])
        open_ = ~self._gone(time, side == LEFT, before)
        found = open_ & ~matched & np.isin(side, self._alone)
        found &= self._gone(time, side == LEFT, after)
        if len(batch):
            new, reach = np.asarray(batch["timestamp_ms"]), self._windows.reach_ms
            near = open_ & (time >= new.min() - reach) & (time <= new.max() + reach)
            key = records["key"].filter(pa.array(near))
            found[near] |= np.asarray(pc.is_in(key, value_set=batch["key"].unique()))
        return found

    def process(
        self, state: pa.Table, batch: pa.Table, left_clock_ms: int, right_clock_ms: int
    ) -> JoinResult:
        """Join ``batch`` with itself and with ``state``.

        The clocks are the least stream time of each side's partitions after the batch.
        ``state`` may be those records only that ``concerned`` finds.
        """
        batch = batch.select(self.record_schema.names).cast(self.record_schema)
        late = self.is_late(batch)
        accepted = batch.filter(pa.array(~late))
        if len(accepted):
            refuse_large_places(*(pc.max(accepted[name]).as_py() for name in _PLACE))
        records = _sorted_records(state, accepted)
        pairs = self._pairs(records)
        matched = np.asarray(records.table.column(MATCHED.name)).copy()
        matched[pairs.left] = matched[pairs.right] = True
        gone = self._gone(records.time, records.left, (left_clock_ms, right_clock_ms))
        results = self._results(records, pairs + self._lonely(records, gone & ~matched))
        kept = records.table.drop_columns([MATCHED.name]).append_column(MATCHED, pa.array(matched))
        row_of = np.empty_like(records.place)
        row_of[records.place] = np.arange(len(row_of))
        stays = ~gone[row_of]
        kept = kept.take(pa.array(row_of[stays]))
        return JoinResult(kept, stays[: len(state)], results, int(late.sum()))

    def _gone(self, time: Ints, left: Flags, clocks: Clocks) -> Flags:
        """Which records leave the state."""
        gone: Flags = np.where(
            left,
            time + self._windows.wait_ms(LEFT) < clocks[RIGHT],
            time + self._windows.wait_ms(RIGHT) < clocks[LEFT],
        )
        return gone

    def _pairs(self, records: _Records) -> _Found:
        """New left records with every right one, old left records with the new right ones."""
        timeline = Timeline(records.code, records.time)
        before, after = self._windows.before_ms, self._windows.after_ms
        new_left = np.flatnonzero(records.left & records.new)
        new_right = np.flatnonzero(~records.left & records.new)
        first = _partners(records, timeline, new_left, ~records.left, (before, after))
        old_left = records.left & ~records.new
        second = _partners(records, timeline, new_right, old_left, (after, before))
        return _Found(*first) + _Found(second[1], second[0])

    def _lonely(self, records: _Records, chosen: Flags) -> _Found:
        """The chosen records without a partner, of the sides that come out alone."""
        left = np.flatnonzero(chosen & records.left & (LEFT in self._alone))
        right = np.flatnonzero(chosen & ~records.left & (RIGHT in self._alone))
        return _Found(left, np.full_like(left, -1)) + _Found(np.full_like(right, -1), right)

    def _results(self, records: _Records, found: _Found) -> pa.Table:
        no_left, no_right = found.left < 0, found.right < 0
        first = np.where(no_left, found.right, found.left)
        second = np.where(no_right, found.left, found.right)
        partition, offset = records.column("partition"), records.column("offset")
        pair = (partition[second] << _OFFSET_BITS) + offset[second] + 1
        suborder = np.where(no_right, LEFT_ALONE, np.where(no_left, RIGHT_ALONE, pair))
        time, stream_time = records.time, records.column("stream_time_ms")
        left_rows = pa.array(found.left, mask=no_left)
        right_rows = pa.array(found.right, mask=no_right)
        columns = [
            records.keys.take(pa.array(records.code[first])),
            np.maximum(time[first], time[second]),
            partition[first].astype(np.int32),
            offset[first],
            suborder,
            np.maximum(stream_time[first], stream_time[second]),
            *(records.table.column(name).take(left_rows) for name in self._left.names),
            *(records.table.column(name).take(right_rows) for name in self._right.names),
        ]
        return pa.table(columns, schema=self.result_schema)


def _sorted_records(state: pa.Table, batch: pa.Table) -> _Records:
    """Join state and batch, sorted by (key, time)."""
    fresh = batch.append_column(MATCHED, pa.repeat(pa.scalar(False), len(batch)))  # noqa: FBT003
    table = pa.concat_tables([state, fresh]).combine_chunks()
    (code,), keys = coded_keys(table["key"])
    time = np.asarray(table.column("timestamp_ms"))
    order = pair_order(code, time)
    table = table.take(pa.array(order))
    left = np.asarray(table.column("side")) == LEFT
    return _Records(table, keys, code[order], time[order], left, order >= len(state), order)


def _partners(
    records: _Records, timeline: Timeline, rows: Ints, others: Flags, reach: tuple[int, int]
) -> tuple[Ints, Ints]:
    """Pair ``rows`` with those of ``others`` that are up to ``reach`` before and after them."""
    before, after = reach
    code, time = records.code[rows], records.time[rows]
    ranges = Ranges(
        timeline.first_at_or_after(code, time - before),
        timeline.first_after(code, time + after),
    ).among(others)
    return np.repeat(rows, ranges.sizes), np.flatnonzero(others)[ranges.rows()[1]]


def refuse_large_places(partition: int, offset: int) -> None:
    """Refuse a record whose place does not fit into ``suborder``.

    Raises:
        IllegalArgument: its partition or its offset is too large.
    """
    for name, number, bits in (
        ("partition", partition, _PARTITION_BITS),
        ("offset", offset, _OFFSET_BITS),
    ):
        if number >= 2**bits - 1:
            message = f"{name} {number}: a join of streams takes a {name} below 2**{bits} - 1 only"
            raise IllegalArgument(message)
