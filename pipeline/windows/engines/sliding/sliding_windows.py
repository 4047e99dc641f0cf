"""The sliding-window engine: set semantics with freezing, for all keys of a batch at once.

Every rule is a property of records alone (D = time difference, ``t`` = a record's time,
``c`` = its close time: stream time of its own partition when it came, less grace):

    accepted      t + D >= c                                       (semantics rule 3)
    member        s <= t <= s + D  and  s + D >= c                 (rule 2, design promise 2)
    left window   s = max(0, t - D)  and  s + D >= c               (KIP-450; early records 2.4)
    right window  s = t + 1, and some record is a member           (KIP-450)
    final         s + D < close time of every partition

So the result can't depend on the order in which partitions are read or on batch cuts.
The state is the accepted records that can still matter, sorted by (key, t, partition,
offset); a batch is merged in, the windows it changed are looked up by binary search,
and their members are index ranges. Only records that were excluded from a window that
was already closed for them (partly late ones) break a range; windows with such a hole
get their members copied out, which keeps one code path for all aggregates.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, Members, used_fields
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    coded_keys,
    heads,
    pair_order,
    prefix_sums,
)
from oriel.pipeline.windows.definitions import EmitStrategy, SlidingWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.records import RECORD_FIELDS, REJECTED_SCHEMA, arrival_keys

_ON_UPDATE = EmitStrategy.on_window_update()


@dataclass(frozen=True)
class _Records:
    """Sorted records as arrays: key code, time, close time, whether new in this batch."""

    table: pa.Table
    keys: pa.Array
    code: Ints
    time: Ints
    close: Ints
    new: Flags

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class _Windows:
    """Candidate windows: key code, start, and whether a record of an earlier batch defines it."""

    code: Ints
    start: Ints
    known: Flags

    def keep(self, chosen: Flags) -> "_Windows":
        return _Windows(self.code[chosen], self.start[chosen], self.known[chosen])


@dataclass(frozen=True)
class ChangedWindows:
    """Windows to aggregate, sorted by key and start: their bounds, and their members' ranges.

    ``known`` are those that a record of an earlier batch defines, ``new`` the rows that came
    in this batch. A row may be there more than once.
    """

    rows: pa.Table
    new: Flags
    ranges: Ranges
    start: Ints
    end: Ints
    known: Flags


@dataclass(frozen=True)
class Aggregated:
    """The aggregates of windows, their timestamps, which have no value, and who is left out."""

    columns: Mapping[str, pa.Array]
    timestamp_ms: Ints
    deleted: Flags
    left_out: pa.Table


class SlidingWindowEngine(WindowEngine):
    """Sliding windows with declarative aggregates; the state is a set of records."""

    state_is_records = True

    def __init__(
        self,
        windows: SlidingWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = _ON_UPDATE,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns that the state keeps with each record for the caller's use.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        self._difference = windows.time_difference_ms
        self._rule = windows.rule
        self._emit_final_only = emit.is_on_close
        self._aggregates = dict(aggregates)
        self.aggregate_types = {n: a.output_type(values) for n, a in aggregates.items()}
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), *used_fields(aggregates, values)]
        )
        self.state_schema = self.record_schema

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Which records are refused: even their last window is closed (semantics rule 3)."""
        return ~self._rule.is_open(timestamp_ms + self._difference, close_ms)

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``."""
        records = _sorted_records(state, self._read(batch))
        windows = self._candidates(records, previous_close_ms, close_ms)
        members, windows = self._changed(records, windows, close_ms)
        changes, left_out = self._evaluate(records, windows, members, close_ms)
        open_records = records.time >= close_ms - self._difference - 1
        state = records.table.filter(pa.array(open_records))
        return EngineResult(state, changes, left_out=left_out)

    def _candidates(self, records: _Records, previous_close_ms: int, close_ms: int) -> _Windows:
        """List the defined windows that may have changed: of touched keys, or final now."""
        touched = np.zeros(len(records.keys), dtype=np.bool_)
        if not self._emit_final_only:
            touched[records.code[records.new]] = True
        concerned = touched[records.code]
        left = np.maximum(records.time - self._difference, 0)
        right = records.time + 1
        made = left + self._difference >= records.close
        # Few records of a long window define one that ends now: the rest is left out at once.
        by_left = np.flatnonzero(
            made & self._may_change(left, concerned, previous_close_ms, close_ms)
        )
        by_right = np.flatnonzero(self._may_change(right, concerned, previous_close_ms, close_ms))
        rows = np.concatenate([by_left, by_right])
        start = np.concatenate([left[by_left], right[by_right]])
        return _distinct(_Windows(records.code[rows], start, ~records.new[rows]))

    def _may_change(
        self, start: Ints, concerned: Flags, previous_close_ms: int, close_ms: int
    ) -> Flags:
        """Which windows were not final before, and are final now or ``concerned``."""
        end = start + self._difference
        now = concerned | ~self._rule.is_open(end, close_ms)
        return now & self._rule.is_open(end, previous_close_ms)

    def _changed(
        self, records: _Records, windows: _Windows, close_ms: int
    ) -> tuple["_Membership", _Windows]:
        """Keep the windows that have a member and either a new one, a new definer, or finality."""
        timeline = Timeline(records.code, records.time)
        end = windows.start + self._difference
        ranges = Ranges(
            timeline.first_at_or_after(windows.code, windows.start),
            timeline.first_after(windows.code, end),
        )
        reason = ~windows.known | ~self._rule.is_open(end, close_ms)
        chosen = ~ranges.empty & (reason | ranges.any_of(records.new))
        windows, end, reason = windows.keep(chosen), end[chosen], reason[chosen]
        membership = _membership(records, ranges.keep(chosen), end, self._difference)
        ranges = membership.ranges
        chosen = ~ranges.empty & (reason | ranges.any_of(records.new[membership.rows]))
        return _Membership(membership.rows, ranges.keep(chosen)), windows.keep(chosen)

    def _evaluate(
        self, records: _Records, windows: _Windows, members: "_Membership", close_ms: int
    ) -> tuple[pa.Table, pa.Table]:
        """Aggregate the members of each window into its row; tell which records are left out."""
        end = windows.start + self._difference
        final = ~self._rule.is_open(end, close_ms)
        made = self._aggregated(
            ChangedWindows(
                rows=records.table.take(pa.array(members.rows)),
                new=records.new[members.rows],
                ranges=members.ranges,
                start=windows.start,
                end=end,
                known=windows.known,
            )
        )
        columns: dict[str, pa.Array] = {
            "key": records.keys.take(pa.array(windows.code)),
            "window_start_ms": pa.array(windows.start),
            "window_end_ms": pa.array(end),
            **made.columns,
            "timestamp_ms": pa.array(made.timestamp_ms),
            "final": pa.array(final & ~made.deleted),
            "deleted": pa.array(made.deleted),
        }
        return pa.table(columns), made.left_out

    def _aggregated(self, changed: ChangedWindows) -> Aggregated:
        """Aggregate each window; no record is left out and no window without a value."""
        ranges = changed.ranges
        members = Members(changed.rows, ranges)
        columns = {name: aggregate.of(members) for name, aggregate in self._aggregates.items()}
        newest = np.asarray(changed.rows["timestamp_ms"])[ranges.high - 1]
        none = np.zeros(len(newest), dtype=np.bool_)
        return Aggregated(columns, newest, none, REJECTED_SCHEMA.empty_table())


@dataclass(frozen=True)
class _Membership:
    """Rows (indices of records, repeated where windows need their own copy) and ranges in them."""

    rows: Ints
    ranges: Ranges


def _sorted_records(state: pa.Table, batch: pa.Table) -> _Records:
    """Join state and batch, sorted by (key, time, partition, offset); keys coded in byte order."""
    table = pa.concat_tables([state, batch]).combine_chunks()
    (code,), keys = coded_keys(table["key"])
    time, close = np.asarray(table["timestamp_ms"]), np.asarray(table["close_ms"])
    order = pair_order(code, time)
    same = (np.diff(code[order]) == 0) & (np.diff(time[order]) == 0)
    if same.any():
        order = _ties_ordered(order, same, table)
    return _Records(
        table=table.take(pa.array(order)),
        keys=keys,
        code=code[order],
        time=time[order],
        close=close[order],
        new=order >= len(state),
    )


def _ties_ordered(order: Ints, same: Flags, table: pa.Table) -> Ints:
    """Order records of one key and time by (partition, offset); ``same`` links neighbours."""
    group = prefix_sums(~same)
    return order[np.lexsort((*(key[order] for key in arrival_keys(table)), group))]


def _distinct(windows: _Windows) -> _Windows:
    """One window a (key, start); known if any of its definers is."""
    order = pair_order(windows.code, windows.start)
    windows = _Windows(windows.code[order], windows.start[order], windows.known[order])
    if not len(order):
        return windows
    head = heads(windows.code, windows.start)
    known = np.logical_or.reduceat(windows.known, np.flatnonzero(head))
    return _Windows(windows.code[head], windows.start[head], known)


def _membership(records: _Records, ranges: Ranges, end: Ints, difference: int) -> _Membership:
    """Turn time ranges into members: windows with a hole get their own copy of the rows.

    A hole is a record inside the bounds that came when the window was closed for it. It
    can only be one whose close time is above its own left window's end.
    """
    partly_late = records.close > np.maximum(records.time, difference)
    holed = ranges.any_of(partly_late)
    shared, low, high = _covered(len(records), ranges.keep(~holed))
    own = ranges.keep(holed)
    offsets, copied = own.rows()
    owner = own.owners
    member = end[holed][owner] >= records.close[copied]
    offsets = len(shared) + prefix_sums(np.bincount(owner[member], minlength=len(offsets) - 1))
    members = Ranges(np.empty_like(ranges.low), np.empty_like(ranges.high))
    members.low[~holed], members.high[~holed] = low, high
    members.low[holed], members.high[holed] = offsets[:-1], offsets[1:]
    return _Membership(np.concatenate([shared, copied[member]]), members)


def _covered(length: int, ranges: Ranges) -> tuple[Ints, Ints, Ints]:
    """List the rows that some range covers, and the ranges among them."""
    opened = np.bincount(ranges.low, minlength=length + 1)
    closed = np.bincount(ranges.high, minlength=length + 1)
    covered = np.cumsum(opened - closed)[:length] > 0
    among = ranges.among(covered)
    return np.flatnonzero(covered), among.low, among.high
