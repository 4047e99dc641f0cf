"""Session windows for all keys of a batch at once (KIP-94, docs/decisions/0009).

The state has a row for each open *partition session*: what the records of one key in one source
partition make, its bounds, its reach (see ``linking``) and what the aggregates keep. The way of
a batch through ``SessionEngine.process``:

 1. (key, partition) pairs of state and batch get numbers; ``SessionBounds.of_state`` and
    ``SessionRecords.of`` read the sessions and records of the pairs that have a record.
 2. ``_merge`` (here for aggregates, in ``functions`` for users' functions) takes the records
    into the sessions of their pairs and says which are late: by ``merging.assign_records``, or,
    for functions, by ``merging.merge_in_arrival_order`` throughout.
 3. ``_changes``: ``linking.linked_sessions`` joins the partition sessions of a key that are one
    session of the store, before and after the batch.
 4. Sessions that changed or became final are emitted, those that are gone are deleted.
 5. The partition sessions of final sessions leave the state.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, PartColumns, used_fields
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, coded_keys, heads
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.sessions.linking import (
    StateRows,
    StoreSessions,
    are_among,
    differ,
    linked_sessions,
)
from oriel.pipeline.windows.engines.sessions.merging import (
    SessionBounds,
    SessionRecords,
    assign_records,
)
from oriel.pipeline.windows.records import (
    NOTHING_OBSERVED_MS,
    RECORD_FIELDS,
    REJECTED_SCHEMA,
    changed_rows,
    rows_schema,
)

#: Columns of a partition session beside its key and what its aggregates keep.
SESSION_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("window_start_ms", pa.int64()),
    pa.field("window_end_ms", pa.int64()),
    pa.field("reach_ms", pa.int64()),
)

#: The default of both engines.
ON_UPDATE = EmitStrategy.on_window_update()


@dataclass(frozen=True)
class MergedBatch:
    """The partition sessions of a batch's pairs after its records came into them.

    ``kept`` has the carried columns and what the aggregates keep, a row for each session;
    ``touched`` are the sessions that a record came into. ``late`` are rows of the batch,
    ``shrunk_pairs`` the pairs that lost a session because a function returned None for it.
    ``accepted_ms`` is the greatest time of a record that went into a session, where a function
    may have removed that.
    """

    sessions: SessionBounds
    kept: pa.Table
    touched: Flags
    late: Ints
    shrunk_pairs: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)
    accepted_ms: int = NOTHING_OBSERVED_MS


class SessionEngine(WindowEngine):
    """Sessions; how a batch's records are merged and aggregated is for the subclasses."""

    windows: SessionWindows

    def __init__(
        self,
        windows: SessionWindows,
        kept: Iterable[pa.Field],
        read: Iterable[pa.Field],
        carried: Iterable[pa.Field] | None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Read these columns of records, and keep ``kept`` of sessions, ``carried`` of keys."""
        self.windows = windows
        self._gap_ms = windows.inactivity_gap_ms
        self._carried = list(carried or ())
        self._emit = emit
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *read])
        self.state_schema = rows_schema(SESSION_FIELDS, self._carried, kept)

    @abstractmethod
    def _merge(
        self, state: pa.Table, old: SessionBounds, batch: pa.Table, records: SessionRecords
    ) -> MergedBatch:
        """Take the records of ``batch`` into ``state``, all partition sessions of their pairs."""

    @abstractmethod
    def _aggregates(self, rows: pa.Table, ranges: Ranges) -> Mapping[str, pa.Array]:
        """The store's columns of sessions: of each the state rows in its range, merged."""

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each partition session.

        A session of the store closes with the last of its partition sessions, so that one
        names the key in time.
        """
        return self.windows.rule.last_ms(np.asarray(state["window_end_ms"]))

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; ``previous_close_ms`` isn't needed: final sessions leave."""
        del previous_close_ms
        batch = self._read(batch)
        (state_code, batch_code), keys = coded_keys(state["key"], batch["key"])
        partition = np.concatenate([np.asarray(rows["partition"]) for rows in (state, batch)])
        partitions, partition_number = np.unique(partition, return_inverse=True)
        pair = np.concatenate([state_code, batch_code]) * len(partitions) + partition_number
        state_pair, batch_pair = np.split(pair, [len(state)])

        # A record joins sessions of its own pair only, so pairs without a record stay as they are.
        has_records = np.isin(state_pair, batch_pair)
        pair_rows, untouched = (
            state.filter(pa.array(chosen)) for chosen in (has_records, ~has_records)
        )
        merged = self._merge(
            pair_rows,
            SessionBounds.of_state(pair_rows, state_pair[has_records]),
            batch,
            SessionRecords.of(batch, batch_pair, self.windows),
        )
        code, partition_number = np.divmod(merged.sessions.pair, max(len(partitions), 1))
        rows = {
            **dict(zip(merged.kept.column_names, merged.kept.columns, strict=True)),
            "key": keys.take(pa.array(code)),
            "partition": pa.array(partitions[partition_number], pa.int32()),
            "window_start_ms": pa.array(merged.sessions.start_ms),
            "window_end_ms": pa.array(merged.sessions.end_ms),
            "reach_ms": pa.array(merged.sessions.reach_ms),
            "timestamp_ms": pa.array(merged.sessions.end_ms),
        }
        names = self.state_schema.names
        merged_rows = pa.table([rows[name] for name in names], schema=self.state_schema)

        after = StateRows(
            pa.concat_tables([untouched, merged_rows]),
            np.concatenate([state_code[~has_records], code]),
        )
        touched = np.concatenate([np.zeros(len(untouched), dtype=np.bool_), merged.touched])
        shrunk_keys = np.zeros(len(keys), dtype=np.bool_)
        shrunk_keys[merged.shrunk_pairs // max(len(partitions), 1)] = True
        changes, is_final = self._changes(
            StateRows(state, state_code), after, touched, shrunk_keys, keys, close_ms
        )
        return EngineResult(
            after.table.filter(pa.array(~is_final)),
            changes,
            late_partitions=np.asarray(batch["partition"])[merged.late],
            rejected=merged.rejected,
            # Emission on close puts final sessions only, and these it never removes.
            defined_ms=NOTHING_OBSERVED_MS if self._emit.is_on_close else merged.accepted_ms,
        )

    def _changes(
        self,
        before: StateRows,
        after: StateRows,
        touched: Flags,
        shrunk_keys: Flags,
        keys: pa.Array,
        close_ms: int,
    ) -> tuple[pa.Table, Flags]:
        """Return the changed rows of the store, and which rows of ``after`` are of final sessions.

        ``touched`` has a flag for each row of ``after``, ``shrunk_keys`` one for each key.
        """
        rule = self.windows.rule
        touched_keys = shrunk_keys.copy()
        touched_keys[after.code[touched]] = True
        # A session ends with one of its partition sessions: it is final only if that is closed.
        linked_keys = touched_keys.copy()
        closed = ~rule.is_open(np.asarray(after.table["window_end_ms"]), close_ms)
        linked_keys[after.code[closed]] = True
        sessions = linked_sessions(after, linked_keys)
        # A final session ends before the close times of all partitions, and those only grow: a
        # later record neither joins a partition session of it nor reaches down to one.
        final = ~rule.is_open(sessions.end_ms, close_ms)
        changed = sessions.ranges.any_of(touched[sessions.state_rows])

        tables = []
        if not self._emit.is_on_close:
            # A session that grew or was merged into another has other bounds than its row. The
            # old row is deleted in the batch that emits the new one, as Kafka sends tombstones
            # (semantics.md#4-4), so no reader sees both of them, or neither.
            known = linked_sessions(before, touched_keys)
            if shrunk_keys.any():
                changed |= shrunk_keys[sessions.code] & differ(sessions, known)
            gone = known.keep(~are_among(known.bounds, sessions.bounds))
            nulls = {
                name: pa.nulls(len(gone), of_type) for name, of_type in self.aggregate_types.items()
            }
            tables.append(_rows(keys, gone, nulls, deleted=np.ones(len(gone), dtype=np.bool_)))
        emitted = self._emit.emits(changed, final)
        present = sessions.keep(emitted)
        aggregates = self._aggregates(
            after.table.take(pa.array(present.members)),
            Ranges.side_by_side(present.ranges.sizes),
        )
        tables.append(_rows(keys, present, aggregates, final=final[emitted]))

        is_final = np.zeros(len(after.table), dtype=np.bool_)
        is_final[sessions.keep(final).members] = True
        order = ("key", "window_start_ms", "window_end_ms")
        changes = pa.concat_tables(tables).sort_by([(name, "ascending") for name in order])
        return changes, is_final


def _rows(
    keys: pa.Array,
    sessions: StoreSessions,
    aggregates: Mapping[str, pa.Array],
    *,
    final: Flags | None = None,
    deleted: Flags | None = None,
) -> pa.Table:
    """The changed rows of ``sessions``; a session's timestamp is its end (KIP-259)."""
    return changed_rows(
        keys.take(pa.array(sessions.code)),
        (sessions.start_ms, sessions.end_ms),
        aggregates,
        sessions.end_ms,
        final=final,
        deleted=deleted,
    )


class SessionWindowEngine(SessionEngine):
    """Sessions with declarative aggregates."""

    def __init__(
        self,
        windows: SessionWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = ON_UPDATE,
    ) -> None:
        """Check ``aggregates`` (output name -> aggregate) against the schema of the values.

        ``carried`` are columns of the key that the state keeps for the caller's use.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        self._parts = PartColumns(aggregates, values, carried)
        self.aggregate_types = self._parts.aggregate_types
        read = used_fields(aggregates, values)
        super().__init__(windows, self._parts.fields, read, carried, emit=emit)

    def _merge(
        self, state: pa.Table, old: SessionBounds, batch: pa.Table, records: SessionRecords
    ) -> MergedBatch:
        """Find every record's session, then merge the parts of what comes together."""
        assigned = assign_records(old, records, self._gap_ms)
        accepted = np.flatnonzero(assigned.of_record >= 0)
        session = assigned.of_record[accepted]
        # Parts are made of records in order of time; those of one ms stand as they arrived.
        arrival = (key[accepted] for key in records.arrival_keys)
        order = np.lexsort((*arrival, records.time_ms[accepted], session))
        accepted, session = accepted[order], session[order]
        runs = Ranges.of_runs(heads(session))
        new = self._parts.of(batch.take(pa.array(accepted)), runs)
        # Each session has the rows of its old sessions, and one of its new records or none.
        owner = np.concatenate([assigned.of_state_row, session[runs.low]])
        rows = pa.concat_tables([state.select(new.column_names), new])
        touched = np.zeros(len(assigned.sessions), dtype=np.bool_)
        touched[session] = True
        return MergedBatch(
            sessions=assigned.sessions,
            kept=self._parts.merged(
                rows.take(pa.array(np.argsort(owner, kind="stable"))),
                Ranges.side_by_side(np.bincount(owner)),
            ),
            touched=touched,
            late=np.flatnonzero(assigned.of_record < 0),
        )

    def _aggregates(self, rows: pa.Table, ranges: Ranges) -> Mapping[str, pa.Array]:
        """The results of the parts, which are merged range by range."""
        return self._parts.results(self._parts.merged(rows, ranges))
