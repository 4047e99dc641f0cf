"""Session windows for all keys of a batch at once (KIP-94, docs/decisions/0009).

The state has one row per partition session: the bounds of a burst of records of one key in
one partition, how it reaches down to others, and the parts of its aggregates. A batch is
taken in per (key, partition), then the partition sessions of a key that belong together
make one session of the store. Where no record is behind the grace, the order of arrival
doesn't matter and sessions are chains of intervals; the others go record by record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, PartColumns, used_fields
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, heads, pair_order
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.sessions.session_engine import SessionEngine, TakenIn
from oriel.pipeline.windows.engines.sessions.session_links import chain_heads
from oriel.pipeline.windows.engines.sessions.session_machine import OpenSession, advance
from oriel.pipeline.windows.engines.sessions.session_units import (
    arrivals_by_unit,
    bounds_table,
    open_sessions,
    session_table,
)
from oriel.pipeline.windows.records import arrival_keys


@dataclass(frozen=True)
class _Assigned:
    """Sessions after the batch, and which of them each record and old session went to.

    ``of_record`` and ``of_state`` are rows of ``table`` (-1: none), a ``bounds_table``.
    """

    table: pa.Table
    of_record: Ints
    of_state: Ints


class SessionWindowEngine(SessionEngine):
    """Sessions with declarative aggregates."""

    def __init__(
        self,
        windows: SessionWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns of the key that the state keeps for the caller's use.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        self._columns = PartColumns(aggregates, values, carried)
        read = used_fields(aggregates, values)
        super().__init__(windows, self._columns, read, carried, emit=emit)

    def _taken_in(self, near: pa.Table, old_unit: Ints, batch: pa.Table, new_unit: Ints) -> TakenIn:
        """Find every record's session, then merge the parts of what comes together."""
        assigned = self._assigned(near, old_unit, batch, new_unit)
        taken = np.flatnonzero(assigned.of_record >= 0)
        touched = np.zeros(len(assigned.table), dtype=np.bool_)
        touched[assigned.of_record[taken]] = True
        kept = self._kept(near, batch, assigned, taken)
        return TakenIn(assigned.table, kept, touched, np.flatnonzero(assigned.of_record < 0))

    def _kept(self, near: pa.Table, batch: pa.Table, assigned: _Assigned, taken: Ints) -> pa.Table:
        """What is kept of each session: old parts and those of the records taken, merged."""
        session = assigned.of_record[taken]
        time = np.asarray(batch["timestamp_ms"])[taken]
        order = np.lexsort((*(key[taken] for key in arrival_keys(batch)), time, session))
        session = session[order]
        ranges = Ranges.of_runs(heads(session))
        parts = self._columns.of(batch.take(pa.array(taken[order])), ranges)
        both = pa.concat_tables([near.select(parts.column_names), parts])
        owner = np.concatenate([assigned.of_state, session[ranges.low]])
        rows = both.take(pa.array(np.argsort(owner, kind="stable")))
        return self._columns.merged(rows, Ranges.side_by_side(np.bincount(owner)))

    def _assigned(self, near: pa.Table, old_unit: Ints, batch: pa.Table, unit: Ints) -> _Assigned:
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
    ) -> _Assigned:
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
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.cumsum(head) - 1
        begin = np.flatnonzero(head)
        first = order[begin]
        table = bounds_table(
            units[first],
            start[first],
            np.maximum.reduceat(end[order], begin),
            np.minimum.reduceat(reach[order], begin),
        )
        of_record = _scattered(len(unit), new_rows, number[len(old_rows) :])
        of_state = _scattered(len(old_unit), old_rows, number[: len(old_rows)])
        return _Assigned(table, of_record, of_state)

    def _machined(
        self, near: pa.Table, old_unit: Ints, old: Flags, batch: pa.Table, unit: Ints, new: Flags
    ) -> _Assigned:
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
        return _Assigned(session_table(made), of_record, of_state)


def _scattered(length: int, places: Ints, numbers: Ints) -> Ints:
    """An array with ``numbers`` at ``places`` and -1 elsewhere."""
    found = np.full(length, -1, dtype=np.int64)
    found[places] = numbers
    return found


def _joined(one: _Assigned, other: _Assigned) -> _Assigned:
    """Two assignments of different units as one."""
    shift = len(one.table)
    record = np.where(other.of_record >= 0, other.of_record + shift, one.of_record)
    state = np.where(other.of_state >= 0, other.of_state + shift, one.of_state)
    return _Assigned(pa.concat_tables([one.table, other.table]), record, state)
