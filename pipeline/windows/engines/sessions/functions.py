"""Sessions with functions of the user (semantics.md#4, docs/decisions/0009 and 0011).

The functions see the records of each pair in the order of arrival, as in Kafka Streams. The
sessions that a record joins are merged in the order of their ends, and then the record is added.
The partition sessions of one session of the store are merged in the order of end, start and
partition.

If the functions are compiled, each chain that is one session after each of its records is one run
of the compiled loop. The functions themselves are called for the records of all other chains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, lexsort, run_starts
from oriel.pipeline.windows.definitions import EmitStrategy, SessionWindows
from oriel.pipeline.windows.engines.sessions.engine import ON_UPDATE, MergedBatch, SessionEngine
from oriel.pipeline.windows.engines.sessions.merging import (
    AggregateOf,
    Arrival,
    ChainedSessions,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    chained_sessions,
    merge_in_arrival_order,
    single_sessions,
)
from oriel.pipeline.windows.functions import (
    Compilation,
    UserFunctions,
    function_fields,
    function_values,
    merged_in_order,
    rejected_table,
)
from oriel.pipeline.windows.records import NULL_VALUE, greatest_ms


@dataclass(frozen=True)
class _CompiledChains:
    """The chains that the compiled loop aggregated, with their first records and aggregates."""

    chains: Ints
    first_records: Ints
    aggregates: pa.Table


@dataclass
class _CalledChains:
    """The results of the chains for which the functions were called. See ``ArrivalResult``."""

    sessions: list[PartitionSession] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    shrunk_pairs: list[int] = field(default_factory=list)


class SessionFunctionEngine(SessionEngine):
    """Sessions with an aggregation by functions of a user."""

    compilation: Compilation

    def __init__(
        self,
        windows: SessionWindows,
        functions: UserFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = ON_UPDATE,
    ) -> None:
        """Aggregate ``values`` by ``functions``. ``carried`` are columns of the key."""
        self._fold = functions
        self.compilation = Compilation.of(functions, values, "merge and aggregate")
        self._values = values
        self.aggregate_types = dict(functions.types)
        super().__init__(
            windows, pa.schema(functions.types), function_fields(values), carried, emit=emit
        )

    def _merge(
        self, state: pa.Table, old: SessionBounds, batch: pa.Table, records: SessionRecords
    ) -> MergedBatch:
        """Add the records of each chain by the compiled loop, or by calls in their order."""
        chained = chained_sessions(old, records, self._gap_ms)
        compiled_chains = self._looped(state, old, batch, records, chained)
        # The flags first mark the chains with a record. All other chains keep their rows, and no
        # function runs for them. The rows of compiled chains change, so ``unchanged`` is computed
        # before these chains are removed from the flags.
        is_called = np.zeros(len(chained.sessions), dtype=np.bool_)
        is_called[chained.of_record] = True
        unchanged = np.flatnonzero(~is_called[chained.of_state_row])
        is_called[compiled_chains.chains] = False
        called = self._called(state, old, batch, records, chained, is_called)

        accepted = np.ones(len(batch), dtype=np.bool_)
        accepted[[*called.late, *(row for row, _ in called.rejected)]] = False
        # The carried columns belong to the key, so every row of a session has them.
        names = [field.name for field in self._carried]
        rows = pa.concat_tables([state.select(names), batch.select(names)])
        # A session begins with a row of the state or with a record, so one of its two lists is not
        # empty.
        row_of_called = [
            session.state_rows[0] if session.state_rows else len(state) + session.record_rows[0]
            for session in called.sessions
        ]
        # The sessions, their columns and their flags have one order: unchanged rows, compiled
        # chains, called chains. Masks and indexes ascend, so entry i of each result belongs to one
        # session.
        row_of = np.concatenate(
            [
                unchanged,
                len(state) + compiled_chains.first_records,
                np.array(row_of_called, dtype=np.int64),
            ]
        )
        carried = rows.take(pa.array(row_of))
        types = pa.schema(self._fold.types)
        aggregates = pa.concat_tables([
            state.select(types.names).take(pa.array(unchanged)),
            compiled_chains.aggregates,
            pa.table(
                self._fold.columns([session.aggregate for session in called.sessions]), schema=types
            ),
        ])  # fmt: skip
        is_unchanged = np.zeros(len(old), dtype=np.bool_)
        is_unchanged[unchanged] = True
        is_looped = np.zeros(len(chained.sessions), dtype=np.bool_)
        is_looped[compiled_chains.chains] = True
        # A session of a called chain has no new record if the records of the chain were late, were
        # rejected, or joined another session.
        has_new_record = [bool(session.record_rows) for session in called.sessions]
        return MergedBatch(
            sessions=old.keep(is_unchanged)
            .followed_by(chained.sessions.keep(is_looped))
            .followed_by(SessionBounds.of_sessions(called.sessions)),
            kept=pa.table({
                **dict(zip(names, carried.columns, strict=True)),
                **dict(zip(types.names, aggregates.columns, strict=True)),
            }),
            has_new_records=np.concatenate([
                np.zeros(len(unchanged), dtype=np.bool_),
                np.ones(len(compiled_chains.chains), dtype=np.bool_),
                np.array(has_new_record, dtype=np.bool_),
            ]),
            late=np.array(called.late, dtype=np.int64),
            shrunk_pairs=np.array(called.shrunk_pairs, dtype=np.int64),
            rejected=rejected_table(batch, called.rejected),
            # A session that a function removed also counts, because retention counts from the
            # greatest end that was ever written (semantics.md#7).
            accepted_ms=greatest_ms(records.time_ms[accepted]),
        )  # fmt: skip

    def _looped(
        self,
        state: pa.Table,
        old: SessionBounds,
        batch: pa.Table,
        records: SessionRecords,
        chained: ChainedSessions,
    ) -> "_CompiledChains":
        """Aggregate chains that are one session after each record by the compiled loop."""
        none = np.zeros(0, dtype=np.int64)
        types = pa.schema(self._fold.types)
        compiled = self.compilation.current
        if compiled is None:
            return _CompiledChains(none, none, types.empty_table())
        is_single = single_sessions(old, records, chained, self._gap_ms)
        # Functions receive None for a null value (semantics.md#1-2). The loop has one variable per
        # column and cannot express that.
        is_single[chained.of_record[np.asarray(batch[NULL_VALUE.name])]] = False
        rows = np.flatnonzero(is_single[chained.of_record])
        # The last key is the most significant one. Each chain becomes a run, in which the records
        # are in the order of arrival, as Kafka Streams calls the aggregator.
        arrival = (key[rows] for key in records.arrival_keys)
        rows = rows[lexsort((*arrival, chained.of_record[rows]))]
        chain = chained.of_record[rows]
        runs = Ranges.of_runs(run_starts(chain))
        first, chain = rows[runs.low], chain[runs.low]
        # A single chain has at most one old session, so no assignment to its entry is lost. -1
        # starts a new aggregate.
        old_row = np.full(len(chained.sessions), -1, dtype=np.int64)
        old_row[chained.of_state_row] = np.arange(len(old))
        results = compiled.folded(
            batch.select(compiled.columns).take(pa.array(rows)),
            runs.sizes,
            batch["key"].take(pa.array(first)),
            state.select(types.names),
            old_row[chain],
        )
        # The chain of a skipped run remains among the called chains. Its errors and removals are
        # therefore the same as without the loop.
        done = ~results.skipped
        return _CompiledChains(chain[done], first[done], results.aggregates.filter(pa.array(done)))

    def _called(
        self,
        state: pa.Table,
        old: SessionBounds,
        batch: pa.Table,
        records: SessionRecords,
        chained: ChainedSessions,
        is_called: Flags,
    ) -> "_CalledChains":
        """Call the functions for each record of the chosen chains."""
        state_rows = np.flatnonzero(is_called[chained.of_state_row])
        read = self._fold.read(state.take(pa.array(state_rows)))
        aggregates = dict(zip(state_rows.tolist(), read, strict=True))
        sessions_of = old.sessions_by(chained.of_state_row, state_rows, aggregates)
        rows = np.flatnonzero(is_called[chained.of_record])
        aggregate_of = self._aggregate_of(batch, rows)
        called = _CalledChains()
        # Records of different chains are more than the gap apart, so they never join the same
        # session. A chain can therefore be processed without the other chains of its pair.
        for chain, arrivals in records.in_arrival_order_by(chained.of_record, rows):
            result = merge_in_arrival_order(
                sessions_of.get(chain, []), arrivals, self._gap_ms, aggregate_of
            )
            called.sessions += result.sessions
            called.late += result.late
            called.rejected += result.rejected
            # A removed session has no row with a new record. Without this mark, its key would not
            # count as changed, and its old row would not be deleted.
            if result.removed_any:
                called.shrunk_pairs.append(int(chained.sessions.pair[chain]))
        return called

    def _aggregate_of(self, batch: pa.Table, rows: Ints) -> AggregateOf:
        """Return the function that aggregates joined sessions and a record of ``rows``."""
        chosen = batch.take(pa.array(rows))
        columns = (chosen["input"].to_pylist(), chosen["key"].to_pylist())
        fields = zip(*columns, function_values(chosen, self._values), strict=True)
        fields_of = dict(zip(rows.tolist(), fields, strict=True))

        def aggregate_of(joined: Sequence[PartitionSession], record: Arrival) -> Any:
            stream, key, value = fields_of[record.row]
            aggregates = (session.aggregate for session in joined)
            return self._fold.joined(stream, key, value, aggregates)

        return aggregate_of

    def _aggregates(self, rows: pa.Table, ranges: Ranges) -> Mapping[str, pa.Array]:
        """Merge the aggregates of each range in the order of end, start and partition."""
        # If each session has one partition session, no row becomes a Python object, and the merger
        # is not called. So an aggregation without a merger works as long as each key is in one
        # partition.
        if (ranges.sizes == 1).all():
            return {name: rows[name] for name in self.aggregate_types}
        # Sessions of several partitions can have equal ends and starts, but a partition does not
        # have two sessions with one end. With the partition, the order is total, so it does not
        # depend on the order of the rows in the state.
        names = ("window_end_ms", "window_start_ms", "partition")
        places = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
        aggregates = rows.select(list(self.aggregate_types))
        return self._fold.columns(
            merged_in_order(self._fold, rows["key"], places, aggregates, ranges)
        )
