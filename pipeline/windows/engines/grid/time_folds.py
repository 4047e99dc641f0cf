"""Tumbling, hopping or no windows with the user's own functions, record by record.

The state has one row per (key, window, source partition): within a partition the
aggregator is called in offset order, and a window's value is that of its partitions
merged, the least partition first. So the result depends on no interleaving.

A removed row has the time that the row would have had (semantics section 9): within a
partition the greater of the old row's and the record's; then the greatest of the partitions
that removed their part in this batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.definitions import EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.grid.window_grid import GridEngine
from oriel.pipeline.windows.functions import (
    Fold,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from oriel.pipeline.windows.records import RECORD_FIELDS, arrival_keys, rows_schema

#: (start, partition) -> aggregate and timestamp of one key; None is a part that this batch
#: removed, with the time of its removal.
_Rows = dict[tuple[int, int], tuple[Any, int]]

_ON_UPDATE = EmitStrategy.on_window_update()


@dataclass
class _Key:
    """One touched key: its rows and what the caller carries.

    ``changed`` and ``known`` are starts of windows: of those that a record changed, and of
    those that were there before.
    """

    rows: _Rows
    carried: dict[str, Any]
    changed: set[int]
    known: set[int]

    def starts(self) -> set[int]:
        """The starts of windows that are there, or were."""
        return {start for start, _ in self.rows}

    def rows_by_start(self) -> dict[int, dict[int, tuple[Any, int]]]:
        """For each window its partitions' aggregates and timestamps, removed ones too."""
        found: dict[int, dict[int, tuple[Any, int]]] = {}
        for (start, partition), row in self.rows.items():
            found.setdefault(start, {})[partition] = row
        return found


class _Told(NamedTuple):
    """A window to tell of, its times in ms; without a value it is removed."""

    key: str
    start: int
    value: Any
    time: int
    final: bool


class TimeFoldEngine(GridEngine):
    """A user's aggregation of tumbling, hopping or no windows."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = _ON_UPDATE,
    ) -> None:
        """Aggregate values of this schema by ``fold``; ``carried`` are columns of the key."""
        super().__init__(windows, carried, emit=emit)
        self._fold = fold
        self._values = values
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *fold_fields(values)])
        place = pa.schema([("window_start_ms", pa.int64()), ("partition", pa.int32())])
        self.state_schema = rows_schema(place, self._carried, pa.schema(fold.types))

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; ``previous_close_ms`` isn't needed: final windows leave."""
        del previous_close_ms
        batch = self._read(batch)
        closing = ~self._is_open(np.asarray(state["window_start_ms"]), close_ms)
        keys = set(batch["key"].to_pylist())
        keys |= set(state.filter(pa.array(closing))["key"].to_pylist())
        near = pc.is_in(state["key"], pa.array(sorted(keys), pa.string()))
        touched = self._by_key(state.filter(near))
        rejected = self._apply(touched, batch)
        opened = self._open_starts(touched, close_ms)
        rest = state.filter(pc.invert(near))
        return EngineResult(
            pa.concat_tables([rest, self._kept(touched, opened)]),
            self._changes(touched, opened),
            rejected=rejected_table(batch, rejected),
        )

    def _by_key(self, rows: pa.Table) -> dict[str, _Key]:
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
            record["unit"] = self._fold.fold_partition(record["partition"])
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
            # Behind a removed row the time begins anew, too.
            made[start] = (result, time if aggregate is None else max(newest, time))
        return made

    def _in_order(self, batch: pa.Table) -> Iterator[tuple[int, range]]:
        """Rows in offset order of their partition, with the starts of their open windows."""
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first, last = self._grid.open_windows(time, close)
        order = np.lexsort(arrival_keys(batch))
        begin, end = (self._grid.starts(number[order]).tolist() for number in (first, last))
        for row, low, high in zip(order.tolist(), begin, end, strict=True):
            yield row, range(low, high + 1, self._grid.advance_ms)

    def _open_starts(self, touched: dict[str, _Key], close_ms: int) -> set[int]:
        """The starts of windows of touched keys that are not final."""
        starts = np.array(list({s for key in touched.values() for s in key.starts()}), np.int64)
        return set(starts[self._is_open(starts, close_ms)].tolist())

    def _changes(self, touched: dict[str, _Key], opened: set[int]) -> pa.Table:
        """The rows to tell of touched keys: changed, newly final or removed windows."""
        keys = sorted(touched, key=str.encode)
        told = [window for key in keys for window in self._told(key, touched[key], opened)]
        start = np.array([window.start for window in told], dtype=np.int64)
        return pa.table({
            "key": pa.array([window.key for window in told], pa.string()),
            "window_start_ms": pa.array(start),
            "window_end_ms": pa.array(self._grid.ends(start)),
            **self._fold.columns([window.value for window in told]),
            "timestamp_ms": pa.array([window.time for window in told], pa.int64()),
            "final": pa.array([window.final for window in told], pa.bool_()),
            "deleted": pa.array([window.value is None for window in told], pa.bool_()),
        })  # fmt: skip

    def _told(self, name: str, key: _Key, opened: set[int]) -> Iterator[_Told]:
        """The windows of one key to tell of, by start."""
        for start, parts in sorted(key.rows_by_start().items()):
            final = start not in opened
            if not final and (self._emit_final_only or start not in key.changed):
                continue
            there = {p: (value, time) for p, (value, time) in parts.items() if value is not None}
            value = in_partition_order(self._fold, name, [(p, v) for p, (v, _) in there.items()])
            if value is None and (self._emit_final_only or start not in key.known):
                continue
            time = max(time for _, time in (there or parts).values())
            yield _Told(name, start, value, time, final and value is not None)

    def _kept(self, touched: dict[str, _Key], opened: set[int]) -> pa.Table:
        """The state rows of touched keys whose windows are still open."""
        kept = [
            (name, start, partition, key.carried, value, time)
            for name, key in touched.items()
            for (start, partition), (value, time) in key.rows.items()
            if start in opened and value is not None
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
