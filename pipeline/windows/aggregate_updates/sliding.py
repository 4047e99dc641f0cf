"""The updates of sliding windows (KIP-450) with declarative aggregates.

The windows of a store and their members are the same as in ``SlidingWindowEngine``. A *definer* of
a window is a record that has it as its left or right window. A window exists after its first
definer, as soon as it has a member. A record has an update for

    each existing window that contains it,
    its own left window and its right window, if they are new and contain a record,
    a window that was defined earlier, if it is the first member.

Each update has the members that have arrived. The order of updates is the one of Kafka Streams
(semantics.md#2-1, semantics.md#2-4). D is the time difference, and an early record has t < D:

    other record    existing windows by descending start, a window with its first member, the left
                    window, the right window
    early record    existing windows by ascending start, the right window, a window with its first
                    member, the window [0, D]

If the first member is D + 1 ms after the definer, Kafka Streams forwards the same window twice. It
is the right window of the definer and the left window of the member.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine, Updates
from oriel.pipeline.windows.aggregate_updates.running import running
from oriel.pipeline.windows.aggregates import Aggregate, PartialAggregates
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, Timeline, coded_keys, run_starts
from oriel.pipeline.windows.definitions import SlidingWindows
from oriel.pipeline.windows.engines import SlidingEntries, WindowMembers
from oriel.pipeline.windows.joins import RECORDS, STREAM_TIME, InputRows
from oriel.pipeline.windows.records import RECORD_ID_FIELDS, window_order

#: The kinds of updates, in the order of the updates of a record. An early record has another order,
#: because its window [0, D] is last.
EXISTING, FIRST_MEMBER, LEFT_WINDOW, RIGHT_WINDOW = range(4)
_EARLY_ORDER = np.array([0, 2, 3, 1])


@dataclass(frozen=True)
class _Records:
    """Records in window order.

    Attributes:
        table: The records.
        code: The code of each record's key.
        time_ms: The time of each record.
        close_ms: The close time of each record.
        number: The index of each record in the batch, -1 for a record of the state.
    """

    table: pa.Table
    code: Ints
    time_ms: Ints
    close_ms: Ints
    number: Ints

    @classmethod
    def of(cls, table: pa.Table, code: Ints, number: Ints, grace_ms: int) -> "_Records":
        """Sort records by key code, and for each key as inside a window."""
        order = window_order(code, table)
        table = table.take(pa.array(order)).combine_chunks()
        time_ms, stream_time_ms = (
            np.asarray(table[name]) for name in ("timestamp_ms", STREAM_TIME.name)
        )
        return cls(table, code[order], time_ms, stream_time_ms - grace_ms, number[order])

    def __len__(self) -> int:
        return len(self.code)

    def keep(self, chosen: Flags) -> "_Records":
        """Return the records where ``chosen`` is set."""
        columns = (self.code, self.time_ms, self.close_ms, self.number)
        return _Records(self.table.filter(pa.array(chosen)), *(each[chosen] for each in columns))


@dataclass(frozen=True)
class _Windows:
    """Distinct windows by key code and start.

    Attributes:
        code: The code of the key.
        start_ms: The start.
        since: The index in the batch of the first definer, -1 for a record of the state.
        by_left: True for the left window of the definer.
    """

    code: Ints
    start_ms: Ints
    since: Ints
    by_left: Flags

    def __len__(self) -> int:
        return len(self.code)


class SlidingUpdatesEngine(AggregateUpdatesEngine):
    """The updates of sliding windows. The state is the records that open windows can contain."""

    windows: SlidingWindows
    # A state row is a record, so it is written once, also if later batches need it for other
    # windows.
    rows_never_change = True

    def __init__(
        self,
        windows: SlidingWindows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        carried: pa.Schema | None,
        *,
        inputs: Sequence[InputRows],
    ) -> None:
        self._difference_ms = windows.time_difference_ms
        super().__init__(windows, values, types, carried, inputs=inputs)
        lineage = self._rows.lineage.fields
        # A row has the stream time of its record and not the close time. The stream time is the
        # first sort key of the apply order, and the close time is the stream time minus the grace.
        self.state_schema = pa.schema(
            [*RECORD_ID_FIELDS, *lineage, STREAM_TIME, *self._carried, *values]
        )

    def buckets(self, state: pa.Table) -> Ints:
        """Return time buckets of D + 1 ms, as ``SlidingWindowEngine`` does."""
        return np.asarray(state["timestamp_ms"]) // (self._difference_ms + 1)

    def buckets_of_batch(self, batch: pa.Table) -> Ranges:
        """Return the time bucket of each record and its neighbors (``SlidingWindowEngine``)."""
        bucket = self.buckets(batch)
        # A record at t changes windows with members and definers in [t - D - 1, t + D + 1]. This
        # span is in three buckets of D + 1 ms.
        return Ranges(bucket - 1, bucket + 2)

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the end of each record's right window, the last window that it affects."""
        return np.asarray(state["timestamp_ms"]) + 1 + self._difference_ms

    def _is_late(self, batch: pa.Table) -> Flags:
        """Return which records are late: all their windows are closed (semantics.md#0-3)."""
        end_ms = np.asarray(batch["timestamp_ms"]) + self._difference_ms
        close_ms = np.asarray(batch[STREAM_TIME.name]) - self.windows.close_delay_ms
        return ~self.windows.rule.is_open(end_ms, close_ms)

    def _with_arrived(self, state: pa.Table, batch: pa.Table, number: Ints) -> pa.Table:
        """Return the records of the state, and then the records of the batch by index."""
        arrived = batch.take(pa.array(number)).select(self.state_schema.names)
        return pa.concat_tables([state, arrived.cast(self.state_schema)]).combine_chunks()

    def _matters(self, time_ms: Ints, close_ms: int) -> Flags:
        """Return which records stay in the state if windows are closed up to ``close_ms``."""
        return self.windows.rule.is_open(time_ms + 1 + self._difference_ms, close_ms)

    def _has_left(self, time_ms: Ints, close_ms: Ints) -> Flags:
        """Return which records have a left window, because it is open (semantics.md#2-3)."""
        left_ms = np.maximum(time_ms - self._difference_ms, 0)
        # The left window of an early record is [0, D], so it closes by D and not by the time of the
        # record (semantics.md#2-4).
        return self.windows.rule.is_open(left_ms + self._difference_ms, close_ms)


class SlidingColumnUpdatesEngine(SlidingUpdatesEngine):
    """The updates of declarative aggregates, of all windows at once."""

    def __init__(
        self,
        windows: SlidingWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        inputs: Sequence[InputRows] = (RECORDS,),
    ) -> None:
        """Aggregate columns of ``values`` by ``aggregates`` that fit the rows of ``inputs``.

        Raises:
            IllegalArgument: An aggregate does not fit ``values``, or its name is taken.
        """
        self._columns = PartialAggregates(aggregates, values, carried)
        super().__init__(windows, values, self._columns.aggregate_types, carried, inputs=inputs)

    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        is_late = self._is_late(batch)
        number = np.flatnonzero(~is_late)
        table = self._with_arrived(state, batch, number)
        (code,), keys = coded_keys(table["key"])
        # The index -1 sorts the records of the state before all records of the batch, which have
        # arrived later.
        numbers = np.concatenate([np.full(len(state), -1), number])
        records = _Records.of(table, code, numbers, self.windows.close_delay_ms)

        windows = self._defined(records)
        updates, parts, base = self._ordered_updates(
            records, windows, np.asarray(batch["timestamp_ms"])
        )
        matters = self._matters(records.time_ms, close_ms)
        start_ms = windows.start_ms[updates.window]
        return Updates(
            state=records.table.filter(pa.array(matters)),
            # Rows of the state are already stored, so only the records of the batch are written.
            added=records.table.filter(pa.array(matters & (records.number >= 0))),
            record=updates.number,
            start_ms=start_ms,
            end_ms=start_ms + self._difference_ms,
            columns=self._columns.results(parts),
            timestamp_ms=np.asarray(parts["timestamp_ms"]),
            # A window has at least one member, and named aggregates never delete a row.
            is_deleted=np.zeros(len(parts), dtype=np.bool_),
            late=np.flatnonzero(is_late),
            rejected={},
            before=self._rows_before(base, windows, keys) if self.returns_before else None,
        )

    def _defined(self, records: _Records) -> _Windows:
        """Return the windows that records define."""
        left_ms = np.maximum(records.time_ms - self._difference_ms, 0)
        has_left = self._has_left(records.time_ms, records.close_ms)
        # A right window needs no test of its end t + 1 + D. The record was accepted, so t + D >= c,
        # and the right window is open for it.
        by_left = np.repeat([True, False], [int(has_left.sum()), len(records)])
        code = np.concatenate([records.code[has_left], records.code])
        start_ms = np.concatenate([left_ms[has_left], records.time_ms + 1])
        number = np.concatenate([records.number[has_left], records.number])
        # The first definer of each window. The left window of a record is never its right window.
        # A record at t has the start t + 1 for its right window and at most t for its left window.
        order = np.lexsort((number, start_ms, code))
        first = order[run_starts(code[order], start_ms[order])]
        return _Windows(code[first], start_ms[first], number[first], by_left[first])

    def _ordered_updates(
        self, records: _Records, windows: _Windows, time_ms: Ints
    ) -> tuple["_Updates", pa.Table, "_OldMembers"]:
        """Return the updates of the batch in order, and the old members of windows.

        Args:
            records: The records of the state and of the batch.
            windows: The windows that they define.
            time_ms: The time of each record of the batch.

        Returns:
            The updates, the partial aggregates of each update, and the partial aggregates of the
            old members of the changed windows.
        """
        new = records.keep(records.number >= 0)
        window, member = _members_of(new, windows, self.windows)
        # Only windows that the batch defines or that get a new member have updates. The old members
        # of all other windows are not read.
        is_changed = windows.since >= 0
        is_changed[window] = True
        base = self._base(records.keep(records.number < 0), windows, is_changed)
        # A new record becomes a partial aggregate once, and its row is copied to each of its
        # windows, because an update needs the aggregate after each member.
        alone = self._columns.of_each(new.table).take(pa.array(member))
        rows = pa.concat_tables([base.parts, alone.select(base.parts.column_names)])
        # The old members of a window are first, then the new ones in the order of arrival.
        group = np.concatenate([base.window, window])
        number = np.concatenate([np.full(len(base.window), -1), new.number[member]])
        order = np.lexsort((number, group))
        group, number = group[order], number[order]
        head = run_starts(group)
        parts = running(self._columns, rows.take(pa.array(order)), head)

        # A record that arrived before the first definer of a window has no update for it, because
        # the window did not exist. Its value is in the first update of the window.
        row = np.flatnonzero((number >= 0) & (number >= windows.since[group]))
        kind = np.where(head[row], FIRST_MEMBER, EXISTING)
        # Only a left window contains its definer, so a definer that is a member has this window as
        # its left window.
        kind[number[row] == windows.since[group[row]]] = LEFT_WINDOW
        of_members = _Updates(group[row], number[row], kind, row)
        # A right window does not contain its definer. Its first update has the members that
        # arrived before the definer.
        right = np.flatnonzero((windows.since >= 0) & ~windows.by_left)
        # (window, number) is one integer for a binary search. With 1 added, a number is at least 0
        # and at most the number of records in the batch, so ``axis`` values per window are enough.
        axis = len(time_ms) + 1
        before = right * axis + windows.since[right] + 1
        last = np.searchsorted(group * axis + number + 1, before) - 1
        # If no row is before the first window, ``last`` is -1. It then reads the appended -1, which
        # is not a window.
        has_member = np.append(group, -1)[last] == right
        of_definers = _Updates(right, windows.since[right], np.full(len(right), RIGHT_WINDOW), last)
        updates = of_members.followed_by(of_definers.keep(has_member))
        updates = updates.in_order(windows.start_ms, time_ms < self._difference_ms)
        return updates, parts.take(pa.array(updates.row)).combine_chunks(), base

    def _base(self, old: _Records, windows: _Windows, chosen: Flags) -> "_OldMembers":
        """Return the partial aggregates of the old members of the ``chosen`` windows."""
        number = np.flatnonzero(chosen)
        # The old members of a window are merged once per batch, not once per update.
        members = _window_members(old, windows, number, self.windows)
        window, tables = [], []
        for pieces in members.pieces():
            window.append(number[pieces.window])
            tables.append(self._columns.of(old.table.take(pa.array(pieces.row)), pieces.ranges))
        of_piece = np.concatenate(window)
        # The pieces of a window can be in several tables. A partial aggregate does not depend on
        # the order of its pieces.
        order = np.argsort(of_piece, kind="stable")
        runs = Ranges.of_runs(run_starts(of_piece[order]))
        pieced = pa.concat_tables(tables).take(pa.array(order)).combine_chunks()
        return _OldMembers(of_piece[order][runs.low], self._columns.merged(pieced, runs))

    def _rows_before(self, base: "_OldMembers", windows: _Windows, keys: pa.Array) -> pa.Table:
        """Return the rows before the batch: the windows of old records, with their old members."""
        # A window with an old definer and an old member had a row before the batch. A window that
        # the batch defines had none, although it can have old members.
        existed = windows.since[base.window] < 0
        window, parts = base.window[existed], base.parts.filter(pa.array(existed))
        start_ms = windows.start_ms[window]
        return self._rows_table({
            "key": keys.take(pa.array(windows.code[window])),
            "timestamp_ms": parts["timestamp_ms"],
            "window_start_ms": start_ms,
            "window_end_ms": start_ms + self._difference_ms,
            **self._columns.results(parts),
        })  # fmt: skip


class _OldMembers(NamedTuple):
    """Windows by index, and the merged partial aggregates of the old members of each."""

    window: Ints
    parts: pa.Table


class _Updates(NamedTuple):
    """Updates.

    Attributes:
        window: The index of the window.
        number: The index of the record in the batch.
        kind: The kind of the update, for example ``LEFT_WINDOW``.
        row: The index of the partial aggregates.
    """

    window: Ints
    number: Ints
    kind: Ints
    row: Ints

    def keep(self, chosen: Flags | Ints) -> "_Updates":
        """Return the updates where ``chosen`` is set, or with these indexes."""
        return _Updates(*(column[chosen] for column in self))

    def followed_by(self, others: "_Updates") -> "_Updates":
        """Return these updates, then the others."""
        return _Updates(*(np.concatenate(columns) for columns in zip(self, others, strict=True)))

    def in_order(self, start_ms: Ints, is_early: Flags) -> "_Updates":
        """Return the updates in their order.

        Args:
            start_ms: The start of each window.
            is_early: True for each early record of the batch.
        """
        return self.keep(
            update_order(self.number, self.kind, start_ms[self.window], is_early[self.number])
        )


def update_order(number: Ints, kind: Ints, start_ms: Ints, is_early: Flags) -> Ints:
    """Return the order of updates: record by record, and for each record as in Kafka Streams.

    Args:
        number: The index of the record of each update.
        kind: The kind of each update.
        start_ms: The start of the window of each update.
        is_early: True for an update of an early record.
    """
    place = np.where(is_early, _EARLY_ORDER[kind], kind)
    place[is_early & (start_ms == 0)] = len(_EARLY_ORDER)
    # Kafka Streams reads the windows of a record by descending start, and the windows of an early
    # record by ascending start (semantics.md#2-1, semantics.md#2-4).
    return np.lexsort((np.where(is_early, start_ms, -start_ms), place, number))


def _window_members(
    records: _Records, windows: _Windows, number: Ints, definition: SlidingWindows
) -> WindowMembers:
    """Return the members of the windows with these indexes, among ``records``."""
    timeline = Timeline(records.code, records.time_ms)
    code, start_ms = windows.code[number], windows.start_ms[number]
    end_ms = start_ms + definition.time_difference_ms
    entries = SlidingEntries.of(records.code, records.time_ms, records.close_ms, definition.rule)
    return WindowMembers.of(entries, code, end_ms, timeline.within(code, start_ms, end_ms))


def _members_of(
    records: _Records, windows: _Windows, definition: SlidingWindows
) -> tuple[Ints, Ints]:
    """Return each member of each window among ``records``, as indexes of window and record."""
    members = _window_members(records, windows, np.arange(len(windows)), definition)
    # Windows without a record in their bounds have no members, so they are not listed.
    number = np.flatnonzero(~members.in_bounds.empty)
    pairs = [
        (number[pieces.window[pieces.ranges.owners]], pieces.row)
        for pieces in members.keep(~members.in_bounds.empty).listed()
    ]
    none = np.zeros(0, dtype=np.int64)
    window, row = zip((none, none), *pairs, strict=True)
    return np.concatenate(window), np.concatenate(row)
