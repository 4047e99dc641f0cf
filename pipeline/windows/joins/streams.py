"""The stream-stream join: pairs of records within a time range, for all keys of a batch at once.

Each rule depends only on the records. The time of a left record is ``l.t``, and the time of a right
record is ``r.t``. The stream time of the record's partition at its arrival is ``st``, and the grace
is G:

    left record late          l.t + max(after, 0) + G < st
    right record late         r.t + max(before, 0) + G < st
    pair                      same key, neither late, l.t - before <= r.t <= l.t + after
    left record unmatched     no pair, and right stream time > l.t + after + max(before, 0) + G
    right record unmatched    no pair, and left stream time > r.t + before + max(after, 0) + G

The stream time of an input is the least one of its partitions. A right record that arrives later
and is not late has ``r.t >= right stream time - max(before, 0) - G``. So once the condition in the
fourth line is true, the left record has no more pairs. It leaves the state, and a left or outer
join emits it. So neither interleaving nor batches matter. In Kafka Streams, both matter, because it
has one stream time for both inputs. The reason for ``max`` is a range that is completely before or
after the record, because a record in time order must never be late.

An input can be the results of a join. Its stream time is the least one of all partitions of its
streams, and the stream time of a result is the greatest one of its records. A result that is
emitted with a new record has at least the stream time of the input, like a record. A result that
is emitted because stream time has advanced (an unmatched record, also after further joins) can be
older. Its time is at most H before the stream time, where H is ``delay_ms`` of the upstream join.
So for such an input, ``max(before, 0) + G`` in the last two lines is at least H.

The state is the records that can still have a result. All records are sorted by (key, time), so the
matches of a record are a range of indexes, which binary search finds.
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
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    MATCHED,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    How,
    InputRows,
    InputStreamTimes,
    JoinResult,
    OpenRecordsEngine,
    are_older,
    joined_values,
)
from oriel.pipeline.windows.records import Lineage, joined_lineages, lineage_fields


@dataclass(frozen=True)
class _SortedRecords:
    """The records of both streams, of state and batch, sorted by (key code, time), as arrays.

    Attributes:
        table: The records.
        keys: The key of each code.
        key_code: The code of each record's key.
        timestamp_ms: The time of each record.
        left: True for left records.
        new: True for records of the batch.
        input_row: The index of each record in the state followed by the batch.
        lineages: The indexes of the lineages of left records, and of right records. The values for
            records of the other stream are not used.
    """

    table: pa.Table
    keys: pa.Array
    key_code: Ints
    timestamp_ms: Ints
    left: Flags
    new: Flags
    input_row: Ints
    lineages: tuple[Ints, Ints]

    @classmethod
    def of(
        cls, state: pa.Table, batch: pa.Table, lineages: tuple[Lineage, Lineage]
    ) -> "_SortedRecords":
        """Sort the records of the state and of the batch together."""
        unmatched = pa.repeat(pa.scalar(value=False), len(batch))
        table = pa.concat_tables([state, batch.append_column(MATCHED, unmatched)]).combine_chunks()
        (key_code,), keys = coded_keys(table["key"])
        timestamp_ms = np.asarray(table["timestamp_ms"])
        order = pair_order(key_code, timestamp_ms)
        table = table.take(pa.array(order))
        left = np.asarray(table["side"]) == LEFT
        return cls(
            table, keys, key_code[order], timestamp_ms[order], left, order >= len(state), order,
            (lineages[LEFT].read(table), lineages[RIGHT].read(table)),
        )  # fmt: skip

    def column(self, name: str) -> Ints:
        """Return a column of integers."""
        return np.asarray(self.table[name]).astype(np.int64)


#: The number of pairs in one piece of the results.
PIECE = 2**17

#: The row of the left and of the right record of each result, -1 without one.
_ResultRows = tuple[Ints, Ints]


class StreamJoinEngine(OpenRecordsEngine):
    """Join of two streams within a time range.

    The state is the records that can still have a result, with ``matched``. Each pair is a result.
    In left and outer joins, an unmatched record is also a result, once. A result has the greater of
    both times and of both stream times, and the record id of the left record if it has one. Its
    lineage has the right record, so all results are different. A late record has no result. It is
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
        rows: tuple[InputRows, InputRows] = (RECORDS, RECORDS),
    ) -> None:
        """Join the columns of both streams (see ``JoinEngine``), whose rows are ``rows``.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        own = (*RESULT_FIELDS, SIDE, MATCHED)
        values = joined_values(how, How, own, carried, (left, right))
        self._windows = windows
        self._lineages = rows[LEFT].lineage, rows[RIGHT].lineage
        self._has_left = how != "outer"
        self._unmatched_inputs = {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[how]
        self._left_values, self._right_values = left.names, right.names
        lineage = lineage_fields(self._lineages)
        self.record_schema = pa.schema([*INPUT_FIELDS, *lineage, *(carried or ()), *values])
        self.state_schema = self.record_schema.append(MATCHED)
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])
        self._wait_ms = (
            windows.wait_ms(LEFT, rows[RIGHT].held_ms),
            windows.wait_ms(RIGHT, rows[LEFT].held_ms),
        )
        # A pair is emitted with one of its records, whose stream time decides how late it is. An
        # unmatched record is emitted when the stream time of the other stream is ``wait_ms`` later
        # than its time. It was in time at its arrival, so downstream windows stay open until then.
        self.delay_ms = max((self._wait_ms[side] for side in self._unmatched_inputs), default=0)

    @property
    def keeps_matches(self) -> bool:
        """Whether unmatched records are results, as in left and outer joins."""
        return bool(self._unmatched_inputs)

    def is_late(self, batch: pa.Table) -> Flags:
        """Return which records of ``batch`` are late."""
        allowed_ms = np.where(
            np.asarray(batch["side"]) == LEFT,
            self._windows.allowed_lateness_ms(LEFT),
            self._windows.allowed_lateness_ms(RIGHT),
        )
        return are_older(batch, allowed_ms)

    def stays(self, records: pa.Table, stream_times: InputStreamTimes) -> Flags:
        """Return which records can still have a result at these stream times."""
        left = np.asarray(records["side"]) == LEFT
        return ~self._expired(np.asarray(records["timestamp_ms"]), left, stream_times)

    def concerned(
        self,
        records: pa.Table,
        matched: Flags,
        batch: pa.Table,
        stream_times: tuple[InputStreamTimes, InputStreamTimes],
    ) -> Flags:
        before, after = stream_times
        timestamp_ms, side = np.asarray(records["timestamp_ms"]), np.asarray(records["side"])
        # The files of a version also have expired records, which have no more results.
        unexpired = ~self._expired(timestamp_ms, side == LEFT, before)
        # A record expires in one batch. If it is unmatched, it is a result of this batch.
        concerned = unexpired & ~matched & np.isin(side, self._unmatched_inputs)
        concerned &= self._expired(timestamp_ms, side == LEFT, after)
        if len(batch):
            # The records of a pair are at most ``reach_ms`` apart, so the other record has a time
            # between these times. More records do no harm, because ``apply`` uses the exact range.
            # A comparison of keys costs much more than of times, so it follows for these records.
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
        """Join the records of ``batch``. ``state`` can be the records of ``concerned``."""
        batch = self._read(batch)
        late, of_left = self.is_late(batch), np.asarray(batch["side"]) == LEFT
        accepted = batch.filter(pa.array(~late))
        records = _SortedRecords.of(state, accepted, self._lineages)
        pairs = self._new_pairs(records)
        matched = np.asarray(records.table[MATCHED.name]).copy()
        for one in pairs:
            # A match of an earlier batch remains, so flags are only added.
            matched |= one.matched(len(matched))
        # Pairs are first, because a record of this batch can be the only match of a record that
        # expires in this batch.
        expired = self._expired(records.timestamp_ms, records.left, times.after)
        alone = expired & ~matched
        unmatched_left = np.flatnonzero(alone & records.left & (LEFT in self._unmatched_inputs))
        unmatched_right = np.flatnonzero(alone & ~records.left & (RIGHT in self._unmatched_inputs))
        # The arrays have one entry per result, and -1 for the record that does not exist.
        rows_alone = (
            np.concatenate([unmatched_left, np.full_like(unmatched_right, -1)]),
            np.concatenate([np.full_like(unmatched_left, -1), unmatched_right]),
        )
        # The order of the state followed by the batch, as ``stayed`` requires.
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

    def _expired(self, timestamp_ms: Ints, left: Flags, stream_times: InputStreamTimes) -> Flags:
        """Return which records can have no more pairs, so they leave the state.

        When a later right record arrives, its stream time is at least the current right stream
        time. If it is not late, ``r.t >= right stream time - max(before, 0) - G``. A pair with the
        left record l needs ``r.t <= l.t + after``. So l has no more pairs once
        ``l.t + after + max(before, 0) + G < right stream time``. The sum after ``l.t`` is
        ``wait_ms``. For a right record, the streams are exchanged.
        """
        expired: Flags = np.where(
            left,
            timestamp_ms + self._wait_ms[LEFT] < stream_times[RIGHT],
            timestamp_ms + self._wait_ms[RIGHT] < stream_times[LEFT],
        )
        return expired

    def _new_pairs(self, records: _SortedRecords) -> tuple["_Pairs", "_Pairs"]:
        """Return the pairs with a record of the batch. Earlier batches emitted the others.

        New left records pair with all right records, and old left records pair with new right
        records. So a pair of two new records is one result.
        """
        timeline = Timeline(records.key_code, records.timestamp_ms)
        before_ms, after_ms = self._windows.before_ms, self._windows.after_ms
        # Without ``~new``, a pair of two new records would be two results.
        old_left = records.left & ~records.new
        # l.t - before <= r.t <= l.t + after is r.t - after <= l.t <= r.t + before.
        return (
            _pair_records(records, timeline, LEFT, ~records.left, (before_ms, after_ms)),
            _pair_records(records, timeline, RIGHT, old_left, (after_ms, before_ms)),
        )

    def _results(self, records: _SortedRecords, rows: _ResultRows) -> pa.Table:
        left, right = rows
        no_left, no_right = left < 0, right < 0
        # Both times of an unmatched record are its own time.
        # The index -1 of a missing record reads the last row. Such values are masked, or replaced
        # by the values of the other record.
        first, second = np.where(no_left, right, left), np.where(no_right, left, right)
        partition, offset = records.column("partition"), records.column("offset")
        of_left, of_right = records.lineages
        lineages = joined_lineages(
            self._lineages,
            (of_left[left], of_right[right]),
            (partition[second], offset[second]),
            (no_left, no_right),
            has_left=self._has_left,
        )
        timestamp_ms, stream_time_ms = records.timestamp_ms, records.column("stream_time_ms")
        left_rows, right_rows = pa.array(left, mask=no_left), pa.array(right, mask=no_right)
        columns = [
            records.keys.take(pa.array(records.key_code[first])),
            # semantics.md#5-1: the later of both records.
            np.maximum(timestamp_ms[first], timestamp_ms[second]),
            partition[first].astype(np.int32),
            offset[first],
            lineages,
            np.maximum(stream_time_ms[first], stream_time_ms[second]),
            *(records.table[name].take(left_rows) for name in self._left_values),
            *(records.table[name].take(right_rows) for name in self._right_values),
        ]
        return pa.table(columns, schema=self.result_schema)


@dataclass(frozen=True)
class _Pairs:
    """Pairs as ranges: ``rows[i]`` pairs with ``others[ranges]`` of range i.

    Both are rows of ``_SortedRecords``. ``rows`` are records of the stream ``side``.
    """

    side: int
    rows: Ints
    others: Ints
    ranges: Ranges

    def matched(self, length: int) -> Flags:
        """Return which of ``length`` records are in a pair."""
        matched = np.zeros(length, dtype=np.bool_)
        matched[self.rows[~self.ranges.empty]] = True
        # Only the bounds of the ranges are counted. The number of pairs can be the square of the
        # number of records.
        matched[self.others[self.ranges.contained(len(self.others))]] = True
        return matched

    def pieces(self) -> Iterator[_ResultRows]:
        """Yield the pairs, a limited number at a time."""
        for first, ranges in self.ranges.pieces(PIECE):
            row, other = self.rows[first + ranges.owners], self.others[ranges.rows()[1]]
            yield (row, other) if self.side == LEFT else (other, row)


@dataclass(frozen=True)
class _Results:
    """The results in pieces: pairs, then unmatched records. Each iteration computes them again."""

    table_of: Callable[[_SortedRecords, _ResultRows], pa.Table]
    records: _SortedRecords
    pairs: tuple[_Pairs, _Pairs]
    alone: _ResultRows

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield at least one table, which can be empty."""
        waiting: list[_ResultRows] = []
        for rows in chain(*(pairs.pieces() for pairs in self.pairs), [self.alone]):
            # Few results are one table.
            if waiting and sum(len(left) for left, _ in (*waiting, rows)) > PIECE:
                yield self._table(waiting)
                waiting = []
            waiting.append(rows)
        yield self._table(waiting)

    def _table(self, rows: Sequence[_ResultRows]) -> pa.Table:
        left, right = (np.concatenate(side) for side in zip(*rows, strict=True))
        return self.table_of(self.records, (left, right))


def _pair_records(
    records: _SortedRecords, timeline: Timeline, side: int, others: Flags, range_ms: tuple[int, int]
) -> _Pairs:
    """Pair the new records of ``side`` with ``others`` in a range (ms before, ms after)."""
    rows = np.flatnonzero((records.left == (side == LEFT)) & records.new)
    before_ms, after_ms = range_ms
    key_code, timestamp_ms = records.key_code[rows], records.timestamp_ms[rows]
    # The timeline has the records of both streams, and ``among`` counts only ``others``.
    ranges = timeline.within(key_code, timestamp_ms - before_ms, timestamp_ms + after_ms)
    ranges = ranges.among(others)
    return _Pairs(side, rows, np.flatnonzero(others), ranges)
