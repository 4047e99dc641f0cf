"""What a store needs for every batch, built once: steps, engine, joins, clocks.

A clock is named after its topic; a topic that a store reads more than once has a clock
for each reading, ``topic#2`` and so on, because a filter in front decides what moves it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from oriel.pipeline import hops
from oriel.pipeline.dead_letters import Origin, SourceReasons
from oriel.pipeline.language import (
    AggregatedRows,
    Input,
    Join,
    Responses,
    Side,
    Source,
    Store,
    StoreSource,
    Subscriptions,
    TableChanges,
    TableLookup,
    TableRows,
    TableUpdates,
    Topology,
    has_elements,
    pairing_join,
    places_of,
    refuse_hidden,
    sides_of,
)
from oriel.pipeline.plan.batch import (
    BatchPlan,
    ClockPlan,
    JoinPlan,
    PreparedBatch,
    StampPlan,
    TaskFiles,
)
from oriel.pipeline.plan.clocks import (
    NO_CLOCK_NOTES,
    NO_WALL_CLOCK,
    Clocks,
    WallClock,
    heard_before,
)
from oriel.pipeline.plan.engine import Assembly, assemble
from oriel.pipeline.plan.final_rows import final_row_fields
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.plan.row_steps import with_row_steps
from oriel.pipeline.windows import (
    LEFT,
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
    RIGHT,
    RIGHT_CHANGES,
)
from oriel.storage import Offsets
from oriel.storage.delta import delta_type


class Steps(Protocol):
    """Row-wise steps of one input; ``oriel.pipeline.rows`` has those that Spark runs."""

    #: The value columns after the steps.
    values: pa.Schema

    @property
    def arrow(self) -> "Steps | None":
        """The same steps over Arrow tables; None: only Spark can run them."""

    def select(self, output: hops.StepsOutput) -> None:
        """Choose what ``rows`` gives."""

    def rows(self, records: Any) -> Any:
        """The rows for the stamp, from decoded records or a join's results."""


#: Makes the steps of an input (or side of a join) that reads a source, or a join's results; or
#: those of the rows of an aggregation.
StepsOf = Callable[[Input | Side | AggregatedRows, Source | pa.Schema], Steps]


@dataclass(frozen=True)
class InputPlan:
    """A stream in front of the engine or of a join: a join in front, if any, steps, and its stamp.

    ``is_table``: a join takes it as a table, which may have records without a value.
    """

    source: Source
    steps: Steps
    stamp: StampPlan
    join: "JoinInput | None"
    is_table: bool = False

    @property
    def clocks(self) -> tuple[ClockPlan, ...]:
        """The clocks that its records follow: one, but those of both sides behind a pairing join.

        What a stream looked up follows the stream's.
        """
        if self.join is None:
            return (self.stamp.clock,)
        sides = self.join.sides[:1] if self.join.stage.is_lookup else self.join.sides
        return tuple(clock for side in sides for clock in side.clocks)

    @property
    def sides(self) -> "list[InputPlan]":
        """The sides of all its joins."""
        joins = self.join.joins if self.join else []
        return [side for join in joins for side in join.sides]


@dataclass(frozen=True)
class JoinInput:
    """A join in front of an input or of another join's side; see ``JoinPlan``.

    The changes of one table have one side, all others two, the left one first. ``of_elements``:
    for each side whether its records are elements of records.
    """

    number: int
    stage: JoinStage
    sides: tuple[InputPlan, ...]
    of_elements: tuple[bool, ...]

    @property
    def of_records(self) -> tuple[bool, ...]:
        """For each side whether it has a stream's records, that may have looked up tables."""
        return tuple(side.join is None or side.join.gives_records for side in self.sides)

    @property
    def gives_records(self) -> bool:
        """Whether results are a stream's records that looked up a table, maybe several."""
        return self.stage.is_lookup and self.of_records[0]

    @property
    def joins(self) -> "list[JoinInput]":
        """This join behind all that are in front of it."""
        fronts = (side.join for side in self.sides if side.join is not None)
        return [*(join for front in fronts for join in front.joins), self]


@dataclass(frozen=True)
class _Staged:
    """A join that is checked: its engine, and steps and a join in front of each side.

    Stamps come later: how long windows wait for a clock, all joins behind it know.
    """

    join: Join
    stage: JoinStage
    steps: tuple[Steps, ...]
    fronts: "tuple[_Staged | None, ...]"


class StorePlans:
    """Plans the batches of one store."""

    def __init__(
        self,
        store: Store,
        steps_of: StepsOf,
        source_reasons: Mapping[Source, SourceReasons],
        in_front: "Mapping[str, StorePlans] | None" = None,
    ) -> None:
        """Check the steps of ``store``, as ``steps_of`` makes them.

        ``source_reasons`` are this store's part of ``reasons_by_store``; ``in_front`` has the
        stores whose rows it may read.

        Raises:
            InvalidTopology: a step does not fit; the message names it.
        """
        self.store = store
        self._steps_of = steps_of
        self._source_reasons = dict(source_reasons)
        self._in_front = in_front or {}
        self.clocks: list[ClockPlan] = []
        #: How many joins are in front of others.
        self._fronts = 0
        inputs = [self._planned(*numbered) for numbered in enumerate(store.inputs)]
        assembly = assemble(store, [plan.steps.values for plan in inputs])
        self.assembly: Assembly = with_row_steps(store, assembly, steps_of)
        for columns in self.assembly.columns:
            refuse_hidden(store.name, columns)
        self.inputs = [
            replace(plan, stamp=self._addressed_to_engine(number, plan.stamp))
            for number, plan in enumerate(inputs)
        ]

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of the store's rows beside key, window and time."""
        return self.assembly.types

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of which the rows come, also by stores in front."""
        fronts = [self._in_front[source.store].topics for source in self.store.reads_stores]
        own = (s.topic for s in self.store.sources if not isinstance(s, StoreSource))
        return tuple(dict.fromkeys((*own, *(topic for topics in fronts for topic in topics))))

    def select_columns(self, key_groups: int) -> None:
        """Let all steps give only what is read behind them; stamps share keys in ``key_groups``.

        Once before the first batch: how many key groups there are, the store's table knows,
        which is not opened before all stores of a topology are checked.
        """
        self._key_groups = key_groups
        takes_null = self.store.windows.rule.takes_null_values
        is_sink = self.store.is_sink
        takes_null |= is_sink or isinstance(self.store.aggregation, TableRows)
        for plan, columns in zip(self.inputs, self.assembly.columns, strict=True):
            output = hops.StepsOutput(list(columns), takes_null, self.assembly.keeps_raw, is_sink)
            plan.steps.select(output)
            for side in plan.sides:
                # All columns of a side go on: steps behind the join may read them.
                names = side.steps.values.names
                side.steps.select(hops.StepsOutput(names, null_values=side.is_table))

    @property
    def needs_spark(self) -> bool:
        """Whether Arrow can't run some of the steps."""
        steps = (s for plan in self.inputs for s in (plan.steps, *(x.steps for x in plan.sides)))
        return any(each.arrow is None for each in steps)

    def plan(
        self,
        batch: int,
        files: TaskFiles,
        tasks: int,
        previous: PreparedBatch | None,
        ends: Offsets,
        wall_clock: WallClock = NO_WALL_CLOCK,
    ) -> tuple[BatchPlan, list[JoinPlan]]:
        """Return the plan of one batch, and of its joins.

        ``previous`` is the batch before, None for the first; ``ends`` are where this one ends:
        they name every partition that is known. ``wall_clock`` is that of all stores.
        """
        clocks = clocks_before(self.clocks, previous, ends)
        notes = previous.clock_notes if previous else NO_CLOCK_NOTES
        plan = BatchPlan(
            store=self.store.name,
            batch=batch,
            tasks=tasks,
            key_groups=self._key_groups,
            topics=tuple(definition.source.topic for definition in self.store.inputs),
            topics_in_front=self.topics if self.store.reads_stores else (),
            origins=tuple(_origin(definition) for definition in self.store.inputs),
            assembly=self.assembly,
            clock_plans=tuple(self.clocks),
            clocks=clocks,
            close_ms=previous.record.close_ms if previous else NEVER_CLOSED_MS,
            segments=previous.segments if previous else {},
            files=files,
            wall_clock=wall_clock,
            heard_ms=heard_before(notes, clocks, wall_clock.now_ms),
        )
        joins = [
            JoinPlan(
                number=join.number,
                of_records=join.of_records,
                of_elements=join.of_elements,
                stage=join.stage,
                clocks=tuple(side.clocks for side in join.sides),
                segments=previous.join_segments.get(join.number, {}) if previous else {},
            )
            for input_plan in self.inputs
            for join in (input_plan.join.joins if input_plan.join else ())
        ]
        return plan, joins

    def _planned(self, number: int, definition: Input) -> InputPlan:
        """Check the steps of an input; what its stamp adds for the engine is not known yet."""
        if definition.join is None:
            steps = self._steps_of(definition, self._typed(definition.source))
            stamp = self._stamp(definition.source, 0, {})
            return InputPlan(definition.source, steps, stamp, None)
        staged = self._staged(definition.join)
        join = self._joined(staged, number, staged.stage.delay_ms)
        steps = self._steps_of(definition, hops.joined_schema(staged.stage.result_schema))
        # A result is late by the times of its records; what a stream looked up is its record,
        # whose clock goes on behind the lookup.
        stamp = StampPlan(
            join.sides[0].stamp.clock, {}, {}, SourceReasons.NOT_REPORTED,
            moves_clock=join.gives_records, counts=not join.stage.is_between_tables,
        )  # fmt: skip
        return InputPlan(definition.source, steps, stamp, join)

    def _typed(self, source: Source) -> Source:
        """A source with the schema of its records, which that of a store's rows lacks so far."""
        if not isinstance(source, StoreSource):
            return source
        fields = final_row_fields(self._in_front[source.store].columns)
        columns = (f"`{field.name}` {delta_type(field.type)}" for field in fields)
        return replace(source, schema=", ".join(columns))

    def _staged(self, join: Join) -> "_Staged":
        """Check the steps of both sides, and that they can be joined; joins in front first."""
        sides = sides_of(join)
        fronts = tuple(self._staged(side.join) if side.join else None for side in sides)
        steps = tuple(
            self._steps_of(
                side,
                self._typed(side.source)
                if front is None
                else hops.joined_schema(front.stage.result_schema),
            )
            for side, front in zip(sides, fronts, strict=True)
        )
        for each in steps:
            refuse_hidden(self.store.name, each.values.names)
        left, *others = (each.values for each in steps)
        right = others[0] if others else pa.schema([])
        held_ms = [front.stage.delay_ms if front else 0 for front in fronts]
        stage = JoinStage(self.store.name, join, left, right, (held_ms[0], sum(held_ms[1:])))
        return _Staged(join, stage, steps, fronts)

    def _joined(self, staged: "_Staged", number: int, delay_ms: int) -> JoinInput:
        """The join ``number`` with its stamps; windows wait until clocks are ``delay_ms`` further.

        The last join knows what those in front hold back.
        """
        join, stage = staged.join, staged.stage
        is_lookup = isinstance(join, TableLookup)
        of_tables = isinstance(join, TableUpdates | TableChanges | Subscriptions | Responses)
        sides = []
        for place, side, steps, front in zip(
            (LEFT, RIGHT), sides_of(join), staged.steps, staged.fronts, strict=False
        ):
            is_table = of_tables or (is_lookup and place == RIGHT)
            constants = {"side": pa.scalar(place, pa.int8())}
            if front is None:
                # A table that is looked up is read as it is, so nothing waits for its clock.
                waits_ms = None if is_lookup and is_table else delay_ms
                stamp = self._stamp(side.source, waits_ms, constants)
                stamp = replace(stamp, counts=not isinstance(join, Subscriptions))
                front_join = None
            else:
                self._fronts += 1
                front_number = len(self.store.inputs) + self._fronts - 1
                front_join = self._joined(front, front_number, delay_ms)
                stamp = StampPlan(
                    front_join.sides[0].stamp.clock, {}, constants, SourceReasons.NOT_REPORTED,
                    origin=_origin(side), counts=not front.stage.is_between_tables,
                )  # fmt: skip
            # A stream's records reach the engine only if they find a row: their clock is behind
            # the last lookup. Behind a join of streams none moves any more.
            is_stream = front_join is None or front_join.gives_records
            moves_clock = is_stream and not (is_lookup and place == LEFT)
            stamp = replace(stamp, moves_clock=moves_clock)
            sides.append(InputPlan(side.source, steps, stamp, front_join, is_table))
        return JoinInput(number, stage, tuple(sides), tuple(map(has_elements, sides_of(join))))

    def _stamp(
        self, source: Source, delay_ms: int | None, constants: Mapping[str, Any]
    ) -> StampPlan:
        """The stamp of one reading of a source, with a clock of its own."""
        topic = source.topic
        number = sum(clock.topic == topic for clock in self.clocks) + 1
        clock = ClockPlan(topic if number == 1 else f"{topic}#{number}", topic, delay_ms)
        self.clocks.append(clock)
        # A second reading of a source finds the same records bad: only the first reports them.
        reasons = self._source_reasons.pop(source, SourceReasons.NOT_REPORTED)
        return StampPlan(clock, {}, constants, reasons)

    def _addressed_to_engine(self, input_number: int, stamp: StampPlan) -> StampPlan:
        """The stamp in front of the engine's tasks, with the columns that the engine reads."""
        constants: dict[str, Any] = {"input": pa.scalar(input_number, pa.int8())}
        marker = self.assembly.markers[input_number]
        if marker is not None:
            constants[marker] = pa.scalar(value=True)
        return replace(
            stamp,
            columns=self.assembly.columns[input_number],
            constants=constants,
            inputs=len(self.store.inputs),
            input_number=input_number,
            origin=_origin(self.store.inputs[input_number]),
        )


def reasons_by_store(topology: Topology) -> dict[str, dict[Source, SourceReasons]]:
    """Which store reports the records of a source that are bad whoever reads them."""
    sources = list(dict.fromkeys(each for unit in topology.units for each in unit.sources))
    unreported = set(sources)
    by_store: dict[str, dict[Source, SourceReasons]] = {}
    for store in topology.units:
        by_store[store.name] = {
            source: SourceReasons.FOR_ITSELF
            if sum(source.topic == other.topic for other in sources) > 1
            else SourceReasons.FOR_ALL
            if source in unreported
            else SourceReasons.NOT_REPORTED
            for source in store.sources
        }
        unreported -= set(store.sources)
    return by_store


def clocks_before(
    clock_plans: Sequence[ClockPlan], previous: PreparedBatch | None, ends: Offsets
) -> Clocks:
    """Stream time in ms of every partition that a batch knows, by clock, before the batch."""
    clocks: Clocks = {}
    for clock in clock_plans:
        times_ms = previous.record.stream_time_ms.get(clock.name, {}) if previous else {}
        # Decision 0006: a partition that appears later starts at the slowest clock of its topic.
        # With a clock of its own from -1 its records would change windows that are final, and
        # no window would become final until it has caught up with the others.
        newcomer_ms = min(times_ms.values(), default=NO_STREAM_TIME_MS)
        clocks[clock.name] = {
            int(partition): times_ms.get(partition, newcomer_ms)
            for partition in ends.get(clock.topic, {})
        }
    return clocks


def _origin(stream: Input | Side) -> Origin | None:
    """Whose places a stream's records have that are a join's results."""
    join = pairing_join(stream)
    if join is None:
        return None
    topics = tuple(topic for side in sides_of(join) for topic in _topics_of(side))
    if isinstance(join, TableChanges):
        # Two suborders each, of the old row and of the new one.
        return Origin(topics, of_each_table=len(RIGHT_CHANGES), subtracts=True)
    if isinstance(join, Subscriptions | Responses):
        return Origin(topics[:1])
    return Origin(topics, of_each_table=int(places_of(stream).names_table))


def _topics_of(stream: Side) -> tuple[str, ...]:
    """The topics that its records' places can be of, in the order of ``Places.log_of``."""
    join = pairing_join(stream)
    sides = sides_of(join) if join else ()
    return tuple(t for side in sides for t in _topics_of(side)) or (stream.source.topic,)
