"""The join in front of a store's engine, as the plan of a batch knows it.

Records of both sides come with ``side``; results go on like records, with the stream time
that says how late they are. Which engine joins follows from the topology's join.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from oriel.pipeline.arrow_steps import UpdateSteps
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import KEY_GROUP
from oriel.pipeline.language import (
    AggregatedRows,
    AggregateUpdates,
    Filter,
    GraceBuffer,
    Join,
    MergedStreams,
    Responses,
    StreamJoin,
    Subscriptions,
    TableChanges,
    TableLookup,
    TableUpdates,
    VersionedRecords,
    became_table,
    fan_outs_of,
    has_elements,
    has_own_order,
    is_one_stream,
    pairing_join,
    places_of,
    sides_of,
    tells_rows,
)
from oriel.pipeline.plan.engine import ReadColumns, merge_engine, updates_engine
from oriel.pipeline.plan.row_steps import RowStepsOf, update_steps
from oriel.pipeline.state import Layout
from oriel.pipeline.windows import (
    EFFECT,
    LEFT,
    NULL_VALUE,
    RIGHT,
    SIDE_FIELDS,
    AggregateUpdatesEngine,
    Clocks,
    ForeignUpdatesEngine,
    GraceBufferEngine,
    IllegalArgument,
    JoinEngine,
    JoinResult,
    OpenRecordsEngine,
    ResponsesEngine,
    ResponseUpdatesEngine,
    SideRows,
    StreamJoinEngine,
    SubscriptionsEngine,
    SubscriptionUpdatesEngine,
    TableChangesEngine,
    TableJoin,
    TableLookupEngine,
    TableUpdatesEngine,
    VersionedLookupEngine,
    VersionedRecordsEngine,
    refuse_large_places,
    values_beside,
)


class JoinStage:
    """One join of a topology; holds no state between calls."""

    def __init__(
        self,
        store: str,
        join: Join,
        sides: Sequence[pa.Schema],
        held_ms: Sequence[int],
        steps_of: RowStepsOf,
        *,
        is_asked: bool = False,
    ) -> None:
        """Join the value columns of ``sides``, the left one's first.

        ``held_ms``: the ``delay_ms`` of the joins in front of the sides, 0 where there is none.
        ``steps_of`` makes the steps of the rows of a table. ``is_asked``: a table behind asks for
        old rows (``asked_sides``).

        Raises:
            InvalidTopology: two columns have one name, or a name that the join needs.
        """
        self._step = f"store {store!r}, {join}"
        rows = _side_rows(join, held_ms)
        try:
            asked = _asks_for_old(join, is_asked=is_asked)
            self._engine, self.read = _engine(store, join, sides, rows, asks_for_old=asked)
        except InvalidTopology:
            # It names the step itself, and the way out.
            raise
        except IllegalArgument as error:
            message = f"{self._step}: {error}"
            raise InvalidTopology(message) from error
        engine = self._engine
        #: The engine of a join whose state is open records; else it is rows of keys.
        self.open_records = engine if isinstance(engine, OpenRecordsEngine) else None
        #: The side whose clock is told by partition (``Clocks``).
        self.by_partition = engine.by_partition
        #: The engine of a versioned table's history, whose state is that of units of time.
        self.versions = engine if isinstance(engine, VersionedLookupEngine) else None
        #: The engine of an aggregation's updates, whose state is that of its windows.
        self.updates = engine if isinstance(engine, AggregateUpdatesEngine) else None
        #: Whether results are the stream's records with more columns, or others.
        self.keeps_records = isinstance(join, TableLookup | VersionedRecords) or (
            isinstance(join, AggregateUpdates) and not join.others
        )
        self._makes_elements = isinstance(join, AggregateUpdates) and join.makes_elements
        #: Whether results of one stream are one: in its order, with a clock.
        self.keeps_order = self.keeps_records or isinstance(join, GraceBuffer)
        #: Whether it judges by the clock in front: its results have one of their own.
        is_windowed = isinstance(join, AggregateUpdates) and join.windows.kind != "none"
        judges = is_windowed or isinstance(join, GraceBuffer | VersionedRecords)
        self.has_own_clock = self.keeps_order and judges
        #: Whether records without a value have a part in it, though it reads a stream.
        self.takes_null_values = isinstance(join, VersionedRecords) or (
            isinstance(join, AggregateUpdates) and join.windows.rule.takes_null_values
        )
        #: Whether results are what tables tell each other, and no records of anybody's.
        self.is_between_tables = isinstance(join, Subscriptions | Responses)
        #: See ``JoinEngine``; what a join in front held back may come through this one. Behind a
        #: buffer of one stream the clock is that of the records that have gone on.
        is_buffered = isinstance(join, GraceBuffer) and is_one_stream(join.left)
        self.delay_ms = 0 if is_buffered else max(self._engine.delay_ms, *held_ms)
        self.state_schema = self._engine.state_schema
        #: Of rows of keys, of versions, or of an aggregation's state.
        self.layout = Layout(self.state_schema, member=engine.member)
        if self.updates is not None:
            self.layout = Layout.of_engine(self.updates)
        elif self.versions is not None:
            of_versions = self.versions
            self.layout = Layout(self.state_schema, of_versions.due_ms, of_versions.units)
        self.result_schema = self._engine.result_schema
        self._row_steps: UpdateSteps | None = None
        if isinstance(join, AggregateUpdates | TableUpdates) and join.row_steps:
            self._put_steps_behind(store, join, steps_of)
        #: What both sides' stamps send, whichever of it the engine reads.
        beside = (*max((side.places.fields for side in rows), key=len), NULL_VALUE)
        effect = [EFFECT] if EFFECT.name in self._engine.record_schema.names else []
        self.record_schema = pa.schema(
            [*SIDE_FIELDS, *beside, *effect, KEY_GROUP, *self.read.schema]
        )

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
        if not isinstance(self._engine, StreamJoinEngine):
            return
        for partition, end in ends.items():
            try:
                refuse_large_places(int(partition), end - 1)
            except IllegalArgument as error:
                message = (
                    f"{self._step}: topic {topic!r}: {error}. Read a topic with fewer "
                    "partitions, or with fewer records per partition"
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
        result = self._engine.process(state, batch, clocks)
        if self._row_steps is None:
            return result
        # Behind the updates stand records that a function raised on, which tell no row.
        updates, *rejected = result.pieces
        before = self._rows_read.empty_table() if result.before is None else result.before
        told = self._row_steps.applied(updates, before, self.result_schema)
        silent = len(updates) - len(told)
        # The record of a row that is told no more ends here; its elements have not begun.
        filtered, elements = result.filtered, result.elements
        if self._makes_elements:
            elements -= silent
        elif self.keeps_records:
            filtered = (filtered[LEFT] + silent,)
        without_row = (piece.drop_columns(self._engine.row_schema.names) for piece in rejected)
        pieces = [pa.concat_tables([told, *without_row], promote_options="default")]
        return replace(result, pieces=pieces, filtered=filtered, elements=elements)

    def _put_steps_behind(
        self,
        store: str,
        join: AggregateUpdates | TableUpdates,
        steps_of: RowStepsOf,
    ) -> None:
        """Let the steps of the table's rows run where they are told.

        Raises:
            InvalidTopology: a step does not fit the rows, Arrow does not run it, or it makes a
                column that a stream can't have; the message names it.
        """
        windowed = isinstance(join, AggregateUpdates) and join.windows.kind != "none"
        rows = AggregatedRows(join.row_steps, windowed)
        types = {field.name: field.type for field in self._engine.row_schema}
        steps = update_steps(store, rows, types, steps_of)
        read = {*rows.scope, *types}
        self._rows_read = pa.schema([field for field in self.result_schema if field.name in read])
        beside = [field for field in self.result_schema if field.name not in types]
        try:
            made = values_beside(tuple(beside), None, [pa.schema(steps.types.items())])
        except IllegalArgument as error:
            message = f"store {store!r}, {rows}: {error}"
            raise InvalidTopology(message) from error
        self._row_steps, self.result_schema = steps, pa.schema([*beside, *made])
        self._engine.tells_before = steps.filters


def asked_sides(join: Join, *, is_asked: bool) -> tuple[bool, ...]:
    """For each side whether it is asked for old rows, as Kafka's tables are (decision 0068).

    A left join asks its left table, an outer one both, a grouping all; and who is asked asks on,
    but for a stream that became a table: it has the old rows itself.
    """
    asked = [False] * len(sides_of(join))

    def ask(part: TableJoin | int, *, is_asked: bool) -> None:
        if isinstance(part, int):
            asked[part] = is_asked
        else:
            ask(part.left, is_asked=is_asked or part.how != "inner")
            ask(part.right, is_asked=is_asked or part.how == "outer")

    if isinstance(join, TableUpdates | TableChanges):
        ask(join.rows, is_asked=_asks_for_old(join, is_asked=is_asked))
    if isinstance(join, Subscriptions | Responses) or (
        isinstance(join, TableUpdates) and join.by_foreign_key
    ):
        # Of both tables: whose key a row named, and whether anything has changed at all.
        asked = [True] * len(asked)
    return tuple(
        asks and not became_table(side) for asks, side in zip(asked, sides_of(join), strict=True)
    )


def _asks_for_old(join: Join, *, is_asked: bool) -> bool:
    """Whether old rows are asked of joined tables, by those behind them or their own steps.

    A filter asks, to tell nothing of a row that it had left out before.
    """
    if isinstance(join, TableUpdates):
        return is_asked or any(isinstance(step, Filter) for step in join.row_steps)
    return is_asked or isinstance(join, TableChanges)


def _side_rows(join: Join, held_ms: Sequence[int]) -> list[SideRows]:
    """What the rows of each side are."""
    rows = []
    for place, (side, ms) in enumerate(zip(sides_of(join), held_ms, strict=True)):
        if isinstance(join, StreamJoin) and isinstance(pairing_join(side), GraceBuffer):
            # Of a join's results one that is later than the grace goes on at once, and may be late
            # for this join by its own measure.
            ms += join.windows.allowed_lateness_ms(place)  # noqa: PLW2901
        rows.append(
            SideRows(
                places_of(side),
                have_effect=has_own_order(side),
                are_changes=isinstance(side.join, TableChanges),
                are_elements=has_elements(side),
                tell_rows=tells_rows(side),
                held_ms=ms,
            )
        )
    return rows


def _engine(
    store: str,
    join: Join,
    sides: Sequence[pa.Schema],
    rows: Sequence[SideRows],
    *,
    asks_for_old: bool,
) -> tuple[JoinEngine, ReadColumns]:
    """The engine of a join, of the value columns of ``sides`` and what the ``rows`` of each are.

    With the columns that it reads of each side.
    """
    carried = pa.schema([KEY_GROUP])
    if isinstance(join, AggregateUpdates):
        return updates_engine(store, join, sides, rows, carried)
    if isinstance(join, MergedStreams):
        return merge_engine(store, join, sides, rows, carried)
    engine: JoinEngine
    if isinstance(join, StreamJoin):
        left, right = sides
        both = rows[LEFT], rows[RIGHT]
        engine = StreamJoinEngine(join.windows, join.how, left, right, carried, rows=both)
    elif isinstance(join, TableLookup):
        engine = _lookup_engine(join, sides, rows, carried)
    elif isinstance(join, GraceBuffer):
        engine = GraceBufferEngine(sides[LEFT], carried, rows=rows[LEFT], grace_ms=join.grace_ms)
    elif isinstance(join, VersionedRecords):
        engine = VersionedRecordsEngine(
            sides[LEFT], carried, history_ms=join.history_ms, newest_only=join.newest_only
        )
    elif isinstance(join, Subscriptions | Responses):
        engine = _between_tables(join, sides, rows, carried)
    elif isinstance(join, TableUpdates) and join.by_foreign_key:
        assert join.rows.how != "outer", "a row without a key names none"
        both = rows[LEFT], rows[RIGHT]
        tables = sides[LEFT], sides[RIGHT]
        naming = sides_of(join)[RIGHT].join
        assert naming is not None, "responses to those who name"
        logs = places_of(naming.left).logs
        engine = ForeignUpdatesEngine(join.rows.how, tables, carried, both, logs)
    else:
        filtered = frozenset(n for n, side in enumerate(join.tables) if side.filters_table)
        if isinstance(join, TableChanges):
            engine = TableChangesEngine(join.rows, sides, carried, filtered, rows=rows)
        else:
            engine = TableUpdatesEngine(
                join.rows, sides, carried, filtered, rows=rows, asks_for_old=asks_for_old
            )
    # No two sides have a name in common.
    names = tuple({name: name for name in side.names} for side in sides)
    schema = pa.schema([field for side in sides for field in side])
    return engine, ReadColumns(schema, names, (None,) * len(sides))


def _lookup_engine(
    join: TableLookup, sides: Sequence[pa.Schema], rows: Sequence[SideRows], carried: pa.Schema
) -> TableLookupEngine:
    left, right = sides
    both = rows[LEFT], rows[RIGHT]
    if join.history_ms is None:
        return TableLookupEngine(join.how, left, right, carried, rows=both)
    return VersionedLookupEngine(
        join.how, left, right, carried, rows=both, history_ms=join.history_ms
    )


def _between_tables(
    join: Subscriptions | Responses,
    sides: Sequence[pa.Schema],
    rows: Sequence[SideRows],
    carried: pa.Schema,
) -> JoinEngine:
    """The engine of what tables that are joined by a foreign key tell each other."""
    if isinstance(join, Subscriptions):
        if join.each:
            return SubscriptionUpdatesEngine(carried, rows[LEFT])
        return SubscriptionsEngine(carried)
    if not join.each:
        return ResponsesEngine(sides[RIGHT], carried, rows[RIGHT])
    return ResponseUpdatesEngine(
        sides[RIGHT],
        carried,
        (rows[LEFT], rows[RIGHT]),
        is_filtered=join.right.filters_table,
        is_told=fan_outs_of(join.right) > 0,
    )
