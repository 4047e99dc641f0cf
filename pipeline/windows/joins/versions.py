"""Joins with versioned tables, which keep the history of their rows (KIP-889, KIP-914).

``t`` is the time of a record, ``st`` the stream time of its partition at its arrival, and H the
history retention of the table:

    late record         t < st - H
    version of a key    for each time, the record with the greatest (partition, offset)
    valid               until the time of the next version. The newest version has no end

So the versions do not depend on the order of arrival, except that late records are dropped.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    Timeline,
    pair_order,
    run_starts,
    running_max,
)
from oriel.pipeline.windows.definitions import FOREVER_MS, LEFT, RIGHT
from oriel.pipeline.windows.engines import StateReader, Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    TABLE_FIELDS,
    InputRows,
    InputStreamTimes,
    JoinEngine,
    JoinResult,
    TableRecords,
    are_older,
    greatest,
    slowest_stream_time,
    split_by_key,
    value_fields,
)
from oriel.pipeline.windows.joins.stream_tables import StreamTableHow, StreamTableJoinEngine
from oriel.pipeline.windows.joins.version_history import VALID_TO, Histories
from oriel.pipeline.windows.records import LINEAGE, NEVER_CLOSED_MS, NULL_VALUE


class VersionedLookupEngine(StreamTableJoinEngine):
    """The join of a stream with a versioned table: each record with the row as of its time.

    The row is the version with the greatest time <= t. A record that is older than the history,
    ``t < st - H``, finds only the newest version. Its ``InputStreamTimes`` are the stream times of
    the partitions of the table. For a key, ``st`` is the stream time of the partition of its newest
    version.

    The state has the versions that a record can still find, each with the time until which it is
    valid. A version is dropped if it ended at ``st - H`` or earlier. The newest version of a key is
    dropped only if it is a deletion, when its own time is that old. Here, ``st`` is the least one
    of all partitions with a record, because any partition can deliver the next newest version.

    For each record, a batch needs the newest version of the key, and the versions that were valid
    at the time of the record or later. So the newest versions are in one time bucket of the state.
    The others are in buckets by the time until which they are valid (``time_buckets_of_batch``).
    """

    by_partition = RIGHT

    def __init__(
        self,
        how: StreamTableHow,
        stream: pa.Schema,
        table: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: tuple[InputRows, InputRows] = (RECORDS, RECORDS),
        history_ms: int,
    ) -> None:
        """See ``StreamTableJoinEngine``. The table is a topic, with a history of ``history_ms``."""
        super().__init__(how, stream, table, carried, rows=rows)
        self.state_schema = self.state_schema.append(VALID_TO)
        self._history_ms = history_ms
        self._histories = Histories(history_ms)

    def changing(self, batch: pa.Table) -> None:
        """Return None, because ``needed_state`` selects the rows that can change."""

    def buckets(self, rows: pa.Table) -> Ints:
        """Return the time bucket of each state row, 0 for newest versions."""
        return self._histories.buckets(rows)

    def due_ms(self, rows: pa.Table) -> Ints:
        """Return the last stream time at which a record can find each state row."""
        valid_to_ms = np.asarray(rows[VALID_TO.name])
        is_newest, deletes = valid_to_ms == FOREVER_MS, np.asarray(rows[NULL_VALUE.name])
        # A version that ends at v is found by records with t < v. An old version is only found
        # while t >= st - H. With v = 100 and H = 10, a record at 99 finds it until st = 109, so the
        # sum is v + H - 1.
        until_ms = np.where(is_newest & deletes, np.asarray(rows["timestamp_ms"]), valid_to_ms)
        due_ms: Ints = np.where(is_newest & ~deletes, FOREVER_MS, until_ms + self._history_ms - 1)
        return due_ms

    def close_ms(self, times: InputStreamTimes) -> int:
        """Return the least stream time of partitions with a record. Rows due before it expire."""
        return slowest_stream_time(times)

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:
        newest = state.working_set(batch["key"]).rows
        closing_ms = self.close_ms(times.before), self.close_ms(times.after)
        return state.working_set_of_buckets(*self.time_buckets_of_batch(newest, batch), closing_ms)

    def time_buckets_of_batch(
        self, newest: pa.Table, batch: pa.Table
    ) -> tuple[tuple[pa.ChunkedArray, Ranges], tuple[pa.ChunkedArray, Ranges]]:
        """Return the time buckets that a batch can change, and the buckets that it only reads.

        Both are keys, with a range of buckets per key. ``newest`` has the newest versions of the
        keys of the batch.
        """
        return self._histories.time_buckets(newest, batch, np.asarray(batch["side"]) == RIGHT)

    def _applied(
        self, state: pa.Table, arrived: pa.Table, stream_times: InputStreamTimes
    ) -> tuple[pa.Table, int]:
        late = are_older(arrived, self._history_ms)
        arrived = arrived.filter(pa.array(~late))
        other_keys, working_set = split_by_key(state, arrived["key"])
        versions, _ = self._histories.merged(working_set, arrived)
        state = pa.concat_tables([other_keys, versions])
        is_needed = self.due_ms(state) >= self.close_ms(stream_times)
        return state.filter(pa.array(is_needed)), int(late.sum())

    def _looked_up(
        self, state: pa.Table, stream: pa.Table, stream_times: InputStreamTimes
    ) -> tuple[pa.Table, pa.ChunkedArray]:
        records = TableRecords.of(split_by_key(state, stream["key"])[1])
        key_code = pc.index_in(stream["key"], value_set=records.keys)
        if not len(records.rows):
            return records.rows, key_code
        order = pair_order(records.key_code, records.timestamp_ms)
        rows = records.take(order)
        timeline = Timeline(records.key_code[order], records.timestamp_ms[order])
        valid_to_ms = np.asarray(rows[VALID_TO.name])
        is_newest = valid_to_ms == FOREVER_MS
        # Without a newest version, no partition determines the stream time of the key, and no
        # record is older than its history.
        stream_time_ms = np.full(len(records.keys), NEVER_CLOSED_MS, dtype=np.int64)
        newest = order[is_newest]
        of_newest = np.asarray(stream_times)[records.partition[newest]]
        stream_time_ms[records.key_code[newest]] = of_newest
        has_key, time_ms = np.asarray(key_code.is_valid()), np.asarray(stream["timestamp_ms"])
        code = np.asarray(pc.fill_null(key_code, 0)).astype(np.int64)
        # This is the last version at or before the time of the record. It can be a row of another
        # key, or -1 for the first key.
        number = timeline.first_after(code, time_ms) - 1
        finds = has_key & (number >= 0) & (records.key_code[order][number] == code)
        finds &= valid_to_ms[number] > time_ms
        is_elapsed = time_ms < stream_time_ms[code] - self._history_ms
        finds &= ~records.deletes[order][number] & (~is_elapsed | is_newest[number])
        return rows, pa.chunked_array([pa.array(number, mask=~finds)])


class VersionedRecordsEngine(JoinEngine):
    """The records of a versioned table, without late records.

    With ``newest_only``, records out of order are also dropped. Such a record is older than an
    earlier record of the same key and partition, and changes no downstream table (KIP-914). The
    state is the greatest time of each key and partition. A time that is older than the history is
    dropped when its key is written again, because any older record is late.
    """

    by_partition = LEFT
    keeps_records = keeps_order = owns_stream_time = takes_null_values = True

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        history_ms: int,
        newest_only: bool,
    ) -> None:
        """Read records with the columns ``values``.

        Raises:
            IllegalArgument: A column has a name that the join needs.
        """
        value_columns = value_fields((*RESULT_FIELDS, SIDE, NULL_VALUE), carried, [values])
        self.record_schema = pa.schema(
            [*INPUT_FIELDS, NULL_VALUE, *(carried or ()), *value_columns]
        )
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ())])
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, *value_columns])
        self._history_ms, self._newest_only = history_ms, newest_only

    def changing(self, batch: pa.Table) -> pa.ChunkedArray:
        """Return the keys of the records with ``newest_only``. Otherwise, no state changes."""
        return batch["key"] if self._newest_only else batch["key"].slice(0, 0)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return the records that are not late and, with ``newest_only``, in order."""
        batch = self._read(batch).combine_chunks()
        accepted = batch.filter(pa.array(~are_older(batch, self._history_ms)))
        if self._newest_only and len(accepted):
            state, in_order = self._ordered(state, accepted, times.after)
            accepted = accepted.filter(pa.array(in_order))
        results = accepted.append_column(LINEAGE, pa.nulls(len(accepted), LINEAGE.type))
        results = results.select(self.result_schema.names).cast(self.result_schema)
        return JoinResult(state, [results], late=(len(batch) - len(accepted),))

    def _ordered(
        self, state: pa.Table, batch: pa.Table, stream_times: InputStreamTimes
    ) -> tuple[pa.Table, Flags]:
        """Return the next state, and which records of the batch are in order."""
        other_keys, working_set = split_by_key(state, batch["key"])
        rows = pa.concat_tables([working_set, batch.select(state.column_names)])
        records = TableRecords.of(rows)
        group = (records.key_code, records.partition)
        # The rows of the state are from earlier records.
        is_new = np.arange(len(rows)) >= len(working_set)
        order = np.lexsort((records.offset, is_new, *group[::-1]))
        newest_ms = running_max(
            records.timestamp_ms[order], run_starts(*(column[order] for column in group))
        )
        in_order = np.empty(len(rows), dtype=np.bool_)
        # A record with the time of the newest one replaces it, so it is in order (KIP-914).
        in_order[order] = records.timestamp_ms[order] == newest_ms
        newest = greatest(group, (records.timestamp_ms, records.offset))
        stream_time_ms = np.asarray(stream_times, dtype=np.int64)[records.partition[newest]]
        # A record that is older than the history is late. Below this limit, the time of a key has
        # no influence.
        newest = newest[records.timestamp_ms[newest] >= stream_time_ms - self._history_ms]
        state = pa.concat_tables([other_keys, records.take(newest)])
        return state, in_order[len(working_set) :]
