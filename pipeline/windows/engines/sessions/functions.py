"""Sessions with functions of the user (semantics.md#4, docs/decisions/0009 and 0011).

The functions see the records of each pair in the order of arrival, as in Kafka Streams. The
sessions that a record joins are merged in the order of their ends, and then the record is added.
The partition sessions of one session of the store are merged in the order of end, start and
partition.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ranges
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.sessions.engine import ON_UPDATE, MergedBatch, SessionEngine
from oriel.pipeline.windows.engines.sessions.merging import (
    AggregateOf,
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    merge_in_arrival_order,
)
from oriel.pipeline.windows.functions import (
    Fold,
    fold_fields,
    fold_values,
    merged_in_order,
    rejected_table,
)
from oriel.pipeline.windows.records import greatest_ms


class SessionFoldEngine(SessionEngine):
    """Sessions with an aggregation by functions of a user."""

    def __init__(
        self,
        windows: SessionWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = ON_UPDATE,
    ) -> None:
        """Aggregate values of this schema by ``fold``. ``carried`` are columns of the key."""
        self._fold = fold
        self._values = values
        self.aggregate_types = dict(fold.types)
        super().__init__(windows, pa.schema(fold.types), fold_fields(values), carried, emit=emit)

    def _merge(
        self, state: pa.Table, old: SessionBounds, batch: pa.Table, records: SessionRecords
    ) -> MergedBatch:
        """Call the functions record by record, pair by pair."""
        sessions_of = old.sessions_by(old.pair, np.arange(len(old)), self._fold.read(state))
        aggregate_of = self._aggregate_of(batch)
        merged: list[PartitionSession] = []
        late: list[int] = []
        rejected: list[tuple[int, str]] = []
        shrunk_pairs: list[int] = []
        for pair, arrivals in records.in_arrival_order_by(records.pair, np.arange(len(batch))):
            result = merge_in_arrival_order(
                sessions_of.get(pair, []), arrivals, self._gap_ms, aggregate_of
            )
            merged += result.sessions
            late += result.late
            rejected += result.rejected
            shrunk_pairs += [pair] if result.removed_any else []

        accepted = np.ones(len(batch), dtype=np.bool_)
        accepted[[*late, *(row for row, _ in rejected)]] = False
        # The carried columns belong to the key, so every row of a session has them.
        names = [field.name for field in self._carried]
        rows = pa.concat_tables([state.select(names), batch.select(names)])
        row_of = [
            session.state_rows[0] if session.state_rows else len(state) + session.record_rows[0]
            for session in merged
        ]
        carried = rows.take(pa.array(row_of, pa.int64()))
        return MergedBatch(
            sessions=SessionBounds.of_sessions(merged),
            kept=pa.table({
                **{name: carried[name] for name in names},
                **self._fold.columns([session.aggregate for session in merged]),
            }),
            touched=np.array([bool(session.record_rows) for session in merged], dtype=np.bool_),
            late=np.array(late, dtype=np.int64),
            shrunk_pairs=np.array(shrunk_pairs, dtype=np.int64),
            rejected=rejected_table(batch, rejected),
            accepted_ms=greatest_ms(records.time_ms[accepted]),
        )  # fmt: skip

    def _aggregate_of(self, batch: pa.Table) -> AggregateOf:
        """Return the function for joined sessions and one record of ``batch``."""
        keys, inputs = batch["key"].to_pylist(), batch["input"].to_pylist()
        values = fold_values(batch, self._values)

        def aggregate_of(joined: Sequence[PartitionSession], record: Arrival) -> Any:
            row, aggregates = record.row, (session.aggregate for session in joined)
            return self._fold.joined(inputs[row], keys[row], values[row], aggregates)

        return aggregate_of

    def _aggregates(self, rows: pa.Table, ranges: Ranges) -> Mapping[str, pa.Array]:
        """Merge the aggregates of each range in the order of end, start and partition."""
        if (ranges.sizes == 1).all():
            return {name: rows[name] for name in self.aggregate_types}
        names = ("window_end_ms", "window_start_ms", "partition")
        places = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
        aggregates = rows.select(list(self.aggregate_types))
        return self._fold.columns(
            merged_in_order(self._fold, rows["key"], places, aggregates, ranges)
        )
