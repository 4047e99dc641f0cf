"""The updates of an aggregation as a stream: after each record the rows that it has changed.

What goes on is the record itself, with the aggregates in place of its values and with the row's
time, which is the greatest of the row's records (of a session its end): what Kafka Streams sends
behind an aggregation whose updates no cache holds back. In windows that overlap, and in sessions, a
record changes several rows, and goes on as so many elements, in Kafka's order; an element goes on
as so many others. (Of several streams, below, rows are rows, and no elements of anything.)

Records of a key take effect in the order (stream time, partition, offset). So a key that comes
from one partition has updates that follow from the log alone, in any cut into batches. Of a key
that comes from several, the last update of a batch is the same in any cut, and which ones stand in
between follows from the batches, as in Kafka from arrival (behind a repartition topic).

Several streams, merged ones or those of a cogroup, are so many sides, and their records become
those of one stream, in the order (stream time, log, partition, offset); each keeps its own clock
(decision 0059).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, heads, places_in_runs
from oriel.pipeline.windows.definitions import LEFT, Windows
from oriel.pipeline.windows.engines import Due
from oriel.pipeline.windows.joins import (
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    JoinEngine,
    JoinResult,
    SideLogs,
    SideRows,
    effect_order,
    replaced,
    values_beside,
)
from oriel.pipeline.windows.records import (
    EFFECT,
    NULL_VALUE,
    PLACE_FIELDS,
    SUBORDER,
    with_column,
)

#: Of which window a result is.
WINDOW_BOUNDS = (pa.field("window_start_ms", pa.int64()), pa.field("window_end_ms", pa.int64()))
#: Why a record has no part in any row, null in a row.
_REASON = pa.field("reason", pa.string())
#: Of sliding windows and sessions a record changes fewer rows than this.
_MOST_ROWS = 2**20


@dataclass(frozen=True)
class Updates:
    """What a batch makes of the state, and the rows that it tells.

    ``state``: the next state, of which ``added`` came with the batch, where rows never change.
    ``record`` has for each row the number of the record that it follows, in the batch that was
    taken; it ascends. ``start_ms`` and ``end_ms`` are the bounds of its window, ``columns`` its
    aggregates, ``timestamp_ms`` its time; ``gone`` says of which rows none is left. ``late`` are
    the numbers of records that no window takes; ``rejected`` has by a record's number why it has no
    part in any row. ``before``: the rows ahead of the batch, see ``JoinResult``.
    """

    state: pa.Table
    record: Ints
    start_ms: Ints
    end_ms: Ints
    columns: Mapping[str, pa.Array]
    timestamp_ms: Ints
    gone: Flags
    late: Ints
    rejected: Mapping[int, str]
    before: pa.Table | None = None
    added: pa.Table | None = None


class AggregateUpdatesEngine(JoinEngine):
    """The updates of an aggregation.

    Its side is the stream, grouped by key, or a table's changes; of several streams each is one. A
    result has the place and the stream time of its record, and its suborder; where a record may
    change several rows, that has the number of the row in it, too. Where a row is gone it tells
    that (``null_value``). A change that takes a row away and one that puts another there, both of a
    group, are one update, as in Kafka.

    The state is what a store's engine of the same windows keeps, in such units. Its rows leave when
    no partition can bring a record for them any more.
    """

    #: As in ``WindowEngine``.
    rows_leave_when_due: bool = True
    rows_never_change: bool = False
    #: How many rows one record changes at most.
    _rows_of_record: int = _MOST_ROWS

    def __init__(
        self,
        windows: Windows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        carried: pa.Schema | None,
        *,
        sides: Sequence[SideRows],
    ) -> None:
        """Read ``values`` of a record, and give aggregates of ``types``.

        ``sides`` say what the rows of the stream are, or of each of several.

        Raises:
            IllegalArgument: an aggregate or a value has a name that the stage needs.
        """
        self.windows = windows
        self._sides, self._logs = len(sides), SideLogs([each.places for each in sides])
        self._rows = rows = sides[LEFT] if len(sides) == 1 else self._logs.merged
        self._place_fields = (*SIDE_FIELDS, *rows.places.fields)
        self._result_places = rows.places.of_updates(windows)
        self._carried = list(carried or ())
        bounds = () if windows.kind == "none" else WINDOW_BOUNDS
        given = pa.schema([*types.items(), *bounds])
        # Rows behind have a suborder in any case.
        numbers = self._result_places.fields or [SUBORDER]
        own = (*PLACE_FIELDS, *numbers, STREAM_TIME, NULL_VALUE, _REASON)
        results = values_beside(own, carried, [given])
        # What puts records in order beside place and time; several streams get an order here.
        of_sides = max((side.places.fields for side in sides), key=len)
        self._order_fields = rows.order_fields if len(sides) == 1 else of_sides
        beside = [*SIDE_FIELDS, *self._order_fields, NULL_VALUE, *self._carried]
        values_beside(tuple(beside), None, [values])
        self.record_schema = pa.schema([*beside, *values])
        self.row_schema = pa.schema(types.items())
        self.result_schema = pa.schema([*own, *results])

    def units(self, state: pa.Table) -> Ints:
        return np.zeros(len(state), dtype=np.int64)

    def touched_units(self, batch: pa.Table) -> Ranges:
        none = np.zeros(len(batch), dtype=np.int64)
        return Ranges(none, none + 1)

    @abstractmethod
    def due_ms(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""

    def unit_due_ms(self, state: pa.Table) -> Ints:
        return self.due_ms(state)

    def due(self, previous_close_ms: int, close_ms: int) -> tuple[Due, ...]:
        """See ``WindowEngine``; what leaves is looked at to be counted."""
        return (Due(previous_close_ms, close_ms),)

    def close_ms(self, clocks: Clocks) -> int:
        """Up to when windows are closed, by the slowest partition's stream time."""
        slowest_ms = clocks[LEFT] if self._sides == 1 else min(clocks)
        return slowest_ms - self.windows.close_delay_ms

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Let the records take effect, each behind those before it.

        ``state`` may be a part, see ``WindowEngine``: at least the rows of the units that
        ``touched_units`` and ``due`` name.
        """
        batch = self._of_one_stream(self._read(batch))
        batch = batch.take(pa.array(effect_order(batch))).combine_chunks()
        updates = self._updated(state.combine_chunks(), batch, self.close_ms(clocks))
        rejected = np.array(list(updates.rejected), dtype=np.int64)
        rows = self._results(batch.take(pa.array(updates.record)), updates)
        pieces = [rows, self._rejected(batch.take(pa.array(rejected)), updates)]
        if self._sides > 1:
            pieces = [
                replaced(piece, {"partition": np.asarray(piece["partition"]) // self._sides})
                for piece in pieces
            ]
        is_silent = np.ones(len(batch), dtype=np.bool_)
        is_silent[updates.record] = False
        told = len(batch) - int(is_silent.sum())
        is_silent[rejected] = is_silent[updates.late] = False
        flattened = elements = 0
        if self.windows.rule.changes_several:
            # An element goes on as so many of the same record, whose own way has ended before.
            flattened = 0 if self._rows.are_elements else told
            elements = len(rows) - (told - flattened)
        return JoinResult(
            updates.state,
            pieces,
            late=self._by_side(batch.take(pa.array(updates.late))),
            filtered=self._by_side(batch.filter(pa.array(is_silent))),
            flattened=flattened,
            elements=elements,
            before=updates.before,
            added=updates.added,
        )

    @abstractmethod
    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        """Let the records, which stand in the order of effect, change the rows of their windows.

        Windows are closed for all partitions up to ``close_ms``.
        """

    def _of_one_stream(self, batch: pa.Table) -> pa.Table:
        """Records of several streams as those of one: partitions of each, order, numbers."""
        if self._sides == 1:
            return batch
        logs, stream_time_ms = self._logs.count, np.asarray(batch[STREAM_TIME.name])
        places = self._rows.places
        numbers = places.written(self._logs.update_numbers(batch))
        effect = pa.array(stream_time_ms * logs + self._logs.numbers(batch))
        partition = np.asarray(batch["partition"]).astype(np.int64)
        by_side = partition * self._sides + np.asarray(batch[SIDE.name])
        for field in places.fields:
            batch = with_column(batch, field, numbers[field.name])
        batch = with_column(batch, EFFECT, effect)
        return replaced(batch, {"partition": by_side})

    def _by_side(self, records: pa.Table) -> tuple[int, ...]:
        """How many records are of each side."""
        return tuple(np.bincount(np.asarray(records[SIDE.name]), minlength=self._sides).tolist())

    def _results(self, records: pa.Table, updates: Updates) -> pa.Table:
        """The rows as results; ``records`` has the record that each follows."""
        columns = {
            SUBORDER.name: pa.nulls(len(records), SUBORDER.type),
            **{field.name: records[field.name] for field in self._place_fields},
            "timestamp_ms": pa.array(updates.timestamp_ms),
            "window_start_ms": updates.start_ms,
            "window_end_ms": updates.end_ms,
            NULL_VALUE.name: updates.gone,
            _REASON.name: pa.nulls(len(records), _REASON.type),
            **updates.columns,
        }
        if self.windows.rule.changes_several:
            in_record = places_in_runs(heads(updates.record))
            columns |= self._row_numbers(records, in_record)
        names = self.result_schema.names
        return pa.table([columns[name] for name in names], self.result_schema)

    def _row_numbers(self, records: pa.Table, in_record: Ints) -> dict[str, pa.Array]:
        """What tells rows apart: the numbers of the ``records`` that make them, and ``in_record``.

        That is each row's number among its record's.
        """
        places, results = self._rows.places, self._result_places
        if results.numbers > max(places.numbers, 1):
            return places.beside(records, in_record)
        numbers = places.read(records)
        first = numbers[:, 0] if places.numbers else np.zeros(len(records), dtype=np.int64)
        suborder = places.numbers_of_rows(first, in_record, self._rows_of_record)
        return {SUBORDER.name: pa.array(suborder)}

    def _rows_table(self, columns: Mapping[str, Any]) -> pa.Table:
        """Rows of the aggregation, which have their bounds only where there are windows."""
        schema = pa.schema([field for field in self.result_schema if field.name in columns])
        return pa.table([columns[name] for name in schema.names], schema)

    def _rejected(self, records: pa.Table, updates: Updates) -> pa.Table:
        """The records that a function raised on as results, with the reason and without a row."""
        columns = {field.name: records[field.name] for field in self._place_fields}
        if self.windows.rule.changes_several and self._rows.places.fields:
            # An element has none of its rows; its numbers are as theirs are.
            columns |= self._row_numbers(records, np.zeros(len(records), dtype=np.int64))
        columns[_REASON.name] = pa.array(list(updates.rejected.values()), _REASON.type)
        columns[NULL_VALUE.name] = pa.repeat(pa.scalar(value=False), len(records))
        return pa.table(
            [columns.get(f.name, pa.nulls(len(records), f.type)) for f in self.result_schema],
            self.result_schema,
        )
