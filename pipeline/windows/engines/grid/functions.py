"""Tumbling, hopping or no windows with functions of the user.

The state has one row per key, window and source partition. Within a partition, the aggregator is
called in offset order. The value of a window is the merge of its partitions, the lowest partition
first, so the result does not depend on the interleaving of partitions (docs/decisions/0011).

If a function returns None, the row is removed (semantics.md#9). The removed row has the time that
it would have had. Within a partition, this is the greater of the times of the old row and the
record. If several partitions removed their partial aggregate in this batch, the greatest time
counts.

If the functions are compiled, the records of each row are one run of the compiled loop. If the loop
skips a run, or if a record has a null value, all records of the key are added record by record. A
record on which a function raises is then in none of its windows.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    coded_keys,
    lexsort,
    range_extremes,
    run_starts,
)
from oriel.pipeline.windows.definitions import EmitStrategy, NoWindows, TimeWindows
from oriel.pipeline.windows.engines.contract import EngineResult
from oriel.pipeline.windows.engines.grid.declarative import GridEngine, WindowGrid
from oriel.pipeline.windows.engines.grid.partitions import PartitionAggregates
from oriel.pipeline.windows.engines.operator import Times
from oriel.pipeline.windows.functions import (
    Compilation,
    CompiledFunctions,
    Rejected,
    UserFunctions,
    function_fields,
    function_values,
    merged_in_order,
    rejected_table,
)
from oriel.pipeline.windows.records import (
    NOTHING_OBSERVED_MS,
    NULL_VALUE,
    RECORD_FIELDS,
    are_retractions,
    arrival_keys,
    changed_rows,
    greatest_ms,
    rows_schema,
    update_keys,
)

#: A window: the code of its key, and its start in milliseconds.
_Window = tuple[int, int]


class _PartitionAggregate(NamedTuple):
    """The partial aggregate of a window and partition. It is ``None`` if this batch removed it."""

    aggregate: Any
    timestamp_ms: int


#: The partial aggregates of each window by their partition (``UserFunctions.aggregation_group``).
_Windows = dict[_Window, dict[int, _PartitionAggregate]]


class TimeFunctionsEngine(GridEngine):
    """An aggregation by functions of a user over tumbling, hopping or no windows."""

    compilation: Compilation

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        fold: UserFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        emit: EmitStrategy,
    ) -> None:
        """Aggregate values of this schema by ``fold``. ``carried`` are columns of the key."""
        self.windows = windows
        self._grid = WindowGrid(windows)
        self._emit = emit
        self._fold = fold
        self.compilation = Compilation.of(fold, values)
        self._values = values
        self._carried_names = [] if carried is None else carried.names
        self.aggregate_types = dict(fold.types)
        self.record_schema = pa.schema([*RECORD_FIELDS, *(carried or ()), *function_fields(values)])
        window_part = pa.schema([("window_start_ms", pa.int64()), ("partition", pa.int32())])
        self.state_schema = rows_schema(window_part, carried or (), pa.schema(fold.types))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """Return the changes of a batch, after which the state has no final windows."""
        (close_ms,) = times.after
        batch = self._read(batch)
        (state_code, code), keys = coded_keys(state["key"], batch["key"])
        final_now = ~self._grid.is_open(np.asarray(state["window_start_ms"]), close_ms)
        # Functions read only the rows of the working set. All other rows are copied to the next
        # state unchanged.
        working_set = np.isin(state_code, code) | final_now
        before = PartitionAggregates.of_state(
            state.filter(pa.array(working_set)), state_code[working_set], list(self._fold.types)
        )
        parts, rejected = self._added(before, batch, code, keys)
        # The carried columns belong to the key, so every row of a key has them.
        row_of_key = np.zeros(len(keys), dtype=np.int64)
        row_of_key[state_code] = np.arange(len(state))
        row_of_key[code] = len(state) + np.arange(len(batch))
        carried = pa.concat_tables([rows.select(self._carried_names) for rows in (state, batch)])
        kept = parts.keep(self._grid.is_open(parts.start_ms, close_ms) & ~parts.removed)
        carried = carried.take(pa.array(row_of_key[kept.code]))
        rows = {
            "key": keys.take(pa.array(kept.code)),
            "window_start_ms": pa.array(kept.start_ms),
            "partition": pa.array(kept.partition, pa.int32()),
            "timestamp_ms": pa.array(kept.time_ms),
            **dict(zip(carried.column_names, carried.columns, strict=True)),
            **dict(zip(self._fold.types, kept.aggregates.columns, strict=True)),
        }
        names = self.state_schema.names
        kept_rows = pa.table([rows[name] for name in names], schema=self.state_schema)
        accepted = np.ones(len(batch), dtype=np.bool_)
        accepted[[row for row, _ in rejected]] = False
        # The last window of a record has its greatest start. If this window were closed, the record
        # would be late, because ends ascend with starts.
        last = self._grid.last_windows(np.asarray(batch["timestamp_ms"])[accepted])
        return EngineResult(
            pa.concat_tables([state.filter(pa.array(~working_set)), kept_rows]),
            self._changes(parts, keys, close_ms),
            rejected=rejected_table(batch, rejected),
            # With on_window_close, only final windows are emitted, and they are never removed.
            defined_ms=NOTHING_OBSERVED_MS
            if self._emit.is_on_close
            else greatest_ms(self._grid.starts(last)),
        )

    def _added(
        self, before: PartitionAggregates, batch: pa.Table, code: Ints, keys: pa.Array
    ) -> tuple[PartitionAggregates, list[tuple[int, str]]]:
        """Add the records of a batch to the partial aggregates of their keys.

        Returns the partial aggregates, and the rows of rejected records with the reason.
        """
        compiled = self.compilation.current
        if compiled is None:
            return self._added_by_records(before, np.arange(len(batch)), batch, code)
        by_record = np.zeros(len(keys), dtype=np.bool_)
        # The loop reads columns, in which a null value looks like a value whose columns are null.
        # The functions receive None for it.
        by_record[code[np.asarray(batch[NULL_VALUE.name])]] = True
        parts, skipped = self._added_by_runs(
            compiled,
            before.keep(~by_record[before.code]),
            np.flatnonzero(~by_record[code]),
            batch,
            code,
            keys,
        )
        by_record |= skipped
        if not by_record.any():
            return parts, []
        # The loop has not changed ``before``, so a skipped key starts again from the aggregates of
        # the state.
        others, rejected = self._added_by_records(
            before.keep(by_record[before.code]), np.flatnonzero(by_record[code]), batch, code
        )
        return parts.keep(~by_record[parts.code]).followed_by(others), rejected

    def _added_by_runs(
        self,
        compiled: CompiledFunctions,
        before: PartitionAggregates,
        rows: Ints,
        batch: pa.Table,
        code: Ints,
        keys: pa.Array,
    ) -> tuple[PartitionAggregates, Flags]:
        """Add rows of the batch by the compiled loop, and return for each key if it was skipped."""
        time_ms, close_ms, partition = (
            np.asarray(batch[name])[rows] for name in ("timestamp_ms", "close_ms", "partition")
        )
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        windows = Ranges(first_open, self._grid.last_windows(time_ms) + 1)
        record, number = windows.owners, windows.rows()[1]
        # The last key counts first: key, window, partition, and then the arrival.
        places = self._fold.aggregation_groups(partition)[record], number, code[rows][record]
        arrival = (numbers[rows][record] for numbers in arrival_keys(batch))
        order = lexsort((*arrival, *places))
        record = record[order]
        partition, number, own_code = (numbers[order] for numbers in places)
        runs = Ranges.of_runs(run_starts(partition, number, own_code))
        begin = runs.low
        newest_ms = np.maximum.reduceat(time_ms[record], begin) if len(begin) else begin
        places = partition[begin], self._grid.starts(number[begin]), own_code[begin]

        # A run continues the partial aggregate of the same key, window and partition in the state.
        both = [np.concatenate(own) for own in zip(before.places, places, strict=True)]
        # The rows of the state are first, and the sort is stable. A place has at most one row of
        # the state and one run, so a run is the last row of its place.
        order = lexsort(both)
        same = Ranges.of_runs(run_starts(*(numbers[order] for numbers in both)))
        first, last = order[same.low], order[same.high - 1]
        start = np.full(len(begin), -1, dtype=np.int64)
        start[last[first != last] - len(before)] = first[first != last]
        known = start >= 0
        newest_ms[known] = np.maximum(newest_ms[known], before.time_ms[start[known]])

        run_keys = keys.take(pa.array(places[-1]))
        folded = compiled.folded(
            batch.select(compiled.columns).take(pa.array(rows[record])),
            runs.sizes, run_keys, before.aggregates, start,
        )  # fmt: skip
        changed = np.ones(len(begin), dtype=np.bool_)
        partition, start_ms, own_code = places
        # No run removes its row, because the loop skips a run in which a function returns None.
        new = PartitionAggregates(
            own_code, start_ms, partition, newest_ms, known, changed, ~changed, folded.aggregates
        )
        skipped = np.zeros(len(keys), dtype=np.bool_)
        skipped[new.code[folded.skipped]] = True
        return before.followed_by(new).take(last), skipped

    def _added_by_records(
        self, before: PartitionAggregates, rows: Ints, batch: pa.Table, code: Ints
    ) -> tuple[PartitionAggregates, list[tuple[int, str]]]:
        """Call the aggregator for each row of ``rows`` and each open window.

        Returns the partial aggregates, and the rejected rows with the reason. If one call raises,
        the record is rejected in all of its windows.
        """
        windows: _Windows = {}
        numbers = (before.code, before.start_ms, before.partition, before.time_ms)
        columns = (column.tolist() for column in numbers)
        for key, start, partition, time_ms, aggregate in zip(
            *columns, self._fold.read(before.aggregates), strict=True
        ):
            windows.setdefault((key, start), {})[partition] = _PartitionAggregate(
                aggregate, time_ms
            )
        # A row that the batch creates and removes was never emitted, so it is not deleted later.
        # The set distinguishes it from a row of the state.
        known = {(*window, own) for window, own_parts in windows.items() for own in own_parts}
        changed, rejected = self._apply(batch.take(pa.array(rows)), code[rows], windows)
        entries = [
            (*window, partition, part)
            for window, own_parts in windows.items()
            for partition, part in own_parts.items()
        ]
        places = [entry[:3] for entry in entries]
        parts = [entry[3] for entry in entries]
        own_code, start_ms, own_partition = np.array(places, dtype=np.int64).reshape(-1, 3).T
        after = PartitionAggregates(
            own_code,
            start_ms,
            own_partition,
            np.array([part.timestamp_ms for part in parts], dtype=np.int64),
            known=np.array([place in known for place in places], dtype=np.bool_),
            changed=np.array([place in changed for place in places], dtype=np.bool_),
            removed=np.array([part.aggregate is None for part in parts], dtype=np.bool_),
            aggregates=pa.table(
                self._fold.columns([part.aggregate for part in parts]),
                schema=before.aggregates.schema,
            ),
        )
        return after, [(int(rows[row]), reason) for row, reason in rejected]

    def _apply(
        self, batch: pa.Table, code: Ints, windows: _Windows
    ) -> tuple[set[tuple[int, int, int]], list[tuple[int, str]]]:
        """Call the aggregator for every record and open window, and update ``windows``.

        Returns the changed partial aggregates by (key, window, partition), and the rejected rows.
        """
        changed: set[tuple[int, int, int]] = set()
        rejected: list[tuple[int, str]] = []
        time_ms, close_ms = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        first_start_ms = self._grid.starts(first_open).tolist()
        last_start_ms = self._grid.starts(self._grid.last_windows(time_ms)).tolist()
        values, codes = function_values(batch, self._values), code.tolist()
        names = ("key", "timestamp_ms", "input")
        keys, times, inputs = (batch[name].to_pylist() for name in names)
        partitions = self._fold.aggregation_groups(np.asarray(batch["partition"])).tolist()
        # Functions see the records of a partition in the order of arrival, and not of times
        # (decision 0011).
        order = lexsort(arrival_keys(batch))
        is_retraction, completes_update = self._changes_in(batch, order)
        before_update: dict[_Window, _PartitionAggregate | None] = {}
        is_rejected = False
        for row in order.tolist():
            # ``KTableAggregate`` of Kafka Streams writes a group after both calls of an update. So
            # if the subtractor raises, the adder is not called. If the adder raises, the
            # subtraction is undone.
            if completes_update[row] and is_rejected:
                continue
            if not completes_update[row]:
                before_update = {}
            timestamp_ms, partition = times[row], partitions[row]
            # ``windows`` changes only after all calls for this record. If a function raises for the
            # second of two windows, the first one also stays unchanged.
            new_parts: dict[_Window, _PartitionAggregate | None] = {}
            is_rejected = False
            try:
                # A partly late record has only its last windows here. Without windows, the only
                # start is 0.
                starts = range(first_start_ms[row], last_start_ms[row] + 1, self._grid.advance_ms)
                for start_ms in starts:
                    window = (codes[row], start_ms)
                    old = windows.get(window, {}).get(partition)
                    aggregate = None if old is None else old.aggregate
                    if is_retraction[row]:
                        result = self._fold.subtracted(keys[row], values[row], aggregate)
                    else:
                        result = self._fold.applied(inputs[row], keys[row], values[row], aggregate)
                    newest_ms = timestamp_ms
                    # After a removed row, the aggregate and its time start again. The exception is
                    # one update, whose subtractor removed the row before its adder.
                    if old is not None and (aggregate is not None or completes_update[row]):
                        newest_ms = max(old.timestamp_ms, timestamp_ms)
                    new_parts[window] = _PartitionAggregate(result, newest_ms)
            except Rejected as error:
                rejected.append((row, str(error)))
                is_rejected = True
                new_parts, before_update = before_update, {}
            for window, part in new_parts.items():
                own = windows.setdefault(window, {})
                before_update[window] = own.pop(partition, None)
                if part is not None:
                    own[partition] = part
                changed.add((*window, partition))
        return changed, rejected

    def _changes_in(self, batch: pa.Table, order: Ints) -> tuple[list[bool], list[bool]]:
        """Return which records are old rows to subtract, and which new rows complete an update.

        In ``order``, such a new row directly follows the old row of the same record in the same
        group.
        """
        if self._fold.subtractor is None:
            none = [False] * len(batch)
            return none, none
        old = are_retractions(batch)
        completes_update = np.zeros(len(batch), dtype=np.bool_)
        (key_code,), _ = coded_keys(batch["key"])
        is_same = ~run_starts(*(key[order] for key in (key_code, *update_keys(batch))))[1:]
        completes_update[order[1:]] = is_same & old[order[:-1]] & ~old[order[1:]]
        return old.tolist(), completes_update.tolist()

    def _changes(self, parts: PartitionAggregates, keys: pa.Array, close_ms: int) -> pa.Table:
        """Return the changed rows by key and start."""
        # The partitions of a window are adjacent and ascend, which is the order of the merge.
        parts = parts.take(lexsort(parts.places))
        windows = Ranges.of_runs(run_starts(parts.start_ms, parts.code))
        final = ~self._grid.is_open(parts.start_ms[windows.low], close_ms)
        # Only rows that can be emitted are evaluated, because the merger is code of the user.
        evaluated = self._emit.emits(windows.any_of(parts.changed), final)
        parts, final = parts.keep(evaluated[windows.owners]), final[evaluated]
        windows = Ranges.side_by_side(windows.sizes[evaluated])
        was_known = windows.any_of(parts.known)
        present = windows.totals(~parts.removed)
        # A removed row has the greatest time of its partitions, which all removed their part.
        counts = ~parts.removed | (present == 0)[windows.owners]
        times_ms = np.where(counts, parts.time_ms, NOTHING_OBSERVED_MS)
        timestamp_ms = range_extremes(times_ms, windows, np.maximum)

        # One partial aggregate is the row itself. Kafka Streams has no merger for time windows, so
        # with one partition the merger must have no effect.
        several = present > 1
        merged = merged_in_order(
            self._fold,
            keys.take(pa.array(parts.code)).filter(pa.array(~parts.removed)),
            parts.partition[~parts.removed].tolist(),
            parts.aggregates.filter(pa.array(~parts.removed)),
            windows.among(~parts.removed).keep(several),
        )
        # The first partial aggregate that is not removed. If all are removed, any row will do.
        rows = np.where(parts.removed, len(parts) - 1, np.arange(len(parts)))
        aggregates = parts.aggregates.take(pa.array(range_extremes(rows, windows, np.minimum)))
        aggregates = self._fold.replaced(aggregates, several, merged)
        deleted = present == 0
        deleted[several] = [aggregate is None for aggregate in merged]
        aggregates = self._fold.replaced(aggregates, deleted, [None] * int(deleted.sum()))

        # A removal changes a window that had a row, and is never final. With on_window_close, that
        # row was never emitted.
        emitted = self._emit.emits(was_known | ~deleted, final & ~deleted)
        chosen = aggregates.filter(pa.array(emitted))
        first = windows.low[emitted]
        start_ms = parts.start_ms[first]
        return changed_rows(
            keys.take(pa.array(parts.code[first])),
            (start_ms, self._grid.ends(start_ms)),
            dict(zip(self._fold.types, chosen.columns, strict=True)),
            timestamp_ms[emitted],
            final=final[emitted],
            deleted=deleted[emitted],
        )
