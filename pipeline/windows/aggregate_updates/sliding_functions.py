"""The updates of sliding windows by functions of a user, which are called record by record.

As in a store (``SlidingFunctionEngine``), the functions see the members of a window in the order of
arrival, partition by partition. Here, they are called for each record: once for each window that
contains the record, and for all members of each window that it creates. If a function raises on a
record, the record is in no window and creates none, as for tumbling and hopping windows.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import Updates
from oriel.pipeline.windows.aggregate_updates.sliding import (
    EXISTING,
    FIRST_MEMBER,
    LEFT_WINDOW,
    RIGHT_WINDOW,
    SlidingUpdatesEngine,
    update_order,
)
from oriel.pipeline.windows.arrays import python_rows
from oriel.pipeline.windows.definitions import SlidingWindows
from oriel.pipeline.windows.functions import Rejected, UserFunctions, in_partition_order
from oriel.pipeline.windows.joins import RECORDS, STREAM_TIME, InputRows, apply_order


class _Record(NamedTuple):
    """The fields of a record that its windows need.

    Attributes:
        time_ms: The time of the record.
        entry_ms: The least end of a window that contains the record (``SlidingEntries``).
        has_left: True if the record defines its left window, which is not closed for it.
        partition: The partition. With several streams, it is partition * streams + stream.
        value: The value as the functions receive it.
    """

    time_ms: int
    entry_ms: int
    has_left: bool
    partition: int
    value: dict[str, Any]


class _Row(NamedTuple):
    """A row to emit. If the row is deleted, ``aggregate`` is ``None``."""

    start_ms: int
    aggregate: Any
    time_ms: int


#: Partition -> (aggregate, its time in ms) of a window. None: a function removed the aggregate.
_PartitionAggregates = Mapping[int, tuple[Any, int]]


class _KeyWindows:
    """The windows of one key after the records so far."""

    def __init__(self, key: str, functions: UserFunctions, difference_ms: int) -> None:
        self._key, self._fold, self._difference_ms = key, functions, difference_ms
        self._records: list[_Record] = []
        #: The time and the index of each record by time, and the starts of all defined windows.
        self._times: list[tuple[int, int]] = []
        self._starts: list[int] = []
        #: Start -> partial aggregates, of the windows that were computed. Empty without a member.
        #: Windows that no record of the batch changes are not computed.
        self._parts: dict[int, _PartitionAggregates] = {}
        #: The rows before the batch, of the windows that records of the batch can change.
        self.before: list[_Row] = []

    def take(self, record: _Record) -> None:
        """Add a record without updates."""
        # ``_folded`` sorts the members of a window by this index, which is the order of arrival.
        insort(self._times, (record.time_ms, len(self._records)))
        self._records.append(record)
        for start_ms in self._new_starts(record).values():
            insort(self._starts, start_ms)

    def updated(self, record: _Record) -> list[tuple[int, _Row]]:
        """Add a record, and return the kind and the row of each of its updates.

        Raises:
            Rejected: A function raised. The windows do not change.
        """
        difference_ms = self._difference_ms
        # A window [s, s + D] accepts the record if s <= t and s + D >= ``entry_ms``. The starts
        # ascend, so two binary searches find all such windows.
        low = bisect_left(self._starts, record.entry_ms - difference_ms)
        existing = self._starts[low : bisect_right(self._starts, record.time_ms)]
        # All functions are called before a window changes. If one raises, no aggregate of a window
        # has the record, and the record is not a member later.
        changed: dict[int, _PartitionAggregates] = {}
        kinds: dict[int, int] = {}
        for start_ms in existing:
            parts = self._aggregates_of(start_ms)
            kinds[start_ms] = EXISTING if parts else FIRST_MEMBER
            changed[start_ms] = self._with(parts, record)
        for kind, start_ms in self._new_starts(record).items():
            # The new window can have members that arrived before its definer. A right window does
            # not contain its definer, so it has only these members.
            parts = self._folded(start_ms)
            if kind == LEFT_WINDOW:
                parts = self._with(parts, record)
            # A right window without a member does not exist (semantics.md#2-2).
            if parts:
                kinds[start_ms], changed[start_ms] = kind, parts
        self.take(record)
        self._parts |= changed
        return [(kinds[start_ms], self._row(start_ms, changed[start_ms])) for start_ms in changed]

    def _new_starts(self, record: _Record) -> dict[int, int]:
        """Return kind -> start of the windows that no earlier record defines."""
        left_ms = max(record.time_ms - self._difference_ms, 0)
        own = {LEFT_WINDOW: left_ms} if record.has_left else {}
        own[RIGHT_WINDOW] = record.time_ms + 1
        starts = self._starts
        # A second definition of a start is the same window, so it has no update of its own.
        places = {kind: bisect_left(starts, start_ms) for kind, start_ms in own.items()}
        return {
            kind: own[kind]
            for kind, place in places.items()
            if starts[place : place + 1] != [own[kind]]
        }

    def _aggregates_of(self, start_ms: int) -> _PartitionAggregates:
        """Return the partial aggregates of a defined window."""
        parts = self._parts.get(start_ms)
        if parts is None:
            parts = self._parts[start_ms] = self._folded(start_ms)
            # The first record of the batch in a window computes it, before it is added. This row
            # therefore has only members of earlier batches.
            row = self._row(start_ms, parts) if parts else None
            if row is not None and row.aggregate is not None:
                self.before.append(row)
        return parts

    def _folded(self, start_ms: int) -> _PartitionAggregates:
        """Aggregate the members so far in the order of arrival."""
        end_ms = start_ms + self._difference_ms
        # The index -1 is less than each index, so the bounds are the first record at the start and
        # the first record after the end.
        low, high = (bisect_left(self._times, (time_ms, -1)) for time_ms in (start_ms, end_ms + 1))
        parts: _PartitionAggregates = {}
        for accepted in sorted(accepted for _, accepted in self._times[low:high]):
            record = self._records[accepted]
            # A window that was closed when the record arrived does not contain it
            # (semantics.md#2-3).
            if record.entry_ms <= end_ms:
                parts = self._with(parts, record)
        return parts

    def _with(self, parts: _PartitionAggregates, record: _Record) -> _PartitionAggregates:
        """Return the partial aggregates after one more record."""
        # With several streams, the partition is partition * streams + stream, as in a store.
        stream = record.partition % len(self._fold.aggregators)
        partition = self._fold.aggregation_group(record.partition)
        aggregate, newest_ms = parts.get(partition, (None, -1))
        after = self._fold.applied(stream, self._key, record.value, aggregate)
        # After a removal, the aggregate and its time start again (semantics.md#9).
        newest_ms = record.time_ms if aggregate is None else max(newest_ms, record.time_ms)
        # The mapping is copied, because the old one must be unchanged if a later call raises.
        return {**parts, partition: (after, newest_ms)}

    def _row(self, start_ms: int, parts: _PartitionAggregates) -> _Row:
        # A removed partial aggregate has no value to merge. Other partitions can still have one, so
        # the row exists.
        present = {place: part for place, part in parts.items() if part[0] is not None}
        by_partition = [(place, aggregate) for place, (aggregate, _) in present.items()]
        aggregate = in_partition_order(self._fold, self._key, by_partition)
        # A removed row has the time that it would have had.
        time_ms = max(newest_ms for _, newest_ms in (present or parts).values())
        return _Row(start_ms, aggregate, time_ms)


class SlidingFunctionUpdatesEngine(SlidingUpdatesEngine):
    """The updates of sliding windows by functions of a user."""

    def __init__(
        self,
        windows: SlidingWindows,
        functions: UserFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        inputs: Sequence[InputRows] = (RECORDS,),
        rejection_text: Callable[[str], str] = str,
    ) -> None:
        """Aggregate ``values`` by the functions of ``functions``.

        ``rejection_text`` returns the text of the reason for which a record is rejected.

        Raises:
            IllegalArgument: An aggregate has the name of a column that the engine needs.
        """
        super().__init__(windows, values, functions.types, carried, inputs=inputs)
        self._fold, self._values, self._reason = functions, values, rejection_text

    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        is_late = self._is_late(batch)
        accepted = np.flatnonzero(~is_late)
        # The rows of the state are not in the order of arrival. Functions see records in the order
        # of arrival, so the rows are sorted, and the batch follows.
        state = state.take(pa.array(apply_order(state)))
        table = self._with_arrived(state, batch, accepted)
        windows: dict[str, _KeyWindows] = {}
        emitted: list[tuple[int, int, _Row]] = []
        rejected: dict[int, str] = {}
        keys, first = table["key"].to_pylist(), len(state)
        for row, (key, record) in enumerate(zip(keys, self._records(table), strict=True)):
            key_windows = windows.get(key)
            if key_windows is None:
                key_windows = windows[key] = _KeyWindows(key, self._fold, self._difference_ms)
            if row < first:
                key_windows.take(record)
                continue
            record_index = int(accepted[row - first])
            try:
                emitted += [
                    (record_index, kind, each) for kind, each in key_windows.updated(record)
                ]
            except Rejected as error:
                rejected[record_index] = self._reason(str(error))
        is_kept = self._matters(np.asarray(table["timestamp_ms"]), close_ms)
        # A rejected record is in no window, so later windows must not find it in the state.
        is_kept[first:] &= ~np.isin(accepted, list(rejected))
        columns = np.array(
            [(*sort_fields, row.start_ms) for *sort_fields, row in emitted], dtype=np.int64
        )
        record_of_row, kind, start_ms = columns.reshape(-1, 3).T
        # Functions and named aggregates have one order of updates, which ``update_order`` defines.
        is_early = np.asarray(batch["timestamp_ms"]) < self._difference_ms
        order = update_order(record_of_row, kind, start_ms, is_early[record_of_row])
        rows = [emitted[place][-1] for place in order]
        return Updates(
            state=table.filter(pa.array(is_kept)),
            added=table.slice(first).filter(pa.array(is_kept[first:])),
            record=record_of_row[order],
            **self._columns_of(rows),
            is_deleted=np.array([row.aggregate is None for row in rows], dtype=np.bool_),
            late=np.flatnonzero(is_late),
            rejected=rejected,
            before=self._rows_before(windows) if self.returns_before else None,
        )

    def _records(self, table: pa.Table) -> list[_Record]:
        time_ms = np.asarray(table["timestamp_ms"])
        close_ms = np.asarray(table[STREAM_TIME.name]) - self.windows.close_delay_ms
        entry_ms = np.maximum(time_ms, self.windows.rule.first_open_end_ms(close_ms))
        has_left = self._has_left(time_ms, close_ms)
        columns = (column.tolist() for column in (time_ms, entry_ms, has_left))
        values = python_rows(table.select(self._values.names))
        fields = zip(*columns, table["partition"].to_pylist(), values, strict=True)
        return [_Record(*each) for each in fields]

    def _columns_of(self, rows: Sequence[_Row]) -> dict[str, Any]:
        """Return the bounds, aggregates and times of rows, as fields of ``Updates``."""
        start_ms = np.array([row.start_ms for row in rows], dtype=np.int64)
        return {
            "start_ms": start_ms,
            "end_ms": start_ms + self._difference_ms,
            "columns": self._fold.columns([row.aggregate for row in rows]),
            "timestamp_ms": np.array([row.time_ms for row in rows], dtype=np.int64),
        }

    def _rows_before(self, windows: Mapping[str, _KeyWindows]) -> pa.Table:
        """Return the rows before the batch, of the windows that its records can change."""
        keys = [key for key, key_windows in windows.items() for _ in key_windows.before]
        of_rows = self._columns_of(
            [row for key_windows in windows.values() for row in key_windows.before]
        )
        return self._rows_table({
            "key": pa.array(keys, pa.string()),
            "timestamp_ms": of_rows["timestamp_ms"],
            "window_start_ms": of_rows["start_ms"],
            "window_end_ms": of_rows["end_ms"],
            **of_rows["columns"],
        })  # fmt: skip
