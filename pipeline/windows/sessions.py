"""Session windows for all keys of a batch at once (KIP-94, docs/decisions/0009).

The state has one row per partition session: the bounds of a burst of records of one key in
one partition, how it reaches down to others, and the parts of its aggregates. A batch is
taken in per (key, partition), then the partition sessions of a key that belong together
make one session of the store. Where no record is behind the grace, the order of arrival
doesn't matter and sessions are chains of intervals; the others go record by record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pipeline.windows.aggregates import Aggregate
from pipeline.windows.definitions import SessionWindows
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
from pipeline.windows.session_links import chain_heads
from pipeline.windows.session_machine import OpenSession, advance
from pipeline.windows.session_rows import SessionStore
from pipeline.windows.session_units import (
    SESSION_FIELDS,
    Units,
    arrivals_by_unit,
    bounds_table,
    open_sessions,
    session_table,
    units_of,
)
from pipeline.windows.timeline import pair_order


@dataclass(frozen=True)
class Assigned:
    """Sessions after the batch, and which of them each record and old session went to.

    ``of_record`` and ``of_state`` are places in ``table`` (-1: none); ``table`` has the
    unit's code and the session fields.
    """

    table: pa.Table
    of_record: Ints
    of_state: Ints


class SessionWindowEngine(WindowEngine):
    """Sessions with declarative aggregates."""

    def __init__(
        self,
        windows: SessionWindows,
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
        self._gap = windows.inactivity_gap_ms
        self._rule = windows.rule
        self._columns = PartColumns(aggregates, values)
        self._carried = list(carried or ())
        self._store = SessionStore(windows, self._columns, emit_final_only=emit_final_only)
        self.aggregate_types = self._columns.aggregate_types
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *self._carried, *used_fields(aggregates, values)]
        )
        self.state_schema = pa.schema([
            pa.field("key", pa.string()),
            *SESSION_FIELDS,
            *self._carried,
            *self._columns.fields,
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
        near_rows = state.filter(pa.array(near))
        assigned = self._assigned(near_rows, old_unit[near], batch, new_unit)
        made = self._made(near_rows, batch, assigned, keys, units)
        after = pa.concat_tables([state.filter(pa.array(~near)), made.table])
        code = np.concatenate([codes[0][~near], made.code])
        touched = np.concatenate([np.zeros(int((~near).sum()), dtype=np.bool_), made.touched])
        stored = self._store.advanced(
            (state, codes[0], codes[1][:0]), (after, code, touched), keys, close_ms
        )
        late = int((assigned.of_record < 0).sum())
        return replace(stored, late=late)

    def _assigned(self, near: pa.Table, old_unit: Ints, batch: pa.Table, unit: Ints) -> Assigned:
        """Find every record's session: chains where order doesn't matter, else one by one."""
        time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        slow_units = np.unique(np.concatenate([
            unit[close > time - self._gap], self._crowded(near, old_unit),
        ]))  # fmt: skip
        slow, slow_old = np.isin(unit, slow_units), np.isin(old_unit, slow_units)
        fast = self._chained(near, old_unit, ~slow_old, batch, unit, ~slow)
        if not slow.any():
            return fast
        return _joined(fast, self._machined(near, old_unit, slow_old, batch, unit, slow))

    def _crowded(self, near: pa.Table, unit: Ints) -> Ints:
        """Units with old sessions that touch: frozen ones, which a chain would join."""
        start, end = (np.asarray(near[n]) for n in ("window_start_ms", "window_end_ms"))
        order = pair_order(unit, start)
        unit = unit[order]
        joined = ~chain_heads(unit, start[order], end[order], self._gap)
        crowded: Ints = unit[joined]
        return crowded

    def _chained(
        self, near: pa.Table, old_unit: Ints, old: Flags, batch: pa.Table, unit: Ints, new: Flags
    ) -> Assigned:
        """Chains of old sessions and records at most the gap apart."""
        old_rows, new_rows = np.flatnonzero(old), np.flatnonzero(new)
        chosen = near.take(pa.array(old_rows))
        time, close = (np.asarray(batch[n])[new_rows] for n in ("timestamp_ms", "close_ms"))
        units = np.concatenate([old_unit[old_rows], unit[new_rows]])
        start = np.concatenate([np.asarray(chosen["window_start_ms"]), time])
        end = np.concatenate([np.asarray(chosen["window_end_ms"]), time])
        reach = np.concatenate(
            [np.asarray(chosen["reach_ms"]), np.maximum(close, time - self._gap)]
        )
        order = pair_order(units, start)
        head = chain_heads(units[order], start[order], end[order], self._gap)
        begin = np.flatnonzero(head)
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.cumsum(head) - 1
        if len(begin):
            end = np.maximum.reduceat(end[order], begin)
            reach = np.minimum.reduceat(reach[order], begin)
        first = order[begin]
        table = bounds_table(units[first], start[first], end, reach)
        of_record = np.full(len(unit), -1, dtype=np.int64)
        of_record[new_rows] = number[len(old_rows) :]
        of_state = np.full(len(old_unit), -1, dtype=np.int64)
        of_state[old_rows] = number[: len(old_rows)]
        return Assigned(table, of_record, of_state)

    def _machined(
        self, near: pa.Table, old_unit: Ints, old: Flags, batch: pa.Table, unit: Ints, new: Flags
    ) -> Assigned:
        """Units that have a straggler, record by record in offset order."""
        of_record = np.full(len(unit), -1, dtype=np.int64)
        of_state = np.full(len(old_unit), -1, dtype=np.int64)
        made: list[tuple[int, OpenSession]] = []
        before = open_sessions(near, old_unit, np.flatnonzero(old))
        for number, arrivals in arrivals_by_unit(batch, unit, np.flatnonzero(new)):
            result = advance(before.pop(number, []), arrivals, self._gap)
            for session in result.sessions:
                of_record[session.records] = len(made)
                of_state[session.state_rows] = len(made)
                made.append((number, session))
        # Sessions of a crowded unit without a new record stay as they are.
        for number, sessions in before.items():
            for session in sessions:
                of_state[session.state_rows] = len(made)
                made.append((number, session))
        return Assigned(session_table(made), of_record, of_state)

    def _made(
        self,
        near: pa.Table,
        batch: pa.Table,
        assigned: Assigned,
        keys: pa.Array,
        units: Units,
    ) -> "Made":
        """The state rows of the sessions: old parts and the records' parts merged."""
        taken = np.flatnonzero(assigned.of_record >= 0)
        session = assigned.of_record[taken]
        time = np.asarray(batch["timestamp_ms"])[taken]
        arrival = (key[taken] for key in arrival_keys(batch))
        order = np.lexsort((*arrival, time, session))
        session = session[order]
        begin = np.flatnonzero(heads(session))
        ranges = Ranges(begin, np.append(begin[1:], len(session)) if len(begin) else begin)
        rows = batch.take(pa.array(taken[order]))
        parts = self._columns.of(Members(rows, ranges))
        for field in self._carried:
            parts = parts.append_column(field, rows[field.name].take(pa.array(begin)))
        parts = parts.append_column("timestamp_ms", pa.array(time[order][ranges.high - 1]))
        both = pa.concat_tables([near.select(parts.column_names), parts])
        owner = np.concatenate([assigned.of_state, session[begin]])
        merged_order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=len(assigned.table))
        bounds = prefix_sums(sizes)
        merged = self._columns.merged(
            both.take(pa.array(merged_order)), Ranges(bounds[:-1], bounds[1:])
        )
        touched = np.zeros(len(assigned.table), dtype=np.bool_)
        touched[session] = True
        return _made_table(assigned.table, merged, touched, keys, units, self.state_schema)


@dataclass(frozen=True)
class Made:
    """Sessions of the touched units as state rows, with key code and whether they changed."""

    table: pa.Table
    code: Ints
    touched: Flags


def _joined(one: Assigned, other: Assigned) -> Assigned:
    """Two assignments of different units as one."""
    shift = len(one.table)
    record = np.where(other.of_record >= 0, other.of_record + shift, one.of_record)
    state = np.where(other.of_state >= 0, other.of_state + shift, one.of_state)
    return Assigned(pa.concat_tables([one.table, other.table]), record, state)


def _made_table(
    sessions: pa.Table, merged: pa.Table, touched: Flags, keys: pa.Array, units: Units,
    schema: pa.Schema,
) -> Made:  # fmt: skip
    """Put key, bounds and parts together as state rows."""
    unit = np.asarray(sessions["unit"])
    code = units.code[unit]
    columns = {
        "key": keys.take(pa.array(code)),
        "partition": pa.array(units.partition[unit], pa.int32()),
        **{name: sessions[name] for name in sessions.column_names if name != "unit"},
        **{name: merged[name] for name in merged.column_names},
        "timestamp_ms": sessions["window_end_ms"],
    }
    return Made(pa.table([columns[n] for n in schema.names], schema=schema), code, touched)
