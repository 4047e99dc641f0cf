"""The join in front of a store's engine, as the plan of a batch knows it.

Records of both sides come with ``side``; results go on like records, with the stream time
that says how late they are. Which engine joins follows from the topology's join.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import KEY_GROUP
from oriel.pipeline.language import (
    AggregateUpdates,
    Join,
    Responses,
    StreamJoin,
    Subscriptions,
    TableChanges,
    TableLookup,
    are_updates,
    places_of,
    sides_of,
)
from oriel.pipeline.plan.engine import updates_engine
from oriel.pipeline.state import Layout
from oriel.pipeline.windows import (
    EFFECT,
    LEFT,
    NULL_VALUE,
    RIGHT,
    SIDE_FIELDS,
    AggregateUpdatesEngine,
    Clocks,
    IllegalArgument,
    JoinEngine,
    JoinResult,
    ResponsesEngine,
    SideRows,
    StreamJoinEngine,
    SubscriptionsEngine,
    TableChangesEngine,
    TableLookupEngine,
    TableUpdatesEngine,
    refuse_large_places,
)


class JoinStage:
    """One join of a topology; holds no state between calls."""

    def __init__(
        self, store: str, join: Join, sides: Sequence[pa.Schema], held_ms: Sequence[int]
    ) -> None:
        """Join the value columns of ``sides``, the left one's first.

        ``held_ms``: the ``delay_ms`` of the joins in front of the sides, 0 where there is none.

        Raises:
            InvalidTopology: two columns have one name, or a name that the join needs.
        """
        self._step = f"store {store!r}, {join}"
        rows = [
            SideRows(places_of(side), are_updates(side), isinstance(side.join, TableChanges), ms)
            for side, ms in zip(sides_of(join), held_ms, strict=True)
        ]
        try:
            self._engine = _engine(store, join, sides, rows)
        except IllegalArgument as error:
            message = f"{self._step}: {error}; rename columns with map_values before"
            raise InvalidTopology(message) from error
        engine = self._engine
        #: The engine of a join of streams, whose state is open records; else it is rows of keys.
        self.streams = engine if isinstance(engine, StreamJoinEngine) else None
        #: The engine of an aggregation's updates, whose state is rows of windows.
        self.updates = engine if isinstance(engine, AggregateUpdatesEngine) else None
        #: Whether results are the stream's records with more columns, or others.
        self.keeps_records = isinstance(join, TableLookup | AggregateUpdates)
        #: Whether it drops late records by the clock in front: its results have one of their own.
        self.judges_lateness = isinstance(join, AggregateUpdates) and join.windows.kind != "none"
        #: Whether records without a value have a part in it, though it reads a stream.
        self.takes_null_values = (
            isinstance(join, AggregateUpdates) and join.windows.rule.takes_null_values
        )
        #: Whether results are what tables tell each other, and no records of anybody's.
        self.is_between_tables = isinstance(join, Subscriptions | Responses)
        #: See ``JoinEngine``; what a join in front held back may come through this one.
        self.delay_ms = max(self._engine.delay_ms, *held_ms)
        self.state_schema = self._engine.state_schema
        #: Of rows of keys or windows.
        self.layout = (
            Layout(self.state_schema, member=self._engine.member)
            if self.updates is None
            else Layout.of_engine(self.updates)
        )
        self.result_schema = self._engine.result_schema
        #: What both sides' stamps send, whichever of it the engine reads.
        beside = (*max((side.places.fields for side in rows), key=len), NULL_VALUE)
        effect = [EFFECT] if EFFECT.name in self._engine.record_schema.names else []
        self.record_schema = pa.schema([
            *SIDE_FIELDS, *beside, *effect, KEY_GROUP, *(field for side in sides for field in side)
        ])  # fmt: skip

    def empty_state(self) -> pa.Table:
        """The state before the first record."""
        return self._engine.empty_state()

    def refuse_places(self, topic: str, ends: Mapping[str, int]) -> None:
        """Refuse records of a side's topic that results could not be told apart by.

        ``ends`` has, by partition, the offset behind the last record. Only a join of streams
        makes several results of one record; the others' results have places of their own.

        Raises:
            InvalidTopology: a partition is too many, or its offsets go too far.
        """
        if self.streams is None:
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

    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """The keys of which a batch needs all rows; of others those of members that it names."""
        return self._engine.whole(batch)

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:
        """The keys whose rows a batch can change, where it looks at more of them."""
        return self._engine.changing(batch)

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Join a batch, see ``JoinEngine``; the clocks are those after it."""
        return self._engine.process(state, batch, clocks)


def _engine(
    store: str,
    join: Join,
    sides: Sequence[pa.Schema],
    rows: Sequence[SideRows],
) -> JoinEngine:
    """The engine of a join, of the value columns of ``sides`` and what the ``rows`` of each are."""
    carried = pa.schema([KEY_GROUP])
    if isinstance(join, StreamJoin):
        left, right = sides
        both = rows[LEFT], rows[RIGHT]
        return StreamJoinEngine(join.windows, join.how, left, right, carried, rows=both)
    if isinstance(join, TableLookup):
        left, right = sides
        updates = rows[RIGHT] if isinstance(join.right.join, AggregateUpdates) else None
        places = rows[LEFT].places
        return TableLookupEngine(join.how, left, right, carried, places=places, updates=updates)
    if isinstance(join, AggregateUpdates):
        return updates_engine(store, join, sides[LEFT], rows[LEFT], carried)
    if isinstance(join, Subscriptions):
        return SubscriptionsEngine(carried)
    if isinstance(join, Responses):
        _, right = sides
        return ResponsesEngine(right, carried)
    engine = TableChangesEngine if isinstance(join, TableChanges) else TableUpdatesEngine
    filtered = frozenset(n for n, side in enumerate(join.tables) if side.filters_table)
    return engine(join.rows, sides, carried, filtered)
