"""The common parts of joins: columns of inputs, operator contract, and records of tables.

The current record of a key in a table
--------------------------------------
A table record replaces the row of its key, and a tombstone deletes it. In Kafka Streams, the record
that arrives last is the row, so the table depends on the interleaving of partitions. Here it
depends only on the records. The candidates are the records with the greatest offset of each
partition. The candidate with the greatest (timestamp, partition) is the current record. So batches
and interleaving don't matter. A key normally has one partition, and then its last record is its
row, as in Kafka Streams.

The state keeps the last record of each key and partition, also tombstones. A tombstone can be newer
than a record that another partition has yet to deliver, which must not restore the row.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
from oriel.pipeline.windows.definitions import LEFT, IllegalArgument
from oriel.pipeline.windows.engines import Operator
from oriel.pipeline.windows.records import (
    APPLY_ORDER,
    LINEAGE,
    NULL_VALUE,
    RECORD_ID_FIELDS,
    Lineage,
    arrival_keys,
    merged_lineage,
    with_log,
)

How = Literal["inner", "left", "outer"]
#: Two stream times in milliseconds: the least one of the left input, and the least one of all other
#: inputs. With ``JoinEngine.by_partition``, it has the stream time of each partition of this input.
InputStreamTimes = tuple[int, ...]

STREAM_TIME = pa.field("stream_time_ms", pa.int64())
SIDE = pa.field("side", pa.int8())
#: The columns of a record in addition to its values. ``side`` is the index of the input.
INPUT_FIELDS = (*RECORD_ID_FIELDS, STREAM_TIME, SIDE)
#: The columns of a result in addition to the values of its inputs.
RESULT_FIELDS = (*RECORD_ID_FIELDS, LINEAGE, STREAM_TIME)
#: The columns of a table record in addition to its values. ``null_value`` marks a tombstone.
TABLE_FIELDS = (*RECORD_ID_FIELDS, NULL_VALUE)
#: True for a record in the state that has a join result.
MATCHED = pa.field("matched", pa.bool_())


@dataclass(frozen=True)
class InputRows:
    """The rows of one input of a join.

    Attributes:
        lineage: The form of their lineages.
        have_apply_order: True if they have an apply order (``APPLY_ORDER``), because they are from
            several logs or waited in a buffer.
        are_changes: True for the old and new rows of a table (``are_retractions``).
        are_flattened: True for flattened records.
        are_table_updates: True for updates of an aggregation or of joined tables. The last update
            of a key is its row, in whichever partition it is.
        held_ms: How much older than the stream time of the input a row can be, in milliseconds
            (``JoinEngine.delay_ms`` of the upstream join).
    """

    lineage: Lineage = field(default_factory=Lineage)
    have_apply_order: bool = False
    are_changes: bool = False
    are_flattened: bool = False
    are_table_updates: bool = False
    held_ms: int = 0

    @property
    def order_fields(self) -> list[pa.Field]:
        """The columns of their apply order, in addition to record id and time."""
        return [*self.lineage.fields, *([APPLY_ORDER] if self.have_apply_order else [])]


#: Records of a source, also after a join with a table.
RECORDS = InputRows()


@dataclass(frozen=True)
class InputLogs:
    """The logs of several inputs, one after the other. The rows of all inputs are in one table.

    Attributes:
        lineages: The form of the lineages of each input.
    """

    lineages: Sequence[Lineage]

    @property
    def count(self) -> int:
        """The number of logs."""
        return sum(each.logs for each in self.lineages)

    @property
    def merged(self) -> InputRows:
        """The rows of all inputs as rows of one input."""
        return InputRows(merged_lineage(self.lineages), have_apply_order=True)

    def log_of(self, rows: pa.Table) -> Ints:
        """Return the index of the log of each row."""
        side = np.asarray(rows[SIDE.name])
        log, first = np.zeros(len(rows), dtype=np.int64), 0
        for index, lineage in enumerate(self.lineages):
            of_side = side == index
            log[of_side] = first + lineage.log_of(rows.filter(pa.array(of_side)))
            first += lineage.logs
        return log

    def in_log(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the lineage of each row in its log."""
        side = np.asarray(rows[SIDE.name])
        in_log = Lineage().in_log(rows)
        for index, lineage in enumerate(self.lineages):
            if lineage.has_log:
                in_log = pc.if_else(pa.array(side == index), lineage.in_log(rows), in_log)
        return in_log

    def merged_lineages(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Return the lineages of ``rows`` as rows of one input. None: they have no lineage."""
        if len(self.lineages) > 1:
            return with_log(self.log_of(rows), self.in_log(rows))
        return rows[LINEAGE.name] if self.lineages[0].length else None

    def apply_order_keys(self, rows: pa.Table) -> tuple[Ints, ...]:
        """Return the sort keys of the apply order, with the most significant key last.

        Within a partition, the stream time follows the order of arrival. With log, partition,
        offset and lineage, the order is total. So a batch that runs again has the same results.
        """
        return (*arrival_keys(rows), self.log_of(rows), np.asarray(rows[STREAM_TIME.name]))


@dataclass(frozen=True)
class JoinResult:
    """The changes of a batch to the state of a join, and the results.

    Attributes:
        state: The next state.
        pieces: Rows of the engine's ``result_schema``, in one or more tables. Record id and lineage
            distinguish them. If a key has many records in both streams, all of their results can
            exceed the memory, so a stream join computes one piece after the other.
        late: The number of late records per input.
        filtered: The number of accepted records per input without a result, because an inner or
            left join has no result for them.
        rejected: The number of records per input on which a user's function raised. Each has a
            result with a reason. Only for operators whose results are not records.
        stayed: Open records: which rows of the old state the new state begins with, in order.
        flattened: The number of records that end here because their results are flattened records.
        elements: How many more flattened records there are after the operator than before it.
        before: If the engine ``returns_before``: the rows of the table before the batch, for the
            keys of the results, with key, ``timestamp_ms``, the bounds of windows, and the columns
            of the table.
        added: If rows never change: the rows of ``state`` that the batch added.
    """

    state: pa.Table
    pieces: Iterable[pa.Table]
    late: tuple[int, ...] = (0,)
    filtered: tuple[int, ...] = (0,)
    rejected: tuple[int, ...] = (0,)
    stayed: Flags | None = None
    flattened: int = 0
    elements: int = 0
    before: pa.Table | None = None
    added: pa.Table | None = None

    @property
    def results(self) -> pa.Table:
        """All pieces as one table."""
        return pa.concat_tables(self.pieces)


class JoinEngine(Operator[JoinResult]):
    """An operator whose results continue like records. See ``Operator``.

    It has the value columns of all inputs, which have no name in common, and columns ``carried``
    that the state keeps with each record for the caller. Its times are the stream times of its
    inputs.
    """

    #: ``RESULT_FIELDS`` and the values of all inputs, which can be null.
    result_schema: pa.Schema
    #: How much older than the stream times of its inputs a result can be, in milliseconds.
    #: Downstream windows and joins wait that long.
    delay_ms: int = 0
    #: For the updates of a table: the columns of its rows.
    row_schema: pa.Schema
    #: True if a downstream operator needs ``JoinResult.before``.
    returns_before: bool = False
    #: If set, ``InputStreamTimes`` has the stream time of each partition of this input.
    by_partition: int | None = None
    #: True if results are the records of the left input with more columns.
    keeps_records: bool = False
    #: True if the results of one stream are one stream: in its order, with its stream time.
    keeps_order: bool = False
    #: True if its results have a stream time of their own, because it drops late records or delays
    #: records.
    owns_stream_time: bool = False
    #: True if it uses records with a null value, although they are not of a table.
    takes_null_values: bool = False
    #: True if a record can change several rows. Each row is a flattened record of the record.
    makes_elements: bool = False
    #: True if its results are messages between the operators of a foreign-key join.
    is_between_tables: bool = False
    #: False if another operator of the store counts its records.
    counts_records: bool = True

    def ends_records(self, side: int) -> bool:
        """Return whether the accepted records of an input end here.

        They become part of the state or of results. Otherwise, they continue with more columns, or
        another operator counts them.
        """
        return not (self.keeps_records and side == LEFT)

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        """Return whether an input is a table, whose records with a null value are tombstones."""
        return False

    def waits_for(self, side: int) -> bool:  # noqa: ARG002
        """Return whether final windows wait for the stream time of an input."""
        return True

    def held_back_ms(self, held_ms: Sequence[int]) -> int:
        """Return how much older than the stream times a result can be, in milliseconds.

        ``held_ms`` has the same for each input, from its upstream join.
        """
        return max(self.delay_ms, *held_ms)


class OpenRecordsEngine(JoinEngine):
    """A join whose state is its records, unchanged except for ``matched``, until they expire.

    ``JoinResult.stayed`` has the rows of the old state that the new state begins with.
    """

    state_layout = "open records"

    @property
    @abstractmethod
    def keeps_matches(self) -> bool:
        """Whether later batches need to know which records had a result."""

    @abstractmethod
    def stays(self, records: pa.Table, stream_times: InputStreamTimes) -> Flags:
        """Return which records are still in the state at these stream times."""

    @abstractmethod
    def concerned(
        self,
        records: pa.Table,
        matched: Flags,
        batch: pa.Table,
        stream_times: tuple[InputStreamTimes, InputStreamTimes],
    ) -> Flags:
        """Return which ``records`` of the state the batch needs.

        With these records, ``apply`` returns the same results as with all records. ``stays``
        returns which of the others are in the next state.

        Args:
            records: The records of the state.
            matched: One flag per record.
            batch: The records of the batch.
            stream_times: The stream times before and after the batch.
        """


def joined_values(
    how: str,
    hows: object,
    own: tuple[pa.Field, ...],
    carried: pa.Schema | None,
    sides: tuple[pa.Schema, pa.Schema],
) -> list[pa.Field]:
    """Return the value columns of both ``sides``, left first, each nullable.

    ``hows`` is the ``Literal`` of the valid joins. See ``value_fields``.

    Raises:
        IllegalArgument: ``how`` is unknown, or two columns have one name.
    """
    if how not in get_args(hows):
        message = f"a join must be one of {', '.join(get_args(hows))}, not {how!r}"
        raise IllegalArgument(message)
    return value_fields(own, carried, sides)


def value_fields(
    own: tuple[pa.Field, ...], carried: pa.Schema | None, sides: Iterable[pa.Schema]
) -> list[pa.Field]:
    """Return the value columns of ``sides`` in order, each nullable.

    The tables of a join also have the columns ``own`` and ``carried``.

    Raises:
        IllegalArgument: Two columns have one name. Names ignore case, as in Spark.
    """
    values = [field for side in sides for field in side]
    seen: set[str] = set()
    for name in (column.name for column in (*own, *(carried or ()), *values)):
        if name.lower() in seen:
            message = (
                f"column {name!r} exists twice in a join (names ignore case). "
                "Rename it in one of the inputs with map_values(other=...)"
            )
            raise IllegalArgument(message)
        seen.add(name.lower())
    return [field.with_nullable(nullable=True) for field in values]


@dataclass(frozen=True)
class TableRecords:
    """Records of a table, or of several tables, in any order, as arrays.

    Attributes:
        rows: The records with ``TABLE_FIELDS``. Without a column ``side``, all are of table 0.
        keys: The distinct keys in the order of their UTF-8 bytes.
        key_code: The index of each record's key in ``keys``.
    """

    rows: pa.Table
    keys: pa.Array
    key_code: Ints
    side: Ints
    partition: Ints
    offset: Ints
    timestamp_ms: Ints
    deletes: Flags

    @classmethod
    def of(cls, rows: pa.Table) -> "TableRecords":
        """Return the records of ``rows``."""
        rows = rows.combine_chunks()
        (key_code,), keys = coded_keys(rows["key"])
        side, partition, offset, timestamp_ms = (
            np.asarray(rows[name]).astype(np.int64)
            if name in rows.column_names
            else np.zeros(len(rows), dtype=np.int64)
            for name in (SIDE.name, "partition", "offset", "timestamp_ms")
        )
        deletes = np.asarray(rows[NULL_VALUE.name])
        return cls(rows, keys, key_code, side, partition, offset, timestamp_ms, deletes)

    def take(self, numbers: Ints) -> pa.Table:
        """Return the rows with these indexes."""
        return self.rows.take(pa.array(numbers))

    def newest(self) -> Ints:
        """Return the index of the last record of each key, table and partition: the next state."""
        return greatest((self.key_code, self.side, self.partition), (self.offset,))

    def counting(self, newest: Ints, sides: int = 2) -> NDArray[np.int64]:
        """Return the index of the current record by [table, key code], -1 without a record.

        ``newest`` has one record for each key, table and partition. A tombstone can be the current
        record (see ``has_row``).
        """
        groups = (self.key_code[newest], self.side[newest])
        # For equal times, the partition decides. Any fixed choice is right, except the order of
        # arrival.
        by = (self.timestamp_ms[newest], self.partition[newest])
        chosen = newest[greatest(groups, by)]
        counting = np.full((sides, len(self.keys)), -1, dtype=np.int64)
        counting[self.side[chosen], self.key_code[chosen]] = chosen
        return counting

    def has_row(self, counting: NDArray[np.int64]) -> Flags:
        """Return where the current record is not a tombstone."""
        present: Flags = counting >= 0
        # An empty array cannot be indexed, not even with -1.
        return present & ~self.deletes[counting] if len(self.deletes) else present


def are_older(records: pa.Table, allowed_ms: Ints | int) -> Flags:
    """Return which records are older than their stream time by more than ``allowed_ms``."""
    timestamp_ms, stream_time_ms = (
        np.asarray(records[name]) for name in ("timestamp_ms", STREAM_TIME.name)
    )
    is_older: Flags = timestamp_ms + allowed_ms < stream_time_ms
    return is_older


def slowest_stream_time(times: InputStreamTimes) -> int:
    """Return the least stream time of the partitions with a record, -1 without one."""
    return min((ms for ms in times if ms >= 0), default=-1)


def apply_order(records: pa.Table) -> Ints:
    """Return the indexes of the records of a stream in their apply order, for all keys.

    The order is stream time, partition, offset, lineage. For updates of joined tables, stream time
    and table are first (``APPLY_ORDER``).
    """
    order: Ints = np.lexsort((*arrival_keys(records), np.asarray(records[STREAM_TIME.name])))
    return order


def in_apply_order(state: pa.Table, arrived: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a table and their updates as records of one partition, in apply order.

    The last update of a key is its row, in whichever partition it is. The updates of a batch follow
    the updates of earlier batches.
    """
    arrived = arrived.take(pa.array(apply_order(arrived)))
    return (
        replaced(state, {"partition": 0, "offset": -1}),
        replaced(arrived, {"partition": 0, "offset": np.arange(len(arrived))}),
    )


def replaced(
    rows: pa.Table, values: Mapping[str, Ints | Flags | int], chosen: Flags | None = None
) -> pa.Table:
    """Return ``rows`` with other ``values`` of some columns, in all or in the ``chosen`` rows."""
    chosen = np.ones(len(rows), dtype=np.bool_) if chosen is None else chosen
    for name, value in values.items():
        place = rows.column_names.index(name)
        field = rows.schema.field(name)
        column = np.where(chosen, value, np.asarray(rows[name]))
        rows = rows.set_column(place, field, pa.array(column, field.type))
    return rows


def split_by_key(rows: pa.Table, keys: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """Return the rows of other keys, and the rows of ``keys``."""
    of_keys = pc.is_in(rows["key"], value_set=pc.unique(keys))
    return rows.filter(pc.invert(of_keys)), rows.filter(of_keys)


def greatest(groups: tuple[Ints, ...], by: tuple[Ints, ...]) -> Ints:
    """Return the row with the greatest ``by`` for each group of rows with equal ``groups``."""
    # The last row of each run of equal groups has the greatest ``by``. The result is sorted by
    # ``groups``, with the first one as the most significant.
    order = np.lexsort((*by[::-1], *groups[::-1]))
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = np.logical_or.reduce([np.diff(group[order]) != 0 for group in groups])
    return order[last]
