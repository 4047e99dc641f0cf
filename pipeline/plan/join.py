"""The join in front of a store's engine: one shape for joins of streams and of tables.

Records of both sides come with ``side``; results go on like records, with the stream time
that says how late they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import KEY_GROUP
from oriel.pipeline.language import Join, StreamJoin, TableLookup, TableUpdates
from oriel.pipeline.windows import (
    LEFT,
    NULL_VALUE,
    RESULT_FIELDS,
    RIGHT,
    SIDE_FIELDS,
    Clocks,
    Flags,
    IllegalArgument,
    StreamJoinEngine,
    TableJoinEngine,
    TableUpdatesEngine,
    refuse_large_places,
)

Engine = StreamJoinEngine | TableJoinEngine | TableUpdatesEngine


@dataclass(frozen=True)
class JoinedBatch:
    """What one batch made: the next state, results, and how many were late or found nothing.

    ``stayed`` is for joins of streams: which of the old state's rows the next one begins with.
    """

    state: pa.Table
    results: pa.Table
    late: int = 0
    filtered: int = 0
    stayed: Flags | None = None


class JoinStage:
    """One join of a topology; holds no state between calls."""

    def __init__(self, store: str, join: Join, left: pa.Schema, right: pa.Schema) -> None:
        """Join value columns ``left`` with ``right``.

        Raises:
            InvalidTopology: two columns have one name, or a name that the join needs.
        """
        self._step = f"store {store!r}, {join}"
        try:
            self._engine = _engine(join, left, right)
        except IllegalArgument as error:
            way_out = (
                # Tables have no steps that could rename columns.
                "leave the column out of a table's schema"
                if isinstance(join, TableUpdates)
                else "rename columns with map_values before"
            )
            message = f"{self._step}: {error}; {way_out}"
            raise InvalidTopology(message) from error
        #: The engine of a join of streams, whose state is records.
        self.streams = self._engine if isinstance(self._engine, StreamJoinEngine) else None
        #: Whether results are the stream's records with more columns.
        self.is_lookup = isinstance(self._engine, TableJoinEngine)
        self.delay_ms = self.streams.delay_ms if self.streams else 0
        self.state_schema = self._engine.state_schema
        self.values = pa.schema([*left, *right])
        self.record_schema = pa.schema([*SIDE_FIELDS, NULL_VALUE, KEY_GROUP, *self.values])
        self.result_schema = pa.schema([*RESULT_FIELDS, *self.values])

    def empty_state(self) -> pa.Table:
        """The state before the first record."""
        return self.state_schema.empty_table()

    def refuse_places(self, topic: str, ends: Mapping[str, int]) -> None:
        """Refuse records of a side's topic that results could not be told apart by.

        Raises:
            InvalidTopology: a partition is too many, or its offsets go too far.
        """
        if not self.streams:
            return
        for partition, end in ends.items():
            try:
                refuse_large_places(int(partition), end - 1)
            except IllegalArgument as error:
                message = (
                    f"{self._step}: topic {topic!r} has {error}; read a topic with fewer "
                    "partitions or shorter ones"
                )
                raise InvalidTopology(message) from error

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:
        """The keys whose rows a batch can change, where it looks at more of them."""
        if isinstance(self._engine, TableJoinEngine):
            return batch["key"].filter(pc.equal(batch["side"], RIGHT))
        return None

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinedBatch:
        """Join a batch; the clocks are the least stream times of both sides after it.

        Keys don't matter to each other: ``state`` may be the rows of those in the batch only,
        for a join of streams those that its engine is concerned with.
        """
        if isinstance(self._engine, StreamJoinEngine):
            done = self._engine.process(state, batch, *clocks)
            results = self._typed(done.results)
            return JoinedBatch(done.state, results, late=done.late, stayed=done.stayed)
        if isinstance(self._engine, TableUpdatesEngine):
            updated = self._engine.process(state, batch)
            results = self._typed(updated.results)
            return JoinedBatch(updated.state, results, filtered=updated.dropped)
        side = np.asarray(batch["side"])
        stream, table = (batch.filter(pa.array(side == place)) for place in (LEFT, RIGHT))
        looked_up = self._engine.process(state, stream, table)
        suborder = pa.array(np.zeros(len(looked_up.results), dtype=np.int64))
        results = looked_up.results.append_column("suborder", suborder)
        return JoinedBatch(looked_up.state, self._typed(results), filtered=looked_up.dropped)

    def _typed(self, results: pa.Table) -> pa.Table:
        return results.select(self.result_schema.names).cast(self.result_schema)


def _engine(join: Join, left: pa.Schema, right: pa.Schema) -> Engine:
    carried = pa.schema([KEY_GROUP])
    if isinstance(join, StreamJoin):
        return StreamJoinEngine(join.windows, join.how, left, right, carried)
    if isinstance(join, TableLookup):
        return TableJoinEngine(join.how, left, right, carried)
    return TableUpdatesEngine(join.how, left, right, carried)
