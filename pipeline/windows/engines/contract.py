"""The interface of all window engines, which turn a batch into changes and the next state.

An engine is a pure function of state, batch and stream time. It keeps nothing between calls, so the
caller decides where state is stored, and a task can run any number of times.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges
from oriel.pipeline.windows.definitions import FOREVER_MS, Windows
from oriel.pipeline.windows.functions import Compilation
from oriel.pipeline.windows.records import (
    EFFECT,
    NOTHING_OBSERVED_MS,
    REJECTED_SCHEMA,
    greatest_ms,
)


@dataclass(frozen=True)
class EngineResult:
    """The result of one batch.

    Args:
        state: The next state.
        changes: Each changed or newly final window that the emit strategy selects, once, in the
            layout of ``changed_rows``.
        late_partitions: The partition of each record that only the engine could find late
            (sessions).
        rejected: The records on which the user's function raised.
        left_out: Each accepted record on which it raised in one window, once per such window, with
            the columns that the state carries.
        added: The new rows of the state, if rows never change (``WindowEngine.rows_never_change``).
        defined_ms: The greatest start (for sessions, end) of a window that a record of the batch
            defined. ``changes`` can lack it, because a function can create and remove a window in
            one batch.
    """

    state: pa.Table
    changes: pa.Table
    late_partitions: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)
    left_out: pa.Table = field(default_factory=REJECTED_SCHEMA.empty_table)
    added: pa.Table | None = None
    defined_ms: int = NOTHING_OBSERVED_MS

    @property
    def late(self) -> int:
        """The number of records that only the engine could find late."""
        return len(self.late_partitions)

    def observed_ms(self, windows: Windows) -> int:
        """Return the greatest window start of the batch (semantics.md#7), or -1 without a window.

        The result is the same as if each record were a batch of its own. A window that exists at
        the end of the batch existed earlier with the same start, and the end of a session is the
        time of a record. The changes therefore contain the greatest one, except for windows that
        functions remove.
        """
        if windows.kind == "none":
            return NOTHING_OBSERVED_MS
        name = "window_end_ms" if windows.kind == "session" else "window_start_ms"
        return max(self.defined_ms, greatest_ms(np.asarray(self.changes[name])))


class Due(NamedTuple):
    """State rows that a batch needs because one of their windows becomes final.

    These are the rows with ``due_ms`` in [``low_ms``, ``high_ms``), and the time buckets of their
    key from ``first_unit`` to ``last_unit``, relative to their own bucket.
    """

    low_ms: int
    high_ms: int
    first_unit: int = 0
    last_unit: int = 0


class WindowEngine(ABC):
    """The windows of one store. It keeps no state between calls.

    The state has rows, each of a key and a *unit*, the index of a time bucket. A batch needs only
    the rows of some buckets: ``touched_units`` names the buckets for its records, and ``due`` the
    buckets for final windows. If two buckets of a key depend on each other, the engine names both.
    Keys are independent.
    """

    #: The definition, which decides when a record is late.
    windows: Windows
    #: The columns that ``process`` reads.
    record_schema: pa.Schema
    #: The columns of the state.
    state_schema: pa.Schema
    #: The aggregate columns of the store by name. ``changes`` has them and the fixed columns.
    aggregate_types: Mapping[str, pa.DataType]
    #: How the functions of a user run. None without functions.
    compilation: Compilation | None = None
    #: True if a row can be deleted after the close time has passed its ``due_ms``.
    rows_leave_when_due: bool = False
    #: True if rows never change until they are deleted. Otherwise, a batch can change its rows.
    rows_never_change: bool = False

    def order_by_numbers(self, numbers: Iterable[pa.Field]) -> None:
        """Expect rows that share the place of one record: join results or flattened records.

        ``numbers`` are the columns that distinguish them: ``SUBORDER``, and optionally
        ``PARTNERS``.
        """
        self.record_schema = pa.schema([*self.record_schema, *numbers])

    def order_by_effect(self) -> None:
        """Expect records with an apply order, such as updates of joined tables."""
        self.record_schema = self.record_schema.append(EFFECT)

    def empty_state(self) -> pa.Table:
        """Return the state before the first record."""
        return self.state_schema.empty_table()

    def _read(self, batch: pa.Table) -> pa.Table:
        """Return the columns of ``batch`` that the engine reads."""
        return batch.select(self.record_schema.names).cast(self.record_schema)

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Return which records are late by their own times (semantics.md#0-3).

        ``process`` receives the others. A session engine can find more late records.
        """
        return self.windows.is_late(timestamp_ms, close_ms)

    def units(self, state: pa.Table) -> Ints:
        """Return the time bucket of each state row. By default, a key has one bucket."""
        return np.zeros(len(state), dtype=np.int64)

    def touched_units(self, batch: pa.Table) -> Ranges:
        """Return the time buckets of its key that ``process`` needs for each record."""
        none = np.zeros(len(batch), dtype=np.int64)
        return Ranges(none, none + 1)

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the last millisecond of the last window of each state row.

        By default, no row ever closes.
        """
        return np.full(len(state), FOREVER_MS, dtype=np.int64)

    def unit_due_ms(self, state: pa.Table) -> Ints:
        """Return an upper bound of ``due_ms`` for rows in the time bucket of each state row."""
        return self.due_ms(state)

    def due(self, previous_close_ms: int, close_ms: int) -> Sequence[Due]:
        """Return the rows of windows that become final between two close times.

        By default, these are the rows of each bucket with such a window, even without a new record
        of the key.
        """
        return (Due(previous_close_ms, close_ms),)

    @abstractmethod
    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """Add ``batch`` to ``state`` and return the changes.

        Windows that end between the two close times become final. The changes are the same for the
        whole state and for the necessary buckets, and the next state has the same buckets.

        Args:
            state: The whole state, or all rows of some buckets: at least the buckets that
                ``touched_units`` and ``due`` name.
            batch: The records that are not late.
            previous_close_ms: The close time of all partitions before the batch.
            close_ms: The close time of all partitions after the batch.
        """
