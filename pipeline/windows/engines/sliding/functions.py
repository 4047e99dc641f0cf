"""Sliding windows with functions of a user.

The state is the records, as for named aggregates. The functions are called over the members of each
changed window in the order of arrival: by partition and by offset. The results of the partitions
are merged in order (docs/decisions/0011).

    rejected   The aggregator raises for the record with a new aggregate. The record is in no window
               and defines none. For a reduce, only the types of its value are checked.
    left out   The aggregator raises for the record after earlier members. The record is not in that
               window. It remains in its other windows and defines windows.

Tumbling and hopping windows reject a record completely if the function raises for one of its
windows, because all windows are known when the record arrives. A sliding window can be created long
after the record was accepted and emitted in other windows. The result of each sliding window is
therefore independent of the others.

If the functions are compiled, each partition of a window is one run of the compiled loop. The
functions themselves are called for the members of a window if the loop skips one of its runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, lexsort, range_extremes, run_starts
from oriel.pipeline.windows.definitions import EmitStrategy, SlidingWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.operator import Times
from oriel.pipeline.windows.engines.sliding.declarative import (
    Aggregated,
    ChangedWindows,
    SlidingWindowEngine,
)
from oriel.pipeline.windows.engines.sliding.members import rows_in_ranges
from oriel.pipeline.windows.functions import (
    Compilation,
    Rejected,
    RunAggregates,
    UserFunctions,
    function_fields,
    function_values,
    in_partition_order,
    merged_in_order,
    rejected_table,
    skipped_runs,
)
from oriel.pipeline.windows.records import NULL_VALUE, RECORD_FIELDS, arrival_keys


class _Member(NamedTuple):
    """A member of a window as the functions see it. ``new``: the record is of this batch."""

    row: int
    key: str
    partition: int
    timestamp_ms: int
    input: int
    value: Any
    new: bool


class _LeftOut(NamedTuple):
    """A member on which the aggregator raised. ``after_new``: True if it is after a new member."""

    member: _Member
    error: str
    after_new: bool


class SlidingFunctionEngine(SlidingWindowEngine):
    """An aggregation of sliding windows by functions of a user."""

    compilation: Compilation

    def __init__(
        self,
        windows: SlidingWindows,
        functions: UserFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Aggregate ``values`` by ``functions``. ``carried`` are columns of the record."""
        # Without named aggregates, the base only decides which windows exist and which ones
        # changed. All values stay in the state, because a later window calls the functions for them
        # again.
        super().__init__(windows, {}, values, carried, emit=emit)
        self._fold = functions
        self.compilation = Compilation.of(functions, values)
        self._carried = list(carried or ())
        self._values = values
        self.aggregate_types = dict(functions.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *function_fields(values)])
        self.state_schema = self.record_schema

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        # A rejected record defines no window, so it is removed before windows are computed.
        rejected = self._rejected(batch)
        accepted = np.ones(len(batch), dtype=np.bool_)
        accepted[[row for row, _ in rejected]] = False
        batch_of_accepted = batch.filter(pa.array(accepted))
        result = super().apply(state, batch_of_accepted, times)
        # Functions can remove the value of a closed window. With on_window_close, its row was never
        # emitted, and the removal is not final.
        final = np.asarray(result.changes["final"])
        emitted = self._emit.emits(np.ones_like(final), final)
        return replace(
            result,
            changes=result.changes.filter(pa.array(emitted)),
            rejected=rejected_table(batch, rejected),
        )

    def _rejected(self, batch: pa.Table) -> list[tuple[int, str]]:
        """Return the rejected records with the reason. Each is tested with a new aggregate."""
        # Each record is a run of its own, which starts with a new aggregate. A record that the loop
        # does not skip does not raise, so only the others are passed to the functions.
        each = Ranges.of_each(len(batch))
        skipped = np.flatnonzero(self._compiled_runs(batch, each.low, each).skipped)
        batch = batch.take(pa.array(skipped))
        rejected = []
        inputs, keys = batch["input"].to_pylist(), batch["key"].to_pylist()
        for number, value in enumerate(function_values(batch, self._values)):
            try:
                self._fold.applied(inputs[number], keys[number], value, None)
            except Rejected as error:
                rejected.append((int(skipped[number]), str(error)))
        return rejected

    def _aggregated(self, changed: ChangedWindows) -> Aggregated:
        """Aggregate the members of each window in the order of arrival."""
        # Rows outside all changed windows are not converted for the functions.
        in_bounds, _ = rows_in_ranges(len(changed.rows), changed.members.in_bounds)
        rows = changed.rows.take(pa.array(in_bounds))
        # The rank of a record replaces all of its arrival keys, so the members of the windows are
        # sorted by two integers. A record can be in many windows.
        arrival = np.empty(len(rows), dtype=np.int64)
        arrival[np.lexsort(arrival_keys(rows))] = np.arange(len(rows))
        members: list[_Member] = []
        # With on_window_close, a window is evaluated only once, so nothing was reported earlier.
        evaluated_before = changed.known & (not self._emit.is_on_close)
        tables, timestamps, removed, left_out = [], [], [], []
        for pieces in changed.members.listed():
            # ``in_bounds`` ascends and contains every member, so the search returns the exact
            # position.
            place = np.searchsorted(in_bounds, pieces.row)
            # Functions see the order of arrival, never the order of time (semantics.md#9).
            place = place[lexsort((arrival[place], pieces.ranges.owners))]
            results, timestamp_ms = self._compiled_windows(rows, place, pieces.ranges)
            called = []
            for number in np.flatnonzero(results.skipped).tolist():
                # The loop needs no Python objects, so they are created for the first window that it
                # skips.
                members = members or self._members_of(rows, changed.new[in_bounds])
                low, high = pieces.ranges.low[number], pieces.ranges.high[number]
                own = [members[row] for row in place[low:high].tolist()]
                aggregate, timestamp_ms[number], raised = self._folded(own)
                called.append(aggregate)
                window = pieces.window[number]
                if evaluated_before[window]:
                    raised = self._not_reported(raised, own)
                for member, error, _ in raised:
                    bounds = f"[{changed.start_ms[window]}, {changed.end_ms[window]}]"
                    left_out.append((member.row, f"left out of the window {bounds}: {error}"))
            is_removed = np.zeros(len(timestamp_ms), dtype=np.bool_)
            is_removed[results.skipped] = [aggregate is None for aggregate in called]
            tables.append(self._fold.replaced(results.aggregates, results.skipped, called))
            timestamps.append(timestamp_ms)
            removed.append(is_removed)
        # The empty table has the columns for a batch without a changed window.
        aggregates = pa.concat_tables([pa.schema(self._fold.types).empty_table(), *tables])
        return Aggregated(
            dict(zip(aggregates.column_names, aggregates.columns, strict=True)),
            np.concatenate([np.zeros(0, dtype=np.int64), *timestamps]),
            np.concatenate([np.zeros(0, dtype=np.bool_), *removed]),
            rejected_table(rows, left_out, self._carried),
        )

    def _compiled_windows(
        self, rows: pa.Table, place: Ints, windows: Ranges
    ) -> tuple[RunAggregates, Ints]:
        """Aggregate each window by the compiled loop, and return the time of each window.

        The members of the windows are ``place[windows]`` of ``rows``, in the order of arrival. Each
        partition of a window is a run.
        """
        if self.compilation.current is None:
            return skipped_runs(self._fold, len(windows.low)), np.zeros_like(windows.low)
        # The loop skips a window in which a function returns None. In all others, no aggregate
        # restarts, so the time is the greatest of all members (semantics.md#0-7).
        time_ms = range_extremes(np.asarray(rows["timestamp_ms"])[place], windows, np.maximum)
        owners = windows.owners
        partition = self._fold.aggregation_groups(np.asarray(rows["partition"]))[place]
        # The sort is stable, so the members of each partition stay in the order of arrival.
        order = lexsort((partition, owners))
        place, owners, partition = place[order], owners[order], partition[order]
        runs = Ranges.of_runs(run_starts(owners, partition))
        results = self._compiled_runs(rows, place, runs)
        # Each window has a member and therefore a run, so range i of ``own`` is window i.
        own = Ranges.of_runs(run_starts(owners[runs.low]))
        skipped = own.any_of(results.skipped)
        several = (own.sizes > 1) & ~skipped
        # The partition that orders the merge is the group of ``aggregation_groups``, so streams
        # that share an aggregate are one run and need no merger.
        merged = merged_in_order(
            self._fold,
            rows["key"].take(pa.array(place[runs.low])),
            partition[runs.low].tolist(),
            results.aggregates,
            own.keep(several),
        )
        aggregates = results.aggregates.take(pa.array(own.low))
        return RunAggregates(self._fold.replaced(aggregates, several, merged), skipped), time_ms

    def _compiled_runs(self, rows: pa.Table, place: Ints, runs: Ranges) -> RunAggregates:
        """Aggregate each run, ``place[runs]`` of ``rows``, from a new aggregate."""
        count, compiled = len(runs.low), self.compilation.current
        if compiled is None:
            return skipped_runs(self._fold, count)
        results = compiled.folded(
            rows.select(compiled.columns).take(pa.array(place)),
            runs.sizes,
            rows["key"].take(pa.array(place[runs.low])),
            pa.schema(self._fold.types).empty_table(),
            # The state has records and no aggregates, so each run starts with a new aggregate.
            np.full(count, -1),
        )
        # Functions receive None for a null value. The loop reads it as null columns.
        is_null = np.asarray(rows[NULL_VALUE.name])[place]
        return RunAggregates(results.aggregates, results.skipped | runs.any_of(is_null))

    def _members_of(self, rows: pa.Table, new: Flags) -> list[_Member]:
        """Return each row as a member, with the value as the functions see it."""
        columns = (rows[name].to_pylist() for name in ("key", "partition", "timestamp_ms", "input"))
        values = function_values(rows, self._values)
        fields = zip(*columns, values, new.tolist(), strict=True)
        return [_Member(row, *own) for row, own in enumerate(fields)]

    def _folded(self, members: Sequence[_Member]) -> tuple[Any, int, list[_LeftOut]]:
        """Return the aggregate of one window (or None), its time, and the members left out."""
        parts, raised = self._aggregated_partitions(members)
        present = {
            aggregation_partition: part
            for aggregation_partition, part in parts.items()
            if part[0] is not None
        }
        aggregate = in_partition_order(
            self._fold,
            members[0].key,
            [(aggregation_partition, part[0]) for aggregation_partition, part in present.items()],
        )
        # Without ``present``, each partition with a result removed its aggregate. No partition has
        # a result if the aggregator raised on each member, although it did not raise on the first
        # one at its arrival.
        # A removed row has the time that it would have had (semantics.md#9).
        times_ms = [timestamp_ms for _, timestamp_ms in (present or parts).values()]
        return aggregate, max(times_ms, default=members[0].timestamp_ms), raised

    def _aggregated_partitions(
        self, members: Sequence[_Member]
    ) -> tuple[dict[int, tuple[Any, int]], list[_LeftOut]]:
        """Call the aggregator. A null result restarts the aggregate and the time of a partition.

        Each partition has its aggregate, or None if it was removed, and the time. Without a merger,
        the index of a partition is partition * inputs + input. ``UserFunctions.aggregation_group``
        then groups the inputs of one partition, so that they share one aggregate.
        """
        parts: dict[int, tuple[Any, int]] = {}
        raised: list[_LeftOut] = []
        partitions_with_new: set[int] = set()
        for member in members:
            aggregation_partition, timestamp_ms = (
                self._fold.aggregation_group(member.partition),
                member.timestamp_ms,
            )
            aggregate, newest_ms = parts.get(aggregation_partition, (None, timestamp_ms))
            try:
                result = self._fold.applied(member.input, member.key, member.value, aggregate)
            except Rejected as error:
                raised.append(
                    _LeftOut(member, str(error), aggregation_partition in partitions_with_new)
                )
                continue
            if member.new:
                partitions_with_new.add(aggregation_partition)
            # After a removal, the aggregate and its time start again.
            newest_ms = timestamp_ms if aggregate is None else max(newest_ms, timestamp_ms)
            parts[aggregation_partition] = (result, newest_ms)
        return parts, raised

    def _not_reported(self, raised: list[_LeftOut], members: Sequence[_Member]) -> list[_LeftOut]:
        """Return the members that were not reported with the old members of the window.

        A new member was not reported. An old member with only old members before it raised in an
        earlier batch after the same calls, so it was reported. Usually, no other case exists,
        because the new members of a partition are after its old ones. But join results, and inputs
        that share one aggregate, can be between old members. The calls before an old member then
        differ, so the functions are called again for the old members alone.
        """
        candidates = [left_out for left_out in raised if left_out.member.new or left_out.after_new]
        if all(left_out.member.new for left_out in candidates):
            return candidates
        _, raised_before = self._aggregated_partitions(
            [member for member in members if not member.new]
        )
        reported = {left_out.member.row for left_out in raised_before}
        return [left_out for left_out in candidates if left_out.member.row not in reported]
