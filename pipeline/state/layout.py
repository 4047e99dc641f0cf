"""What a state is made of: its columns, its units, and when its rows matter.

All that ``KeyedState`` has to know of an operator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.hashes import member_hashes, unit_hashes
from oriel.pipeline.windows import FOREVER_MS, Due, Ints, Operator


def never_due(rows: pa.Table) -> Ints:
    """``Layout.due_ms`` of rows without windows."""
    return np.full(len(rows), FOREVER_MS, dtype=np.int64)


def one_unit(rows: pa.Table) -> Ints:
    """``Layout.units`` where a key's rows are one unit."""
    return np.zeros(len(rows), dtype=np.int64)


def due_alone(previous_close_ms: int, close_ms: int) -> Sequence[Due]:
    """``Layout.due`` where a row that is due needs its own unit only."""
    return (Due(previous_close_ms, close_ms),)


@dataclass(frozen=True)
class Layout:
    """The columns of a state (``key`` among them), and what an engine says of its rows.

    ``due_ms``, ``units`` and ``due`` are the engine's. Where rows leave when they are due,
    ``leave_ms`` is the ms behind which a row need not be stored any more: a later one than its
    ``due_ms``, if it hides older rows of its unit until then. None: rows stay until they are
    replaced. ``only_added``: rows never change, and units grow by the batch's rows. ``member``
    names a column that divides a key's rows instead of units; null: a row is of the key itself.
    """

    schema: pa.Schema
    due_ms: Callable[[pa.Table], Ints] = never_due
    units: Callable[[pa.Table], Ints] = one_unit
    due: Callable[[int, int], Sequence[Due]] = due_alone
    leave_ms: Callable[[pa.Table], Ints] | None = None
    only_added: bool = False
    member: str | None = None

    @classmethod
    def of(cls, operator: Operator[Any]) -> "Layout":
        """The layout of the state of an operator."""
        leave_ms = operator.due_ms if operator.rows_never_change else operator.unit_due_ms
        return cls(
            operator.state_schema,
            operator.due_ms,
            operator.units,
            operator.due,
            leave_ms if operator.rows_leave_when_due else None,
            operator.rows_never_change,
            operator.member,
        )

    def hashes(self, rows: pa.Table) -> Ints:
        """The hash of each row: what shares one is read and written together."""
        if self.member is not None:
            return member_hashes(rows["key"], rows[self.member])
        return unit_hashes(rows["key"], self.units(rows))

    def without_due(self, rows: pa.Table, close_ms: int) -> pa.Table:
        """The rows that matter yet at this close time."""
        if self.leave_ms is None:
            return rows
        return rows.filter(pa.array(self.due_ms(rows) >= close_ms))
