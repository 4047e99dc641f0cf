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

from oriel.pipeline.windows.aggregates import Aggregate, PartColumns, used_fields
from oriel.pipeline.windows.arrays import Ints, Ranges, Timeline, coded_keys, heads, pair_order
from oriel.pipeline.windows.definitions import EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.grid.window_grid import GridEngine
from oriel.pipeline.windows.records import RECORD_FIELDS, arrival_keys, rows_schema

_START = pa.field("window_start_ms", pa.int64())

_ON_UPDATE = EmitStrategy.on_window_update()


@dataclass(frozen=True)
class _Groups:
    """Windows that the batch touches: key code, start, and which row of ``table`` goes in."""

    code: Ints
    start: Ints
    owner: Ints
    table: pa.Table


class TimeWindowEngine(GridEngine):
    """Tumbling, hopping or no windows with declarative aggregates."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = _ON_UPDATE,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns of the key that the state keeps for the caller's use.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        super().__init__(windows, carried, emit=emit)
        self._columns = PartColumns(aggregates, values, carried)
        self.aggregate_types = self._columns.aggregate_types
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *self._carried, *used_fields(aggregates, values)]
        )
        self.state_schema = rows_schema([_START], self._carried, self._columns.fields)

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; ``previous_close_ms`` isn't needed: final windows leave."""
        del previous_close_ms
        batch = self._read(batch)
        (old_code, new_code), keys = coded_keys(state["key"], batch["key"])
        groups = self._groups(batch, new_code, keys)
        touched_keys = np.zeros(len(keys), dtype=np.bool_)
        touched_keys[groups.code] = True
        near = touched_keys[old_code]
        changed, kept = self._merged(state.filter(pa.array(near)), old_code[near], groups)
        rest = pa.concat_tables([state.filter(pa.array(~near)), kept])
        rest_open, changed_open = (
            self._is_open(np.asarray(rows["window_start_ms"]), close_ms) for rows in (rest, changed)
        )
        told = changed.filter(pa.array(~changed_open)) if self._emit_final_only else changed
        told = pa.concat_tables([rest.filter(pa.array(~rest_open)), told])
        state = pa.concat_tables(
            [rest.filter(pa.array(rest_open)), changed.filter(pa.array(changed_open))]
        )
        return EngineResult(state, self._rows(told, close_ms))

    def _groups(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _Groups:
        """Put the batch's records together by window."""
        if not self._grid.overlap:
            return self._spread(batch, code, keys)
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        whole = self._grid.open_windows(time, close)[0] == self._grid.first_windows(time)
        spread = self._spread(batch.filter(pa.array(~whole)), code[~whole], keys)
        ranged = self._ranged(batch.filter(pa.array(whole)), code[whole], keys)
        return _Groups(
            np.concatenate([ranged.code, spread.code]),
            np.concatenate([ranged.start, spread.start]),
            np.concatenate([ranged.owner, len(ranged.table) + spread.owner]),
            pa.concat_tables([ranged.table, spread.table]),
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
        run_code, first, last = code[begin], first[begin], last[begin]
        # Windows that the run before has, too, are told by that one.
        untold = np.maximum(first[1:], last[:-1] + 1)
        first[1:] = np.where(run_code[1:] == run_code[:-1], untold, first[1:])
        windows = Ranges(first, last + 1)
        code_of, start = run_code[windows.owners], self._grid.starts(windows.rows()[1])
        timeline = Timeline(code, time)
        ranges = Ranges(
            timeline.first_at_or_after(code_of, start),
            timeline.first_at_or_after(code_of, self._grid.ends(start)),
        )
        table = self._columns.of(batch.take(pa.array(order)), ranges)
        table = table.append_column("key", keys.take(pa.array(code_of)))
        return _Groups(code_of, start, np.arange(len(start)), table)

    def _spread(self, batch: pa.Table, code: Ints, keys: pa.Array) -> _Groups:
        """Put records with the same key and open windows together, then into each of these."""
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first, last = self._grid.open_windows(time, close)
        order = np.lexsort((*arrival_keys(batch), time, first, last, code))
        ranges = Ranges.of_runs(heads(code[order], first[order], last[order]))
        begin = order[ranges.low]
        table = self._columns.of(batch.take(pa.array(order)), ranges)
        table = table.append_column("key", keys.take(pa.array(code[begin])))
        windows = Ranges(first[begin], last[begin] + 1)
        owner = windows.owners
        return _Groups(code[begin][owner], self._grid.starts(windows.rows()[1]), owner, table)

    def _merged(
        self, near: pa.Table, near_code: Ints, groups: _Groups
    ) -> tuple[pa.Table, pa.Table]:
        """Merge groups and state rows of one window; return changed rows and untouched ones."""
        names = [name for name in self.state_schema.names if name != _START.name]
        both = pa.concat_tables([near.select(names), groups.table.select(names)])
        place = np.concatenate([np.arange(len(near)), len(near) + groups.owner])
        code = np.concatenate([near_code, groups.code])
        start = np.concatenate([np.asarray(near["window_start_ms"]), groups.start])
        order = pair_order(code, start)
        windows = Ranges.of_runs(heads(code[order], start[order]))
        touched = windows.any_of(order >= len(near))
        kept = near.take(pa.array(order[windows.low[~touched]]))
        changed = windows.keep(touched)
        chosen = order[changed.rows()[1]]
        rows = both.take(pa.array(place[chosen])).add_column(1, _START, pa.array(start[chosen]))
        return self._columns.merged(rows, Ranges.side_by_side(changed.sizes)), kept

    def _rows(self, table: pa.Table, close_ms: int) -> pa.Table:
        """Turn state rows into the store's rows, by key and start."""
        table = table.sort_by([("key", "ascending"), ("window_start_ms", "ascending")])
        start = np.asarray(table["window_start_ms"])
        return pa.table({
            "key": table["key"],
            "window_start_ms": pa.array(start),
            "window_end_ms": pa.array(self._grid.ends(start)),
            **self._columns.results(table),
            "timestamp_ms": table["timestamp_ms"],
            "final": pa.array(~self._is_open(start, close_ms)),
            "deleted": pa.array(np.zeros(len(table), dtype=np.bool_)),
        })  # fmt: skip
