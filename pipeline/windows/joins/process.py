"""The rows that a user's functions create from the records and the timers of each key.

Kafka Streams has ``KStream.process`` with a ``KeyValueStore`` and punctuators (KIP-820). Flink has
``KeyedProcessFunction``.

The functions are called for one record or one timer of a key, never for a batch. The stream time
``st`` of a record includes the record.

A timer with the time T fires

    before a record of its key    T <= st of this record
    after a record of its key     T <= st of this record, and its call set the timer
    at the end of a batch         T <= stream time of the partition

in the order of T. Each record of the partition after a batch has a stream time that is at least the
stream time at the end of the batch. So a key has the same calls in the same order for all batches.
In Kafka Streams, a punctuator runs after the records of a poll, at most once.

The results of a partition are in the order (turn, offset, lineage). The turn of a row of a record
is ``st``. The turn of a row of a timer is T, or the ``st`` of the record that set it if this is
greater. The offset is the offset of the last record of the key, and the lineage has the index of
the row after this record. So the order does not depend on batches either. The turn replaces the
stream time of a result, as after ``GraceBufferEngine``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints, lexsort, python_values
from oriel.pipeline.windows.definitions import FOREVER_MS, LEFT
from oriel.pipeline.windows.engines import Expiring, StateReader, Times
from oriel.pipeline.windows.functions import (
    ProcessContext,
    ProcessFunctions,
    Rejected,
    function_values,
)
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    STREAM_TIME,
    InputRows,
    JoinEngine,
    JoinResult,
    apply_order,
    value_fields,
)
from oriel.pipeline.windows.records import LINEAGE, NULL_VALUE, arrival_keys

#: The number of rows of a key after its last record, the time of its first timer, the times of all
#: timers, and the state of the functions.
_ROWS = pa.field("oriel.rows", pa.int64())
_DUE = pa.field("oriel.due_ms", pa.int64())
_TIMERS = pa.field("oriel.timers", pa.list_(pa.int64()))
_STATE = "oriel.state"
#: The reason why a record or a timer has no row. Null in a row.
_REASON = pa.field("reason", pa.string())


class ProcessEngine(JoinEngine):
    """The rows of the functions of a user, which have state and timers by partition and key.

    Its ``InputStreamTimes`` are the stream times of the partitions. The state has one row for each
    partition and key with a state or a timer.
    """

    by_partition = LEFT
    keeps_order = owns_stream_time = takes_null_values = True

    def __init__(
        self,
        functions: ProcessFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: InputRows = RECORDS,
        rejection_text: Callable[[str], str] = str,
    ) -> None:
        """Process records with the columns ``values``.

        ``rejection_text`` returns the text of the reason for which a record is rejected.

        Raises:
            IllegalArgument: A column has a name that the operator needs.
        """
        own = (*INPUT_FIELDS, *rows.lineage.fields, NULL_VALUE)
        columns = value_fields(own, carried, [values])
        self._carried = list(carried or ())
        self._values = pa.schema(columns)
        self.record_schema = pa.schema([*own, *self._carried, *columns])
        key, _, partition, offset, *_ = INPUT_FIELDS
        state = [] if functions.state is None else [
            pa.field(_STATE, pa.struct(list(functions.state)))
        ]  # fmt: skip
        self.state_schema = pa.schema([
            key, partition, offset, *rows.lineage.fields, _ROWS, _DUE, _TIMERS, *state,
            *self._carried,
        ])  # fmt: skip
        results = (*RESULT_FIELDS, _REASON)
        self.result_schema = pa.schema([*results, *value_fields(results, None, [functions.rows])])
        self._functions, self._reason = functions, rejection_text

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the time of the first timer of each row of the state."""
        due_ms: Ints = np.asarray(state[_DUE.name])
        return due_ms

    def held_back_ms(self, held_ms: Sequence[int]) -> int:
        # The stream time after this operator is the greatest time of its results.
        del held_ms
        return 0

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:
        # Each partition has its own stream time. With one range from the least to the greatest
        # stream time, each batch would read the timers of all partitions that are ahead.
        advanced = zip(times.before, times.after, strict=True)
        ranges = {(before + 1, after + 1) for before, after in advanced if after > before}
        expiring = [Expiring(*bounds) for bounds in sorted(ranges)]
        return state.working_set(batch["key"], expiring=expiring)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Call the functions, and return their rows in order. Records that raise are rejected."""
        batch = self._read(batch)
        batch = batch.take(pa.array(lexsort(arrival_keys(batch)))).combine_chunks()
        calls = _Calls(self._functions, self._reason, self._keys_in(state))
        names = ("key", "partition", "offset", "timestamp_ms", STREAM_TIME.name)
        columns = (batch[name].to_pylist() for name in names)
        carried = self._rows_of(batch, self._carried)
        for key, partition, offset, time_ms, stream_time_ms, lineage, own, value in zip(
            *columns, _lineages(batch), carried, function_values(batch, self._values), strict=True
        ):
            one = calls.keys.setdefault((key, partition), _Key(own))
            calls.fire(key, partition, one, stream_time_ms)
            one.offset, one.lineage, one.rows = offset, lineage, 0
            calls.process(key, partition, one, value, time_ms, stream_time_ms)
            # Timers that this call set fire at the stream time of the record.
            calls.fire(key, partition, one, stream_time_ms, turn_ms=stream_time_ms)
        for (key, partition), one in calls.keys.items():
            calls.fire(key, partition, one, times.after[partition])
        results = calls.results(self.result_schema, self._functions.rows)
        results = results.take(pa.array(apply_order(results)))
        return JoinResult(
            calls.state(self.state_schema, self._carried),
            [results],
            rejected=(calls.rejected_records,),
        )

    def _keys_in(self, state: pa.Table) -> "dict[tuple[str, int], _Key]":
        names = ("key", "partition", "offset", _ROWS.name, _TIMERS.name)
        columns = (state[name].to_pylist() for name in names)
        has_state = self._functions.state is not None
        states = python_values(state[_STATE]) if has_state else [None] * len(state)
        return {
            (key, partition): _Key(own, offset, lineage, rows, timers, own_state)
            for key, partition, offset, rows, timers, lineage, own, own_state in zip(
                *columns, _lineages(state), self._rows_of(state, self._carried), states, strict=True
            )
        }

    @staticmethod
    def _rows_of(rows: pa.Table, fields: Sequence[pa.Field]) -> list[tuple[Any, ...]]:
        """Return the values of some columns of each row."""
        if not fields:
            return [()] * len(rows)
        return list(zip(*(rows[each.name].to_pylist() for each in fields), strict=True))


@dataclass(slots=True)
class _Key:
    """A key of a partition.

    Attributes:
        carried: The values of the carried columns.
        offset: The offset of its last record.
        lineage: The lineage of this record.
        rows: The number of rows after this record.
        timers: The times of its timers, ascending.
        state: The state of the functions.
    """

    carried: tuple[Any, ...]
    offset: int = -1
    lineage: bytes = b""
    rows: int = 0
    timers: list[int] = field(default_factory=list)
    state: dict[str, Any] | None = None


class _Calls:
    """The calls of the functions in a batch, with the rows that they return."""

    def __init__(
        self,
        functions: ProcessFunctions,
        reason: Callable[[str], str],
        keys: dict[tuple[str, int], _Key],
    ) -> None:
        self._functions, self._reason = functions, reason
        self.keys = keys
        self.rejected_records = 0
        #: Key, time, partition, offset, lineage, turn, reason and value of each row.
        self._rows: list[tuple[Any, ...]] = []

    def process(
        self, key: str, partition: int, one: _Key, value: Any, time_ms: int, stream_time_ms: int
    ) -> None:
        """Call the function with a record."""
        context = ProcessContext(
            time_ms, stream_time_ms, self._functions.copied(one.state), one.timers
        )
        try:
            rows = self._functions.of_record(key, value, context)
        except Rejected as error:
            self.rejected_records += 1
            self._add(key, partition, one, context, None, self._reason(str(error)))
            return
        self._finish(key, partition, one, context, rows)

    def fire(self, key: str, partition: int, one: _Key, until_ms: int, turn_ms: int = 0) -> None:
        """Fire the timers up to a stream time. Their turn is at least ``turn_ms``."""
        while one.timers and one.timers[0] <= until_ms:
            time_ms, *later = one.timers
            one.timers = later
            # A timer in the past of the timer that fires would fire again and again, if its
            # function sets itself again.
            state = self._functions.copied(one.state)
            context = ProcessContext(
                time_ms, max(time_ms, turn_ms), state, later, earliest_timer_ms=time_ms + 1
            )
            try:
                rows = self._functions.of_timer(key, context)
            except Rejected as error:
                self._add(key, partition, one, context, None, self._reason(str(error)))
                continue
            self._finish(key, partition, one, context, rows)

    def results(self, schema: pa.Schema, values: pa.Schema) -> pa.Table:
        """Return all rows, and records and timers that were rejected, as results."""
        of_row = list(zip(*self._rows, strict=True)) or [()] * 8
        names = (*(each.name for each in RESULT_FIELDS), _REASON.name)
        *own, row_values = of_row
        columns = dict(zip(names, own, strict=True))
        for name in values.names:
            columns[name] = [None if value is None else value[name] for value in row_values]
        arrays = [pa.array(columns[each.name], each.type) for each in schema]
        return pa.table(arrays, schema=schema)

    def state(self, schema: pa.Schema, carried: Sequence[pa.Field]) -> pa.Table:
        """Return the next state. A key without a state and without a timer has no row."""
        kept = {
            place: one for place, one in self.keys.items() if one.timers or one.state is not None
        }
        of_keys = list(kept.values())
        columns: dict[str, list[Any]] = {
            "key": [key for key, _ in kept],
            "partition": [partition for _, partition in kept],
            "offset": [one.offset for one in of_keys],
            LINEAGE.name: [one.lineage for one in of_keys],
            _ROWS.name: [one.rows for one in of_keys],
            _DUE.name: [one.timers[0] if one.timers else FOREVER_MS for one in of_keys],
            _TIMERS.name: [one.timers for one in of_keys],
            _STATE: [one.state for one in of_keys],
            **{
                each.name: [one.carried[number] for one in of_keys]
                for number, each in enumerate(carried)
            },
        }
        arrays = [pa.array(columns[each.name], each.type) for each in schema]
        return pa.table(arrays, schema=schema)

    def _finish(
        self,
        key: str,
        partition: int,
        one: _Key,
        context: ProcessContext,
        rows: list[dict[str, Any]],
    ) -> None:
        """Apply the changes of a call that did not raise, and add its rows."""
        one.state, one.timers = context.state, list(context.timers)
        for row in rows:
            self._add(key, partition, one, context, row)
            one.rows += 1

    def _add(
        self,
        key: str,
        partition: int,
        one: _Key,
        context: ProcessContext,
        row: dict[str, Any] | None,
        reason: str | None = None,
    ) -> None:
        lineage = one.lineage + one.rows.to_bytes(8, "big")
        self._rows.append((
            key, context.timestamp_ms, partition, one.offset, lineage, context.stream_time_ms,
            reason, row,
        ))  # fmt: skip


def _lineages(rows: pa.Table) -> list[bytes]:
    """Return the lineage of each row, empty without one."""
    if LINEAGE.name not in rows.column_names:
        return [b""] * len(rows)
    return [lineage or b"" for lineage in rows[LINEAGE.name].to_pylist()]
