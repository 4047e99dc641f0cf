"""What both session engines share: the frame around what a batch does to partition sessions.

A batch is taken in per unit, a pair of key and source partition; then the partition sessions
of a key that belong together make one session of the store (docs/decisions/0009).
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.sessions.session_rows import (
    KeyedSessions,
    SessionColumns,
    SessionStore,
)
from oriel.pipeline.windows.engines.sessions.session_units import SESSION_FIELDS, Units, units_of
from oriel.pipeline.windows.records import RECORD_FIELDS, REJECTED_SCHEMA, rows_schema


@dataclass(frozen=True)
class TakenIn:
    """What a batch made of the partition sessions of its units.

    ``sessions`` has the number of the unit and the bounds of each (see ``bounds_table``),
    ``kept`` the carried columns and what the aggregates keep; ``touched`` are those that a
    record came into. ``late`` are rows of the batch; ``broken`` are units that lost a session.
    """

    sessions: pa.Table
    kept: pa.Table
    touched: Flags
    late: Ints
    broken: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)


class SessionEngine(WindowEngine):
    """Sessions; how records come into them is for the subclasses."""

    def __init__(
        self,
        windows: SessionWindows,
        columns: SessionColumns,
        read: Iterable[pa.Field],
        carried: Iterable[pa.Field] | None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Keep ``columns`` of records with the columns ``read``, and ``carried`` of the key."""
        self._gap = windows.inactivity_gap_ms
        self._rule = windows.rule
        self._carried = list(carried or ())
        self._store = SessionStore(windows, columns, emit=emit)
        self.aggregate_types = columns.aggregate_types
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *read])
        self.state_schema = rows_schema(SESSION_FIELDS, self._carried, columns.fields)

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
        batch = self._read(batch)
        codes, keys = coded_keys(state["key"], batch["key"])
        old_unit, new_unit, units = units_of(codes, state, batch)
        near = np.isin(old_unit, new_unit)
        taken = self._taken_in(state.filter(pa.array(near)), old_unit[near], batch, new_unit)
        rest = KeyedSessions(state.filter(pa.array(~near)), codes[0][~near])
        made = self._state_rows(taken, keys, units)
        result = self._store.advanced(
            KeyedSessions(state, codes[0]),
            KeyedSessions(
                pa.concat_tables([rest.table, made.table]), np.concatenate([rest.code, made.code])
            ),
            np.concatenate([np.zeros(len(rest.code), dtype=np.bool_), taken.touched]),
            units.code[taken.broken],
            keys,
            close_ms,
        )
        late = np.asarray(batch["partition"])[taken.late]
        return replace(result, late_partitions=late, rejected=taken.rejected)

    @abstractmethod
    def _taken_in(self, near: pa.Table, old_unit: Ints, batch: pa.Table, new_unit: Ints) -> TakenIn:
        """Take ``batch`` into ``near``, all sessions of its units; both with their units."""

    def _state_rows(self, taken: TakenIn, keys: pa.Array, units: Units) -> KeyedSessions:
        """Put key, bounds and what is kept together."""
        unit = np.asarray(taken.sessions["unit"])
        code = units.code[unit]
        columns = {
            **dict(zip(taken.kept.column_names, taken.kept.columns, strict=True)),
            "key": keys.take(pa.array(code)),
            "partition": pa.array(units.partition[unit], pa.int32()),
            **dict(zip(taken.sessions.column_names, taken.sessions.columns, strict=True)),
            "timestamp_ms": taken.sessions["window_end_ms"],
        }
        names = self.state_schema.names
        table = pa.table([columns[name] for name in names], schema=self.state_schema)
        return KeyedSessions(table, code)
