"""Tumbling, hopping or no windows with the user's own functions, record by record.

The state has one row per (key, window, source partition): within a partition the
aggregator is called in offset order, and a window's value is that of its partitions
merged, the least partition first. So the result depends on no interleaving.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.windows.definitions import NoWindows, TimeWindows
from pipeline.windows.engine import (
    RECORD_FIELDS,
    EngineResult,
    Flags,
    WindowEngine,
    arrival_keys,
)
from pipeline.windows.exact_sum import Ints
from pipeline.windows.folds import (
    Fold,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from pipeline.windows.time_windows import WindowGrid

#: (start, partition) -> aggregate and timestamp of one key.
_Rows = dict[tuple[int, int], tuple[Any, int]]


@dataclass
class _Key:
    """One touched key: its rows, what the caller carries, which windows changed."""

    rows: _Rows
    carried: dict[str, Any]
    changed: set[int]
    known: set[int]


class TimeFoldEngine(WindowEngine):
    """A user's aggregation of tumbling, hopping or no windows."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit_final_only: bool = False,
    ) -> None:
        """Aggregate values of this schema by ``fold``; ``carried`` are columns of the key."""
        self._rule = windows.rule
        self._grid = WindowGrid(windows)
        self._fold = fold
        self._values = values
        self._emit_final_only = emit_final_only
        self._carried = list(carried or ())
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *fold_fields(values)])
        self.state_schema = pa.schema([
            pa.field("key", pa.string()),
            pa.field("window_start_ms", pa.int64()),
            pa.field("partition", pa.int32()),
            *self._carried,
            *(pa.field(name, found) for name, found in fold.types.items()),
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
        starts = np.asarray(state["window_start_ms"])
        closing = ~self._rule.is_open(self._grid.ends(starts), close_ms)
        keys = set(batch["key"].to_pylist())
        keys |= set(state.filter(pa.array(closing))["key"].to_pylist())
        near = pc.is_in(state["key"], pa.array(sorted(keys), pa.string()))
        touched = self._read(state.filter(near))
        rejected = self._apply(touched, batch)
        changes = self._changes(touched, close_ms)
        kept = self._kept(touched, close_ms)
        rest = state.filter(pc.invert(near))
        return EngineResult(
            pa.concat_tables([rest, kept]), changes, 0, rejected_table(batch, rejected)
        )

    def _read(self, rows: pa.Table) -> dict[str, _Key]:
        """State rows as objects, by key."""
        touched: dict[str, _Key] = {}
        names = [field.name for field in self._carried]
        values = self._fold.read(rows)
        fields = rows.select(["key", "window_start_ms", "partition", "timestamp_ms", *names])
        for row, value in zip(fields.to_pylist(), values, strict=True):
            key = touched.setdefault(
                row["key"], _Key({}, {name: row[name] for name in names}, set(), set())
            )
            start = row["window_start_ms"]
            key.rows[start, row["partition"]] = (value, row["timestamp_ms"])
            key.known.add(start)
        return touched

    def _apply(self, touched: dict[str, _Key], batch: pa.Table) -> list[tuple[int, str]]:
        """Call the aggregator for every record and open window, in offset order."""
        rejected = []
        names = [field.name for field in self._carried]
        values = fold_values(batch, self._values)
        fields = batch.select(["key", "timestamp_ms", "partition", "input", *names]).to_pylist()
        for row, starts in self._in_order(batch):
            record = fields[row]
            record["unit"] = self._fold.unit(record["partition"])
            key = touched.setdefault(
                record["key"], _Key({}, {name: record[name] for name in names}, set(), set())
            )
            try:
                made = self._with(key.rows, record, values[row], starts)
            except Rejected as error:
                rejected.append((row, str(error)))
                continue
            for start, (value, time) in made.items():
                key.changed.add(start)
                if value is None:
                    key.rows.pop((start, record["unit"]), None)
                else:
                    key.rows[start, record["unit"]] = (value, time)
        return rejected

    def _with(
        self, rows: _Rows, record: dict[str, Any], value: Any, starts: range
    ) -> dict[int, tuple[Any, int]]:
        """The new value and timestamp of each window; nothing is changed if one call raises."""
        made = {}
        time = record["timestamp_ms"]
        for start in starts:
            aggregate, newest = rows.get((start, record["unit"]), (None, time))
            result = self._fold.applied(record["input"], record["key"], value, aggregate)
            made[start] = (result, max(newest, time))
        return made

    def _in_order(self, batch: pa.Table) -> Iterator[tuple[int, range]]:
        """Rows in offset order of their partition, with the starts of their open windows."""
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first, last = self._grid.open_windows(time, close)
        order = np.lexsort(arrival_keys(batch))
        begin, end = (self._grid.starts(number[order]).tolist() for number in (first, last))
        for row, low, high in zip(order.tolist(), begin, end, strict=True):
            yield row, range(low, high + 1, self._grid.step)

    def _changes(self, touched: dict[str, _Key], close_ms: int) -> pa.Table:
        """The rows to tell of touched keys: changed, newly final or removed windows."""
        told: list[tuple[str, int, int, bool]] = []
        values: list[Any] = []
        for name in sorted(touched, key=str.encode):
            key = touched[name]
            for start in sorted(key.known | {start for start, _ in key.rows}):
                final = not self._is_open(start, close_ms)
                if not final and (self._emit_final_only or start not in key.changed):
                    continue
                rows = [(p, row) for (s, p), row in key.rows.items() if s == start]
                value = in_partition_order(self._fold, name, [(p, v) for p, (v, _) in rows])
                if value is None and self._emit_final_only:
                    continue
                time = max((time for _, (_, time) in rows), default=start)
                told.append((name, start, time, final and value is not None))
                values.append(value)
        return self._table(told, values)

    def _table(self, told: list[tuple[str, int, int, bool]], values: list[Any]) -> pa.Table:
        start = np.array([start for _, start, _, _ in told], dtype=np.int64)
        return pa.table({
            "key": pa.array([key for key, _, _, _ in told], pa.string()),
            "window_start_ms": pa.array(start),
            "window_end_ms": pa.array(self._grid.ends(start)),
            **self._fold.columns(values),
            "timestamp_ms": pa.array([time for _, _, time, _ in told], pa.int64()),
            "final": pa.array([final for _, _, _, final in told], pa.bool_()),
            "deleted": pa.array([value is None for value in values], pa.bool_()),
        })  # fmt: skip

    def _kept(self, touched: dict[str, _Key], close_ms: int) -> pa.Table:
        """The state rows of touched keys whose windows are still open."""
        kept = [
            (name, start, partition, key.carried, value, time)
            for name, key in touched.items()
            for (start, partition), (value, time) in key.rows.items()
            if self._is_open(start, close_ms)
        ]
        columns = {
            "key": [row[0] for row in kept],
            "window_start_ms": [row[1] for row in kept],
            "partition": [row[2] for row in kept],
            **{f.name: [row[3][f.name] for row in kept] for f in self._carried},
            **self._fold.columns([row[4] for row in kept]),
            "timestamp_ms": [row[5] for row in kept],
        }
        return pa.table(columns, schema=self.state_schema)

    def _is_open(self, start: int, close_ms: int) -> bool:
        end = self._grid.ends(np.array([start], dtype=np.int64))
        return bool(self._rule.is_open(end, close_ms)[0])
