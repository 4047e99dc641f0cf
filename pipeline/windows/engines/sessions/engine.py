"""Session windows for all keys of a batch together (KIP-94, docs/decisions/0009).

The state has a row per open *partition session*: the session of the records of one key in one
source partition. The row has its bounds, its reach (see ``linking``) and its aggregates. A batch
passes these steps of ``SessionEngine.apply``:

 1. The (key, partition) pairs of state and batch have indices. The functions
    ``SessionBounds.of_state`` and ``SessionRecords.of`` read the pairs that have a record.
 2. The method ``_merge`` adds the records to the sessions of their pairs and returns the late ones.
    For aggregates, it calls ``merging.assign_records``. For functions, it aggregates the chains of
    ``merging.chained_sessions`` in arrays if they are compiled. All other records go through
    ``merging.merge_in_arrival_order``.
 3. The method ``_changes`` calls ``linking.linked_sessions`` for the sessions before and after.
    It links the partition sessions of a key that are one session of the store.
 4. Sessions that changed or became final are emitted, and removed sessions are deleted.
 5. The partition sessions of final sessions leave the state.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, PartialAggregates, used_fields
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, coded_keys, run_starts
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.operator import Times
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

#: Columns of a partition session in addition to its key and its aggregates.
SESSION_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("window_start_ms", pa.int64()),
    pa.field("window_end_ms", pa.int64()),
    pa.field("reach_ms", pa.int64()),
)

#: The default emit strategy of both engines.
ON_UPDATE = EmitStrategy.on_window_update()


@dataclass(frozen=True)
class MergedBatch:
    """The partition sessions after the records of a batch were added.

    Attributes:
        sessions: The bounds of the sessions.
        kept: The carried columns and the aggregates, one row per session.
        has_new_records: True for each session with a new record.
        late: The late rows of the batch.
        shrunk_pairs: The pairs that lost a session because a function returned None.
        rejected: The records on which a function raised.
        accepted_ms: The greatest time of a record in a session, which a function can have removed.
    """

    sessions: SessionBounds
    kept: pa.Table
    has_new_records: Flags
    late: Ints
    shrunk_pairs: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)
    accepted_ms: int = NOTHING_OBSERVED_MS


class SessionEngine(WindowEngine):
    """The base of the session engines. Subclasses merge and aggregate the records."""

    windows: SessionWindows

    def __init__(
        self,
        windows: SessionWindows,
        kept: Iterable[pa.Field],
        value_fields: Iterable[pa.Field],
        carried: Iterable[pa.Field] | None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Create the schemas of records and state.

        Args:
            windows: The definition of the windows.
            kept: The columns of the aggregates in the state.
            value_fields: The columns of the values that the engine reads.
            carried: Columns of the key that the state keeps for the caller.
            emit: The emit strategy.
        """
        self.windows = windows
        self._gap_ms = windows.inactivity_gap_ms
        self._carried = list(carried or ())
        self._emit = emit
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *value_fields])
        self.state_schema = rows_schema(SESSION_FIELDS, self._carried, kept)

    @abstractmethod
    def _merge(
        self, state: pa.Table, old: SessionBounds, batch: pa.Table, records: SessionRecords
    ) -> MergedBatch:
        """Add the records of ``batch`` to the partition sessions of their pairs."""

    @abstractmethod
    def _aggregates(self, rows: pa.Table, ranges: Ranges) -> Mapping[str, pa.Array]:
        """Return the aggregate columns of sessions: the merged state rows of each range."""

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the last millisecond of each partition session.

        A session of the store closes with the last of its partition sessions. The state row of this
        one therefore adds the key to the working set in time.
        """
        return self.windows.rule.last_ms(np.asarray(state["window_end_ms"]))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """Return the changes of a batch, after which the state has no final sessions."""
        (close_ms,) = times.after
        batch = self._read(batch)
        (state_code, batch_code), keys = coded_keys(state["key"], batch["key"])
        partition = np.concatenate([np.asarray(rows["partition"]) for rows in (state, batch)])
        partitions, partition_number = np.unique(partition, return_inverse=True)
        # A (key, partition) pair is one integer, so one sort handles all pairs.
        pair = np.concatenate([state_code, batch_code]) * len(partitions) + partition_number
        state_pair, batch_pair = np.split(pair, [len(state)])

        # A record joins only sessions of its own pair, so pairs without a record do not change.
        has_records = np.isin(state_pair, batch_pair)
        pair_rows, without_records = (
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
            # The time of a session is its end (KIP-259).
            "timestamp_ms": pa.array(merged.sessions.end_ms),
        }
        names = self.state_schema.names
        merged_rows = pa.table([rows[name] for name in names], schema=self.state_schema)

        after = StateRows(
            pa.concat_tables([without_records, merged_rows]),
            np.concatenate([state_code[~has_records], code]),
        )
        has_new_records = np.concatenate(
            [np.zeros(len(without_records), dtype=np.bool_), merged.has_new_records]
        )
        keys_with_removals = np.zeros(len(keys), dtype=np.bool_)
        keys_with_removals[merged.shrunk_pairs // max(len(partitions), 1)] = True
        changes, is_final = self._changes(
            StateRows(state, state_code), after, has_new_records, keys_with_removals, keys, close_ms
        )
        return EngineResult(
            after.table.filter(pa.array(~is_final)),
            changes,
            late_partitions=np.asarray(batch["partition"])[merged.late],
            rejected=merged.rejected,
            # With on_window_close, only final sessions are emitted, and they are never removed.
            defined_ms=NOTHING_OBSERVED_MS if self._emit.is_on_close else merged.accepted_ms,
        )

    def _changes(
        self,
        before: StateRows,
        after: StateRows,
        has_new_records: Flags,
        keys_with_removals: Flags,
        keys: pa.Array,
        close_ms: int,
    ) -> tuple[pa.Table, Flags]:
        """Return the changed rows of the store, and which rows of ``after`` are of final sessions.

        ``has_new_records`` has a flag per row of ``after``, and ``keys_with_removals`` has a flag
        per key.
        """
        rule = self.windows.rule
        changed_keys = keys_with_removals.copy()
        changed_keys[after.code[has_new_records]] = True
        # A session ends with one of its partition sessions. It is final only if this one is closed.
        linked_keys = changed_keys.copy()
        closed = ~rule.is_open(np.asarray(after.table["window_end_ms"]), close_ms)
        linked_keys[after.code[closed]] = True
        # The sessions of all other keys have neither changed nor become final, so they are not
        # linked.
        sessions = linked_sessions(after, linked_keys)
        # A final session ends before the close times of all partitions, which only increase. A
        # later record therefore cannot join or reach one of its partition sessions.
        final = ~rule.is_open(sessions.end_ms, close_ms)
        changed = sessions.ranges.any_of(has_new_records[sessions.state_rows])

        tables = []
        if not self._emit.is_on_close:
            # A session that grew or was merged has other bounds than its old row. The batch that
            # emits the new row also deletes the old row, as Kafka Streams sends tombstones
            # (semantics.md#4-4). A reader therefore always sees exactly one of the two rows.
            before_sessions = linked_sessions(before, changed_keys)
            # A removal can shrink a session that has no new record. Its aggregates have changed, so
            # it is emitted again.
            if keys_with_removals.any():
                changed |= keys_with_removals[sessions.code] & differ(sessions, before_sessions)
            # A session with the bounds of an old row replaces this row, so the old row is not
            # deleted.
            removed = before_sessions.keep(~are_among(before_sessions.bounds, sessions.bounds))
            nulls = {
                name: pa.nulls(len(removed), of_type)
                for name, of_type in self.aggregate_types.items()
            }
            tables.append(
                _rows(keys, removed, nulls, deleted=np.ones(len(removed), dtype=np.bool_))
            )
        emitted = self._emit.emits(changed, final)
        present = sessions.keep(emitted)
        aggregates = self._aggregates(
            after.table.take(pa.array(present.members)), Ranges.side_by_side(present.ranges.sizes)
        )
        tables.append(_rows(keys, present, aggregates, final=final[emitted]))

        is_final = np.zeros(len(after.table), dtype=np.bool_)
        # A closed partition session stays while it is linked with an open one, because the row of
        # their session is merged from both.
        is_final[sessions.keep(final).members] = True
        # Two sessions of a key can have the same start (decision 0009), so the order needs the end.
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
    """Return the changed rows of ``sessions``, with the end as the timestamp (KIP-259)."""
    return changed_rows(
        keys.take(pa.array(sessions.code)),
        (sessions.start_ms, sessions.end_ms),
        aggregates,
        sessions.end_ms,
        final=final,
        deleted=deleted,
    )


class SessionWindowEngine(SessionEngine):
    """Sessions with named aggregates."""

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

        ``carried`` are columns of the key that the state keeps for the caller.

        Raises:
            IllegalArgument: An aggregate reads an unknown column or a column of another type.
        """
        self._parts = PartialAggregates(aggregates, values, carried)
        self.aggregate_types = self._parts.aggregate_types
        value_fields = used_fields(aggregates, values)
        super().__init__(windows, self._parts.fields, value_fields, carried, emit=emit)

    def _merge(
        self, state: pa.Table, old: SessionBounds, batch: pa.Table, records: SessionRecords
    ) -> MergedBatch:
        """Find the session of every record, then merge the partial aggregates of each session."""
        assigned = assign_records(old, records, self._gap_ms)
        accepted = np.flatnonzero(assigned.of_record >= 0)
        session = assigned.of_record[accepted]
        # Partial aggregates need records in the order of time, and in one millisecond of arrival.
        arrival = (key[accepted] for key in records.arrival_keys)
        order = np.lexsort((*arrival, records.time_ms[accepted], session))
        accepted, session = accepted[order], session[order]
        runs = Ranges.of_runs(run_starts(session))
        new = self._parts.of(batch.take(pa.array(accepted)), runs)
        # Each session has the rows of its old sessions, and at most one row of its new records.
        owner = np.concatenate([assigned.of_state_row, session[runs.low]])
        rows = pa.concat_tables([state.select(new.column_names), new])
        has_new_records = np.zeros(len(assigned.sessions), dtype=np.bool_)
        has_new_records[session] = True
        # Each session has a row, so the counts per owner are the sizes of adjacent ranges.
        return MergedBatch(
            sessions=assigned.sessions,
            kept=self._parts.merged(
                rows.take(pa.array(np.argsort(owner, kind="stable"))),
                Ranges.side_by_side(np.bincount(owner)),
            ),
            has_new_records=has_new_records,
            late=np.flatnonzero(assigned.of_record < 0),
        )

    def _aggregates(self, rows: pa.Table, ranges: Ranges) -> Mapping[str, pa.Array]:
        """Merge the partial aggregates of each range, and return their results."""
        return self._parts.results(self._parts.merged(rows, ranges))
