"""Sessions with the user's own functions (semantics section 4, docs/decisions/0009).

Each partition's sessions are kept record by record as Kafka does: the sessions that a
record joins are merged in order of (end, start), then the record is added. The partition
sessions that make one session of the store are merged in order of (end, start, partition).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.windows.definitions import SessionWindows
from pipeline.windows.engine import (
    RECORD_FIELDS,
    EngineResult,
    Flags,
    WindowEngine,
    coded_keys,
)
from pipeline.windows.exact_sum import Ints
from pipeline.windows.folds import (
    Fold,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from pipeline.windows.members import Ranges
from pipeline.windows.session_machine import Arrival, OpenSession, advance
from pipeline.windows.session_rows import SessionStore
from pipeline.windows.session_units import (
    SESSION_FIELDS,
    Units,
    arrivals_by_unit,
    open_sessions,
    session_table,
    units_of,
)


class SessionFoldEngine(WindowEngine):
    """A user's aggregation of sessions."""

    def __init__(
        self,
        windows: SessionWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit_final_only: bool = False,
    ) -> None:
        """Aggregate values of this schema by ``fold``; ``carried`` are columns of the key."""
        self._gap = windows.inactivity_gap_ms
        self._rule = windows.rule
        self._fold = fold
        self._values = values
        self._carried = list(carried or ())
        self._store = SessionStore(windows, _FoldColumns(fold), emit_final_only=emit_final_only)
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *fold_fields(values)])
        self.state_schema = pa.schema([
            pa.field("key", pa.string()),
            *SESSION_FIELDS,
            *self._carried,
            *(pa.field(name, found) for name, found in fold.types.items()),
            pa.field("timestamp_ms", pa.int64()),
        ])  # fmt: skip

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:  # noqa: ARG002
        """None: an open session can still take a record behind the grace."""
        return np.zeros(len(timestamp_ms), dtype=np.bool_)

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each partition session.

        A session of the store closes with the last of its partition sessions, so that one
        names the key in time.
        """
        return self._rule.last_ms(np.asarray(state["window_end_ms"]))

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; ``previous_close_ms`` isn't needed: final sessions leave."""
        del previous_close_ms
        batch = batch.select(self.record_schema.names).cast(self.record_schema)
        codes, keys = coded_keys(state["key"], batch["key"])
        old_unit, new_unit, units = units_of(codes, state, batch)
        near = np.isin(old_unit, new_unit)
        sessions = open_sessions(state, old_unit, np.flatnonzero(near))
        by_row = {s.state_rows[0]: s for found in sessions.values() for s in found}
        aggregates = self._fold.read(state)
        for row in np.flatnonzero(near).tolist():
            by_row[row].value = aggregates[row]
        made: list[tuple[int, OpenSession]] = []
        late: list[int] = []
        rejected: list[tuple[int, str]] = []
        broken: list[int] = []
        value_of = self._value_of(batch)
        for number, arrivals in arrivals_by_unit(batch, new_unit, np.arange(len(batch))):
            result = advance(sessions.pop(number, []), arrivals, self._gap, value_of)
            made += [(number, session) for session in result.sessions]
            late += result.late
            rejected += result.rejected
            broken += [int(units.code[number])] if result.removed else []
        rest = state.filter(pa.array(~near))
        after = pa.concat_tables([rest, self._rows(made, state, batch, keys, units)])
        code = np.concatenate([codes[0][~near], units.code[[number for number, _ in made]]])
        changed = [session.touched for _, session in made]
        touched = np.concatenate([np.zeros(len(rest), dtype=np.bool_), np.array(changed, np.bool_)])
        # What a removed session held together is told anew.
        touched |= np.isin(code, broken)
        stored = self._store.advanced(
            (state, codes[0], codes[1]), (after, code, touched), keys, close_ms
        )
        return EngineResult(
            stored.state, stored.changes, len(late), rejected_table(batch, rejected)
        )

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

    def _rows(
        self,
        made: list[tuple[int, OpenSession]],
        state: pa.Table,
        batch: pa.Table,
        keys: pa.Array,
        units: Units,
    ) -> pa.Table:
        """Sessions as state rows."""
        table = session_table(made)
        unit = np.asarray(table["unit"])
        carried = self._carried_of(made, state, batch)
        columns = {
            "key": keys.take(pa.array(units.code[unit])),
            "partition": pa.array(units.partition[unit], pa.int32()),
            **{name: table[name] for name in table.column_names if name != "unit"},
            **{field.name: carried[field.name] for field in self._carried},
            **self._fold.columns([session.value for _, session in made]),
            "timestamp_ms": table["window_end_ms"],
        }
        names = self.state_schema.names
        return pa.table([columns[name] for name in names], schema=self.state_schema)

    def _carried_of(
        self, made: list[tuple[int, OpenSession]], state: pa.Table, batch: pa.Table
    ) -> pa.Table:
        """The carried columns of each session, from a row of it."""
        both = pa.concat_tables([table.select([f.name for f in self._carried]) for table in
                                 (state, batch)])  # fmt: skip
        rows = [
            session.state_rows[0] if session.state_rows else len(state) + session.records[0]
            for _, session in made
        ]
        return both.take(pa.array(rows, pa.int64()))


class _FoldColumns:
    """The aggregates of sessions that are one, for ``SessionStore``."""

    def __init__(self, fold: Fold) -> None:
        """Merge by ``fold``."""
        self._fold = fold
        self.aggregate_types = dict(fold.types)

    def merged(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """One row for each range: its sessions merged in order of (end, start, partition)."""
        if (ranges.sizes == 1).all():
            return rows
        aggregates = self._fold.read(rows)
        names = ["key", "window_end_ms", "window_start_ms", "partition"]
        places = [tuple(row.values()) for row in rows.select(names).to_pylist()]
        values = []
        for low, high in zip(ranges.low.tolist(), ranges.high.tolist(), strict=True):
            order = sorted(range(low, high), key=lambda row: places[row][1:])
            numbered = [(place, aggregates[row]) for place, row in enumerate(order)]
            values.append(in_partition_order(self._fold, places[low][0], numbered))
        return pa.table(self._fold.columns(values))

    def results(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The aggregates as they are."""
        return {name: rows[name] for name in self.aggregate_types}
