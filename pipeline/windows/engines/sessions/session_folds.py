"""Sessions with the user's own functions (semantics section 4, docs/decisions/0009).

Each partition's sessions are kept record by record as Kafka does: the sessions that a
record joins are merged in order of (end, start), then the record is added. The partition
sessions that make one session of the store are merged in order of (end, start, partition).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints, Ranges
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.sessions.session_engine import SessionEngine, TakenIn
from oriel.pipeline.windows.engines.sessions.session_machine import Arrival, OpenSession, advance
from oriel.pipeline.windows.engines.sessions.session_units import (
    arrivals_by_unit,
    open_sessions,
    session_table,
)
from oriel.pipeline.windows.functions import (
    Fold,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)


class SessionFoldEngine(SessionEngine):
    """A user's aggregation of sessions."""

    def __init__(
        self,
        windows: SessionWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Aggregate values of this schema by ``fold``; ``carried`` are columns of the key."""
        self._fold = fold
        self._values = values
        columns, read = _FoldColumns(fold), fold_fields(values)
        super().__init__(windows, columns, read, carried, emit=emit)

    def _taken_in(self, near: pa.Table, old_unit: Ints, batch: pa.Table, new_unit: Ints) -> TakenIn:
        """Call the functions record by record, unit by unit."""
        before = self._valued_sessions(near, old_unit)
        made: list[tuple[int, OpenSession]] = []
        rejected: list[tuple[int, str]] = []
        late: list[int] = []
        broken: list[int] = []
        value_of = self._value_of(batch)
        for unit, arrivals in arrivals_by_unit(batch, new_unit, np.arange(len(batch))):
            result = advance(before.get(unit, []), arrivals, self._gap, value_of)
            made += [(unit, session) for session in result.sessions]
            rejected += result.rejected
            broken += [unit] if result.removed else []
            late += result.late
        sessions = [session for _, session in made]
        return TakenIn(
            sessions=session_table(made),
            kept=self._kept(sessions, near, batch),
            touched=np.array([session.touched for session in sessions], dtype=np.bool_),
            late=np.array(late, dtype=np.int64),
            broken=np.array(broken, dtype=np.int64),
            rejected=rejected_table(batch, rejected),
        )

    def _valued_sessions(self, near: pa.Table, unit: Ints) -> dict[int, list[OpenSession]]:
        """State rows as sessions of their units, with their aggregates."""
        found = open_sessions(near, unit, np.arange(len(near)))
        aggregates = self._fold.read(near)
        for sessions in found.values():
            for session in sessions:
                session.value = aggregates[session.state_rows[0]]
        return found

    def _value_of(self, batch: pa.Table) -> Callable[[Sequence[OpenSession], Arrival], Any]:
        """What the functions make of the sessions found and one record."""
        keys, sources = batch["key"].to_pylist(), batch["input"].to_pylist()
        values = fold_values(batch, self._values)

        def value_of(found: Sequence[OpenSession], arrival: Arrival) -> Any:
            key = keys[arrival.row]
            aggregate = self._fold.started()
            for session in found:
                aggregate = self._fold.merged(key, aggregate, session.value)
            return self._fold.applied(sources[arrival.row], key, values[arrival.row], aggregate)

        return value_of

    def _kept(self, sessions: list[OpenSession], near: pa.Table, batch: pa.Table) -> pa.Table:
        """The carried columns of each session, from a row of it, and its aggregate."""
        names = [field.name for field in self._carried]
        both = pa.concat_tables([near.select(names), batch.select(names)])
        rows = [
            session.state_rows[0] if session.state_rows else len(near) + session.records[0]
            for session in sessions
        ]
        carried = both.take(pa.array(rows, pa.int64()))
        return pa.table({
            **{name: carried[name] for name in names},
            **self._fold.columns([session.value for session in sessions]),
        })  # fmt: skip


class _FoldColumns:
    """The aggregates of sessions that are one, for ``SessionStore``."""

    def __init__(self, fold: Fold) -> None:
        """Merge by ``fold``."""
        self._fold = fold
        self.aggregate_types = dict(fold.types)
        self.fields = list(pa.schema(fold.types))

    def merged(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """One row for each range: its sessions merged in order of (end, start, partition)."""
        if (ranges.sizes == 1).all():
            return rows
        aggregates = self._fold.read(rows)
        names = ["key", "window_end_ms", "window_start_ms", "partition"]
        places = [tuple(row.values()) for row in rows.select(names).to_pylist()]
        values = []
        for low, high in ranges.pairs():
            order = sorted(range(low, high), key=lambda row: places[row][1:])
            numbered = [(place, aggregates[row]) for place, row in enumerate(order)]
            values.append(in_partition_order(self._fold, places[low][0], numbered))
        return pa.table(self._fold.columns(values))

    def results(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The aggregates as they are."""
        return {name: rows[name] for name in self.aggregate_types}
