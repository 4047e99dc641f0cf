"""The interface of all window engines, which turn a batch into changes and the next state.

An engine is the operator of a store (``operator``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import KeptAggregate
from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import IllegalArgument, Windows
from oriel.pipeline.windows.engines.operator import Operator
from oriel.pipeline.windows.functions import Compilation
from oriel.pipeline.windows.records import (
    APPLY_ORDER,
    LINEAGE,
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
        added: The new rows of the state, if rows never change (``Operator.rows_never_change``).
        defined_ms: The greatest start (for sessions, end) of a window that a record of the batch
            defined. It can be missing in ``changes``, because a function can create and remove a
            window in one batch.
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
        # Kafka Streams counts the retention of a session store from the greatest end, and of a
        # window store from the greatest start.
        name = "window_end_ms" if windows.kind == "session" else "window_start_ms"
        return max(self.defined_ms, greatest_ms(np.asarray(self.changes[name])))


class WindowEngine(Operator[EngineResult]):
    """The windows of one store. See ``Operator``.

    Its times are the close times of all partitions. Windows that end between them become final. The
    batch has the records that are not late.
    """

    #: The definition, which decides when a record is late.
    windows: Windows
    #: The aggregate columns of the store by name. ``changes`` has them and the fixed columns.
    aggregate_types: Mapping[str, pa.DataType]
    #: How the functions of a user run. None without functions.
    compilation: Compilation | None = None
    #: The aggregates whose partial aggregates ``changes`` has, in the column ``PARTIALS``.
    kept: tuple[KeptAggregate, ...] = ()

    def order_by_lineage(self) -> None:
        """Expect rows with a lineage, for example join results or flattened records."""
        self.record_schema = self.record_schema.append(LINEAGE)

    def keep_partials(self) -> None:
        """Add the partial aggregates of each window to ``changes``.

        Raises:
            IllegalArgument: The windows or their aggregates cannot be merged.
        """
        message = "mergeable=True needs tumbling windows with named aggregates. Omit mergeable"
        raise IllegalArgument(message)

    def use_apply_order(self) -> None:
        """Expect records with an apply order, such as updates of joined tables."""
        self.record_schema = self.record_schema.append(APPLY_ORDER)

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:
        """Return which records are late by their own times (semantics.md#0-3).

        ``apply`` receives the others. For sessions, no record is late by its own times, and
        ``apply`` finds the late ones.
        """
        return self.windows.is_late(timestamp_ms, close_ms)

    @property
    def has_time_buckets(self) -> bool:
        return super().has_time_buckets and self.windows.kind != "none"

    def close_ms(self, times: tuple[int, ...]) -> int:
        # The close time of a store is the least close time of all partitions of its streams.
        (close_ms,) = times
        return close_ms
