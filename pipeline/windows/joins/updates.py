"""The updates of joined tables as a stream: the joined row after each record.

A record replaces the row of its key in its own table, and a tombstone deletes it. The update is the
joined row after the record, or its deletion. Its time is the greatest time of the record and of the
rows of the other tables. Kafka Streams' rule for each join decides which records have an update
(``_forwarded_by``). For example, an inner join without a match does not have an update.

Records are applied as they arrive: batch after batch, and within a batch in the order of stream
time, log, partition, offset. So results depend on the cut of different topics into batches, as they
depend on the arrival in Kafka Streams, because each update is emitted. The cut of one topic does
not matter, nor does the order of records of one table between the same records of the others. This
holds if a key is in one partition of each topic, as for keyed records. Otherwise, the cut of its
partitions matters as well. (``tables`` keeps the joined table as a function of the logs.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    coded_keys,
    positions_in_runs,
    run_ends,
    run_starts,
)
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    InputLogs,
    InputRows,
    JoinEngine,
    JoinResult,
    split_by_key,
    value_fields,
)
from oriel.pipeline.windows.joins.tables import TableJoin, has_joined_row, table_rows
from oriel.pipeline.windows.records import (
    LINEAGE,
    NULL_VALUE,
    Lineage,
    lineage_fields,
    lineage_keys,
)


@dataclass(frozen=True)
class Histories:
    """Old rows and new records by key, for each key in apply order.

    Attributes:
        records: All rows and records.
        new: The indexes of the new records.
        before: The index of the row of the key in each table before each new record, by [table, new
            record]. -1 without a row.
        after: The same after each new record.
        newest: The indexes of the rows at the end.
    """

    records: pa.Table
    new: Ints
    before: Ints
    after: Ints
    newest: Ints

    @property
    def state(self) -> pa.Table:
        """The newest rows of each key and table."""
        return self.records.take(pa.array(self.newest))


@dataclass(frozen=True)
class ForwardedUpdates:
    """The updates that one table, or several joined tables, forward for each new record.

    Attributes:
        had: True if a row exists before the record.
        has: True if a row exists after the record.
        is_forwarded: True if the update is forwarded to the next join, only for the record's own
            table.
        time_ms: The time of the update. For other tables, the time of their row, or -1 without one.
    """

    had: Flags
    has: Flags
    is_forwarded: Flags
    time_ms: Ints


class TableUpdatesEngine(JoinEngine):
    """The updates of joined tables.

    The state is the newest row of each key and table. A tombstone is not kept, because all records
    of later batches are applied after it.

    A result has the record id, the stream time and the lineage of its record, with the log of the
    record if there are several tables. Its time is the greatest time of the record and of the rows
    that it is joined with (semantics.md#5-1). ``null_value`` is True if the joined row is deleted.
    Results are in apply order. Records without an update are filtered.
    """

    def __init__(
        self,
        join: TableJoin | int,
        tables: Sequence[pa.Schema],
        carried: pa.Schema | None = None,
        filtered: frozenset[int] = frozenset(),
        *,
        rows: Sequence[InputRows] = (),
        needs_old_rows: bool = False,
    ) -> None:
        """Join tables by their indexes.

        Args:
            join: The join of the tables by their indexes.
            tables: The value columns of each table.
            carried: Further columns of the records.
            filtered: The tables with a filter. Kafka Streams forwards no update for a record that
                the filter drops, if the key had no row before and old rows are needed.
            rows: The rows of each table. Empty: records of topics.
            needs_old_rows: True if a downstream operator needs old rows.

        Raises:
            IllegalArgument: Two columns have one name.
        """
        values = value_fields((*RESULT_FIELDS, SIDE, NULL_VALUE), carried, tables)
        self._join = join
        self._filtered = filtered
        self._needs_old_rows = needs_old_rows
        self._logs = self._side_logs([each.lineage for each in rows or [RECORDS] * len(tables)])
        #: True if a key has one history per partition.
        self._by_partition = False
        self._values_of = [table.names for table in tables]
        other_columns = (*lineage_fields(self._logs.lineages), NULL_VALUE, *(carried or ()))
        self.record_schema = pa.schema([*INPUT_FIELDS, *other_columns, *values])
        self.state_schema = self.record_schema
        self.row_schema = pa.schema(values)
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, *values])
        #: The columns of ``_joined``, from which a subclass computes its results.
        self._joined_schema = self.result_schema

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        return True

    def _side_logs(self, lineages: Sequence[Lineage]) -> InputLogs:
        """Return the logs of records and results."""
        return InputLogs(lineages)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Apply the records of ``batch``. Times don't matter."""
        del times
        batch = self._read(batch)
        other_keys, working_set = split_by_key(state, batch["key"])
        histories = self._histories(working_set, batch)
        forwarded = self._forwarded_by(histories, self._join, needs_old_rows=self._needs_old_rows)
        results, is_forwarded = self._results(histories, forwarded)
        state = pa.concat_tables([other_keys, histories.state]).combine_chunks()
        # Each record is counted once, with the table that it is from. Old rows are not records of
        # the batch.
        without_update = np.asarray(histories.records["side"])[histories.new[~is_forwarded]]
        filtered = np.bincount(without_update, minlength=len(self._values_of))
        before = self._rows_before(working_set) if self.returns_before else None
        return JoinResult(state, [results], filtered=tuple(filtered.tolist()), before=before)

    def _rows_before(self, state: pa.Table) -> pa.Table:
        """Return the joined rows of the keys in ``state``, which has one row per key and table."""
        (code,), keys = coded_keys(state["key"])
        of_tables = np.full((len(self._values_of), len(keys)), -1, dtype=np.int64)
        # The state has one row per key and table, so no assignment is lost.
        of_tables[np.asarray(state["side"]), code] = np.arange(len(state))
        rows = self._rows(of_tables)
        is_row = (rows >= 0).any(axis=0)
        # The index -1 of a table without a row reads the appended -1, which is less than each time
        # of a record.
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
        """Sort old rows and new records by key and apply order, and find the newest rows."""
        records = pa.concat_tables([old_rows, batch]).combine_chunks()
        (key_code,), keys = coded_keys(records["key"])
        if self._by_partition:
            # One integer per key and partition. Both numbers have at most 31 bits, so it fits into
            # 63 bits.
            key_code = key_code + len(keys) * np.asarray(records["partition"]).astype(np.int64)
        is_new = np.arange(len(records)) >= len(old_rows)
        # Earlier batches applied the old rows, so ``is_new`` is more significant than stream time.
        order = np.lexsort((*self._logs.apply_order_keys(records), is_new, key_code))
        records, key_code = records.take(pa.array(order)), key_code[order]
        head = run_starts(key_code)
        newest = _newest(records, head, len(self._values_of))
        new = np.flatnonzero(is_new[order])
        # The row before a record is the newest row at the previous record of its key.
        before = np.where(head[new], -1, newest[:, new - 1])
        # The last row of a key has seen all of its records, so its newest rows are the state.
        of_last = newest[:, run_ends(head)]
        return Histories(records, new, before, newest[:, new], of_last[of_last >= 0])

    def _forwarded_by(
        self, histories: Histories, part: TableJoin | int, *, needs_old_rows: bool
    ) -> ForwardedUpdates:
        """Return the updates that ``part`` of the join forwards, as Kafka Streams' nodes do.

        ``needs_old_rows``: a downstream node needs old rows. A left join needs the old rows of its
        left table, and an outer join the old rows of both tables. With old rows, a node forwards
        nothing if no row existed before and no row exists now.
        """
        # Each node is computed for all records together, so the recursion is as deep as the tree of
        # joins.
        if isinstance(part, int):
            return self._forwarded_by_table(histories, part, needs_old_rows=needs_old_rows)
        left = self._forwarded_by(
            histories, part.left, needs_old_rows=needs_old_rows or part.how != "inner"
        )
        right = self._forwarded_by(
            histories, part.right, needs_old_rows=needs_old_rows or part.how == "outer"
        )
        had = has_joined_row(part.how, left.had, right.had)
        has = has_joined_row(part.how, left.has, right.has)
        # The other table does not change, so ``has`` is the row that the record is joined with.
        meets_right = right.has if part.how == "inner" else left.had | left.has | right.has
        meets_left = left.has | right.had | right.has if part.how == "outer" else left.has
        # A record is from one table, so at most one of the two terms is true.
        is_forwarded = (left.is_forwarded & meets_right) | (right.is_forwarded & meets_left)
        # The update of a deleted row has the time of the row that it was joined with.
        time_ms = np.where(is_forwarded | has, np.maximum(left.time_ms, right.time_ms), -1)
        return ForwardedUpdates(had, has, is_forwarded, time_ms)

    def _forwarded_by_table(
        self, histories: Histories, table: int, *, needs_old_rows: bool
    ) -> ForwardedUpdates:
        """Return the updates that one table forwards for each new record."""
        all_times_ms = np.append(np.asarray(histories.records["timestamp_ms"]), -1)
        side = np.asarray(histories.records["side"])[histories.new]
        had, has = histories.before[table] >= 0, histories.after[table] >= 0
        # The record itself, also a tombstone, determines the time in its own table. In the other
        # tables, the current row does.
        own = side == table
        time_ms = all_times_ms[np.where(own, histories.new, histories.after[table])]
        skips_without_row = needs_old_rows and table in self._filtered
        return ForwardedUpdates(had, has, own & (had | has) if skips_without_row else own, time_ms)

    def _results(self, histories: Histories, forwarded: ForwardedUpdates) -> tuple[pa.Table, Flags]:
        """Return the results in apply order, and which new records have one."""
        numbers = np.flatnonzero(forwarded.is_forwarded)
        rows = self._rows(histories.after[:, numbers])
        new = histories.new[numbers]
        lineages = self._logs.merged_lineages(histories.records.take(pa.array(new)))
        results = self._joined(histories.records, new, rows, forwarded.time_ms[numbers], lineages)
        return results, forwarded.is_forwarded

    def _rows(self, of_tables: Ints) -> Ints:
        """Return the rows from which each row is joined, by [table, row], -1 for none."""
        rows: Ints = np.where(table_rows(self._join, of_tables >= 0), of_tables, -1)
        return rows

    def _joined(
        self,
        records: pa.Table,
        new: Ints,
        rows: Ints,
        time_ms: Ints,
        lineages: pa.ChunkedArray | None,
    ) -> pa.Table:
        """Return the joined ``rows`` that the ``new`` records update, in apply order.

        ``lineages`` are the lineages of the rows. None: the rows do not have lineages.
        """
        if lineages is None:
            lineages = pa.chunked_array([pa.nulls(len(new), LINEAGE.type)])
        # Several rows of one record have equal keys of the apply order, so the lineage orders them.
        apply_order_keys = self._logs.apply_order_keys(records.take(pa.array(new)))
        order = np.lexsort((*lineage_keys(lineages), *apply_order_keys))
        new, rows, time_ms = new[order], rows[:, order], time_ms[order]
        own = records.take(pa.array(new))
        columns = {
            "key": own["key"],
            "timestamp_ms": time_ms,
            "partition": own["partition"],
            "offset": own["offset"],
            LINEAGE.name: lineages.take(pa.array(order)),
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
    """Return the row of each record's key in each table after it, by [table, record], or -1.

    ``head`` marks the first record of each key.
    """
    newest = np.full((tables, len(records)), -1, dtype=np.int64)
    number = np.arange(len(records))
    first_of_key = number - positions_in_runs(head)
    record_side = np.asarray(records["side"])
    deletes = np.asarray(records[NULL_VALUE.name])
    # One pass per table, without Python code per record. Without records, index -1 of ``deletes``
    # does not exist.
    for side in range(tables) if len(records) else ():
        # The last record of the table so far. Before the first record of the key, it is of another
        # key.
        last = np.maximum.accumulate(np.where(record_side == side, number, -1))
        # ``last`` is -1 before the first record of the table. Then ``deletes`` returns the flag of
        # another row, but -1 is less than ``first_of_key``, so the result is -1.
        newest[side] = np.where((last < first_of_key) | deletes[last], -1, last)
    return newest
