"""What every window engine is: records of a batch in, changed windows and the next state out.

An engine is a pure function of (state, batch, clocks). It holds nothing between calls, so
whoever calls it decides where state lives, and a task may run any number of times.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges
from oriel.pipeline.windows.definitions import FOREVER_MS, Windows
from oriel.pipeline.windows.records import (
    EFFECT,
    NOTHING_OBSERVED_MS,
    REJECTED_SCHEMA,
    greatest_ms,
)


@dataclass(frozen=True)
class EngineResult:
    """What one batch made of the state.

    ``state``: the next state.
    ``added``: the rows of it that came with the batch, where rows never change
    (``WindowEngine.rows_never_change``).
    ``changes``: each changed or newly final window that the emission policy lets through, once,
    in the layout of ``changed_rows``.
    ``late_partitions``: the partition of each record that only the engine could find late
    (sessions).
    ``rejected``: the records for which the user's function raised.
    ``left_out``: each accepted record for which it raised in one window, once for each such
    window, with what the state carries of the record.
    ``defined_ms``: the greatest start (of a session the end) of a window that a record of the batch
    defined, where ``changes`` may lack it: a function may make and remove it in one batch.
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
        """How many records only the engine could find late."""
        return len(self.late_partitions)

    def observed_ms(self, windows: Windows) -> int:
        """The store's clock after the batch alone (semantics.md#7): -1 where no window was put.

        It is what the batch would have put if each record were a batch of its own. A window that
        is there at its end was there before it with the same start, and a session's end is the
        time of a record: so changes have the greatest one, but for what functions remove.
        """
        if windows.kind == "none":
            return NOTHING_OBSERVED_MS
        name = "window_end_ms" if windows.kind == "session" else "window_start_ms"
        return max(self.defined_ms, greatest_ms(np.asarray(self.changes[name])))


class Due(NamedTuple):
    """State rows that a batch has to look at, since a window of theirs becomes final.

    Those whose ``due_ms`` is in [``low_ms``, ``high_ms``); with them the units of their key from
    ``first_unit`` to ``last_unit``, counted from their own, which is 0.
    """

    low_ms: int
    high_ms: int
    first_unit: int = 0
    last_unit: int = 0


class WindowEngine(ABC):
    """The windows of one store; holds no state between calls.

    The state is rows, each of a key and a *unit*, a number that stands for a span of time. A
    batch needs the rows of some units only: those that ``touched_units`` names for its records,
    and those that ``due`` names. Units of a key matter to each other where the engine says
    so by naming both; keys never do.
    """

    #: The definition, which says when a record is late.
    windows: Windows
    #: The columns that ``process`` takes.
    record_schema: pa.Schema
    #: The columns of the state.
    state_schema: pa.Schema
    #: The store's columns of aggregates by name: what ``changes`` has beside the fixed ones.
    aggregate_types: Mapping[str, pa.DataType]
    #: Whether a row matters no more once the close time is behind its ``due_ms``.
    rows_leave_when_due: bool = False
    #: Whether rows stay as they came, until they leave; else a batch may change those that it sees.
    rows_never_change: bool = False

    def order_by_numbers(self, numbers: Iterable[pa.Field]) -> None:
        """Expect rows that share the place of one record: results of a join, or elements.

        ``numbers`` are the columns that tell them apart: ``SUBORDER``, and perhaps ``PARTNERS``.
        """
        self.record_schema = pa.schema([*self.record_schema, *numbers])

    def order_by_effect(self) -> None:
        """Expect what takes effect in an order of its own, as updates of joined tables do."""
        self.record_schema = self.record_schema.append(EFFECT)

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

    def units(self, state: pa.Table) -> Ints:
        """The unit of each state row. Here: a key has one."""
        return np.zeros(len(state), dtype=np.int64)

    def touched_units(self, batch: pa.Table) -> Ranges:
        """For each record, the units of its key whose rows ``process`` needs because of it."""
        none = np.zeros(len(batch), dtype=np.int64)
        return Ranges(none, none + 1)

    def due_ms(self, state: pa.Table) -> Ints:
        """The last ms of each state row's last window.

        Here: no row ever closes.
        """
        return np.full(len(state), FOREVER_MS, dtype=np.int64)

    def unit_due_ms(self, state: pa.Table) -> Ints:
        """The greatest ``due_ms`` that a row can have in the unit of each state row, or more."""
        return self.due_ms(state)

    def due(self, previous_close_ms: int, close_ms: int) -> Sequence[Due]:
        """What ``process`` needs for windows that become final between the two close times.

        Here: the rows of each unit with a window that does, even if no record of the key came.
        """
        return (Due(previous_close_ms, close_ms),)

    @abstractmethod
    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """Take ``batch`` (records that aren't late) into ``state`` and list what changed.

        ``close_ms`` is the close time of all partitions after the batch, ``previous_close_ms``
        the same before it; windows that end between the two become final now.

        ``state`` is the whole state, or all rows of some units: at least of those that
        ``touched_units`` and ``due`` name. The changes are the same in both cases, and the next
        state is that of the same units.
        """
