"""The join in front of a store's engine: one shape for joins of streams and of tables.

Records of both sides come with ``side``; results go on like records, with the stream time
that says how late they are.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.assembly import KEY_GROUP
from pipeline.errors import InvalidTopology
from pipeline.topology import Join, StreamJoin, TableLookup, TableUpdates
from pipeline.windows import IllegalArgument
from pipeline.windows.folds import NULL_VALUE
from pipeline.windows.joins import RECORD_FIELDS, RESULT_FIELDS, StreamJoinEngine
from pipeline.windows.table_joins import TableJoinEngine
from pipeline.windows.table_updates import TableUpdatesEngine

Engine = StreamJoinEngine | TableJoinEngine | TableUpdatesEngine


@dataclass(frozen=True)
class JoinedBatch:
    """What one batch made: the next state, results, and how many were late or found nothing."""

    state: pa.Table
    results: pa.Table
    late: int
    filtered: int


class JoinStage:
    """One join of a topology; holds no state between calls."""

    def __init__(self, store: str, join: Join, left: pa.Schema, right: pa.Schema) -> None:
        """Join value columns ``left`` with ``right``.

        Raises:
            InvalidTopology: two columns have one name, or a name that the join needs.
        """
        try:
            self._engine = _engine(join, left, right)
        except IllegalArgument as error:
            way_out = (
                # Tables have no steps that could rename columns.
                "leave the column out of a table's schema"
                if isinstance(join, TableUpdates)
                else "rename columns with map_values before"
            )
            message = f"store {store!r}, {join}: {error}; {way_out}"
            raise InvalidTopology(message) from error
        self.delay_ms = self._engine.delay_ms if isinstance(self._engine, StreamJoinEngine) else 0
        self.state_schema = self._engine.state_schema
        self.values = pa.schema([*left, *right])
        self.record_schema = pa.schema([*RECORD_FIELDS, NULL_VALUE, KEY_GROUP, *self.values])
        self.result_schema = pa.schema([*RESULT_FIELDS, *self.values])

    def empty_state(self) -> pa.Table:
        """The state before the first record."""
        return self.state_schema.empty_table()

    def process(
        self, state: pa.Table, batch: pa.Table, left_clock_ms: int, right_clock_ms: int
    ) -> JoinedBatch:
        """Join a batch; the clocks are the least stream times of both sides after it."""
        if isinstance(self._engine, StreamJoinEngine):
            done = self._engine.process(state, batch, left_clock_ms, right_clock_ms)
            return JoinedBatch(done.state, self._typed(done.results), done.late, 0)
        if isinstance(self._engine, TableUpdatesEngine):
            updated = self._engine.process(state, batch)
            return JoinedBatch(updated.state, self._typed(updated.results), 0, updated.dropped)
        side = np.asarray(batch["side"])
        stream, table = (batch.filter(pa.array(side == place)) for place in (0, 1))
        looked_up = self._engine.process(state, stream, table)
        suborder = pa.array(np.zeros(len(looked_up.results), dtype=np.int64))
        results = looked_up.results.append_column("suborder", suborder)
        return JoinedBatch(looked_up.state, self._typed(results), 0, looked_up.dropped)

    def _typed(self, results: pa.Table) -> pa.Table:
        return results.select(self.result_schema.names).cast(self.result_schema)


def _engine(join: Join, left: pa.Schema, right: pa.Schema) -> Engine:
    carried = pa.schema([KEY_GROUP])
    if isinstance(join, StreamJoin):
        return StreamJoinEngine(join.windows, join.how, left, right, carried)
    if isinstance(join, TableLookup):
        return TableJoinEngine(join.how, left, right, carried)
    return TableUpdatesEngine(join.how, left, right, carried)
