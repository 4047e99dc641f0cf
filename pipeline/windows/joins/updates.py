"""The updates of joined tables as a stream: what the joined row is after each record.

A record replaces what its key had in its own table, one without a value deletes it. What the
joined row is then comes out, also that there is none any more, with the greatest time of the
record and of the rows that it met in the other tables. Which records tell an update is Kafka
Streams' rule, join by join on the way up (``_told_by``): where nothing can have changed, as there
is no partner, nothing comes out.

Records take effect as they arrive, batch after batch and within a batch in the order
(stream time, log, partition, offset). So results depend on how the topics are cut into
batches against each other, as they depend on the arrival in Kafka; that is the price of
telling of each update. Cuts don't matter for one topic alone, nor for records of one side
between the same records of the others. That holds for a key that comes from one partition
of each topic, as keyed records do; where it comes from several, their cuts against each
other matter, too. (``tables`` keeps the joined table as a function of the logs.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys, heads, places_in_runs, tails
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.places import Places
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    JoinEngine,
    JoinResult,
    SideLogs,
    SideRows,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.joins.tables import TableJoin, has_joined_row, table_rows
from oriel.pipeline.windows.records import NULL_VALUE, PARTNERS, PLACE_FIELDS, SUBORDER


@dataclass(frozen=True)
class Histories:
    """Old rows and new records by key, each key's in the order of effect.

    ``new`` has the numbers of the new records. ``before`` and ``after`` have, by [side, new
    record], the number of the row that its key has in that table before the record and after it;
    -1 where there is none. ``newest`` are the rows that are left in the end.
    """

    records: pa.Table
    new: Ints
    before: Ints
    after: Ints
    newest: Ints

    @property
    def state(self) -> pa.Table:
        """The newest rows of each key."""
        return self.records.take(pa.array(self.newest))


@dataclass(frozen=True)
class Told:
    """What one table, or several that are joined, tell of each new record.

    ``had`` and ``has``: whether there is a row before the record and after it. ``tells``: whether
    it goes up to the next join, which it does from the record's own table only. ``time_ms`` is the
    time of what is told; beside the way up the row's, -1 where there is none.
    """

    had: Flags
    has: Flags
    tells: Flags
    time_ms: Ints


class TableUpdatesEngine(JoinEngine):
    """The updates of joined tables.

    The state is the newest row of each key and side. A deletion leaves nothing: the records of
    a later batch all take effect after it, so none of them can be older than what it deleted.

    A result has the place and the stream time of the record that it follows, the greatest time
    of that record and of the rows that it met (semantics.md#5-1), and as suborder the number of the
    record's log: the topics' places can be equal. (Where a table is an aggregation, several of its
    records may have one place: the next one's suborder is greater by the number of logs.)
    ``null_value`` says that the joined row is gone. Results come in the order of effect. Records
    that tell nothing are filtered.
    """

    def __init__(
        self,
        join: TableJoin | int,
        tables: Sequence[pa.Schema],
        carried: pa.Schema | None = None,
        filtered: frozenset[int] = frozenset(),
        *,
        rows: Sequence[SideRows] = (),
        asks_for_old: bool = False,
    ) -> None:
        """``tables`` are the tables' value columns, by whose numbers ``join`` joins them.

        ``filtered`` are those with a filter: Kafka Streams' tells nothing of a record that it
        leaves out, if the key had no row before, and if anybody asks for old rows, as who is
        behind may do (``asks_for_old``). ``rows`` are what the tables' records are; none: those of
        topics.

        Raises:
            IllegalArgument: two columns have one name.
        """
        own = (*PLACE_FIELDS, SUBORDER, PARTNERS, STREAM_TIME, SIDE, NULL_VALUE)
        values = values_beside(own, carried, tables)
        self._join = join
        self._filtered = filtered
        self._asks_for_old = asks_for_old
        self._logs = self._side_logs([each.places for each in rows or [RECORDS] * len(tables)])
        #: Whether a key has a history in each partition that it comes from.
        self._by_partition = False
        self._values_of = [table.names for table in tables]
        numbers = max((places.fields for places in self._logs.places), key=len)
        beside = (*numbers, NULL_VALUE, *(carried or ()))
        self.record_schema = pa.schema([*SIDE_FIELDS, *beside, *values])
        self.state_schema = self.record_schema
        self.row_schema = pa.schema(values)
        self._places = self._logs.merged.places
        self.result_schema = pa.schema([*self._result_fields, NULL_VALUE, *values])
        #: What ``_joined`` gives; results may be made of it.
        self._joined_schema = self.result_schema

    @property
    def _result_fields(self) -> list[pa.Field]:
        """Of results beside their values."""
        return [*PLACE_FIELDS, *self._places.fields, STREAM_TIME]

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        return True

    def _side_logs(self, places: Sequence[Places]) -> SideLogs:
        """The logs that records and results are of."""
        return SideLogs(places)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Let the records of ``batch`` take effect; clocks don't matter."""
        del times
        batch = self._read(batch)
        other_keys, touched = split_by_key(state, batch["key"])
        histories = self._histories(touched, batch)
        told = self._told_by(histories, self._join, asked=self._asks_for_old)
        results, tells = self._results(histories, told)
        state = pa.concat_tables([other_keys, histories.state]).combine_chunks()
        silent = np.asarray(histories.records["side"])[histories.new[~tells]]
        filtered = np.bincount(silent, minlength=len(self._values_of))
        before = self._rows_before(touched) if self.tells_before else None
        return JoinResult(state, [results], filtered=tuple(filtered.tolist()), before=before)

    def _rows_before(self, state: pa.Table) -> pa.Table:
        """The joined rows of the keys in ``state``, which has one row of each key and side."""
        (code,), keys = coded_keys(state["key"])
        of_tables = np.full((len(self._values_of), len(keys)), -1, dtype=np.int64)
        of_tables[np.asarray(state["side"]), code] = np.arange(len(state))
        rows = self._rows(of_tables)
        is_row = (rows >= 0).any(axis=0)
        rows, times_ms = rows[:, is_row], np.append(np.asarray(state["timestamp_ms"]), -1)
        return pa.table({
            "key": keys.filter(pa.array(is_row)),
            "timestamp_ms": times_ms[rows].max(axis=0),
            **{
                name: state[name].take(pa.array(of_side, mask=of_side < 0))
                for of_side, names in zip(rows, self._values_of, strict=True)
                for name in names
            },
        })  # fmt: skip

    def _histories(self, old_rows: pa.Table, batch: pa.Table) -> Histories:
        """Sort old rows and new records by (key, order of effect), and find each table's newest."""
        records = pa.concat_tables([old_rows, batch]).combine_chunks()
        (key_code,), keys = coded_keys(records["key"])
        if self._by_partition:
            key_code = key_code + len(keys) * np.asarray(records["partition"]).astype(np.int64)
        is_new = np.arange(len(records)) >= len(old_rows)
        # Old rows took effect in an earlier batch, whatever their stream time: ``new`` comes first.
        order = np.lexsort((*self._logs.effect_keys(records), is_new, key_code))
        records, key_code = records.take(pa.array(order)), key_code[order]
        head = heads(key_code)
        newest = _newest(records, head, len(self._values_of))
        new = np.flatnonzero(is_new[order])
        # What stands in front of a record in its history is what its key had before.
        before = np.where(head[new], -1, newest[:, new - 1])
        of_last = newest[:, tails(head)]
        return Histories(records, new, before, newest[:, new], of_last[of_last >= 0])

    def _told_by(self, histories: Histories, part: TableJoin | int, *, asked: bool) -> Told:
        """What ``part`` of the join tells of each new record, as Kafka Streams' nodes do.

        ``asked``: what is behind asks for old rows. A left join asks its left table, an outer one
        both; so they know that there was no row before and is none now, and tell nothing.
        """
        if isinstance(part, int):
            return self._told_by_table(histories, part, asked=asked)
        left = self._told_by(histories, part.left, asked=asked or part.how != "inner")
        right = self._told_by(histories, part.right, asked=asked or part.how == "outer")
        had = has_joined_row(part.how, left.had, right.had)
        has = has_joined_row(part.how, left.has, right.has)
        # Beside the record's way rows stay as they are: there ``has`` is what it meets.
        meets_right = right.has if part.how == "inner" else left.had | left.has | right.has
        meets_left = left.has | right.had | right.has if part.how == "outer" else left.has
        tells = (left.tells & meets_right) | (right.tells & meets_left)
        # What is told of a row that is gone has the time of what it met.
        time_ms = np.where(tells | has, np.maximum(left.time_ms, right.time_ms), -1)
        return Told(had, has, tells, time_ms)

    def _told_by_table(self, histories: Histories, table: int, *, asked: bool) -> Told:
        """What one table tells of each new record."""
        all_times_ms = np.append(np.asarray(histories.records["timestamp_ms"]), -1)
        side = np.asarray(histories.records["side"])[histories.new]
        had, has = histories.before[table] >= 0, histories.after[table] >= 0
        own = side == table
        time_ms = all_times_ms[np.where(own, histories.new, histories.after[table])]
        is_asked = asked and table in self._filtered
        return Told(had, has, own & (had | has) if is_asked else own, time_ms)

    def _results(self, histories: Histories, told: Told) -> tuple[pa.Table, Flags]:
        """Results in the order of effect, and which new records tell one."""
        numbers = np.flatnonzero(told.tells)
        rows = self._rows(histories.after[:, numbers])
        new = histories.new[numbers]
        places = self._logs.update_numbers(histories.records.take(pa.array(new)))
        results = self._joined(histories.records, new, rows, told.time_ms[numbers], places)
        return results, told.tells

    def _rows(self, of_tables: Ints) -> Ints:
        """By [side, row], which tables' rows the joined row is made of; -1 for the others'."""
        rows: Ints = np.where(table_rows(self._join, of_tables >= 0), of_tables, -1)
        return rows

    def _joined(
        self, records: pa.Table, new: Ints, rows: Ints, time_ms: Ints, numbers: Ints
    ) -> pa.Table:
        """Joined ``rows`` that the ``new`` records tell, in the order of effect.

        ``numbers`` tell them apart, by [row, number].
        """
        in_place = numbers.T[::-1]
        order = np.lexsort((*in_place, *self._logs.effect_keys(records.take(pa.array(new)))))
        new, rows, time_ms, numbers = new[order], rows[:, order], time_ms[order], numbers[order]
        own = records.take(pa.array(new))
        columns = {
            "key": own["key"],
            "timestamp_ms": time_ms,
            "partition": own["partition"],
            "offset": own["offset"],
            **self._places.written(numbers),
            "stream_time_ms": own["stream_time_ms"],
            NULL_VALUE.name: (rows < 0).all(axis=0),
            **{
                name: records[name].take(pa.array(of_side, mask=of_side < 0))
                for of_side, names in zip(rows, self._values_of, strict=True)
                for name in names
            },
        }
        return pa.table([columns[name] for name in self._joined_schema.names], self._joined_schema)


def _newest(records: pa.Table, head: Flags, tables: int) -> NDArray[np.int64]:
    """By [side, record], the row that its key has in that table after it; -1 if there is none.

    ``head`` marks the first record of each key.
    """
    newest = np.full((tables, len(records)), -1, dtype=np.int64)
    number = np.arange(len(records))
    first_of_key = number - places_in_runs(head)
    record_side = np.asarray(records["side"])
    deletes = np.asarray(records[NULL_VALUE.name])
    for side in range(tables) if len(records) else ():
        # The last record of the side so far, of any key: one before the key's first is another's.
        last = np.maximum.accumulate(np.where(record_side == side, number, -1))
        newest[side] = np.where((last < first_of_key) | deletes[last], -1, last)
    return newest
