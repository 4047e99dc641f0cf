"""The join in front of a store's engine, as the plan of a batch knows it.

Records of both sides come with ``side``; results go on like records, with the stream time
that says how late they are. Which engine joins follows from the topology's join.
"""

from collections.abc import Mapping

import pyarrow as pa

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import KEY_GROUP
from oriel.pipeline.language import (
    Join,
    Responses,
    StreamJoin,
    Subscriptions,
    TableLookup,
    TableUpdates,
    places_of,
    sides_of,
)
from oriel.pipeline.state import Layout
from oriel.pipeline.windows import (
    LEFT,
    NULL_VALUE,
    RIGHT,
    SIDE_FIELDS,
    Clocks,
    Front,
    IllegalArgument,
    JoinEngine,
    JoinResult,
    ResponsesEngine,
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
        self,
        store: str,
        join: Join,
        left: pa.Schema,
        right: pa.Schema,
        held_ms: tuple[int, int] = (0, 0),
    ) -> None:
        """Join value columns ``left`` with ``right``; one table alone has none on the right.

        ``held_ms``: the ``delay_ms`` of the joins in front of the sides, 0 where there is none.

        Raises:
            InvalidTopology: two columns have one name, or a name that the join needs.
        """
        self._step = f"store {store!r}, {join}"
        #: The engine of a join of streams, whose state is open records; else it is rows of keys.
        self.streams: StreamJoinEngine | None = None
        self._engine: JoinEngine
        carried = pa.schema([KEY_GROUP])
        #: What tells a side's records apart that have one place in the log.
        places = [places_of(side) for side in sides_of(join)]
        try:
            if isinstance(join, StreamJoin):
                fronts = (Front(places[LEFT], held_ms[LEFT]), Front(places[RIGHT], held_ms[RIGHT]))
                self.streams = StreamJoinEngine(
                    join.windows, join.how, left, right, carried, fronts=fronts
                )
                self._engine = self.streams
            elif isinstance(join, TableLookup):
                self._engine = TableLookupEngine(
                    join.how, left, right, carried, places=places[LEFT]
                )
            elif isinstance(join, TableUpdates):
                self._engine = TableUpdatesEngine(join.how, left, right, carried)
            elif isinstance(join, Subscriptions):
                self._engine = SubscriptionsEngine(carried)
            elif isinstance(join, Responses):
                self._engine = ResponsesEngine(right, carried)
            else:
                is_joined = join.right is not None
                self._engine = TableChangesEngine(
                    join.how, left, right, carried, is_joined=is_joined
                )
        except IllegalArgument as error:
            message = f"{self._step}: {error}; rename columns with map_values before"
            raise InvalidTopology(message) from error
        #: Whether results are the stream's records with more columns.
        self.is_lookup = isinstance(join, TableLookup)
        #: Whether results are what tables tell each other, and no records of anybody's.
        self.is_between_tables = isinstance(join, Subscriptions | Responses)
        #: See ``JoinEngine``; what a join in front held back may come through this one.
        self.delay_ms = max(self._engine.delay_ms, *held_ms)
        self.state_schema = self._engine.state_schema
        #: Of rows of keys.
        self.layout = Layout(self.state_schema, member=self._engine.member)
        self.result_schema = self._engine.result_schema
        #: What both sides' stamps send, whichever of it the engine reads.
        beside = (*max((side.fields for side in places), key=len), NULL_VALUE)
        self.record_schema = pa.schema([*SIDE_FIELDS, *beside, KEY_GROUP, *left, *right])

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
