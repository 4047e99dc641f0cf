"""The updates of sliding windows (KIP-450), and by declarative aggregates.

Which windows there are, and of which records, is what ``SlidingWindowEngine`` says of a store. A
window is there from its first *definer* on: the record whose left window it is, or whose right one,
that is if it has a member by then. So a record tells

    each window that is there and that it is a member of,
    its own left window, and its right one, if these are new and some record is in them,
    a window that was defined before, and whose first member it is,

each with the members that have come up to then. In order, as Kafka Streams forwards them (semantics
2.1 and 2.4): existing windows by descending start, a window that gets its first member, the left
one, the right one; of an early record, t < D, existing windows by ascending start, the right one,
a window that gets its first member, and [0, D] last. (Where that first member is D + 1 ms behind
the definer, Kafka forwards the window twice alike: as the right one of this, and its own left one.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine, Updates
from oriel.pipeline.windows.aggregate_updates.running import running
from oriel.pipeline.windows.aggregates import Aggregate, PartColumns
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    coded_keys,
    heads,
)
from oriel.pipeline.windows.definitions import SlidingWindows
from oriel.pipeline.windows.engines import SlidingEntries, WindowMembers
from oriel.pipeline.windows.joins import RECORDS, STREAM_TIME, SideRows
from oriel.pipeline.windows.records import PLACE_FIELDS, window_order

#: Why a row is told, in the order in which a record's are; and that order for an early record,
#: whose window [0, D] comes last of all.
EXISTING, FIRST_MEMBER, LEFT_WINDOW, RIGHT_WINDOW = range(4)
_EARLY_ORDER = np.array([0, 2, 3, 1])


@dataclass(frozen=True)
class _Records:
    """Records in window order, with the batch's number of each, -1 of those of the state."""

    table: pa.Table
    code: Ints
    time_ms: Ints
    close_ms: Ints
    number: Ints

    @classmethod
    def of(cls, table: pa.Table, code: Ints, number: Ints, grace_ms: int) -> "_Records":
        """Put records in order by key code, and within a key as inside a window."""
        order = window_order(code, table)
        table = table.take(pa.array(order)).combine_chunks()
        time_ms, stream_time_ms = (
            np.asarray(table[name]) for name in ("timestamp_ms", STREAM_TIME.name)
        )
        return cls(table, code[order], time_ms, stream_time_ms - grace_ms, number[order])

    def __len__(self) -> int:
        return len(self.code)

    def keep(self, chosen: Flags) -> "_Records":
        """The records where ``chosen`` is set."""
        columns = (self.code, self.time_ms, self.close_ms, self.number)
        return _Records(self.table.filter(pa.array(chosen)), *(each[chosen] for each in columns))


@dataclass(frozen=True)
class _Windows:
    """Windows by key code and start, each once; the number of the record that first defines each.

    -1: one of the state does. ``by_left``: of that record it is the left window.
    """

    code: Ints
    start_ms: Ints
    since: Ints
    by_left: Flags

    def __len__(self) -> int:
        return len(self.code)


class SlidingUpdatesEngine(AggregateUpdatesEngine):
    """The updates of sliding windows; the state is the records that can still matter."""

    windows: SlidingWindows
    rows_never_change = True

    def __init__(
        self,
        windows: SlidingWindows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        carried: pa.Schema | None,
        *,
        sides: Sequence[SideRows],
    ) -> None:
        self._difference_ms = windows.time_difference_ms
        super().__init__(windows, values, types, carried, sides=sides)
        numbers = self._rows.places.fields
        self.state_schema = pa.schema(
            [*PLACE_FIELDS, *numbers, STREAM_TIME, *self._carried, *values]
        )

    def units(self, state: pa.Table) -> Ints:
        """See ``SlidingWindowEngine``: D + 1 ms are a unit."""
        return np.asarray(state["timestamp_ms"]) // (self._difference_ms + 1)

    def touched_units(self, batch: pa.Table) -> Ranges:
        """See ``SlidingWindowEngine``: a record's own, and those beside it."""
        unit = self.units(batch)
        return Ranges(unit - 1, unit + 2)

    def due_ms(self, state: pa.Table) -> Ints:
        """The end of each record's right window, the last one that it defines or is in."""
        return np.asarray(state["timestamp_ms"]) + 1 + self._difference_ms

    def _is_late(self, batch: pa.Table) -> Flags:
        """Which records are refused: no window that could hold them is open (semantics.md#0-3)."""
        end_ms = np.asarray(batch["timestamp_ms"]) + self._difference_ms
        close_ms = np.asarray(batch[STREAM_TIME.name]) - self.windows.close_delay_ms
        return ~self.windows.rule.is_open(end_ms, close_ms)

    def _with_arrived(self, state: pa.Table, batch: pa.Table, number: Ints) -> pa.Table:
        """The records of the state, and behind them those of the batch with these numbers."""
        arrived = batch.take(pa.array(number)).select(self.state_schema.names)
        return pa.concat_tables([state, arrived.cast(self.state_schema)]).combine_chunks()

    def _matters(self, time_ms: Ints, close_ms: int) -> Flags:
        """Which records are in the state as long as windows are closed up to ``close_ms`` only."""
        return self.windows.rule.is_open(time_ms + 1 + self._difference_ms, close_ms)

    def _has_left(self, time_ms: Ints, close_ms: Ints) -> Flags:
        """Which records have a left window: a closed one is not made (semantics.md#2-3)."""
        left_ms = np.maximum(time_ms - self._difference_ms, 0)
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
        sides: Sequence[SideRows] = (RECORDS,),
    ) -> None:
        """Aggregate columns of ``values``, by ``aggregates`` that fit rows of such ``sides``.

        Raises:
            IllegalArgument: an aggregate does not fit ``values``, or has a name that is taken.
        """
        self._columns = PartColumns(aggregates, values, carried)
        super().__init__(windows, values, self._columns.aggregate_types, carried, sides=sides)

    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        is_late = self._is_late(batch)
        number = np.flatnonzero(~is_late)
        table = self._with_arrived(state, batch, number)
        (code,), keys = coded_keys(table["key"])
        numbers = np.concatenate([np.full(len(state), -1), number])
        records = _Records.of(table, code, numbers, self.windows.close_delay_ms)

        windows = self._defined(records)
        told, parts, base = self._told(records, windows, np.asarray(batch["timestamp_ms"]))
        matters = self._matters(records.time_ms, close_ms)
        start_ms = windows.start_ms[told.window]
        return Updates(
            state=records.table.filter(pa.array(matters)),
            added=records.table.filter(pa.array(matters & (records.number >= 0))),
            record=told.number,
            start_ms=start_ms,
            end_ms=start_ms + self._difference_ms,
            columns=self._columns.results(parts),
            timestamp_ms=np.asarray(parts["timestamp_ms"]),
            gone=np.zeros(len(parts), dtype=np.bool_),
            late=np.flatnonzero(is_late),
            rejected={},
            before=self._rows_before(base, windows, keys) if self.tells_before else None,
        )

    def _defined(self, records: _Records) -> _Windows:
        """The windows that records define."""
        left_ms = np.maximum(records.time_ms - self._difference_ms, 0)
        has_left = self._has_left(records.time_ms, records.close_ms)
        by_left = np.repeat([True, False], [int(has_left.sum()), len(records)])
        code = np.concatenate([records.code[has_left], records.code])
        start_ms = np.concatenate([left_ms[has_left], records.time_ms + 1])
        number = np.concatenate([records.number[has_left], records.number])
        # The first definer of each; a record's left window is never its right one.
        order = np.lexsort((number, start_ms, code))
        first = order[heads(code[order], start_ms[order])]
        return _Windows(code[first], start_ms[first], number[first], by_left[first])

    def _told(
        self, records: _Records, windows: _Windows, time_ms: Ints
    ) -> tuple["_Rows", pa.Table, "_Base"]:
        """The rows that the batch tells, in order, with their parts, and the windows' old members.

        ``time_ms`` are the times of the batch's records.
        """
        new = records.keep(records.number >= 0)
        window, member = _members_of(new, windows, self.windows)
        is_changed = windows.since >= 0
        is_changed[window] = True
        base = self._base(records.keep(records.number < 0), windows, is_changed)
        alone = self._columns.of_each(new.table).take(pa.array(member))
        rows = pa.concat_tables([base.parts, alone.select(base.parts.column_names)])
        # A window's old members stand in front of the new ones, which come as they arrived.
        group = np.concatenate([base.window, window])
        number = np.concatenate([np.full(len(base.window), -1), new.number[member]])
        order = np.lexsort((number, group))
        group, number = group[order], number[order]
        head = heads(group)
        parts = running(self._columns, rows.take(pa.array(order)), head)

        row = np.flatnonzero((number >= 0) & (number >= windows.since[group]))
        kind = np.where(head[row], FIRST_MEMBER, EXISTING)
        kind[number[row] == windows.since[group[row]]] = LEFT_WINDOW
        of_members = _Rows(group[row], number[row], kind, row)
        # A right window does not hold its definer: it is told with the members before that.
        right = np.flatnonzero((windows.since >= 0) & ~windows.by_left)
        axis = len(time_ms) + 1
        before = right * axis + windows.since[right] + 1
        last = np.searchsorted(group * axis + number + 1, before) - 1
        has_member = np.append(group, -1)[last] == right
        of_definers = _Rows(right, windows.since[right], np.full(len(right), RIGHT_WINDOW), last)
        told = of_members.followed_by(of_definers.keep(has_member))
        told = told.in_order(windows.start_ms, time_ms < self._difference_ms)
        return told, parts.take(pa.array(told.row)).combine_chunks(), base

    def _base(self, old: _Records, windows: _Windows, chosen: Flags) -> "_Base":
        """The parts of what old members the ``chosen`` windows have."""
        number = np.flatnonzero(chosen)
        members = _window_members(old, windows, number, self.windows)
        window, tables = [], []
        for pieces in members.pieces():
            window.append(number[pieces.window])
            tables.append(self._columns.of(old.table.take(pa.array(pieces.row)), pieces.ranges))
        of_piece = np.concatenate(window)
        order = np.argsort(of_piece, kind="stable")
        runs = Ranges.of_runs(heads(of_piece[order]))
        pieced = pa.concat_tables(tables).take(pa.array(order)).combine_chunks()
        return _Base(of_piece[order][runs.low], self._columns.merged(pieced, runs))

    def _rows_before(self, base: "_Base", windows: _Windows, keys: pa.Array) -> pa.Table:
        """The rows ahead of the batch: of windows that an old record defines, by old members."""
        was_there = windows.since[base.window] < 0
        window, parts = base.window[was_there], base.parts.filter(pa.array(was_there))
        start_ms = windows.start_ms[window]
        return self._rows_table({
            "key": keys.take(pa.array(windows.code[window])),
            "timestamp_ms": parts["timestamp_ms"],
            "window_start_ms": start_ms,
            "window_end_ms": start_ms + self._difference_ms,
            **self._columns.results(parts),
        })  # fmt: skip


class _Base(NamedTuple):
    """Windows by number, and the merged parts of the old members of each."""

    window: Ints
    parts: pa.Table


class _Rows(NamedTuple):
    """Rows that are told: window, number of the record, kind, and the row of the parts."""

    window: Ints
    number: Ints
    kind: Ints
    row: Ints

    def keep(self, chosen: Flags | Ints) -> "_Rows":
        """The rows where ``chosen`` is set, or with these numbers."""
        return _Rows(*(column[chosen] for column in self))

    def followed_by(self, others: "_Rows") -> "_Rows":
        """These rows, and others behind them."""
        return _Rows(*(np.concatenate(columns) for columns in zip(self, others, strict=True)))

    def in_order(self, start_ms: Ints, is_early: Flags) -> "_Rows":
        """In the order in which they are told; ``is_early`` says which records are."""
        return self.keep(
            told_order(self.number, self.kind, start_ms[self.window], is_early[self.number])
        )


def told_order(number: Ints, kind: Ints, start_ms: Ints, is_early: Flags) -> Ints:
    """The order in which rows are told: record by record, of each as Kafka Streams forwards them.

    Each row has the number of its record, why it is told, its window's start, and whether its
    record is early.
    """
    place = np.where(is_early, _EARLY_ORDER[kind], kind)
    place[is_early & (start_ms == 0)] = len(_EARLY_ORDER)
    return np.lexsort((np.where(is_early, start_ms, -start_ms), place, number))


def _window_members(
    records: _Records, windows: _Windows, number: Ints, definition: SlidingWindows
) -> WindowMembers:
    """The members among ``records`` of the windows with these numbers."""
    timeline = Timeline(records.code, records.time_ms)
    code, start_ms = windows.code[number], windows.start_ms[number]
    end_ms = start_ms + definition.time_difference_ms
    entries = SlidingEntries.of(records.code, records.time_ms, records.close_ms, definition.rule)
    return WindowMembers.of(entries, code, end_ms, timeline.within(code, start_ms, end_ms))


def _members_of(
    records: _Records, windows: _Windows, definition: SlidingWindows
) -> tuple[Ints, Ints]:
    """Each member of each window among ``records``: window and record, by their numbers."""
    members = _window_members(records, windows, np.arange(len(windows)), definition)
    number = np.flatnonzero(~members.in_bounds.empty)
    pairs = [
        (number[pieces.window[pieces.ranges.owners]], pieces.row)
        for pieces in members.keep(~members.in_bounds.empty).listed()
    ]
    none = np.zeros(0, dtype=np.int64)
    window, row = zip((none, none), *pairs, strict=True)
    return np.concatenate(window), np.concatenate(row)
