"""A topic's newest row of each key, or two joined by key, as the engine of a store.

The store's rows are the table's own: nothing is aggregated, nothing closes, nothing is
late. A record without a value deletes its row.
"""

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import FOREVER_MS
from oriel.pipeline.windows.engines import EngineResult, WindowEngine
from oriel.pipeline.windows.joins.sides import How
from oriel.pipeline.windows.joins.tables import TableTableJoinEngine
from oriel.pipeline.windows.records import INPUT, NULL_VALUE, RECORD_FIELDS


class TableRowsEngine(WindowEngine):
    """Rows of one table (``right`` has no columns then), or of two by key."""

    def __init__(
        self, how: How, left: pa.Schema, right: pa.Schema, carried: pa.Schema | None = None
    ) -> None:
        """``left`` and ``right`` are the value columns of the inputs 0 and 1.

        Raises:
            IllegalArgument: two columns have one name.
        """
        self._join = TableTableJoinEngine(how, left, right, carried)
        self.aggregate_types = {field.name: field.type for field in (*left, *right)}
        self.record_schema = pa.schema(
            [*RECORD_FIELDS, *(carried or ()), INPUT, NULL_VALUE, *left, *right]
        )
        self.state_schema = self._join.state_schema

    def is_late(self, timestamp_ms: Ints, close_ms: Ints) -> Flags:  # noqa: ARG002
        """None: a table has no windows."""
        return np.zeros(len(timestamp_ms), dtype=np.bool_)

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; a table knows no close time."""
        del previous_close_ms, close_ms
        source = np.asarray(batch["input"])
        left, right = (batch.filter(pa.array(source == side)) for side in (0, 1))
        result = self._join.process(state, left, right)
        changes = result.changes
        length = len(changes)
        rows = pa.table({
            "key": changes["key"],
            "window_start_ms": pa.array(np.zeros(length, dtype=np.int64)),
            "window_end_ms": pa.array(np.full(length, FOREVER_MS)),
            **{name: changes[name] for name in self.aggregate_types},
            "timestamp_ms": changes["timestamp_ms"],
            "final": pa.array(np.zeros(length, dtype=np.bool_)),
            "deleted": changes["deleted"],
        })  # fmt: skip
        return EngineResult(result.state, rows.sort_by("key"))
