"""Sliding windows with the user's own functions.

The state is the records, as for the declarative aggregates; the functions are called over
the members of each changed window in arrival order: partition by partition, offset by
offset, partitions merged in order.

    rejected   the aggregator raises for it on a fresh aggregate; it is in no window and defines
               none. (A reducer's first value is only brought to the types: it isn't called.)
    left out   the aggregator raises for it beside the members before it; it is out of that
               window alone, stays in its others, and defines windows

Tumbling and hopping windows reject a record as a whole if one of its windows raises: they are
all known when it comes. A sliding window may appear, and get members, long after the record
was accepted and told of in others, so there each window decides by itself.

What raises in a window is told once, when the window is evaluated first with the record: a
member that raised in an earlier batch raises again, because new members come behind it.
Members that come before it (results of a join; streams that are folded into one) may change
that: then what the old members did alone is looked at.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.definitions import EmitStrategy, SlidingWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.sliding.sliding_windows import (
    Aggregated,
    ChangedWindows,
    SlidingWindowEngine,
)
from oriel.pipeline.windows.functions import (
    Fold,
    Rejected,
    fold_fields,
    fold_values,
    in_partition_order,
    rejected_table,
)
from oriel.pipeline.windows.records import RECORD_FIELDS, arrival_keys

_ON_UPDATE = EmitStrategy.on_window_update()


class SlidingFoldEngine(SlidingWindowEngine):
    """A user's aggregation of sliding windows."""

    def __init__(
        self,
        windows: SlidingWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy = _ON_UPDATE,
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
        """See ``WindowEngine``."""
        rejected = self._tried(batch)
        good = np.ones(len(batch), dtype=np.bool_)
        good[[row for row, _ in rejected]] = False
        result = super().process(state, batch.filter(pa.array(good)), previous_close_ms, close_ms)
        changes = result.changes
        if self._emit_final_only:
            changes = changes.filter(changes["final"])
        return replace(result, changes=changes, rejected=rejected_table(batch, rejected))

    def _tried(self, batch: pa.Table) -> list[tuple[int, str]]:
        """Which records are rejected, and why: each is tried on a fresh aggregate."""
        rejected = []
        sources, keys = batch["input"].to_pylist(), batch["key"].to_pylist()
        for row, value in enumerate(fold_values(batch, self._values)):
            try:
                self._fold.applied(sources[row], keys[row], value, None)
            except Rejected as error:
                rejected.append((row, str(error)))
        return rejected

    def _aggregated(self, changed: ChangedWindows) -> Aggregated:
        """Fold the members of each window in arrival order."""
        rows, ranges = changed.rows, changed.ranges
        arrived = np.empty(len(rows), dtype=np.int64)
        arrived[np.lexsort(arrival_keys(rows))] = np.arange(len(rows))
        members = self._members(changed)
        # A window that is told of when it is final is evaluated once.
        known = changed.known & (not self._emit_final_only)
        values, newest, told = [], [], []
        for window, (low, high) in enumerate(ranges.pairs()):
            own = [members[row] for row in sorted(range(low, high), key=arrived.__getitem__)]
            value, time, raised = self._folded(own)
            values.append(value)
            newest.append(time)
            if known[window]:
                raised = self._not_yet_told(raised, own)
            bounds = f"[{changed.start[window]}, {changed.end[window]}]" if raised else ""
            told += [(r.member.row, f"left out of the window {bounds}: {r.error}") for r in raised]
        deleted = np.array([value is None for value in values], dtype=np.bool_)
        left_out = rejected_table(rows, told, self._carried)
        columns = self._fold.columns(values)
        return Aggregated(columns, np.array(newest, dtype=np.int64), deleted, left_out)

    def _members(self, changed: ChangedWindows) -> list["_Member"]:
        """Each row as the functions see it."""
        rows = changed.rows
        columns = (rows[name].to_pylist() for name in ("key", "partition", "timestamp_ms", "input"))
        values = fold_values(rows, self._values)
        fields = zip(*columns, values, changed.new.tolist(), strict=True)
        return [_Member(row, *own) for row, own in enumerate(fields)]

    def _folded(self, members: Sequence["_Member"]) -> tuple[Any, int, list["_Raised"]]:
        """The value and timestamp of one window, and who is left out of it."""
        made, raised = self._called(members)
        kept = {unit: part for unit, part in made.items() if part[0] is not None}
        parts = [(unit, value) for unit, (value, _) in kept.items()]
        value = in_partition_order(self._fold, members[0].key, parts)
        # A removed row has the time that it would have had (semantics section 9).
        times = [time for _, time in (kept or made).values()]
        return value, max(times, default=members[0].timestamp_ms), raised

    def _called(
        self, members: Sequence["_Member"]
    ) -> tuple[dict[int, tuple[Any, int]], list["_Raised"]]:
        """Call the aggregator; a null value starts value and timestamp of a partition anew.

        Each partition has its value, None if it was removed, and the timestamp of either.
        """
        kept: dict[int, tuple[Any, int]] = {}
        raised: list[_Raised] = []
        renewed: set[int] = set()
        for member in members:
            unit = self._fold.fold_partition(member.partition)
            aggregate, newest = kept.get(unit, (None, member.timestamp_ms))
            try:
                result = self._fold.applied(member.source, member.key, member.value, aggregate)
            except Rejected as error:
                raised.append(_Raised(member, str(error), unit in renewed))
                continue
            if member.new:
                renewed.add(unit)
            time = member.timestamp_ms
            kept[unit] = (result, time if aggregate is None else max(newest, time))
        return kept, raised

    def _not_yet_told(
        self, raised: list["_Raised"], members: Sequence["_Member"]
    ) -> list["_Raised"]:
        """Those that did not raise when the window was evaluated with its old members."""
        maybe = [one for one in raised if one.member.new or one.behind_new]
        if all(one.member.new for one in maybe):
            return maybe
        _, before = self._called([member for member in members if not member.new])
        told = {one.member.row for one in before}
        return [one for one in maybe if one.member.row not in told]


class _Member(NamedTuple):
    """A member of a window as the functions see it; ``new``: it came in this batch."""

    row: int
    key: str
    partition: int
    timestamp_ms: int
    source: int
    value: Any
    new: bool


class _Raised(NamedTuple):
    """A member that is left out; ``behind_new``: new members are folded before it."""

    member: _Member
    error: str
    behind_new: bool
