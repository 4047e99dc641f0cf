"""Named aggregates of sliding windows, for all keys of a batch together.

Every rule depends on records only. D is the time difference, ``t`` the time of a record, and ``c``
its close time: the stream time of its partition at its arrival, less the grace.

    accepted      t + D >= c                                       (semantics.md#0-3)
    member        s <= t <= s + D  and  s + D >= c                 (semantics.md#2-3)
    left window   s = max(0, t - D)  and  s + D >= c               (semantics.md#2-4)
    right window  s = t + 1, and some record is a member           (KIP-450)
    final         s + D < close time of every partition

The result therefore does not depend on the order of partitions or on batches. The state is the
accepted records that can still affect a window. A batch is merged into it, binary searches find the
changed windows, and their members are index ranges.

A batch needs the records near its own records, and near records with a window that becomes final. A
window [s, s + D] is computed from its members and its definers. The definers decide whether it
exists and whether it existed earlier. They are the records at s - 1 or s + D, and for s = 0 all
records up to D. All records that affect a window are therefore in [s - 1, s + D]. These windows can
be emitted:

    contains a new record at t            t - D <= s <= t            [t - D - 1, t + D]
    is the left window of a new one       s = max(0, t - D)          [t - D - 1, max(t, D)]
    is the right window of a new one      s = t + 1                  [t, t + 1 + D]
    left window that becomes final now    s = max(0, t - D)          [t - D - 1, max(t, D)]
    right window that becomes final now   s = t + 1                  [t, t + 1 + D]

In the last two lines, t is the time of an old record, which the state finds by its time. A time
bucket of the state is D + 1 ms, so each span is in the bucket of t and the two adjacent buckets. A
window of any other record in these buckets can lack members and definers, but it is not emitted. It
has an old definer, which is the record itself, has no new record in its bounds, and does not become
final.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, Members, aggregates_of_pieces, used_fields
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    coded_keys,
    pair_order,
    run_starts,
)
from oriel.pipeline.windows.definitions import EmitStrategy, SlidingWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.operator import Expiring, Times
from oriel.pipeline.windows.engines.sliding.members import (
    SlidingEntries,
    WindowMembers,
    rows_in_ranges,
)
from oriel.pipeline.windows.records import (
    RECORD_FIELDS,
    REJECTED_SCHEMA,
    changed_rows,
    window_order,
)


@dataclass(frozen=True)
class _Records:
    """Records by key, time, partition and offset. ``new`` is True for records of this batch."""

    table: pa.Table
    keys: pa.Array
    code: Ints
    time_ms: Ints
    close_ms: Ints
    new: Flags


@dataclass(frozen=True)
class _Windows:
    """Windows by key code and start. ``known`` windows have a definer of an earlier batch."""

    code: Ints
    start_ms: Ints
    known: Flags

    def keep(self, chosen: Flags) -> "_Windows":
        return _Windows(self.code[chosen], self.start_ms[chosen], self.known[chosen])


@dataclass(frozen=True)
class ChangedWindows:
    """Windows to aggregate, sorted by key and start.

    Attributes:
        rows: All records.
        new: True for each record of this batch.
        members: The members of the windows.
        start_ms: The start of each window.
        end_ms: The end of each window.
        known: True for each window that a record of an earlier batch defines.
    """

    rows: pa.Table
    new: Flags
    members: WindowMembers
    start_ms: Ints
    end_ms: Ints
    known: Flags


@dataclass(frozen=True)
class Aggregated:
    """The aggregates of windows.

    Attributes:
        columns: The aggregates by the name of their column.
        timestamp_ms: The time of each window.
        deleted: True for each window without a value.
        left_out: The records that are left out of a window because a function raised.
    """

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    timestamp_ms: Ints
    deleted: Flags
    left_out: pa.Table


class SlidingWindowEngine(WindowEngine):
    """The engine of sliding windows with named aggregates. The state is a set of records."""

    rows_leave_when_due = True
    rows_never_change = True

    def __init__(
        self,
        windows: SlidingWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns that the state keeps with each record for the caller.

        Raises:
            IllegalArgument: An aggregate reads an unknown column or a column of another type.
        """
        self.windows = windows
        self._difference_ms = windows.time_difference_ms
        self._rule = windows.rule
        self._emit = emit
        self._aggregates = dict(aggregates)
        self.aggregate_types = {n: a.output_type(values) for n, a in aggregates.items()}
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), *used_fields(aggregates, values)]
        )
        self.state_schema = self.record_schema

    def order_by_lineage(self) -> None:
        """Expect rows with a lineage, also in the state."""
        super().order_by_lineage()
        self.state_schema = self.record_schema

    def use_apply_order(self) -> None:
        """Expect records with an apply order, also in the state."""
        super().use_apply_order()
        self.state_schema = self.record_schema

    def buckets(self, state: pa.Table) -> Ints:
        """Return the time bucket of each record. A bucket is D + 1 ms."""
        return self._bucket(np.asarray(state["timestamp_ms"]))

    def buckets_of_batch(self, batch: pa.Table) -> Ranges:
        """Return the time bucket of each record and the adjacent buckets."""
        bucket = self._bucket(np.asarray(batch["timestamp_ms"]))
        # A bucket has D + 1 ms. The records that matter for a record at t are at most D + 1 ms
        # away, so they are at most one bucket away.
        return Ranges(bucket - 1, bucket + 2)

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the end of the right window of each record, the last window that contains it."""
        return np.asarray(state["timestamp_ms"]) + 1 + self._difference_ms

    def due(self, previous_close_ms: int, close_ms: int) -> Sequence[Expiring]:
        """Return the records whose right window or left window becomes final."""
        # No left window ends before D, so the left windows of early records close together.
        left_from_ms = previous_close_ms if previous_close_ms > self._difference_ms else 0
        # A window with the end e becomes final if previous close time <= e < close time. For a
        # right window, e is ``due_ms`` of the record. Its members are in [t + 1, t + 1 + D], in the
        # bucket of t or in the next one.
        right = Expiring(previous_close_ms, close_ms, 0, 1)
        if close_ms <= self._difference_ms:
            return (right,)
        # The time from a record, where its left window ends, to its ``due_ms``.
        until_due_ms = 1 + self._difference_ms
        # Records up to D are members and definers of the left window of an early record. It is in
        # bucket 0, and so is D.
        return Expiring(left_from_ms + until_due_ms, close_ms + until_due_ms, -1, 0), right

    def _bucket(self, time_ms: Ints) -> Ints:
        return time_ms // (self._difference_ms + 1)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        (previous_close_ms,), (close_ms,) = times
        # All records by the bytes of the key, then in window order.
        table = pa.concat_tables([state, self._read(batch)]).combine_chunks()
        (code,), keys = coded_keys(table["key"])
        order = window_order(code, table)
        table = table.take(pa.array(order))
        time_ms, closes_ms = np.asarray(table["timestamp_ms"]), np.asarray(table["close_ms"])
        # The rows of the state were first, so an index from ``len(state)`` on is a record of the
        # batch.
        new = order >= len(state)
        records = _Records(table, keys, code[order], time_ms, closes_ms, new=new)
        windows = self._defined_windows(records, previous_close_ms, close_ms)
        changed, key = self._changed(records, windows, close_ms)
        aggregated = self._aggregated(changed)
        changes = changed_rows(
            key,
            (changed.start_ms, changed.end_ms),
            aggregated.columns,
            aggregated.timestamp_ms,
            final=~self._rule.is_open(changed.end_ms, close_ms),
            deleted=aggregated.deleted,
        )
        # The last window of a record is its right window, [t + 1, t + 1 + D]. After it is final,
        # the record cannot affect a window.
        matters = self._rule.is_open(records.time_ms + 1 + self._difference_ms, close_ms)
        state = records.table.filter(pa.array(matters))
        added = records.table.filter(pa.array(matters & records.new))
        return EngineResult(state, changes, left_out=aggregated.left_out, added=added)

    def _defined_windows(
        self, records: _Records, previous_close_ms: int, close_ms: int
    ) -> _Windows:
        """Return the windows that records define and that can be emitted, each once."""
        # Without a new record of its key, a window has no new member and no new definer. It can
        # only be emitted because it becomes final.
        has_new_records = np.zeros(len(records.keys), dtype=np.bool_)
        has_new_records[records.code[records.new]] = True
        key_has_new_records = has_new_records[records.code]

        def can_be_emitted(start_ms: Ints) -> Flags:
            # A window that was final before this batch is frozen. Only ends are compared to find
            # the other windows that become final, which are few with a long time difference.
            end_ms = start_ms + self._difference_ms
            final = ~self._rule.is_open(end_ms, close_ms)
            not_frozen = self._rule.is_open(end_ms, previous_close_ms)
            return not_frozen & self._emit.emits(key_has_new_records, final)

        # The left window of an early record, t < D, is [0, D] (semantics.md#2-4).
        left_ms = np.maximum(records.time_ms - self._difference_ms, 0)
        # A window that is closed when its definer arrives is not created. The test depends only on
        # the record, so all later batches have the same result.
        creates_left = self._rule.is_open(left_ms + self._difference_ms, records.close_ms)
        # A right window needs no test. When the record was accepted, t + D >= c was true
        # (semantics.md#0-3), so t + 1 + D >= c. Kafka Streams also has no test.
        right_ms = records.time_ms + 1
        by_left = np.flatnonzero(creates_left & can_be_emitted(left_ms))
        by_right = np.flatnonzero(can_be_emitted(right_ms))
        definer = np.concatenate([by_left, by_right])
        start_ms = np.concatenate([left_ms[by_left], right_ms[by_right]])
        # Two records can define one window. With D = 10, [20, 30] is the right window of a record
        # at 19 and the left window of a record at 30. It is known if any definer is of an earlier
        # batch.
        code = records.code[definer]
        order = pair_order(code, start_ms)
        windows = _Windows(code[order], start_ms[order], ~records.new[definer][order])
        if not len(order):
            return windows
        head = run_starts(windows.code, windows.start_ms)
        known = np.logical_or.reduceat(windows.known, np.flatnonzero(head))
        return _Windows(windows.code[head], windows.start_ms[head], known)

    def _changed(
        self, records: _Records, windows: _Windows, close_ms: int
    ) -> tuple[ChangedWindows, pa.Array]:
        """Return the windows that this batch changed, created or closed, and their keys.

        A known window existed before the batch, and its row was emitted if it had a member. It has
        changed only if it has a new member. A window without a definer of an earlier batch is
        emitted with all its members, which can all be of earlier batches.
        """
        timeline = Timeline(records.code, records.time_ms)
        end_ms = windows.start_ms + self._difference_ms
        # Records are sorted by key and time, so the records within the bounds are a range.
        in_bounds = timeline.within(windows.code, windows.start_ms, end_ms)
        must_be_emitted = ~windows.known | ~self._rule.is_open(end_ms, close_ms)
        # Windows without a record in their bounds, or without a new one, are dropped before members
        # are computed, because members are always within the bounds.
        chosen = ~in_bounds.empty & (must_be_emitted | in_bounds.any_of(records.new))
        windows, end_ms, must_be_emitted = (
            windows.keep(chosen),
            end_ms[chosen],
            must_be_emitted[chosen],
        )
        entries = SlidingEntries.of(records.code, records.time_ms, records.close_ms, self._rule)
        members = WindowMembers.of(entries, windows.code, end_ms, in_bounds.keep(chosen))
        # A right window exists only with a member, and a new record in the bounds can be a hole.
        chosen = (members.last_of() >= 0) & (must_be_emitted | (members.last_of(records.new) >= 0))
        windows = windows.keep(chosen)
        changed = ChangedWindows(
            rows=records.table,
            new=records.new,
            members=members.keep(chosen),
            start_ms=windows.start_ms,
            end_ms=end_ms[chosen],
            known=windows.known,
        )
        return changed, records.keys.take(pa.array(windows.code))

    def _aggregated(self, changed: ChangedWindows) -> Aggregated:
        """Aggregate each window. No record is left out, and each window has a value."""
        members = changed.members
        # Members are in the order of time, so the last one has the greatest time
        # (semantics.md#0-7).
        newest_ms = members.entries.time_ms[members.last_of()]
        none = np.zeros(len(newest_ms), dtype=np.bool_)
        # No aggregate reads the keys and the close times, and ``take`` would copy them.
        columns = self._columns_of(changed.rows.drop_columns(["key", "close_ms"]), members)
        return Aggregated(columns, newest_ms, none, REJECTED_SCHEMA.empty_table())

    def _columns_of(
        self, rows: pa.Table, members: WindowMembers
    ) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Return the aggregates of each window by the name of their column."""
        # Without a hole, the members are one range in the order of time, which every aggregate can
        # read directly. Only windows with a hole need pieces in a second order
        # (docs/decisions/0023).
        holed = members.holed
        row, ranges = rows_in_ranges(len(rows), members.in_bounds.keep(~holed))
        of_ranges = Members(rows.take(pa.array(row)), ranges)
        columns = {name: aggregate.of(of_ranges) for name, aggregate in self._aggregates.items()}
        if not holed.any():
            return columns
        own = members.keep(holed)
        pieced = aggregates_of_pieces(self._aggregates, rows, own.pieces(), own.listed())
        # Put the results of both kinds of windows in the order of the windows.
        place = np.empty(len(holed), dtype=np.int64)
        place[~holed] = np.arange(len(ranges.low))
        place[holed] = len(ranges.low) + np.arange(len(holed) - len(ranges.low))
        return {
            name: pa.chunked_array([column, *pieced[name].chunks]).take(pa.array(place))
            for name, column in columns.items()
        }
