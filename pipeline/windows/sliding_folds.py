"""Sliding windows with the user's own functions.

The state is the records, as for the declarative aggregates; the functions are called over
the members of each changed window in arrival order: partition by partition, offset by
offset, partitions merged in order. A record for which the aggregator raises on a fresh
aggregate is rejected when it comes; one that raises inside a window is left out of it.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.windows.definitions import SlidingWindows
from pipeline.windows.engine import RECORD_FIELDS, EngineResult, Flags, arrival_keys
from pipeline.windows.exact_sum import Ints
from pipeline.windows.folds import (
    Fold,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from pipeline.windows.members import Ranges
from pipeline.windows.sliding import SlidingWindowEngine


class SlidingFoldEngine(SlidingWindowEngine):
    """A user's aggregation of sliding windows."""

    def __init__(
        self,
        windows: SlidingWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit_final_only: bool = False,
    ) -> None:
        """Aggregate values of this schema by ``fold``; ``carried`` are columns of the record."""
        super().__init__(windows, {}, values, carried, emit_final_only=emit_final_only)
        self._fold = fold
        self._values = values
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *(carried or ()), *fold_fields(values)])
        self.state_schema = self.record_schema

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``."""
        rejected = self._tried(batch)
        good = np.ones(len(batch), dtype=np.bool_)
        good[[row for row, _ in rejected]] = False
        result = super().process(state, batch.filter(pa.array(good)), previous_close_ms, close_ms)
        changes = result.changes
        if self._emit_final_only:
            changes = changes.filter(changes["final"])
        return EngineResult(result.state, changes, 0, rejected_table(batch, rejected))

    def _tried(self, batch: pa.Table) -> list[tuple[int, str]]:
        """Call the aggregator once for each record, on a fresh aggregate.

        A reducer is called with the value as what was kept: reduce has no fresh aggregate.
        """
        rejected = []
        sources, keys = batch["input"].to_pylist(), batch["key"].to_pylist()
        for row, value in enumerate(fold_values(batch, self._values)):
            try:
                fresh = None if self._fold.initializer else self._fold.checked(value)
                self._fold.applied(sources[row], keys[row], value, fresh)
            except Rejected as error:
                rejected.append((row, str(error)))
        return rejected

    def _aggregated(
        self, rows: pa.Table, ranges: Ranges
    ) -> tuple[dict[str, pa.Array], Ints, Flags]:
        """Fold the members of each window in arrival order."""
        arrived = np.empty(len(rows), dtype=np.int64)
        arrived[np.lexsort(arrival_keys(rows))] = np.arange(len(rows))
        names = ["key", "partition", "timestamp_ms", "input"]
        places = [tuple(row.values()) for row in rows.select(names).to_pylist()]
        values = fold_values(rows, self._values)
        aggregates, newest = [], []
        for low, high in zip(ranges.low.tolist(), ranges.high.tolist(), strict=True):
            members = sorted(range(low, high), key=arrived.__getitem__)
            value, time = self._folded([(places[row], values[row]) for row in members])
            aggregates.append(value)
            newest.append(time)
        deleted = np.array([value is None for value in aggregates], dtype=np.bool_)
        return self._fold.columns(aggregates), np.array(newest, dtype=np.int64), deleted

    def _folded(self, members: list[tuple[Any, Any]]) -> tuple[Any, int]:
        """The value and timestamp of one window; a null value starts both anew."""
        kept: dict[int, tuple[Any, int]] = {}
        for (key, partition, time, source), value in members:
            unit = self._fold.unit(partition)
            aggregate, newest = kept.get(unit, (None, time))
            try:
                result = self._fold.applied(source, key, value, aggregate)
            except Rejected:
                continue
            if result is None:
                kept.pop(unit, None)
            else:
                kept[unit] = (result, max(newest, time))
        value = in_partition_order(
            self._fold, members[0][0][0], [(p, v) for p, (v, _) in kept.items()]
        )
        fallback = max(place[2] for place, _ in members)
        return value, max((time for _, time in kept.values()), default=fallback)
