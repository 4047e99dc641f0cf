"""The expiry of keys: the records of a stream or a table, and the removals of keys without records.

A record has the time ``t``, and its partition has the stream time ``st`` when it arrives. T is
``ttl_ms``. All rules are for a key in one partition:

    late        t < st - T
    newest      for an aggregation, the greatest time of the records. For a table, the time of the
                last record, which is the row
    expired     newest < st - T
    removal     for each expiry, one record with a null value and the time newest + T + 1

The removal belongs to the first stream time that is greater than ``newest + T``, whichever record
advances the stream time further. A record finds its key already removed if it arrives after this
stream time. So neither the batches nor other keys matter, only the log of the partition.

A removal has the record id of the last record of its key, with 1 at the end of the lineage, while
records have 0. Its stream time is its own time, so it is after the last record and before the next
record of its key in the apply order.

The state has the newest time and the last record id of each key and partition. The index of due
rows in the state finds the expired keys, so a batch reads no other keys.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    coded_keys,
    lexsort,
    run_ends,
    run_starts,
    running_max,
)
from oriel.pipeline.windows.definitions import LEFT
from oriel.pipeline.windows.engines import Expiring, StateReader, Times
from oriel.pipeline.windows.joins import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputRows,
    JoinEngine,
    JoinResult,
    value_fields,
)
from oriel.pipeline.windows.records import (
    LINEAGE,
    NULL_VALUE,
    RECORD_ID_FIELDS,
    arrival_keys,
    extended_by,
    with_column,
)

#: Times are below 2**48 ms, so a partition and a time are one integer, ordered by partition.
_PARTITION_MS = 2**48


class ExpiryEngine(JoinEngine):
    """The records of one input that are not late, and the removals of expired keys.

    Its ``InputStreamTimes`` are the stream times of the partitions. Results are not counted as
    records, because removals are not records. So accepted records end here.
    """

    by_partition = LEFT

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        ttl_ms: int,
        of_table: bool,
        rows: InputRows = RECORDS,
    ) -> None:
        """Read records with the columns ``values``.

        ``of_table``: the last record of a key is its row, and a null value deletes the row.

        Raises:
            IllegalArgument: A column has a name that the operator needs.
        """
        columns = value_fields((*RESULT_FIELDS, SIDE, NULL_VALUE), carried, [values])
        own = (*INPUT_FIELDS, *rows.lineage.fields, NULL_VALUE)
        self.record_schema = pa.schema([*own, *(carried or ()), *columns])
        self.state_schema = pa.schema([*RECORD_ID_FIELDS, *rows.lineage.fields, *(carried or ())])
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, *columns])
        self.takes_null_values = self._of_table = of_table
        self._ttl_ms = ttl_ms

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the newest time of each row, after its partition."""
        due_ms: Ints = _partition(state) * _PARTITION_MS + np.asarray(state["timestamp_ms"])
        return due_ms

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:
        """Return the rows of the keys of the batch, and the rows that expire with the batch."""
        # Each partition has its own range of due rows, because each has its own stream time.
        expiring = []
        for partition, (before_ms, after_ms) in enumerate(zip(*times, strict=True)):
            low, high = (max(ms - self._ttl_ms, 0) for ms in (before_ms, after_ms))
            if low < high:
                first = partition * _PARTITION_MS
                expiring.append(Expiring(first + low, first + high))
        return state.working_set(batch["key"], expiring=expiring)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return the records of the batch that are not late, and the removals."""
        batch = self._read(batch)
        oldest_ms = np.asarray(batch[STREAM_TIME.name]) - self._ttl_ms
        is_late = np.asarray(batch["timestamp_ms"]) < oldest_ms
        arrived = batch.filter(pa.array(~is_late)).combine_chunks()
        names = [*self.state_schema.names, NULL_VALUE.name, STREAM_TIME.name]
        arrived = arrived.take(pa.array(lexsort(arrival_keys(arrived))))
        of_state = state.select(self.state_schema.names).append_column(
            NULL_VALUE, pa.array(np.zeros(len(state), dtype=np.bool_))
        )
        of_state = of_state.append_column(STREAM_TIME, state["timestamp_ms"])
        seen = pa.concat_tables([of_state, arrived.select(names)]).combine_chunks()
        late = len(batch) - len(arrived)
        if not len(seen):
            return JoinResult(state, [self._results(arrived, 0)], late=(late,))
        (code,), _ = coded_keys(seen["key"])
        # The row of the state is first in its group, because the sort is stable.
        order = lexsort((_partition(seen), code))
        seen = seen.take(pa.array(order))
        code, partition = code[order], _partition(seen)
        head = run_starts(code, partition)
        last = run_ends(head)
        newest_ms = np.asarray(seen["timestamp_ms"])
        if not self._of_table:
            # A record that starts again after a removal is newer than all earlier records of the
            # key. So the maximum of all records is also the maximum since the removal.
            newest_ms = running_max(newest_ms, head)
        # The stream time of the next record of the key, or the one at the end of the batch.
        next_ms = np.append(np.asarray(seen[STREAM_TIME.name])[1:], 0)
        next_ms[last] = np.asarray(times.after, dtype=np.int64)[partition[last]]
        has_row = ~np.asarray(seen[NULL_VALUE.name])
        expired = has_row & (newest_ms + self._ttl_ms < next_ms)
        seen = with_column(seen, RECORD_ID_FIELDS[1], pa.array(newest_ms))
        kept = last & has_row & ~expired
        return JoinResult(
            seen.filter(pa.array(kept)).select(self.state_schema.names).combine_chunks(),
            [self._results(arrived, 0), self._results(self._removals(seen, expired), 1)],
            late=(late,),
        )

    def _removals(self, seen: pa.Table, expired: Flags) -> pa.Table:
        """Return the removals, without values."""
        removed = seen.filter(pa.array(expired))
        # The first stream time at which the key is expired.
        time_ms = np.asarray(removed["timestamp_ms"]) + self._ttl_ms + 1
        removed = with_column(removed, RECORD_ID_FIELDS[1], pa.array(time_ms))
        removed = with_column(removed, STREAM_TIME, pa.array(time_ms))
        return with_column(removed, NULL_VALUE, pa.repeat(pa.scalar(value=True), len(removed)))

    def _results(self, rows: pa.Table, is_removal: int) -> pa.Table:
        """Return rows as results, with one more index in their lineage."""
        lineages = rows[LINEAGE.name] if LINEAGE.name in rows.column_names else None
        index = np.full(len(rows), is_removal, dtype=np.int64)
        columns = {name: rows[name] for name in rows.column_names}
        columns[LINEAGE.name] = extended_by(lineages, index)
        return pa.table(
            [columns.get(f.name, pa.nulls(len(rows), f.type)) for f in self.result_schema],
            self.result_schema,
        )


def _partition(rows: pa.Table) -> Ints:
    partition: Ints = np.asarray(rows["partition"]).astype(np.int64)
    return partition
