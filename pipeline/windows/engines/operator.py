"""The interface of stateful operators: the state that a batch needs, and the next state.

An operator is a pure function of state, batch and times. It keeps nothing between calls, so the
caller decides where state is stored, and a task can run any number of times.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints, Ranges
from oriel.pipeline.windows.definitions import FOREVER_MS
from oriel.pipeline.windows.records import NEVER_CLOSED_MS

#: How the state of an operator is stored:
#:
#: - keyed: rows of keys, divided into time buckets or sub-keys.
#: - open records: records as they arrived, until stream times expire them.
#: - output: only the output of the current batch.
StateLayout = Literal["keyed", "open records", "output"]


class Times(NamedTuple):
    """Times in ms before and after a batch.

    For a store, each has one close time. For a join, each has the stream times of its inputs.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def closing(cls, before_ms: int, after_ms: int) -> Self:
        """Return the times of a store from its close times."""
        return cls((before_ms,), (after_ms,))

    @classmethod
    def at(cls, stream_times_ms: tuple[int, ...]) -> Self:
        """Return the times of a join whose stream times do not change in the batch."""
        return cls(stream_times_ms, stream_times_ms)


class Expiring(NamedTuple):
    """State rows that a batch needs because one of their windows becomes final.

    These are the rows with ``due_ms`` in [``low_ms``, ``high_ms``), and the time buckets of their
    key from ``first_bucket`` to ``last_bucket``, relative to their own bucket.
    """

    low_ms: int
    high_ms: int
    first_bucket: int = 0
    last_bucket: int = 0


class WorkingSet(Protocol):
    """The state rows that a batch reads."""

    @property
    def rows(self) -> pa.Table:
        """Rows of the ``state_schema`` of the operator."""


class StateReader(Protocol):
    """Reads the working set of a batch from the keyed state of one task."""

    def working_set(
        self,
        keys: pa.ChunkedArray,
        closing_ms: tuple[int, int] = ...,
        buckets: Ranges | None = None,
        expiring: Sequence[Expiring] | None = None,
    ) -> Any:
        """Return the rows of time buckets of keys, and the rows that expire between two times.

        ``expiring``: the rows that expire, if ``Operator.due`` does not decide it.
        """

    def working_set_of_sub_keys(
        self,
        records: pa.Table,
        whole_keys: pa.ChunkedArray,
        closing_ms: tuple[int, int] = ...,
    ) -> Any:
        """Return the rows of the sub-keys of records, and all rows of the keys ``whole_keys``."""

    def working_set_of_buckets(
        self,
        changed_keys: tuple[pa.ChunkedArray, Ranges],
        read_only: tuple[pa.ChunkedArray, Ranges],
        closing_ms: tuple[int, int],
    ) -> Any:
        """Return the rows of time buckets that can change, and of buckets that are only read."""


class OperatorResult(Protocol):
    """The result of one batch."""

    @property
    def state(self) -> pa.Table:
        """The next state of the rows that the operator received."""

    @property
    def added(self) -> pa.Table | None:
        """The new rows of the state, if rows never change (``Operator.rows_never_change``)."""


Result = TypeVar("Result", bound=OperatorResult)


class Operator(ABC, Generic[Result]):
    """A stateful operator.

    Each row of the state belongs to a key and to one of its time buckets, which have indexes. A
    batch needs only the rows of some buckets. The method ``buckets_of_batch`` returns the buckets
    that its records need, and ``due`` the buckets with rows that expire. If two buckets of a key
    depend on each other, the operator returns both. Keys are independent.
    """

    #: The columns that the operator reads of a batch.
    record_schema: pa.Schema
    #: The columns of the state.
    state_schema: pa.Schema
    state_layout: StateLayout = "keyed"
    #: True if a row can be deleted after the close time has passed its ``due_ms``.
    rows_leave_when_due: bool = False
    #: True if rows never change until they are deleted. Otherwise, a batch can change its rows.
    rows_never_change: bool = False
    #: The column of the state with the sub-key of a row. None: its rows have no sub-keys.
    sub_key: str | None = None

    @property
    def state_words(self) -> str:
        """The content of the state as text, for ``explain``."""
        if self.state_layout != "keyed":
            return {"open records": "open records", "output": "none"}[self.state_layout]
        if self.sub_key is not None:
            return "rows by key and sub-key"
        return "rows by key and time bucket" if self.has_time_buckets else "rows by key"

    @property
    def has_time_buckets(self) -> bool:
        """True if the rows of a key are in several time buckets."""
        return type(self).buckets is not Operator.buckets

    def empty_state(self) -> pa.Table:
        """Return the state before the first record."""
        return self.state_schema.empty_table()

    def buckets(self, state: pa.Table) -> Ints:
        """Return the time bucket of each state row. By default, a key has one bucket."""
        return np.zeros(len(state), dtype=np.int64)

    def buckets_of_batch(self, batch: pa.Table) -> Ranges:
        """Return the time buckets of its key that the operator needs for each record."""
        none = np.zeros(len(batch), dtype=np.int64)
        return Ranges(none, none + 1)

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the last millisecond of the last window of each state row.

        By default, no row ever expires.
        """
        return np.full(len(state), FOREVER_MS, dtype=np.int64)

    def bucket_due_ms(self, state: pa.Table) -> Ints:
        """Return an upper bound of ``due_ms`` for rows in the time bucket of each state row."""
        return self.due_ms(state)

    def due(self, previous_close_ms: int, close_ms: int) -> Sequence[Expiring]:
        """Return the rows that expire between two close times.

        By default, these are the rows of each bucket with such a row, even without a new record of
        the key.
        """
        return (Expiring(previous_close_ms, close_ms),)

    def close_ms(self, times: tuple[int, ...]) -> int:  # noqa: ARG002
        """Return the time up to which state rows have expired. By default, none has."""
        return NEVER_CLOSED_MS

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:
        """Return the working set of a batch. ``apply`` needs no other row of the state."""
        closing_ms = self.close_ms(times.before), self.close_ms(times.after)
        return state.working_set(batch["key"], closing_ms, self.buckets_of_batch(batch))

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:  # noqa: ARG002
        """Return the keys whose rows ``batch`` can change. None: all rows of the working set."""
        return None

    @abstractmethod
    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> Result:
        """Apply a batch to the state.

        Args:
            state: The rows of the working set, or of the whole state.
            batch: Records of ``record_schema``.
            times: The times before and after the batch.
        """

    def _read(self, batch: pa.Table) -> pa.Table:
        """Return the columns of ``batch`` that the operator reads."""
        return batch.select(self.record_schema.names).cast(self.record_schema)
