"""Sliding windows with the user's own functions.

The state is the records, as for the declarative aggregates; the functions are called over
the members of each changed window in arrival order: partition by partition, offset by
offset, partitions merged in order (docs/decisions/0011).

    rejected   the aggregator raises for it on a fresh aggregate; it is in no window and defines
               none. (A reducer's first value is only brought to the types: it isn't called.)
    left out   the aggregator raises for it beside the members before it; it is out of that
               window alone, stays in its others, and defines windows

Tumbling and hopping windows reject a record as a whole if one of its windows raises: they are
all known when it comes. A sliding window may appear, and get members, long after the record
was accepted and written in others, so there each window decides by itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags
from oriel.pipeline.windows.definitions import EmitStrategy, SlidingWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.sliding.declarative import (
    Aggregated,
    ChangedWindows,
    SlidingWindowEngine,
)
from oriel.pipeline.windows.engines.sliding.members import covered
from oriel.pipeline.windows.functions import (
    Fold,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from oriel.pipeline.windows.records import RECORD_FIELDS, arrival_keys


class _Member(NamedTuple):
    """A member of a window as the functions see it; ``new``: it came in this batch."""

    row: int
    key: str
    partition: int
    timestamp_ms: int
    input: int
    value: Any
    new: bool


class _LeftOut(NamedTuple):
    """A member that the aggregator raised for; ``behind_new``: new members are folded before it."""

    member: _Member
    error: str
    behind_new: bool


class SlidingFoldEngine(SlidingWindowEngine):
    """A user's aggregation of sliding windows."""

    def __init__(
        self,
        windows: SlidingWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Aggregate values of this schema by ``fold``; ``carried`` are columns of the record."""
        super().__init__(windows, {}, values, carried, emit=emit)
        self._fold = fold
        self._carried = list(carried or ())
        self._values = values
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *self._carried, *fold_fields(values)])
        self.state_schema = self.record_schema

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        rejected = self._rejected(batch)
        accepted = np.ones(len(batch), dtype=np.bool_)
        accepted[[row for row, _ in rejected]] = False
        batch_of_accepted = batch.filter(pa.array(accepted))
        result = super().process(state, batch_of_accepted, previous_close_ms, close_ms)
        # Functions can leave a closed window without a value: a removal of a row that emission
        # on close never wrote. It is not final.
        final = np.asarray(result.changes["final"])
        emitted = self._emit.emits(np.ones_like(final), final)
        return replace(
            result,
            changes=result.changes.filter(pa.array(emitted)),
            rejected=rejected_table(batch, rejected),
        )

    def _rejected(self, batch: pa.Table) -> list[tuple[int, str]]:
        """The rows of rejected records, and why: each is tried on a fresh aggregate."""
        rejected = []
        inputs, keys = batch["input"].to_pylist(), batch["key"].to_pylist()
        for row, value in enumerate(fold_values(batch, self._values)):
            try:
                self._fold.applied(inputs[row], keys[row], value, None)
            except Rejected as error:
                rejected.append((row, str(error)))
        return rejected

    def _aggregated(self, changed: ChangedWindows) -> Aggregated:
        """Fold the members of each window in arrival order."""
        in_bounds, _ = covered(len(changed.rows), changed.members.in_bounds)
        rows = changed.rows.take(pa.array(in_bounds))
        arrival = np.empty(len(rows), dtype=np.int64)
        arrival[np.lexsort(arrival_keys(rows))] = np.arange(len(rows))
        members = self._members_of(rows, changed.new[in_bounds])
        # On close a window is evaluated only once, so nothing was reported of it before.
        evaluated_before = changed.known & (not self._emit.is_on_close)
        aggregates, timestamps, left_out = [], [], []
        for pieces in changed.members.listed():
            place = np.searchsorted(in_bounds, pieces.row)
            place = place[np.lexsort((arrival[place], pieces.ranges.owners))]
            for window, (low, high) in zip(pieces.window, pieces.ranges.pairs(), strict=True):
                own = [members[row] for row in place[low:high].tolist()]
                aggregate, timestamp_ms, raised = self._folded(own)
                aggregates.append(aggregate)
                timestamps.append(timestamp_ms)
                if evaluated_before[window]:
                    raised = self._not_reported(raised, own)
                for member, error, _ in raised:
                    bounds = f"[{changed.start_ms[window]}, {changed.end_ms[window]}]"
                    left_out.append((member.row, f"left out of the window {bounds}: {error}"))
        return Aggregated(
            self._fold.columns(aggregates),
            np.array(timestamps, dtype=np.int64),
            np.array([aggregate is None for aggregate in aggregates], dtype=np.bool_),
            rejected_table(rows, left_out, self._carried),
        )

    def _members_of(self, rows: pa.Table, new: Flags) -> list[_Member]:
        """Each row as the functions see it."""
        columns = (rows[name].to_pylist() for name in ("key", "partition", "timestamp_ms", "input"))
        values = fold_values(rows, self._values)
        fields = zip(*columns, values, new.tolist(), strict=True)
        return [_Member(row, *own) for row, own in enumerate(fields)]

    def _folded(self, members: Sequence[_Member]) -> tuple[Any, int, list[_LeftOut]]:
        """The aggregate (None: removed) and timestamp of one window, and who is left out of it."""
        parts, raised = self._fold_partitions(members)
        present = {
            fold_partition: part for fold_partition, part in parts.items() if part[0] is not None
        }
        aggregate = in_partition_order(
            self._fold,
            members[0].key,
            [(fold_partition, part[0]) for fold_partition, part in present.items()],
        )
        # A removed row has the time that it would have had (semantics.md#9).
        times_ms = [timestamp_ms for _, timestamp_ms in (present or parts).values()]
        return aggregate, max(times_ms, default=members[0].timestamp_ms), raised

    def _fold_partitions(
        self, members: Sequence[_Member]
    ) -> tuple[dict[int, tuple[Any, int]], list[_LeftOut]]:
        """Call the aggregator; a null result starts aggregate and timestamp of a partition anew.

        Each partition has its aggregate, None if it was removed, and the timestamp of either.
        Without a merger a partition's number is partition * inputs + input: what
        ``Fold.fold_partition`` gives puts the inputs of one partition together again, to be
        folded into one aggregate.
        """
        parts: dict[int, tuple[Any, int]] = {}
        raised: list[_LeftOut] = []
        partitions_with_new: set[int] = set()
        for member in members:
            fold_partition, timestamp_ms = (
                self._fold.fold_partition(member.partition),
                member.timestamp_ms,
            )
            aggregate, newest_ms = parts.get(fold_partition, (None, timestamp_ms))
            try:
                result = self._fold.applied(member.input, member.key, member.value, aggregate)
            except Rejected as error:
                raised.append(_LeftOut(member, str(error), fold_partition in partitions_with_new))
                continue
            if member.new:
                partitions_with_new.add(fold_partition)
            # Behind a removal the time begins anew, as the aggregate does.
            newest_ms = timestamp_ms if aggregate is None else max(newest_ms, timestamp_ms)
            parts[fold_partition] = (result, newest_ms)
        return parts, raised

    def _not_reported(self, raised: list[_LeftOut], members: Sequence[_Member]) -> list[_LeftOut]:
        """Those that were not reported when the window was evaluated with its old members.

        A new member was not. An old one with only old ones before it raised in the same calls as
        before, and was. Usually these are all: a partition's new members come behind its old
        ones. Results of a join, and inputs that are folded into one, may come between: then
        the calls before an old member differ, and what the old members did alone decides.
        """
        unsure = [left_out for left_out in raised if left_out.member.new or left_out.behind_new]
        if all(left_out.member.new for left_out in unsure):
            return unsure
        _, raised_before = self._fold_partitions([member for member in members if not member.new])
        reported = {left_out.member.row for left_out in raised_before}
        return [left_out for left_out in unsure if left_out.member.row not in reported]
