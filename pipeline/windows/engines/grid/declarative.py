"""Tumbling and hopping windows, and grouping without windows, for all keys of a batch at once.

Rules (S = size, A = advance, ``t`` = a record's time, ``c`` = its close time):

    windows of t   every start s = i * A >= 0 with s <= t < s + S         (semantics.md#3-1)
    member         s + S > c, the window is open for the record           (semantics.md#0-2)
    late           not even the last of its windows is open
    final          s + S <= close time of every partition

The state has one row per open window: the parts of its aggregates and its greatest record
time. A batch becomes parts, too, one for each window that it touches; equal windows are then
merged. Without windows the one window of a key begins at 0 and never closes.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, PartColumns, used_fields
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    coded_keys,
    heads,
    pair_order,
)
from oriel.pipeline.windows.definitions import FOREVER_MS, EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.grid.spreading import spread
from oriel.pipeline.windows.records import (
    RECORD_FIELDS,
    arrival_keys,
    changed_rows,
    rows_schema,
    window_order,
)

#: How many units of state have as many windows as a record lies in.
_UNITS_OF_RECORD = 4


class WindowGrid:
    """Where the windows of a record lie; a window is named by its number, i."""

    def __init__(self, windows: TimeWindows | NoWindows) -> None:
        """Take the rule, the size and the advance of ``windows``."""
        self._rule = windows.rule
        self._size_ms = self.advance_ms = FOREVER_MS
        if isinstance(windows, TimeWindows):
            self._size_ms, self.advance_ms = windows.size_ms, windows.advance_ms
        #: In so many windows a record is at most.
        self.of_record: int = -(-self._size_ms // self.advance_ms)
        # Units of state of so many windows that those of a record are in five of them at most: of
        # smaller ones a batch would have to find more, of larger ones it would read more rows.
        self._windows_of_unit = -(-self.of_record // _UNITS_OF_RECORD)

    def starts(self, number: Ints) -> Ints:
        """The start of each numbered window, in ms."""
        return number * self.advance_ms

    def ends(self, start_ms: Ints) -> Ints:
        """The end of the windows with these starts, in ms."""
        return start_ms + self._size_ms

    def units(self, start_ms: Ints) -> Ints:
        """The unit of state that each window with one of these starts is in."""
        return start_ms // self.advance_ms // self._windows_of_unit

    def touched_units(self, time_ms: Ints) -> Ranges:
        """The units with the windows of each record."""
        first, last = self.first_windows(time_ms), self.last_windows(time_ms)
        return Ranges(first // self._windows_of_unit, last // self._windows_of_unit + 1)

    def unit_last_ms(self, start_ms: Ints) -> Ints:
        """The greatest record time in the last window of the unit of each window."""
        last = (self.units(start_ms) + 1) * self._windows_of_unit - 1
        return self.last_ms(self.starts(last))

    def last_ms(self, start_ms: Ints) -> Ints:
        """The greatest record time in the windows with these starts."""
        return self._rule.last_ms(self.ends(start_ms))

    def is_open(self, start_ms: Ints, close_ms: int) -> Flags:
        """Which of the windows with these starts are not final at this close time."""
        return self._rule.is_open(self.ends(start_ms), close_ms)

    def first_windows(self, time_ms: Ints) -> Ints:
        """The number of the first window that each record lies in, open or not."""
        # The least i with t < i * A + S. No window starts below 0.
        first: Ints = np.maximum((time_ms - self._size_ms) // self.advance_ms + 1, 0)
        return first

    def last_windows(self, time_ms: Ints) -> Ints:
        """The number of the last window that each record lies in."""
        return time_ms // self.advance_ms

    def first_open_windows(self, time_ms: Ints, close_ms: Ints) -> Ints:
        """The number of the first window of each record that is open for it.

        Ends ascend with the numbers, so the open windows of a record are those from this one to
        its last one. For a late record this one is behind the last.
        """
        # The least i whose end, i * A + S, is open: a quotient rounded up.
        first_open = -((self._size_ms - self._rule.first_open_end_ms(close_ms)) // self.advance_ms)
        first: Ints = np.maximum(self.first_windows(time_ms), first_open)
        return first


_START = pa.field("window_start_ms", pa.int64())

#: Into so many windows, on average, a row is copied; into more it is spread.
_COPIES = 16


class _BatchParts(NamedTuple):
    """What a batch gives to windows: the parts of the i-th one are ``table[row[i]]``.

    ``code`` is the code of the window's key and ``start`` its start in ms. A window may be there
    twice, and several windows may share a row.
    """

    code: Ints
    start_ms: Ints
    row: Ints
    table: pa.Table


class GridEngine(WindowEngine):
    """What both engines have in common: a state of rows of windows, which do not meet others."""

    rows_leave_when_due = True
    _grid: WindowGrid

    def units(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``: a few windows that follow each other are a unit."""
        return self._grid.units(np.asarray(state["window_start_ms"]))

    def touched_units(self, batch: pa.Table) -> Ranges:
        """See ``WindowEngine``: those with the windows that a record lies in."""
        return self._grid.touched_units(np.asarray(batch["timestamp_ms"]))

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each row's window."""
        return self._grid.last_ms(np.asarray(state["window_start_ms"]))

    def unit_due_ms(self, state: pa.Table) -> Ints:
        """The last ms of the last window of each row's unit."""
        return self._grid.unit_last_ms(np.asarray(state["window_start_ms"]))


class TimeWindowEngine(GridEngine):
    """Tumbling, hopping or no windows with declarative aggregates."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns of the key that the state keeps for the caller's use.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        self.windows = windows
        self._grid = WindowGrid(windows)
        self._emit = emit
        self._columns = PartColumns(aggregates, values, carried)
        self.aggregate_types = self._columns.aggregate_types
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), *used_fields(aggregates, values)]
        )
        self.state_schema = rows_schema([_START], carried or (), self._columns.fields)

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; ``previous_close_ms`` isn't needed: final windows leave."""
        del previous_close_ms
        batch = self._read(batch)
        (state_code, batch_code), keys = coded_keys(state["key"], batch["key"])
        parts = self._parts(batch, batch_code, keys)
        is_touched_key = np.zeros(len(keys), dtype=np.bool_)
        is_touched_key[parts.code] = True
        touched = is_touched_key[state_code]
        changed, unchanged = self._merged(
            state.filter(pa.array(touched)), state_code[touched], parts
        )
        rows = pa.concat_tables([state.filter(pa.array(~touched)), unchanged, changed])
        is_changed = np.arange(len(rows)) >= len(rows) - len(changed)
        final = ~self._grid.is_open(np.asarray(rows["window_start_ms"]), close_ms)
        emitted = rows.filter(pa.array(self._emit.emits(is_changed, final)))
        return EngineResult(rows.filter(pa.array(~final)), self._changes(emitted, close_ms))

    def _parts(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _BatchParts:
        """The parts that the batch's records give to each of their open windows."""
        time_ms, close_ms = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        # Ends ascend with the windows' numbers, so a record is in all of its windows iff its first
        # one is open. In tumbling windows the first one is the only one, and no accepted
        # record is partly late.
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        partly_late = first_open > self._grid.first_windows(time_ms)
        if not partly_late.any():
            return self._shared(batch, code, keys)
        in_time = ~partly_late
        shared = self._shared(batch.filter(pa.array(in_time)), code[in_time], keys)
        copied = self._copied(batch.filter(pa.array(partly_late)), code[partly_late], keys)
        return _BatchParts(
            np.concatenate([shared.code, copied.code]),
            np.concatenate([shared.start_ms, copied.start_ms]),
            np.concatenate([shared.row, len(shared.table) + copied.row]),
            pa.concat_tables([shared.table, copied.table]),
        )

    def _shared(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _BatchParts:
        """Parts of records that are in all of their windows.

        Membership is then a matter of time alone: each window holds a range of the records in
        order of (key, time). Overlapping windows share the sorted records, each as a range,
        instead of having a copy each: that costs the records plus the windows, not their product.
        """
        order = window_order(code, batch)
        code, time_ms = code[order], np.asarray(batch["timestamp_ms"])[order]
        first, last = self._grid.first_windows(time_ms), self._grid.last_windows(time_ms)
        # Records of a run, with equal key, first and last, lie in the same windows: first to last.
        begin = np.flatnonzero(heads(code, first, last))
        run_code, first, last = code[begin], first[begin], last[begin]
        # Within a key, first and last never go down. So if a window of this run is in any run
        # before it, it is in the one just before it, as one of those up to that one's last:
        # each run lists only those behind it, and every window is listed once.
        behind = np.maximum(first[1:], last[:-1] + 1)
        first[1:] = np.where(run_code[1:] == run_code[:-1], behind, first[1:])
        windows = Ranges(first, last + 1)
        window_code, start_ms = run_code[windows.owners], self._grid.starts(windows.rows()[1])
        timeline = Timeline(code, time_ms)
        members = Ranges(
            timeline.first_at_or_after(window_code, start_ms),
            timeline.first_at_or_after(window_code, self._grid.ends(start_ms)),
        )
        table = self._columns.of(batch.take(pa.array(order)), members)
        table = table.append_column("key", keys.take(pa.array(window_code)))
        return _BatchParts(window_code, start_ms, np.arange(len(start_ms)), table)

    def _copied(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _BatchParts:
        """Parts of partly late records, which are missing in their first windows.

        They would make holes in the ranges of ``_shared``. Records of a key with equal first
        open and last window are in the same windows: they make one row, which each of these
        windows merges. Where these are many, the windows' rows are merged step by step.
        """
        time_ms, close_ms = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first = self._grid.first_open_windows(time_ms, close_ms)
        last = self._grid.last_windows(time_ms)
        order = np.lexsort((*arrival_keys(batch), time_ms, first, last, code))
        members = Ranges.of_runs(heads(code[order], first[order], last[order]))
        begin = order[members.low]
        table = self._columns.of(batch.take(pa.array(order)), members)
        table = table.append_column("key", keys.take(pa.array(code[begin])))
        windows = Ranges(first[begin], last[begin] + 1)
        if windows.sizes.sum() > _COPIES * len(begin):
            codes, number, table = spread(self._columns, table, code[begin], windows)
            return _BatchParts(codes, self._grid.starts(number), np.arange(len(number)), table)
        row = windows.owners
        return _BatchParts(code[begin][row], self._grid.starts(windows.rows()[1]), row, table)

    def _merged(
        self, state: pa.Table, state_code: Ints, parts: _BatchParts
    ) -> tuple[pa.Table, pa.Table]:
        """Merge state rows and parts of equal windows; return (changed, unchanged) state rows."""
        names = [name for name in self.state_schema.names if name != _START.name]
        table = pa.concat_tables([state.select(names), parts.table.select(names)])
        row = np.concatenate([np.arange(len(state)), len(state) + parts.row])
        code = np.concatenate([state_code, parts.code])
        start_ms = np.concatenate([np.asarray(state["window_start_ms"]), parts.start_ms])
        order = pair_order(code, start_ms)
        windows = Ranges.of_runs(heads(code[order], start_ms[order]))
        is_changed = windows.any_of(order >= len(state))
        # The state has each window once, so an unchanged one is a run of one row.
        unchanged = state.take(pa.array(order[windows.low[~is_changed]]))
        merged = windows.keep(is_changed)
        entry = order[merged.rows()[1]]
        rows = table.take(pa.array(row[entry])).add_column(1, _START, pa.array(start_ms[entry]))
        return self._columns.merged(rows, Ranges.side_by_side(merged.sizes)), unchanged

    def _changes(self, rows: pa.Table, close_ms: int) -> pa.Table:
        """Turn state rows into changed rows, by key and start."""
        rows = rows.sort_by([("key", "ascending"), ("window_start_ms", "ascending")])
        start_ms = np.asarray(rows["window_start_ms"])
        return changed_rows(
            rows["key"],
            (start_ms, self._grid.ends(start_ms)),
            self._columns.results(rows),
            np.asarray(rows["timestamp_ms"]),
            final=~self._grid.is_open(start_ms, close_ms),
        )
