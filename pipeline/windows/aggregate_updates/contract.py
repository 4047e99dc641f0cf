"""The updates of an aggregation as a stream: after each record, the rows that it has changed.

An update is the record with the aggregates as its value and with the time of the row. The time is
the greatest time of the records of the row, for a session its end. Kafka Streams emits the same
after an aggregation without a cache. In overlapping windows and in sessions, a record changes
several rows and becomes that many flattened records, in the order of Kafka Streams. A flattened
record also becomes several. Rows of several input streams are not counted as flattened records.

Records of a key are applied in the order of stream time, partition and offset. The updates of a key
in one partition therefore depend only on the log. For a key in several partitions, the last update
of a batch is the same for all batches. The earlier ones depend on batches, as they depend on
arrival in Kafka Streams after a repartition topic.

Several streams are inputs of a merge or a cogroup. Their records become records of one stream, in
the order of stream time, log, partition and offset. Each stream keeps its own stream time (decision
0059).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, positions_in_runs, run_starts
from oriel.pipeline.windows.definitions import LEFT, Windows
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins import (
    INPUT_FIELDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputLogs,
    InputRows,
    InputStreamTimes,
    JoinEngine,
    JoinResult,
    apply_order,
    replaced,
    value_fields,
)
from oriel.pipeline.windows.records import (
    APPLY_ORDER,
    LINEAGE,
    NULL_VALUE,
    extended_by,
    lineage_fields,
    with_column,
)

#: The window of a result.
WINDOW_BOUNDS = (pa.field("window_start_ms", pa.int64()), pa.field("window_end_ms", pa.int64()))
#: The reason why a record changes no row. Null in a row.
_REASON = pa.field("reason", pa.string())


@dataclass(frozen=True)
class Updates:
    """The changes of a batch to the state, and the rows to emit.

    Attributes:
        state: The next state.
        record: The index in the batch of the record of each row, in ascending order.
        start_ms: The start of the window of each row.
        end_ms: The end of the window of each row.
        columns: The aggregates of each row.
        timestamp_ms: The time of each row.
        is_deleted: True for each deleted row.
        late: The indexes of late records.
        rejected: Index of a record -> the reason why it changes no row.
        before: The rows before the batch (see ``JoinResult``).
        added: The new rows of the state, if rows never change.
    """

    state: pa.Table
    record: Ints
    start_ms: Ints
    end_ms: Ints
    columns: Mapping[str, pa.Array]
    timestamp_ms: Ints
    is_deleted: Flags
    late: Ints
    rejected: Mapping[int, str]
    before: pa.Table | None = None
    added: pa.Table | None = None


class AggregateUpdatesEngine(JoinEngine):
    """The base of engines for the updates of an aggregation.

    The input is a stream that is grouped by key, the changes of a table, or several streams. A
    result has the record id, the stream time and the lineage of its record. If a record can change
    several rows, the lineage also has the index of the row. For a deleted row, ``null_value`` is
    True. An update of the table can subtract its old row from a group and add its new row to the
    same group. Then both are one update of the group, as in Kafka Streams.

    The state is the state of a store with the same windows, in the same time buckets. Its rows are
    deleted when no partition can have a record for them.
    """

    # A state row affects no window that ends after its ``due_ms``, so each row can be deleted
    # alone. Partition sessions are the exception, because linked ones close together.
    rows_leave_when_due = True

    def __init__(
        self,
        windows: Windows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        carried: pa.Schema | None,
        *,
        inputs: Sequence[InputRows],
    ) -> None:
        """Read ``values`` of a record, and return aggregates of ``types``.

        ``inputs`` describe the rows of the stream, or of each of several streams.

        Raises:
            IllegalArgument: An aggregate or a value has a name that the operator needs.
        """
        self.windows = windows
        # With several streams, an update is a row, and not a record of one stream.
        self.keeps_records = self.keeps_order = len(inputs) == 1
        # Without windows, no record is late, so the results keep the stream time of their input.
        self.owns_stream_time = self.keeps_order and windows.kind != "none"
        #: True if a record with a null value removes the records of its key and partition.
        self._has_removals = any(each.have_removals for each in inputs)
        self.takes_null_values = windows.rule.takes_null_values or self._has_removals
        # For example, with size 10 and advance 5, a record at 12 changes [5, 15) and [10, 20). Its
        # two rows have the same offset, so only an index in the lineage distinguishes them.
        self.makes_elements = windows.rule.changes_several
        self._sides, self._logs = len(inputs), InputLogs([each.lineage for each in inputs])
        self._rows = rows = inputs[LEFT] if len(inputs) == 1 else self._logs.merged
        self._record_id_fields = (*INPUT_FIELDS, *rows.lineage.fields)
        self._carried = list(carried or ())
        bounds = () if windows.kind == "none" else WINDOW_BOUNDS
        given = pa.schema([*types.items(), *bounds])
        own = (*RESULT_FIELDS, NULL_VALUE, _REASON)
        results = value_fields(own, carried, [given])
        # The columns of the apply order in addition to record id and time. Several streams become
        # one stream here, which creates the column of the apply order.
        of_sides = lineage_fields(side.lineage for side in inputs)
        self._order_fields = rows.order_fields if len(inputs) == 1 else of_sides
        record_fields = [*INPUT_FIELDS, *self._order_fields, NULL_VALUE, *self._carried]
        # This call only checks for names that occur twice. An aggregate can have the name of a
        # value, so the results have a check of their own above.
        value_fields(tuple(record_fields), None, [values])
        self.record_schema = pa.schema([*record_fields, *values])
        self.row_schema = pa.schema(types.items())
        self.result_schema = pa.schema([*own, *results])

    @property
    def has_time_buckets(self) -> bool:
        return super().has_time_buckets and self.windows.kind != "none"

    def close_ms(self, times: InputStreamTimes) -> int:
        """Return the time up to which windows are closed, by the slowest partition."""
        # A later record of any stream can change a window, so the slowest stream closes it
        # (semantics.md#2-6).
        slowest_ms = times[LEFT] if self._sides == 1 else min(times)
        return slowest_ms - self.windows.close_delay_ms

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Apply the records in order.

        ``state`` can be a part of the state (see ``WindowEngine``), with at least the rows of the
        time buckets that ``buckets_of_batch`` and ``due`` name.
        """
        batch = self._of_one_stream(self._read(batch))
        # All records are in one apply order, across keys. For each key, this is its own apply
        # order, so one sort is enough for a batch with any number of keys.
        batch = batch.take(pa.array(apply_order(batch))).combine_chunks()
        updates = self._updated(state.combine_chunks(), batch, self.close_ms(times.after))
        rejected = np.array(list(updates.rejected), dtype=np.int64)
        rows = self._results(batch.take(pa.array(updates.record)), updates)
        pieces = [rows, self._rejected(batch.take(pa.array(rejected)), updates)]
        # The results have the partition of the source again, which ``_of_one_stream`` replaced.
        if self._sides > 1:
            pieces = [
                replaced(piece, {"partition": np.asarray(piece["partition"]) // self._sides})
                for piece in pieces
            ]
        # A record without a row is filtered, unless it is late or rejected. Each record has exactly
        # one count (semantics.md#1-3). For example, the deletion of an old row is filtered if the
        # new row of the same update is in the same group.
        without_update = np.ones(len(batch), dtype=np.bool_)
        without_update[updates.record] = False
        emitting = len(batch) - int(without_update.sum())
        without_update[rejected] = without_update[updates.late] = False
        flattened = elements = 0
        if self.windows.rule.changes_several:
            # A flattened record becomes several of the same record, which was counted earlier.
            flattened = 0 if self._rows.are_flattened else emitting
            elements = len(rows) - (emitting - flattened)
        return JoinResult(
            updates.state,
            pieces,
            late=self._by_side(batch.take(pa.array(updates.late))),
            filtered=self._by_side(batch.filter(pa.array(without_update))),
            flattened=flattened,
            elements=elements,
            before=updates.before,
            added=updates.added,
        )

    @abstractmethod
    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        """Apply the records, which are in their apply order, to the rows of their windows.

        Windows are closed for all partitions up to ``close_ms``.
        """

    def _of_one_stream(self, batch: pa.Table) -> pa.Table:
        """Return records of several streams as records of one stream."""
        if self._sides == 1:
            return batch
        logs, stream_time_ms = self._logs.count, np.asarray(batch[STREAM_TIME.name])
        # Stream time and log are one integer, in the order (stream time, log), because a log is
        # less than the number of logs. Times are below 2**48, so the product does not wrap for up
        # to 2**15 logs.
        order = pa.array(stream_time_ms * logs + self._logs.log_of(batch))
        partition = np.asarray(batch["partition"]).astype(np.int64)
        # A store of several streams numbers the partitions in the same way. The number identifies
        # the stream of a record, and so the function of a cogroup that aggregates the record.
        by_side = partition * self._sides + np.asarray(batch[SIDE.name])
        batch = with_column(batch, LINEAGE, self._logs.merged_lineages(batch))
        batch = with_column(batch, APPLY_ORDER, order)
        return replaced(batch, {"partition": by_side})

    def _by_side(self, records: pa.Table) -> tuple[int, ...]:
        """Return the number of records per input."""
        return tuple(np.bincount(np.asarray(records[SIDE.name]), minlength=self._sides).tolist())

    def _results(self, records: pa.Table, updates: Updates) -> pa.Table:
        """Return the rows as results. ``records`` has the record of each row."""
        columns = {
            # The record id replaces these nulls if the rows of the input have a lineage.
            LINEAGE.name: pa.nulls(len(records), LINEAGE.type),
            **{field.name: records[field.name] for field in self._record_id_fields},
            "timestamp_ms": pa.array(updates.timestamp_ms),
            "window_start_ms": updates.start_ms,
            "window_end_ms": updates.end_ms,
            NULL_VALUE.name: updates.is_deleted,
            _REASON.name: pa.nulls(len(records), _REASON.type),
            **updates.columns,
        }
        # Equal values of ``record`` are adjacent, because the rows are in the order of the records.
        if self.windows.rule.changes_several:
            in_record = positions_in_runs(run_starts(updates.record))
            columns[LINEAGE.name] = self._row_lineages(records, in_record)
        # Without windows, the schema has no bounds, so the two columns of bounds are not read.
        names = self.result_schema.names
        return pa.table([columns[name] for name in names], self.result_schema)

    def _row_lineages(self, records: pa.Table, in_record: Ints) -> pa.ChunkedArray:
        """Return the lineages of rows, which end with the index of the row in its record."""
        has_lineage = self._rows.lineage.length > 0
        return extended_by(records[LINEAGE.name] if has_lineage else None, in_record)

    def _rows_table(self, columns: Mapping[str, Any]) -> pa.Table:
        """Return rows of the aggregation. They have bounds only with windows."""
        schema = pa.schema([field for field in self.result_schema if field.name in columns])
        return pa.table([columns[name] for name in schema.names], schema)

    def _rejected(self, records: pa.Table, updates: Updates) -> pa.Table:
        """Return the records on which a function raised, with the reason and without a row."""
        columns = {field.name: records[field.name] for field in self._record_id_fields}
        if self.windows.rule.changes_several and self._rows.lineage.length:
            # A flattened record has no row here, but a lineage of the same form as its rows.
            first = np.zeros(len(records), dtype=np.int64)
            columns[LINEAGE.name] = self._row_lineages(records, first)
        columns[_REASON.name] = pa.array(list(updates.rejected.values()), _REASON.type)
        columns[NULL_VALUE.name] = pa.repeat(pa.scalar(value=False), len(records))
        return pa.table(
            [columns.get(f.name, pa.nulls(len(records), f.type)) for f in self.result_schema],
            self.result_schema,
        )
