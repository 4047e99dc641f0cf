"""What every window engine is: records of a batch in, changed windows and the next state out.

An engine is a pure function of (state, batch, clocks). It holds nothing between calls, so
whoever calls it decides where state lives, and a task may run any number of times.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.windows.exact_sum import Ints
from pipeline.windows.rules import FOREVER_MS

Flags = NDArray[np.bool_]

#: A record's key, time and place.
PLACE_FIELDS = (
    pa.field("key", pa.string()),
    pa.field("timestamp_ms", pa.int64()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
#: The columns that every engine of windows reads of a record.
RECORD_FIELDS = (*PLACE_FIELDS, pa.field("close_ms", pa.int64()))

#: Which stream of a cogroup a record is from.
INPUT = pa.field("input", pa.int8())
#: The order of records that share a place: results of a join that share their left record.
SUBORDER = pa.field("suborder", pa.int64())

#: Records that the user's function raised on, altogether or in some window.
REJECTED_SCHEMA = pa.schema([
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    INPUT,
    SUBORDER,
    pa.field("detail", pa.string()),
])  # fmt: skip


@dataclass(frozen=True)
class EngineResult:
    """What one batch made of the state.

    ``state`` is the next state; ``changes`` has each changed or newly final window once:
    key, window_start_ms, window_end_ms, the aggregates, timestamp_ms, final, deleted.
    ``late_partitions`` has the partition of each record that only the engine could find late
    (sessions); ``rejected`` are the records for which the user's function raised; ``left_out``
    has each accepted record for which it raised in one window, once for each such window, with
    what the state carries of the record.
    """

    state: pa.Table
    changes: pa.Table
    late_partitions: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)
    left_out: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)

    @property
    def late(self) -> int:
        """How many records only the engine could find late."""
        return len(self.late_partitions)


class WindowEngine(ABC):
    """The windows of one store; holds no state between calls."""

    #: The columns that ``process`` takes.
    record_schema: pa.Schema
    #: The columns of the state.
    state_schema: pa.Schema
    #: The store's columns beside key, window and times.
    aggregate_types: Mapping[str, pa.DataType]
    #: Whether the state is a set of records: the next state holds the old rows as they were.
    state_is_records: bool = False

    def order_by_suborder(self) -> None:
        """Expect records that are results of a join, which ``suborder`` puts in order."""
        self.record_schema = self.record_schema.append(SUBORDER)
        if self.state_is_records:
            self.state_schema = self.record_schema

    def empty_state(self) -> pa.Table:
        """The state before the first record."""
        return self.state_schema.empty_table()

    def _read(self, batch: pa.Table) -> pa.Table:
        """The columns of ``batch`` that the engine takes."""
        return batch.select(self.record_schema.names).cast(self.record_schema)

    @abstractmethod
    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Which records are refused, as far as the record alone tells."""

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each state row's window, from which on its key has to be looked at.

        Once the close time is behind it, ``process`` needs all rows of the key, even if no
        record of the key came. Here: no row ever closes.
        """
        return np.full(len(state), FOREVER_MS, dtype=np.int64)

    @abstractmethod
    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """Take ``batch`` (records that aren't late) into ``state`` and list what changed.

        ``close_ms`` is the close time of all partitions after the batch, ``previous_close_ms``
        the same before it; windows that end between the two become final now.

        Keys don't matter to each other. Where the state isn't a set of records, ``state`` may
        therefore be the rows of some keys only: all rows of those in the batch, and of those
        with a row whose ``due_ms`` is in [``previous_close_ms``, ``close_ms``). The next
        state is then that of the same keys.
        """


def rows_schema(
    place: Iterable[pa.Field], carried: Iterable[pa.Field], kept: Iterable[pa.Field]
) -> pa.Schema:
    """A state of windows: ``place`` in key and time, ``kept`` of their records, timestamp."""
    key, timestamp = PLACE_FIELDS[:2]
    return pa.schema([key, *place, *carried, *kept, timestamp])


def arrival_keys(records: pa.Table) -> tuple[Ints, ...]:
    """Sort keys, the last first as in ``np.lexsort``, of arrival: partition, then offset."""
    names = [name for name in ("suborder", "offset", "partition") if name in records.column_names]
    # A record beside a join's results has no suborder.
    return tuple(np.asarray(pc.fill_null(records[name], 0)) for name in names)


def coded_keys(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Number the keys of several columns alike, in the order of their UTF-8 bytes.

    Returns the codes of each column, and the key of each code.
    """
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # More text than one array can hold.
        encoded = encoded.combine_chunks()
    codes, keys = ranked(encoded)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(codes, ends[:-1]), keys


def ranked(encoded: pa.DictionaryArray) -> tuple[Ints, pa.Array]:
    """Return (rank of each value, the distinct values by rank); strings go by their bytes."""
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], encoded.dictionary.take(order)


def heads(*columns: Ints) -> Flags:
    """Where a run of equal rows begins, in columns sorted together."""
    length = len(columns[0])
    head = np.ones(length, dtype=np.bool_)
    if length:
        head[1:] = False
        for column in columns:
            head[1:] |= column[1:] != column[:-1]
    return head
