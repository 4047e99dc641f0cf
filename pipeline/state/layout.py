"""The layout of a keyed state: its columns, its time buckets, and when its rows expire.

``KeyedState`` needs nothing else from an operator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.hashes import sub_key_hashes, time_bucket_hashes
from oriel.pipeline.windows import FOREVER_MS, Expiring, Ints, Operator


def never_expires(rows: pa.Table) -> Ints:
    """Return ``Layout.due_ms`` for rows without windows, which never expire."""
    return np.full(len(rows), FOREVER_MS, dtype=np.int64)


def single_bucket(rows: pa.Table) -> Ints:
    """Return ``Layout.buckets`` for a state with one time bucket per key."""
    return np.zeros(len(rows), dtype=np.int64)


def due_own_bucket(previous_close_ms: int, close_ms: int) -> Sequence[Expiring]:
    """Return ``Layout.due`` for rows that only need their own time bucket when they expire."""
    return (Expiring(previous_close_ms, close_ms),)


@dataclass(frozen=True)
class Layout:
    """The columns of a state, and the functions of its operator on rows.

    Attributes:
        schema: The columns of the state, including ``key``.
        due_ms: Returns the last millisecond of the last window of each row.
        buckets: Returns the index of the time bucket of each row.
        due: Returns the rows that a batch needs because they expire between two close times.
        leave_ms: Returns the ms after which each row can be deleted. It is greater than ``due_ms``
            if the row shadows older rows of its time bucket until then. None: rows stay until they
            are replaced.
        append_only: True if rows never change, so a batch only adds rows to a time bucket.
        sub_key: The column of the sub-key, which divides the rows of a key instead of time buckets.
            A row with a null sub-key belongs to the key itself.
    """

    schema: pa.Schema
    due_ms: Callable[[pa.Table], Ints] = never_expires
    buckets: Callable[[pa.Table], Ints] = single_bucket
    due: Callable[[int, int], Sequence[Expiring]] = due_own_bucket
    leave_ms: Callable[[pa.Table], Ints] | None = None
    append_only: bool = False
    sub_key: str | None = None

    @classmethod
    def of(cls, operator: Operator[Any]) -> "Layout":
        """Return the layout of the state of an operator."""
        # A row that can change shadows older rows of its time bucket, which can be due later than
        # the row itself. If it was deleted first, such an older row would be visible again. Rows
        # that never change shadow nothing.
        leave_ms = operator.due_ms if operator.rows_never_change else operator.bucket_due_ms
        return cls(
            operator.state_schema,
            operator.due_ms,
            operator.buckets,
            operator.due,
            leave_ms if operator.rows_leave_when_due else None,
            operator.rows_never_change,
            operator.sub_key,
        )

    def hashes(self, rows: pa.Table) -> Ints:
        """Return the hash of each row. Rows with one hash are read and written together."""
        # A key has either time buckets or sub-keys. A batch reads all sub-keys of a key as one
        # range of hashes, which time buckets of a key do not have.
        if self.sub_key is not None:
            return sub_key_hashes(rows["key"], rows[self.sub_key])
        return time_bucket_hashes(rows["key"], self.buckets(rows))

    def without_expired(self, rows: pa.Table, close_ms: int) -> pa.Table:
        """Return the rows that have not expired at this close time."""
        if self.leave_ms is None:
            return rows
        # ``due_ms`` is the last ms of a window, and a window is open while its last ms >= close
        # time (semantics.md#1-1). So a row that is due at 99 stays at the close time 99 and has
        # expired at 100.
        return rows.filter(pa.array(self.due_ms(rows) >= close_ms))
