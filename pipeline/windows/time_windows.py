"""Tumbling and hopping windows, and grouping without windows, for all keys of a batch at once.

Rules (S = size, A = advance, ``t`` = a record's time, ``c`` = its close time):

    windows of t   every start s = i * A >= 0 with s <= t < s + S         (semantics section 3)
    member         s + S > c, the window is open for the record           (rule 2)
    late           not even the last of its windows is open
    final          s + S <= close time of every partition

The state has one row per open window: the parts of its aggregates and its greatest record
time. A batch's records are first put together by (key, first window, last window), so a
hopping window costs a merge per group and not a visit per record. Without windows the one
window of a key begins at 0 and never closes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.windows.aggregates import Aggregate
from pipeline.windows.definitions import NoWindows, TimeWindows
from pipeline.windows.engine import (
    RECORD_FIELDS,
    EngineResult,
    Flags,
    WindowEngine,
    arrival_keys,
    coded_keys,
    heads,
)
from pipeline.windows.exact_sum import Ints, prefix_sums
from pipeline.windows.members import Members, Ranges
from pipeline.windows.part_columns import PartColumns, used_fields
from pipeline.windows.rules import FOREVER_MS
from pipeline.windows.timeline import Timeline, pair_order


class WindowGrid:
    """Where the windows of a record lie, as numbers of multiples of the advance."""

    def __init__(self, windows: TimeWindows | NoWindows) -> None:
        """Take the sizes of ``windows``."""
        self._windows = windows

    def starts(self, number: Ints) -> Ints:
        """The start of each numbered window."""
        if isinstance(self._windows, NoWindows):
            return np.zeros_like(number)
        return number * self._windows.advance_ms

    def ends(self, start: Ints) -> Ints:
        """The end of the windows with these starts."""
        if isinstance(self._windows, NoWindows):
            return np.full_like(start, FOREVER_MS)
        return start + self._windows.size_ms

    @property
    def step(self) -> int:
        """How far apart the starts of windows are."""
        return 1 if isinstance(self._windows, NoWindows) else self._windows.advance_ms

    @property
    def overlap(self) -> bool:
        """Whether a record can be in several windows."""
        return self._windows.kind == "hopping"

    def first_windows(self, time: Ints) -> Ints:
        """The first window that each record lies in."""
        if isinstance(self._windows, NoWindows):
            return np.zeros_like(time)
        return np.maximum((time - self._windows.size_ms) // self._windows.advance_ms + 1, 0)

    def last_windows(self, time: Ints) -> Ints:
        """The last window that each record lies in."""
        if isinstance(self._windows, NoWindows):
            return np.zeros_like(time)
        return time // self._windows.advance_ms

    def open_windows(self, time: Ints, close: Ints) -> tuple[Ints, Ints]:
        """The first and the last window of each record that is open for it; none: first > last."""
        first, last = self.first_windows(time), self.last_windows(time)
        if isinstance(self._windows, NoWindows):
            return first, last
        # The least i with i * advance + size - 1 >= close.
        first_open = -((self._windows.size_ms - 1 - close) // self._windows.advance_ms)
        return np.maximum(first, first_open), last


@dataclass(frozen=True)
class _Groups:
    """Windows that the batch touches: key code, start, and which row of ``table`` goes in."""

    code: Ints
    start: Ints
    owner: Ints
    table: pa.Table


class TimeWindowEngine(WindowEngine):
    """Tumbling, hopping or no windows with declarative aggregates."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit_final_only: bool = False,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns of the key that the state keeps for the caller's use.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        self._rule = windows.rule
        self._grid = WindowGrid(windows)
        self._emit_final_only = emit_final_only
        self._columns = PartColumns(aggregates, values)
        self._carried = list(carried or ())
        self.aggregate_types = self._columns.aggregate_types
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *self._carried, *used_fields(aggregates, values)]
        )
        self.state_schema = pa.schema([
            pa.field("key", pa.string()),
            pa.field("window_start_ms", pa.int64()),
            *self._carried,
            *self._columns.fields,
            pa.field("timestamp_ms", pa.int64()),
        ])  # fmt: skip

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Which records have no open window."""
        first, last = self._grid.open_windows(timestamp_ms, close_ms)
        late: Flags = first > last
        return late

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each row's window."""
        return self._rule.last_ms(self._grid.ends(np.asarray(state["window_start_ms"])))

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; ``previous_close_ms`` isn't needed: final windows leave."""
        del previous_close_ms
        batch = batch.select(self.record_schema.names).cast(self.record_schema)
        (old_code, new_code), keys = coded_keys(state["key"], batch["key"])
        groups = self._groups(batch, new_code, keys)
        touched_keys = np.zeros(len(keys), dtype=np.bool_)
        touched_keys[groups.code] = True
        near = touched_keys[old_code] if len(old_code) else np.zeros(0, dtype=np.bool_)
        changed, kept = self._merged(state.filter(pa.array(near)), old_code[near], groups)
        rest = pa.concat_tables([state.filter(pa.array(~near)), kept])
        rest_open, changed_open = self._is_open(rest, close_ms), self._is_open(changed, close_ms)
        closed = rest.filter(pa.array(~rest_open))
        told = [closed, changed]
        if self._emit_final_only:
            told = [closed, changed.filter(pa.array(~changed_open))]
        state = pa.concat_tables(
            [rest.filter(pa.array(rest_open)), changed.filter(pa.array(changed_open))]
        )
        return EngineResult(state, self._rows(pa.concat_tables(told), close_ms))

    def _is_open(self, rows: pa.Table, close_ms: int) -> Flags:
        ends = self._grid.ends(np.asarray(rows["window_start_ms"]))
        return self._rule.is_open(ends, close_ms)

    def _groups(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _Groups:
        """Put the batch's records together by window."""
        if not self._grid.overlap:
            return self._spread(*self._grouped(batch, code), keys)
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        whole = self._grid.open_windows(time, close)[0] == self._grid.first_windows(time)
        clipped = self._spread(*self._grouped(batch.filter(pa.array(~whole)), code[~whole]), keys)
        ranged = self._ranged(batch.filter(pa.array(whole)), code[whole], keys)
        names = ranged.table.column_names
        return _Groups(
            np.concatenate([ranged.code, clipped.code]),
            np.concatenate([ranged.start, clipped.start]),
            np.concatenate([ranged.owner, len(ranged.table) + clipped.owner]),
            pa.concat_tables([ranged.table, clipped.table.select(names)]),
        )

    def _ranged(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _Groups:
        """Windows of records that are in all of their windows: ranges in order of time.

        Overlapping windows share their records instead of each getting a copy.
        """
        time = np.asarray(batch["timestamp_ms"])
        order = np.lexsort((*arrival_keys(batch), time, code))
        code, time = code[order], time[order]
        first, last = self._grid.first_windows(time), self._grid.last_windows(time)
        begin = np.flatnonzero(heads(code, first, last))
        number_code, first, last = code[begin], first[begin], last[begin]
        # Windows that the records before have, too, are told by those.
        if len(begin):
            follows = ~heads(number_code)
            first[1:] = np.where(follows[1:], np.maximum(first[1:], last[:-1] + 1), first[1:])
        sizes = last - first + 1
        owner = np.repeat(np.arange(len(sizes)), sizes)
        number = first[owner] + np.arange(len(owner)) - prefix_sums(sizes)[:-1][owner]
        window_code, start = number_code[owner], self._grid.starts(number)
        timeline = Timeline(code, time)
        ranges = Ranges(
            timeline.first_at_or_after(window_code, start),
            timeline.first_at_or_after(window_code, self._grid.ends(start)),
        )
        table = self._table(batch.take(pa.array(order)), ranges)
        table = table.append_column("key", keys.take(pa.array(window_code)))
        return _Groups(window_code, start, np.arange(len(start)), table)

    def _table(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """The parts, carried columns and greatest time of ranges of rows in order of time."""
        table = self._columns.of(Members(rows, ranges))
        for field in self._carried:
            table = table.append_column(field, rows[field.name].take(pa.array(ranges.low)))
        newest = np.asarray(rows["timestamp_ms"])[ranges.high - 1]
        return table.append_column("timestamp_ms", pa.array(newest))

    def _grouped(self, batch: pa.Table, code: Ints) -> tuple[pa.Table, Ints, Ints, Ints]:
        """Put records with the same key and open windows together.

        Returns the part table, and each group's key code, first and last window.
        """
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first, last = self._grid.open_windows(time, close)
        order = np.lexsort((*arrival_keys(batch), time, first, last, code))
        code, first, last = code[order], first[order], last[order]
        begin = np.flatnonzero(heads(code, first, last))
        ranges = Ranges(begin, np.append(begin[1:], len(order)) if len(begin) else begin)
        table = self._table(batch.take(pa.array(order)), ranges)
        return table, code[begin], first[begin], last[begin]

    def _spread(
        self, table: pa.Table, code: Ints, first: Ints, last: Ints, keys: pa.Array
    ) -> _Groups:
        """Give each group to each of its windows."""
        table = table.append_column("key", keys.take(pa.array(code)))
        sizes = last - first + 1
        owner = np.repeat(np.arange(len(sizes)), sizes)
        number = first[owner] + np.arange(len(owner)) - prefix_sums(sizes)[:-1][owner]
        return _Groups(code[owner], self._grid.starts(number), owner, table)

    def _merged(
        self, near: pa.Table, near_code: Ints, groups: _Groups
    ) -> tuple[pa.Table, pa.Table]:
        """Merge groups and state rows of one window; return changed rows and untouched ones."""
        names = [name for name in self.state_schema.names if name != "window_start_ms"]
        both = pa.concat_tables([near.select(names), groups.table.select(names)])
        place = np.concatenate([np.arange(len(near)), len(near) + groups.owner])
        code = np.concatenate([near_code, groups.code])
        start = np.concatenate([np.asarray(near["window_start_ms"]), groups.start])
        order = pair_order(code, start)
        head = heads(code[order], start[order])
        begin = np.flatnonzero(head)
        end = np.append(begin[1:], len(order)) if len(begin) else begin
        is_new = prefix_sums((order >= len(near)).astype(np.int64))
        touched = is_new[end] > is_new[begin]
        kept = near.take(pa.array(order[begin[~touched]]))
        chosen = order[np.repeat(touched, end - begin)]
        rows = both.take(pa.array(place[chosen])).add_column(
            1, self.state_schema.field("window_start_ms"), pa.array(start[chosen])
        )
        sizes = (end - begin)[touched]
        bounds = prefix_sums(sizes)
        return self._columns.merged(rows, Ranges(bounds[:-1], bounds[1:])), kept

    def _rows(self, table: pa.Table, close_ms: int) -> pa.Table:
        """Turn state rows into the store's rows, by key and start."""
        table = table.sort_by([("key", "ascending"), ("window_start_ms", "ascending")])
        start = np.asarray(table["window_start_ms"])
        end = self._grid.ends(start)
        final = ~self._rule.is_open(end, close_ms)
        if not len(start):
            final = np.zeros(0, dtype=np.bool_)
        columns: dict[str, pa.Array] = {
            "key": table["key"],
            "window_start_ms": pa.array(start),
            "window_end_ms": pa.array(end),
            **self._columns.results(table),
            "timestamp_ms": table["timestamp_ms"],
            "final": pa.array(final),
            "deleted": pa.array(np.zeros(len(table), dtype=np.bool_)),
        }
        return pa.table(columns)
