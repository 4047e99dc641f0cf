"""What every window engine is: records of a batch in, changed windows and the next state out.

An engine is a pure function of (state, batch, clocks). It holds nothing between calls, so
whoever calls it decides where state lives, and a task may run any number of times.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import FOREVER_MS, Windows
from oriel.pipeline.windows.records import REJECTED_SCHEMA, SUBORDER


@dataclass(frozen=True)
class EngineResult:
    """What one batch made of the state.

    ``state``: the next state.
    ``changes``: each changed or newly final window that the emission policy lets through, once,
    in the layout of ``changed_rows``.
    ``late_partitions``: the partition of each record that only the engine could find late
    (sessions).
    ``rejected``: the records for which the user's function raised.
    ``left_out``: each accepted record for which it raised in one window, once for each such
    window, with what the state carries of the record.
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

    #: The definition, which says when a record is late.
    windows: Windows
    #: The columns that ``process`` takes.
    record_schema: pa.Schema
    #: The columns of the state.
    state_schema: pa.Schema
    #: The store's columns of aggregates by name: what ``changes`` has beside the fixed ones.
    aggregate_types: Mapping[str, pa.DataType]
    #: Whether the state is a set of records: the next state holds old rows as they were, or not.
    state_is_records: bool = False

    def order_by_suborder(self) -> None:
        """Expect results of a join: those of one left record share its place in the log."""
        self.record_schema = self.record_schema.append(SUBORDER)
        if self.state_is_records:
            self.state_schema = self.record_schema

    def empty_state(self) -> pa.Table:
        """The state before the first record."""
        return self.state_schema.empty_table()

    def _read(self, batch: pa.Table) -> pa.Table:
        """The columns of ``batch`` that the engine takes."""
        return batch.select(self.record_schema.names).cast(self.record_schema)

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Which records are refused by their own times: no window that could hold them is open.

        ``process`` takes the others. Of these a session engine may still find some late.
        """
        return self.windows.is_late(timestamp_ms, close_ms)

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
