"""Tables that keep their rows' history: KIP-889, KIP-914.

``t`` is a record's time, ``st`` the stream time of its partition when it came, H the history
retention of the table:

    too late          t < st - H
    version of a key  of each time the record of the greatest (partition, offset)
    valid             until the time of the next version; the newest one for good

So which versions there are does not depend on the order in which records come, but for those that
come too late.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, Timeline, heads, running_max, tails
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.lookups import LookupHow, TableLookupEngine
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    TABLE_FIELDS,
    Clocks,
    JoinEngine,
    JoinResult,
    SideRows,
    TableRecords,
    are_behind,
    greatest,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.records import NULL_VALUE, PLACE_FIELDS, SUBORDER


class VersionedLookupEngine(TableLookupEngine):
    """Join of a stream with a versioned table: with the row as of its record's time.

    That is the version with the greatest time <= t. Behind the table's history, ``t < clock - H``,
    it is the newest version or none. ``Clocks`` have the table's for each partition; a key has that
    of its newest version.

    The state is the versions that can be found still. One that is valid until ``clock - H`` at most
    is dropped when its key is written again; so is a newest one of that age that is a deletion.
    """

    by_partition = RIGHT

    def __init__(
        self,
        how: LookupHow,
        stream: pa.Schema,
        table: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: tuple[SideRows, SideRows] = (RECORDS, RECORDS),
        history_ms: int,
    ) -> None:
        """See ``TableLookupEngine``; the table's records are those of a topic."""
        super().__init__(how, stream, table, carried, rows=rows)
        self._history_ms = history_ms

    def _applied(self, state: pa.Table, arrived: pa.Table, clocks: Clocks) -> tuple[pa.Table, int]:
        late = are_behind(arrived, self._history_ms)
        arrived = arrived.filter(pa.array(~late)).select(state.column_names)
        other_keys, touched = split_by_key(state, arrived["key"])
        versions = _Versions.of(pa.concat_tables([touched, arrived]), clocks)
        # The newest version of a key may come to be one of any partition: the slowest one decides
        # from which time on history is kept. One that had no record so far is not waited for.
        since_ms = min((ms for ms in clocks if ms >= 0), default=-1) - self._history_ms
        is_needed = np.where(
            versions.is_newest,
            ~versions.deletes | (versions.timestamp_ms > since_ms),
            versions.valid_to_ms > since_ms,
        )
        kept = versions.rows.filter(pa.array(is_needed))
        return pa.concat_tables([other_keys, kept]), int(late.sum())

    def _looked_up(
        self, state: pa.Table, stream: pa.Table, clocks: Clocks
    ) -> tuple[pa.Table, pa.ChunkedArray]:
        versions = _Versions.of(split_by_key(state, stream["key"])[1], clocks)
        key_code = pc.index_in(stream["key"], value_set=versions.keys)
        if not len(versions.rows):
            return versions.rows, key_code
        has_key, timestamp_ms = np.asarray(key_code.is_valid()), np.asarray(stream["timestamp_ms"])
        code = np.asarray(pc.fill_null(key_code, 0)).astype(np.int64)
        timeline = Timeline(versions.key_code, versions.timestamp_ms)
        number = timeline.first_after(code, timestamp_ms) - 1
        finds = has_key & (number >= 0) & (versions.key_code[number] == code)
        elapsed = timestamp_ms < versions.clock_ms[number] - self._history_ms
        finds &= ~versions.deletes[number] & (~elapsed | versions.is_newest[number])
        return versions.rows, pa.chunked_array([pa.array(number, mask=~finds)])


class VersionedRecordsEngine(JoinEngine):
    """The records of a versioned table as those of one that is not: without those that are late.

    With ``newest_only`` also without those that came out of order, which are older than what their
    key has in their partition: of a versioned table these change no other one (KIP-914). The state
    is the greatest time of each key and partition. One that is older than the history is dropped
    when its key is written again: what is older still is late.
    """

    by_partition = LEFT

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        history_ms: int,
        newest_only: bool,
    ) -> None:
        """Take records that have the columns ``values``.

        Raises:
            IllegalArgument: a column has a name that the join needs.
        """
        beside = values_beside((*RESULT_FIELDS, SIDE, NULL_VALUE), carried, [values])
        self.record_schema = pa.schema([*SIDE_FIELDS, NULL_VALUE, *(carried or ()), *beside])
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ())])
        self.result_schema = pa.schema([*PLACE_FIELDS, SUBORDER, STREAM_TIME, NULL_VALUE, *beside])
        self._history_ms, self._newest_only = history_ms, newest_only

    def changing(self, batch: pa.Table) -> pa.ChunkedArray:
        """The keys of the records, if any order matters."""
        return batch["key"] if self._newest_only else batch["key"].slice(0, 0)

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Pass on the records that count."""
        batch = self._read(batch).combine_chunks()
        accepted = batch.filter(pa.array(~are_behind(batch, self._history_ms)))
        if self._newest_only and len(accepted):
            state, in_order = self._ordered(state, accepted, clocks)
            accepted = accepted.filter(pa.array(in_order))
        results = accepted.append_column(SUBORDER, pa.nulls(len(accepted), SUBORDER.type))
        results = results.select(self.result_schema.names).cast(self.result_schema)
        return JoinResult(state, [results], late=(len(batch) - len(accepted),))

    def _ordered(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> tuple[pa.Table, Flags]:
        """The next state, and which records of the batch are not older than their key's newest."""
        other_keys, touched = split_by_key(state, batch["key"])
        rows = pa.concat_tables([touched, batch.select(state.column_names)])
        records = TableRecords.of(rows)
        group = (records.key_code, records.partition)
        # What is in the state came before.
        is_new = np.arange(len(rows)) >= len(touched)
        order = np.lexsort((records.offset, is_new, *group[::-1]))
        newest_ms = running_max(
            records.timestamp_ms[order], heads(*(column[order] for column in group))
        )
        in_order = np.empty(len(rows), dtype=np.bool_)
        in_order[order] = records.timestamp_ms[order] == newest_ms
        newest = greatest(group, (records.timestamp_ms, records.offset))
        clock_ms = np.asarray(clocks, dtype=np.int64)[records.partition[newest]]
        newest = newest[records.timestamp_ms[newest] >= clock_ms - self._history_ms]
        state = pa.concat_tables([other_keys, records.take(newest)])
        return state, in_order[len(touched) :]


@dataclass(frozen=True)
class _Versions:
    """Versions of a table's rows, sorted by (key code, time), as arrays.

    ``keys`` has the key of each code. ``clock_ms`` is, by row, the stream time of the partition of
    which the key's newest version is; ``valid_to_ms`` of a newest version says nothing.
    """

    rows: pa.Table
    keys: pa.Array
    key_code: Ints
    timestamp_ms: Ints
    deletes: Flags
    is_newest: Flags
    valid_to_ms: Ints
    clock_ms: Ints

    @classmethod
    def of(cls, rows: pa.Table, clocks: Clocks) -> "_Versions":
        """Take one record for each key and time."""
        records = TableRecords.of(rows)
        numbers = greatest(
            (records.key_code, records.timestamp_ms), (records.partition, records.offset)
        )
        key_code, timestamp_ms = records.key_code[numbers], records.timestamp_ms[numbers]
        is_newest = tails(heads(key_code))
        clock_ms = np.zeros(len(records.keys), dtype=np.int64)
        newest = numbers[is_newest]
        clock_ms[records.key_code[newest]] = np.asarray(clocks)[records.partition[newest]]
        return cls(
            records.take(numbers), records.keys, key_code, timestamp_ms,
            records.deletes[numbers], is_newest, np.append(timestamp_ms[1:], 0)[: len(numbers)],
            clock_ms[key_code],
        )  # fmt: skip
