"""The updates of tumbling windows, hopping windows, and aggregations without windows."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.aggregate_updates.contract import (
    WINDOW_BOUNDS,
    AggregateUpdatesEngine,
    Updates,
)
from oriel.pipeline.windows.aggregate_updates.running import running
from oriel.pipeline.windows.aggregates import Aggregate, PartialAggregates
from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    coded_keys,
    pair_order,
    positions_in_runs,
    run_ends,
    run_starts,
)
from oriel.pipeline.windows.definitions import NoWindows, TimeWindows
from oriel.pipeline.windows.engines import WindowGrid
from oriel.pipeline.windows.joins import RECORDS, InputRows
from oriel.pipeline.windows.records import NULL_VALUE, are_retractions, rows_schema, update_keys

#: The source partition of a state row, if the records of one partition can be removed.
PARTITION = pa.field("partition", pa.int32())


class GridEntries(NamedTuple):
    """The records of a batch with an open window. An entry is one record in one open window.

    Attributes:
        batch: The records.
        number: The index in the whole batch of each record.
        windows: The range of indices of open windows of each record.
        record: The index in ``batch`` of the record of each entry.
        start_ms: The start of the window of each entry.
    """

    batch: pa.Table
    number: Ints
    windows: Ranges
    record: Ints
    start_ms: Ints


class ChangedRows(NamedTuple):
    """The changes of the entries of a batch to the rows of their windows.

    Attributes:
        state: All rows of the next state, also rows of closed windows.
        entry: The index of the entry of each emitted row, in ascending order.
        columns: The aggregates of each emitted row.
        timestamp_ms: The time of each emitted row.
        is_deleted: True for each deleted row.
        rejected: Index of a record in ``GridEntries.batch`` -> the reason why it changes no row.
    """

    state: pa.Table
    entry: Ints
    columns: Mapping[str, pa.Array]
    timestamp_ms: Ints
    is_deleted: Flags
    rejected: Mapping[int, str]


class GridUpdatesEngine(AggregateUpdatesEngine):
    """The updates of windows on a grid. The state has rows of windows."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        state_fields: tuple[list[pa.Field], list[pa.Field]],
        carried: pa.Schema | None,
        *,
        inputs: Sequence[InputRows],
    ) -> None:
        """Read ``values`` of a record, and return aggregates of ``types``.

        ``state_fields`` are the columns that distinguish the rows of a window, and the columns of
        aggregates.
        """
        super().__init__(windows, values, types, carried, inputs=inputs)
        place, aggregates = state_fields
        self.state_schema = rows_schema([WINDOW_BOUNDS[0], *place], self._carried, aggregates)
        self._grid = WindowGrid(windows)

    def buckets(self, state: pa.Table) -> Ints:
        return self._grid.buckets(starts_of(state))

    def buckets_of_batch(self, batch: pa.Table) -> Ranges:
        return self._grid.buckets_of_batch(np.asarray(batch["timestamp_ms"]))

    def due_ms(self, state: pa.Table) -> Ints:
        return self._grid.last_ms(starts_of(state))

    def bucket_due_ms(self, state: pa.Table) -> Ints:
        return self._grid.bucket_last_ms(starts_of(state))

    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        entries = self._entries(batch)
        changed = self._changed(state, entries)
        # A window that this batch closes also has the updates of its last records. Its row is
        # therefore dropped after the entries are applied, and not when the state is read.
        is_open = self._grid.is_open(starts_of(changed.state), close_ms)
        before = None
        if self.returns_before:
            # The state can also have rows of other keys, which are only in it because they expire.
            of_keys = pc.is_in(state["key"], value_set=entries.batch["key"].unique())
            before = self._rows_of(state.filter(of_keys).combine_chunks())
        start_ms = entries.start_ms[changed.entry]
        return Updates(
            state=changed.state.filter(pa.array(is_open)).combine_chunks(),
            # An entry has an index of a record with an open window, and ``number`` has the index of
            # this record in the whole batch.
            record=entries.number[entries.record[changed.entry]],
            start_ms=start_ms,
            end_ms=self._grid.ends(start_ms),
            columns=changed.columns,
            timestamp_ms=changed.timestamp_ms,
            is_deleted=changed.is_deleted,
            # A record is late if and only if it has no entry, because an entry is an open window of
            # a record.
            late=np.setdiff1d(np.arange(len(batch)), entries.number),
            rejected={int(entries.number[n]): reason for n, reason in changed.rejected.items()},
            before=before,
        )

    @abstractmethod
    def _changed(self, state: pa.Table, entries: GridEntries) -> ChangedRows:
        """Apply the entries in order to the rows of their windows."""

    @abstractmethod
    def _rows_in(self, state: pa.Table) -> tuple[pa.Array, Ints, Mapping[str, pa.Array], Ints]:
        """Return the key, the window start, the aggregates and the time of each state row."""

    def _rows_of(self, state: pa.Table) -> pa.Table:
        """Return the rows of a state: key, time, bounds of windows, aggregates."""
        keys, start_ms, columns, timestamp_ms = self._rows_in(state)
        bounds = {"window_start_ms": start_ms, "window_end_ms": self._grid.ends(start_ms)}
        return self._rows_table({"key": keys, "timestamp_ms": timestamp_ms, **bounds, **columns})

    def _entries(self, batch: pa.Table) -> GridEntries:
        """Return the records with an open window."""
        time_ms = np.asarray(batch["timestamp_ms"])
        # semantics.md#0-2: the record alone decides, as for all windows (decision 0001).
        close_ms = np.asarray(batch["stream_time_ms"]) - self.windows.close_delay_ms
        # Ends ascend with the indices, so the open windows of a record are a range. With size 10,
        # advance 5 and grace 0, a record at 7 and stream time 12 is in [5, 15) and not in [0, 10).
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        windows = Ranges(first_open, self._grid.last_windows(time_ms) + 1)
        number = np.flatnonzero(~windows.empty)
        batch, windows = batch.take(pa.array(number)), windows.keep(~windows.empty)
        # The entries of a record ascend by window start, which is the order in which Kafka Streams
        # forwards the updates of hopping windows.
        start_ms = self._grid.starts(windows.rows()[1])
        return GridEntries(batch, number, windows, windows.owners, start_ms)

    def _removals(self, batch: pa.Table) -> Flags:
        """Return which records remove the earlier records of their key and partition."""
        if not self._has_removals:
            return np.zeros(len(batch), dtype=np.bool_)
        return np.asarray(batch[NULL_VALUE.name])

    def _changes(self, batch: pa.Table) -> tuple[Flags, Flags]:
        """Return which records delete a row, and which deletions another record completes.

        The other record is the next one in the apply order, of the same record and the same group.
        """
        if not self._rows.are_changes:
            none = np.zeros(len(batch), dtype=np.bool_)
            return none, none
        (key_code,), _ = coded_keys(batch["key"])
        old = are_retractions(batch)
        is_completed = np.zeros(len(batch), dtype=np.bool_)
        # The old row of an update has the lineage index 0 and its new row 1, so the new row
        # directly follows in the apply order. If both rows have the same group, Kafka Streams
        # forwards one update. If they have different groups, their key codes differ, and each row
        # is an update.
        is_completed[:-1] = old[:-1] & ~old[1:] & ~run_starts(key_code, *update_keys(batch))[1:]
        return old, is_completed


class ColumnUpdatesEngine(GridUpdatesEngine):
    """The updates of named aggregates. The state has the partial aggregates of windows."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        inputs: Sequence[InputRows] = (RECORDS,),
    ) -> None:
        """Aggregate columns of ``values`` by ``aggregates`` that fit the rows of ``inputs``.

        Raises:
            IllegalArgument: An aggregate does not fit ``values``, or its name is taken.
        """
        self._columns = PartialAggregates(aggregates, values, carried)
        # A removal removes the records of one partition, so each partition has a row of its own.
        place = [PARTITION] if any(each.have_removals for each in inputs) else []
        super().__init__(
            windows, values, self._columns.aggregate_types, (place, self._columns.fields), carried,
            inputs=inputs,
        )  # fmt: skip

    def _rows_in(self, state: pa.Table) -> tuple[pa.Array, Ints, Mapping[str, pa.Array], Ints]:
        if self._has_removals and len(state):
            (code,), _ = coded_keys(state["key"])
            order = np.lexsort((np.asarray(state[PARTITION.name]), code))
            of_key = Ranges.of_runs(run_starts(code[order]))
            state = self._columns.merged(state.take(pa.array(order)), of_key)
        columns = self._columns.results(state)
        return state["key"], starts_of(state), columns, np.asarray(state["timestamp_ms"])

    def _changed(self, state: pa.Table, entries: GridEntries) -> ChangedRows:
        (state_code, code), keys = coded_keys(state["key"], entries.batch["key"])
        # A record becomes a partial aggregate once, also if it is in many windows. Its entries are
        # copies of this row, which are merged into their windows.
        of_record = self._columns.of_each(entries.batch)
        of_record = of_record.append_column("key", keys.take(pa.array(code)))
        if self._has_removals:
            of_record = of_record.append_column(PARTITION, entries.batch[PARTITION.name])
        of_record = of_record.take(pa.array(entries.record)).append_column(
            WINDOW_BOUNDS[0], pa.array(entries.start_ms)
        )
        rows = pa.concat_tables([state, of_record.select(state.column_names).cast(state.schema)])
        # The state row of a window is before its entries, which keep their order.
        codes = np.concatenate([state_code, code[entries.record]])
        start_ms = starts_of(rows)
        order = pair_order(codes, start_ms)
        if self._has_removals and len(rows):
            return self._with_removals(rows, codes, entries)
        head = run_starts(codes[order], start_ms[order])
        merged = running(self._columns, rows.take(pa.array(order)), head)
        # With the inverse of the sort, the rows are read in the order of the entries, which is the
        # order of the updates.
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows))
        _, is_completed = self._changes(entries.batch)
        emitted = np.flatnonzero(~is_completed[entries.record])
        after = merged.take(pa.array(place[len(state) + emitted])).combine_chunks()
        return ChangedRows(
            # The last running aggregate of a window has all of its records, so it is the next
            # state.
            merged.filter(pa.array(run_ends(head))),
            emitted,
            self._columns.results(after),
            np.asarray(after["timestamp_ms"]),
            # A named aggregate never deletes a row. If all rows of a group are subtracted, its row
            # has the count 0.
            np.zeros(len(emitted), dtype=np.bool_),
            {},
        )

    def _with_removals(self, rows: pa.Table, code: Ints, entries: GridEntries) -> ChangedRows:
        """Return the changes of ``rows``, the rows of the state and then the entries.

        ``code`` has the code of the key of each row. The rows have no windows.
        """
        entry_count = len(entries.record)
        of_state = np.zeros(len(rows) - entry_count, dtype=np.bool_)
        is_removal = np.append(of_state, self._removals(entries.batch)[entries.record])
        partition = np.asarray(rows[PARTITION.name]).astype(np.int64)
        # All rows of a key and partition, in the order of their arrival. A removal is a row of its
        # own, so the records after it start again.
        order = np.lexsort((partition, code))
        group = run_starts(code[order], partition[order])
        removes = is_removal[order]
        head = group | removes
        head[1:] |= removes[:-1]
        merged = running(self._columns, rows.take(pa.array(order)), head)
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows))
        # The last row of each partition of the key, at each row in the order of keys and arrival.
        by_key = np.argsort(code, kind="stable")
        index = np.arange(len(rows))
        starts = run_starts(code[by_key])
        first_of_key = index - positions_in_runs(starts)
        if group.sum() == starts.sum():
            # Each key is in one partition, so its last row is the row itself.
            partition = np.zeros(len(rows), dtype=np.int64)
        partitions = np.unique(partition)
        last = np.empty((len(partitions), len(rows)), dtype=np.int64)
        for row_of_last, each in zip(last, partitions, strict=True):
            row_of_last[:] = np.maximum.accumulate(np.where(partition[by_key] == each, index, -1))
        counts = (last >= first_of_key) & ~is_removal[by_key][last]
        is_deleted: Flags = ~np.any(counts, axis=0)
        # A removed row has no partition with records. It is the row of the removal, with nulls.
        counts[0, is_deleted] = True
        last[0, is_deleted] = index[is_deleted]
        of_row, number = np.nonzero(counts.T)
        newest: Ints = last[number, of_row]
        parts = merged.take(pa.array(place[by_key][newest]))
        after = self._columns.merged(parts, Ranges.side_by_side(counts.sum(axis=0)))
        # The rows of the entries, in the order of the entries.
        in_entries = np.empty(len(rows), dtype=np.int64)
        in_entries[by_key] = index
        emitted = in_entries[len(of_state) :]
        is_deleted = is_deleted[emitted]
        after = after.take(pa.array(emitted)).combine_chunks()
        with_row = pa.array(np.arange(entry_count), mask=is_deleted)
        time_ms = np.asarray(after["timestamp_ms"])
        return ChangedRows(
            merged.filter(pa.array(run_ends(group) & ~removes)),
            np.arange(entry_count),
            {name: each.take(with_row) for name, each in self._columns.results(after).items()},
            time_ms,
            is_deleted,
            {},
        )


def starts_of(rows: pa.Table) -> Ints:
    """Return the window starts of state rows in milliseconds."""
    starts: Ints = np.asarray(rows[WINDOW_BOUNDS[0].name])
    return starts
