"""Tumbling, hopping or no windows with functions of the user, record by record.

The state has one row per key, window and source partition. Within a partition, the aggregator is
called in offset order. The value of a window is the merge of its partitions, the lowest partition
first, so the result depends on no interleaving (docs/decisions/0011).

If a function returns None, the row is removed (semantics.md#9). The removed row has the time that
it would have had. Within a partition, this is the greater of the times of the old row and the
record. Of several partitions that removed their partial aggregate in this batch, the greatest time
counts.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Ints, coded_keys, heads
from oriel.pipeline.windows.definitions import EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.grid.declarative import GridEngine, WindowGrid
from oriel.pipeline.windows.functions import (
    Fold,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from oriel.pipeline.windows.records import (
    NOTHING_OBSERVED_MS,
    RECORD_FIELDS,
    arrival_keys,
    change_places,
    changed_rows,
    greatest_ms,
    rows_schema,
    takes_away,
)

#: A window: key and start in milliseconds.
_Window = tuple[str, int]


class _Part(NamedTuple):
    """The partial aggregate of a window and partition. It is ``None`` if this batch removed it."""

    aggregate: Any
    timestamp_ms: int


#: The partial aggregates of each window by their partition (``Fold.fold_partition``).
_Parts = dict[_Window, dict[int, _Part]]


class TimeFoldEngine(GridEngine):
    """An aggregation by functions of a user over tumbling, hopping or no windows."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Aggregate values of this schema by ``fold``. ``carried`` are columns of the key."""
        self.windows = windows
        self._grid = WindowGrid(windows)
        self._emit = emit
        self._fold = fold
        self._values = values
        self._carried_names = [] if carried is None else carried.names
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *(carried or ()), *fold_fields(values)])
        window_part = pa.schema([("window_start_ms", pa.int64()), ("partition", pa.int32())])
        self.state_schema = rows_schema(window_part, carried or (), pa.schema(fold.types))

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """Return the changes of a batch, after which the state has no final windows."""
        del previous_close_ms
        batch = self._read(batch)
        final_now = ~self._grid.is_open(np.asarray(state["window_start_ms"]), close_ms)
        touched = np.asarray(pc.is_in(state["key"], batch["key"].unique())) | final_now
        touched_rows = state.filter(pa.array(touched))
        parts = self._read_parts(touched_rows)
        known = set(parts)
        changed, rejected = self._apply(batch, parts)
        carried = self._carried_of(touched_rows, batch)
        still_open = self._open_windows(parts, close_ms)
        accepted = np.ones(len(batch), dtype=np.bool_)
        accepted[[row for row, _ in rejected]] = False
        last = self._grid.last_windows(np.asarray(batch["timestamp_ms"])[accepted])
        return EngineResult(
            pa.concat_tables(
                [state.filter(pa.array(~touched)), self._state_rows(parts, still_open, carried)]
            ),
            self._changes(parts, changed, known, still_open),
            rejected=rejected_table(batch, rejected),
            # With on_window_close, only final windows are emitted, and they are never removed.
            defined_ms=NOTHING_OBSERVED_MS
            if self._emit.is_on_close
            else greatest_ms(self._grid.starts(last)),
        )

    def _read_parts(self, rows: pa.Table) -> _Parts:
        """Return the partial aggregates of state rows."""
        parts: _Parts = {}
        names = ("key", "window_start_ms", "partition", "timestamp_ms")
        columns = (rows[name].to_pylist() for name in names)
        for key, start_ms, partition, timestamp_ms, aggregate in zip(
            *columns, self._fold.read(rows), strict=True
        ):
            parts.setdefault((key, start_ms), {})[partition] = _Part(aggregate, timestamp_ms)
        return parts

    def _apply(self, batch: pa.Table, parts: _Parts) -> tuple[set[_Window], list[tuple[int, str]]]:
        """Call the aggregator for every record and open window, and update ``parts``.

        Returns the windows that changed, and the rows of rejected records with the reason. If one
        call raises, the record is rejected in all of its windows.
        """
        changed: set[_Window] = set()
        rejected: list[tuple[int, str]] = []
        time_ms, close_ms = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        first_start_ms = self._grid.starts(first_open).tolist()
        last_start_ms = self._grid.starts(self._grid.last_windows(time_ms)).tolist()
        values = fold_values(batch, self._values)
        names = ("key", "timestamp_ms", "partition", "input")
        keys, times, partitions, inputs = (batch[name].to_pylist() for name in names)
        order = np.lexsort(arrival_keys(batch))
        subtracts, completes = self._changes_in(batch, order)
        for row in order.tolist():
            key, timestamp_ms, fold_partition = (
                keys[row],
                times[row],
                self._fold.fold_partition(partitions[row]),
            )
            new_parts: dict[_Window, _Part] = {}
            try:
                starts = range(first_start_ms[row], last_start_ms[row] + 1, self._grid.advance_ms)
                for start_ms in starts:
                    window = (key, start_ms)
                    old = parts.get(window, {}).get(fold_partition)
                    aggregate = None if old is None else old.aggregate
                    if subtracts[row]:
                        result = self._fold.subtracted(key, values[row], aggregate)
                    else:
                        result = self._fold.applied(inputs[row], key, values[row], aggregate)
                    newest_ms = timestamp_ms
                    # After a removed row, the aggregate and its time start again. The exception is
                    # one update, whose subtractor removed the row before its adder.
                    if old is not None and (aggregate is not None or completes[row]):
                        newest_ms = max(old.timestamp_ms, timestamp_ms)
                    new_parts[window] = _Part(result, newest_ms)
            except Rejected as error:
                rejected.append((row, str(error)))
                continue
            changed.update(new_parts)
            for window, part in new_parts.items():
                parts.setdefault(window, {})[fold_partition] = part
        return changed, rejected

    def _changes_in(self, batch: pa.Table, order: Ints) -> tuple[list[bool], list[bool]]:
        """Return which records are old rows to subtract, and which new rows complete an update.

        In ``order``, such a new row directly follows the old row of the same record in the same
        group.
        """
        if self._fold.subtractor is None:
            none = [False] * len(batch)
            return none, none
        old = takes_away(batch)
        completes = np.zeros(len(batch), dtype=np.bool_)
        (key_code,), _ = coded_keys(batch["key"])
        places = key_code, *change_places(batch)
        is_same = ~heads(*(place[order] for place in places))[1:]
        completes[order[1:]] = is_same & old[order[:-1]] & ~old[order[1:]]
        return old.tolist(), completes.tolist()

    def _open_windows(self, parts: _Parts, close_ms: int) -> set[_Window]:
        """Return the windows that are not final."""
        windows = list(parts)
        start_ms = np.array([start_ms for _, start_ms in windows], dtype=np.int64)
        is_open = self._grid.is_open(start_ms, close_ms).tolist()
        return {window for window, opened in zip(windows, is_open, strict=True) if opened}

    def _changes(
        self,
        parts: _Parts,
        changed: set[_Window],
        known: set[_Window],
        still_open: set[_Window],
    ) -> pa.Table:
        """Return the changed rows by key and start. ``known`` windows had rows before the batch."""
        windows = sorted(parts, key=lambda window: (window[0].encode(), window[1]))
        is_changed = np.array([window in changed for window in windows], dtype=np.bool_)
        final = np.array([window not in still_open for window in windows], dtype=np.bool_)
        # Only rows that can be emitted are evaluated, because the merger is code of the user.
        evaluated = self._emit.emits(is_changed, final)
        windows = [windows[number] for number in np.flatnonzero(evaluated)]
        final = final[evaluated]
        aggregates, timestamps = [], []
        for window in windows:
            present = {p: part for p, part in parts[window].items() if part.aggregate is not None}
            by_partition = [(partition, part.aggregate) for partition, part in present.items()]
            aggregates.append(in_partition_order(self._fold, window[0], by_partition))
            timestamps.append(
                max(part.timestamp_ms for part in (present or parts[window]).values())
            )
        # A removal changes a window that had a row, and is never final. With on_window_close, that
        # row was never emitted.
        deleted = np.array([aggregate is None for aggregate in aggregates], dtype=np.bool_)
        was_known = np.array([window in known for window in windows], dtype=np.bool_)
        emitted = self._emit.emits(was_known | ~deleted, final & ~deleted)
        chosen = np.flatnonzero(emitted).tolist()
        start_ms = np.array([windows[number][1] for number in chosen], dtype=np.int64)
        return changed_rows(
            pa.array([windows[number][0] for number in chosen], pa.string()),
            (start_ms, self._grid.ends(start_ms)),
            self._fold.columns([aggregates[number] for number in chosen]),
            np.array([timestamps[number] for number in chosen], dtype=np.int64),
            final=final[emitted],
            deleted=deleted[emitted],
        )

    def _carried_of(self, rows: pa.Table, batch: pa.Table) -> dict[str, dict[str, Any]]:
        """Return the carried columns of each key, which are equal in all of its rows."""
        names = ["key", *self._carried_names]
        both = pa.concat_tables([batch.select(names), rows.select(names)])
        return {row.pop("key"): row for row in both.to_pylist()}

    def _state_rows(
        self, parts: _Parts, still_open: set[_Window], carried: dict[str, dict[str, Any]]
    ) -> pa.Table:
        """Return the state rows of open windows. A removed partial aggregate has no row."""
        rows = [
            (*window, partition, part)
            for window, by_partition in parts.items()
            if window in still_open
            for partition, part in by_partition.items()
            if part.aggregate is not None
        ]
        columns = {
            "key": [key for key, _, _, _ in rows],
            "window_start_ms": [start_ms for _, start_ms, _, _ in rows],
            "partition": [partition for _, _, partition, _ in rows],
            **{name: [carried[key][name] for key, _, _, _ in rows] for name in self._carried_names},
            **self._fold.columns([part.aggregate for _, _, _, part in rows]),
            "timestamp_ms": [part.timestamp_ms for _, _, _, part in rows],
        }
        return pa.table(columns, schema=self.state_schema)
