"""Named aggregates of tumbling, hopping and no windows, for all keys of a batch together.

Rules (S = size, A = advance, ``t`` = a record's time, ``c`` = its close time):

    windows of t   every start s = i * A >= 0 with s <= t < s + S         (semantics.md#3-1)
    member         s + S > c, the window is open for the record           (semantics.md#0-2)
    late           the last of its windows is closed
    final          s + S <= close time of every partition

The state has one row per open window: its partial aggregates and its greatest record time. The
records of a batch also become partial aggregates, one row per window that they change. Then the
rows of equal windows are merged. Without windows, the only window of a key starts at 0 and never
closes.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import (
    Aggregate,
    KeptPartials,
    PartialAggregates,
    kept_aggregates,
    used_fields,
)
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    coded_keys,
    pair_order,
    run_starts,
)
from oriel.pipeline.windows.definitions import FOREVER_MS, EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.grid.spreading import spread
from oriel.pipeline.windows.engines.operator import Times
from oriel.pipeline.windows.records import (
    PARTIALS,
    RECORD_FIELDS,
    arrival_keys,
    changed_rows,
    rows_schema,
    window_order,
)

#: A time bucket has as many windows as contain one record, divided by this number.
_BUCKETS_PER_RECORD = 4


class WindowGrid:
    """The bounds of windows, and the windows that contain a record, by their index i."""

    def __init__(self, windows: TimeWindows | NoWindows) -> None:
        """Read the rule, the size and the advance of ``windows``."""
        self._rule = windows.rule
        self._size_ms = self.advance_ms = FOREVER_MS
        if isinstance(windows, TimeWindows):
            self._size_ms, self.advance_ms = windows.size_ms, windows.advance_ms
        #: The greatest number of windows that contain one record.
        self.of_record: int = -(-self._size_ms // self.advance_ms)
        # The number of windows of one time bucket. The windows of a record are in at most five
        # buckets. With smaller buckets, a batch needs more look-ups, and with larger ones, it reads
        # more rows.
        self._windows_per_bucket = -(-self.of_record // _BUCKETS_PER_RECORD)

    def starts(self, window_index: Ints) -> Ints:
        """Return the start of each window in milliseconds."""
        return window_index * self.advance_ms

    def ends(self, start_ms: Ints) -> Ints:
        """Return the end of the windows with these starts in milliseconds."""
        return start_ms + self._size_ms

    def buckets(self, start_ms: Ints) -> Ints:
        """Return the time bucket of the windows with these starts."""
        return start_ms // self.advance_ms // self._windows_per_bucket

    def buckets_of_batch(self, time_ms: Ints) -> Ranges:
        """Return the time buckets with the windows of each record."""
        first, last = self.first_windows(time_ms), self.last_windows(time_ms)
        return Ranges(first // self._windows_per_bucket, last // self._windows_per_bucket + 1)

    def bucket_last_ms(self, start_ms: Ints) -> Ints:
        """Return the greatest record time in the last window of each window's time bucket."""
        last = (self.buckets(start_ms) + 1) * self._windows_per_bucket - 1
        return self.last_ms(self.starts(last))

    def last_ms(self, start_ms: Ints) -> Ints:
        """Return the greatest record time in the windows with these starts."""
        return self._rule.last_ms(self.ends(start_ms))

    def is_open(self, start_ms: Ints, close_ms: int) -> Flags:
        """Return which of the windows with these starts are not final at this close time."""
        return self._rule.is_open(self.ends(start_ms), close_ms)

    def first_windows(self, time_ms: Ints) -> Ints:
        """Return the index of the first window that contains each record, open or closed."""
        # The least i with t < i * A + S. No window starts below 0.
        first: Ints = np.maximum((time_ms - self._size_ms) // self.advance_ms + 1, 0)
        return first

    def last_windows(self, time_ms: Ints) -> Ints:
        """Return the index of the last window that contains each record."""
        return time_ms // self.advance_ms

    def first_open_windows(self, time_ms: Ints, close_ms: Ints) -> Ints:
        """Return the index of the first window that is open for each record.

        Ends ascend with the indices, so the windows from this one to the last one of a record are
        open. For a late record, it is after the last one.
        """
        # The least i whose end i * A + S is open: a quotient rounded up.
        first_open = -((self._size_ms - self._rule.first_open_end_ms(close_ms)) // self.advance_ms)
        first: Ints = np.maximum(self.first_windows(time_ms), first_open)
        return first


_START = pa.field("window_start_ms", pa.int64())

#: Up to this average number of windows per row, rows are copied to their windows. With more
#: windows, ``spread`` merges them.
_MAX_COPIES = 16


class _BatchPartials(NamedTuple):
    """The partial aggregates that a batch adds to windows. A window can have several entries.

    Attributes:
        code: The code of the key of each entry.
        start_ms: The start of the window of each entry.
        row: The row of ``table`` of each entry. Several entries can share a row.
        table: The partial aggregates.
    """

    code: Ints
    start_ms: Ints
    row: Ints
    table: pa.Table


class GridEngine(WindowEngine):
    """The base of both engines. The state has rows of windows, which are independent."""

    rows_leave_when_due = True
    _grid: WindowGrid

    def buckets(self, state: pa.Table) -> Ints:
        """Return the time bucket of each state row, which has a few adjacent windows."""
        return self._grid.buckets(np.asarray(state["window_start_ms"]))

    def buckets_of_batch(self, batch: pa.Table) -> Ranges:
        """Return the time buckets with the windows of each record."""
        return self._grid.buckets_of_batch(np.asarray(batch["timestamp_ms"]))

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the last millisecond of the window of each row."""
        return self._grid.last_ms(np.asarray(state["window_start_ms"]))

    def bucket_due_ms(self, state: pa.Table) -> Ints:
        """Return the last millisecond of the last window in the time bucket of each row."""
        return self._grid.bucket_last_ms(np.asarray(state["window_start_ms"]))


class TimeWindowEngine(GridEngine):
    """The engine of tumbling, hopping and no windows with named aggregates."""

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

        ``carried`` are columns of the key that the state keeps for the caller.

        Raises:
            IllegalArgument: An aggregate reads an unknown column or a column of another type.
        """
        self.windows = windows
        self._grid = WindowGrid(windows)
        self._emit = emit
        self._columns = PartialAggregates(aggregates, values, carried)
        self._mergeable = kept_aggregates(aggregates, values)
        self._kept_partials: KeptPartials | None = None
        self.aggregate_types = self._columns.aggregate_types
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), *used_fields(aggregates, values)]
        )
        self.state_schema = rows_schema([_START], carried or (), self._columns.fields)

    def keep_partials(self) -> None:
        """See ``WindowEngine``. Each record is in one tumbling window, so windows can be added."""
        if self.windows.kind != "tumbling" or not self._mergeable:
            super().keep_partials()
        self.kept = self._mergeable
        self._kept_partials = KeptPartials(self.kept)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """Return the changes of a batch, after which the state has no final windows."""
        (close_ms,) = times.after
        batch = self._read(batch)
        (state_code, batch_code), keys = coded_keys(state["key"], batch["key"])
        parts = self._parts(batch, batch_code, keys)
        has_key_records = np.zeros(len(keys), dtype=np.bool_)
        has_key_records[parts.code] = True
        has_records = has_key_records[state_code]
        changed, unchanged = self._merged(
            state.filter(pa.array(has_records)), state_code[has_records], parts
        )
        rows = pa.concat_tables([state.filter(pa.array(~has_records)), unchanged, changed])
        is_changed = np.arange(len(rows)) >= len(rows) - len(changed)
        final = ~self._grid.is_open(np.asarray(rows["window_start_ms"]), close_ms)
        emitted = rows.filter(pa.array(self._emit.emits(is_changed, final)))
        return EngineResult(rows.filter(pa.array(~final)), self._changes(emitted, close_ms))

    def _parts(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _BatchPartials:
        """Return the partial aggregates that the records add to their open windows."""
        time_ms, close_ms = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        # Ends ascend with the indices of windows, so a record is in all of its windows if and only
        # if the first one is open. A record has only one tumbling window, so no accepted record of
        # tumbling windows is partly late.
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        partly_late = first_open > self._grid.first_windows(time_ms)
        if not partly_late.any():
            return self._shared(batch, code, keys)
        in_time = ~partly_late
        shared = self._shared(batch.filter(pa.array(in_time)), code[in_time], keys)
        copied = self._copied(batch.filter(pa.array(partly_late)), code[partly_late], keys)
        return _BatchPartials(
            np.concatenate([shared.code, copied.code]),
            np.concatenate([shared.start_ms, copied.start_ms]),
            np.concatenate([shared.row, len(shared.table) + copied.row]),
            pa.concat_tables([shared.table, copied.table]),
        )

    def _shared(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _BatchPartials:
        """Return the partial aggregates of records that are in all of their windows.

        Membership then depends on time only: each window contains a range of the records in the
        order of key and time. Overlapping windows share the sorted records as ranges instead of
        copies. The cost is the sum of records and windows, not their product.
        """
        order = window_order(code, batch)
        code, time_ms = code[order], np.asarray(batch["timestamp_ms"])[order]
        first, last = self._grid.first_windows(time_ms), self._grid.last_windows(time_ms)
        # Records of a run have the same key, first and last window, so they are in the same
        # windows.
        begin = np.flatnonzero(run_starts(code, first, last))
        run_code, first, last = code[begin], first[begin], last[begin]
        # Within a key, first and last never decrease. If an earlier run has a window of this run,
        # the previous run also has it, up to its last window. Each run therefore lists only the
        # windows after the last one of the previous run, and every window is listed once.
        after = np.maximum(first[1:], last[:-1] + 1)
        first[1:] = np.where(run_code[1:] == run_code[:-1], after, first[1:])
        windows = Ranges(first, last + 1)
        window_code, start_ms = run_code[windows.owners], self._grid.starts(windows.rows()[1])
        timeline = Timeline(code, time_ms)
        members = Ranges(
            timeline.first_at_or_after(window_code, start_ms),
            timeline.first_at_or_after(window_code, self._grid.ends(start_ms)),
        )
        table = self._columns.of(batch.take(pa.array(order)), members)
        table = table.append_column("key", keys.take(pa.array(window_code)))
        return _BatchPartials(window_code, start_ms, np.arange(len(start_ms)), table)

    def _copied(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _BatchPartials:
        """Return the partial aggregates of partly late records, which miss their first windows.

        With these records, the ranges of ``_shared`` would have holes. Records of a key with the
        same first open window and the same last window are in the same windows. They become one
        row, which is merged into each window. If the rows have many windows, ``spread`` merges
        them.
        """
        time_ms, close_ms = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first = self._grid.first_open_windows(time_ms, close_ms)
        last = self._grid.last_windows(time_ms)
        order = np.lexsort((*arrival_keys(batch), time_ms, first, last, code))
        members = Ranges.of_runs(run_starts(code[order], first[order], last[order]))
        begin = order[members.low]
        table = self._columns.of(batch.take(pa.array(order)), members)
        table = table.append_column("key", keys.take(pa.array(code[begin])))
        windows = Ranges(first[begin], last[begin] + 1)
        if windows.sizes.sum() > _MAX_COPIES * len(begin):
            codes, window_index, table = spread(self._columns, table, code[begin], windows)
            return _BatchPartials(
                codes, self._grid.starts(window_index), np.arange(len(window_index)), table
            )
        row = windows.owners
        return _BatchPartials(code[begin][row], self._grid.starts(windows.rows()[1]), row, table)

    def _merged(
        self, state: pa.Table, state_code: Ints, parts: _BatchPartials
    ) -> tuple[pa.Table, pa.Table]:
        """Merge rows of the state and the batch by window. Return (changed, unchanged) rows."""
        names = [name for name in self.state_schema.names if name != _START.name]
        table = pa.concat_tables([state.select(names), parts.table.select(names)])
        row = np.concatenate([np.arange(len(state)), len(state) + parts.row])
        code = np.concatenate([state_code, parts.code])
        start_ms = np.concatenate([np.asarray(state["window_start_ms"]), parts.start_ms])
        order = pair_order(code, start_ms)
        windows = Ranges.of_runs(run_starts(code[order], start_ms[order]))
        is_changed = windows.any_of(order >= len(state))
        # The state has each window once, so an unchanged window is a run of one row.
        unchanged = state.take(pa.array(order[windows.low[~is_changed]]))
        merged = windows.keep(is_changed)
        entry = order[merged.rows()[1]]
        # The start is the second column of the state, after the key.
        rows = table.take(pa.array(row[entry])).add_column(1, _START, pa.array(start_ms[entry]))
        return self._columns.merged(rows, Ranges.side_by_side(merged.sizes)), unchanged

    def _changes(self, rows: pa.Table, close_ms: int) -> pa.Table:
        """Return state rows as changed rows, by key and start."""
        rows = rows.sort_by([("key", "ascending"), ("window_start_ms", "ascending")])
        start_ms = np.asarray(rows["window_start_ms"])
        columns = self._columns.results(rows)
        if self._kept_partials is not None:
            columns[PARTIALS.name] = self._kept_partials.encoded(rows)
        return changed_rows(
            rows["key"],
            (start_ms, self._grid.ends(start_ms)),
            columns,
            np.asarray(rows["timestamp_ms"]),
            final=~self._grid.is_open(start_ms, close_ms),
        )
