"""The plans of a store: steps, engine, joins and stream times, which all batches share.

A stream time has the name of its topic. If a store reads a topic more than once, each reading has
its own stream time: ``topic``, ``topic#2`` and so on. They can differ, because the filters of a
reading decide which records advance it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from oriel.pipeline import hops
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.language import (
    Input,
    Join,
    Source,
    Store,
    StoreSource,
    Topology,
    refuse_hidden,
)
from oriel.pipeline.plan.batch import (
    BatchPlan,
    ClockPlan,
    JoinPlan,
    PreparedBatch,
    StreamPlan,
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
from oriel.pipeline.plan.inputs import InputPlan, JoinInput, Steps, StepsOf
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.plan.origins import effect_logs, origin_of
from oriel.pipeline.plan.row_steps import with_row_steps
from oriel.pipeline.windows import (
    LEFT,
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
)
from oriel.storage import Offsets
from oriel.storage.delta import delta_type


@dataclass(frozen=True)
class _Staged:
    """A checked join: its operator, and the steps and the upstream join of each input.

    The streams are planned later, because the delay of windows depends on all downstream joins.
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
        """Check the steps of ``store``, and plan its inputs.

        Args:
            store: The store.
            steps_of: Returns the steps of an input.
            source_reasons: The entry of this store in ``reasons_by_store``.
            in_front: The plans of stores whose rows this store can read, by name.

        Raises:
            InvalidTopology: A step does not fit. The message names it.
        """
        self.store = store
        self._steps_of = steps_of
        self._source_reasons = dict(source_reasons)
        self._in_front = in_front or {}
        self.clocks: list[ClockPlan] = []
        #: The number of joins whose results another join reads.
        self._fronts = 0
        inputs = [self._planned(*numbered) for numbered in enumerate(store.inputs)]
        assembly = assemble(store, [plan.steps.values for plan in inputs])
        self.assembly: Assembly = with_row_steps(store, assembly, steps_of)
        for columns in self.assembly.columns:
            refuse_hidden(store.name, columns)
        self.inputs = [
            replace(plan, stream=self._addressed_to_engine(number, plan.stream))
            for number, plan in enumerate(inputs)
        ]

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of the store's rows in addition to key, window and time."""
        return self.assembly.types

    @property
    def functions(self) -> str | None:
        """How the functions of the aggregation run (``Compilation``). None without functions."""
        compilation = self.assembly.engine.compilation
        return None if compilation is None else str(compilation)

    @property
    def explained(self) -> str:
        """How the store is computed, as text for ``TopologyTestDriver.explain``."""
        functions = f"\nFunctions: {self.functions}" if self.functions else ""
        return f"Rows: {self.store.aggregation}{functions}"

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the store reads, also through the rows of upstream stores."""
        fronts = [self._in_front[source.store].topics for source in self.store.reads_stores]
        own = (s.topic for s in self.store.sources if not isinstance(s, StoreSource))
        return tuple(dict.fromkeys((*own, *(topic for topics in fronts for topic in topics))))

    def select_columns(self, key_groups: int) -> None:
        """Let all steps return only the columns that are read, and divide keys into key groups.

        Call this method once, before the first batch. The table of the store contains the number of
        key groups, and it is opened after all stores of the topology are checked.
        """
        self._key_groups = key_groups
        assembly = self.assembly
        for plan, columns in zip(self.inputs, assembly.columns, strict=True):
            output = hops.StepsOutput(
                list(columns), assembly.takes_null_values, assembly.keeps_raw,
                assembly.takes_any_key,
            )  # fmt: skip
            plan.steps.select(output)
            for side in plan.sides:
                # Steps after the join can read all columns of its inputs.
                names = side.steps.values.names
                side.steps.select(hops.StepsOutput(names, null_values=side.takes_null_values))

    @property
    def needs_spark(self) -> bool:
        """Whether only Spark can run some of the steps."""
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
        """Return the plan of one batch, and the plans of its joins.

        Args:
            batch: The id of the batch.
            files: The files of the tasks.
            tasks: The number of tasks.
            previous: The previous batch. None for the first batch.
            ends: The end offsets of the batch. They have all known partitions.
            wall_clock: The wall clock, which is the same for all stores.
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
            origins=tuple(origin_of(definition) for definition in self.store.inputs),
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
                counts=join.counts,
            )
            for input_plan in self.inputs
            for join in (input_plan.join.joins if input_plan.join else ())
        ]
        return plan, joins

    def _planned(self, number: int, definition: Input) -> InputPlan:
        """Check the steps of an input. The columns of the store are not known yet."""
        if definition.join is None:
            steps = self._steps_of(definition, self._typed(definition.source))
            stream = self._stream_plan(definition, 0, {})
            return InputPlan(definition.source, steps, stream, None)
        staged = self._staged(definition.join)
        join = self._joined(staged, number, staged.stage.held_back_ms)
        steps = self._steps_of(definition, hops.joined_schema(staged.stage.result_schema))
        # A record that is joined with a table continues with its stream time. Any other result
        # is late by the stream time of its records.
        stream = StreamPlan(
            join.clock, {}, {}, SourceReasons.NOT_REPORTED,
            flattened=definition.flattened_lineage,
            moves_clock=join.gives_stream, counts=not join.stage.operator.is_between_tables,
        )  # fmt: skip
        return InputPlan(definition.source, steps, stream, join)

    def _typed(self, source: Source) -> Source:
        """Return a source with the schema of its records. Rows of a store have no schema before."""
        if not isinstance(source, StoreSource):
            return source
        fields = final_row_fields(self._in_front[source.store].columns)
        columns = (f"`{field.name}` {delta_type(field.type)}" for field in fields)
        return replace(source, schema=", ".join(columns))

    def _staged(self, join: Join, *, is_asked: bool = False) -> "_Staged":
        """Check the steps of all inputs, and whether they can be joined. Start with upstream joins.

        ``is_asked``: a downstream table needs old rows (``Join.asked_inputs``).
        """
        sides = join.inputs
        fronts = tuple(
            self._staged(side.join, is_asked=asked) if side.join else None
            for side, asked in zip(sides, join.asked_inputs(is_asked=is_asked), strict=True)
        )
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
        held_ms = [front.stage.held_back_ms if front else 0 for front in fronts]
        values = [each.values for each in steps]
        stage = JoinStage(self.store.name, join, values, held_ms, self._steps_of, is_asked=is_asked)
        return _Staged(join, stage, steps, fronts)

    def _joined(
        self, staged: "_Staged", number: int, delay_ms: int | None, *, counts: bool = True
    ) -> JoinInput:
        """Return a join with its streams.

        Args:
            staged: The checked join.
            number: The index of the join.
            delay_ms: The delay of its stream times (``ClockPlan``). The delay of the last join
                includes the delays of all upstream joins.
            counts: False if another operator of the store counts the records.
        """
        join, stage, operator = staged.join, staged.stage, staged.stage.operator
        counts = counts and operator.counts_records
        sides = []
        for place, (side, steps, front) in enumerate(
            zip(join.inputs, staged.steps, staged.fronts, strict=True)
        ):
            takes_null_values = operator.reads_table(place) or operator.takes_null_values
            constants = {"side": pa.scalar(place, pa.int8())}
            columns, marker = stage.read.columns[place], stage.read.markers[place]
            if marker is not None:
                constants[marker] = pa.scalar(value=True)
            waits_ms = delay_ms if operator.waits_for(place) else None
            if front is None:
                # Windows wait for the stream time of the results, if they have one of their own.
                waits_ms = None if operator.owns_stream_time else waits_ms
                stream = self._stream_plan(side, waits_ms, constants)
                stream = replace(stream, columns=columns, counts=counts)
                front_join = None
            else:
                self._fronts += 1
                front_number = len(self.store.inputs) + self._fronts - 1
                front_join = self._joined(front, front_number, waits_ms, counts=counts)
                stream = StreamPlan(
                    front_join.clock, columns, constants, SourceReasons.NOT_REPORTED,
                    origin=origin_of(side), effect_logs=effect_logs(side),
                    flattened=side.flattened_lineage,
                    counts=counts and not front.stage.operator.is_between_tables,
                )  # fmt: skip
            # Only records that find a row reach the store. So their stream time advances after
            # the last join with a table. It does not advance after a join of streams.
            is_stream = front_join is None or front_join.gives_stream
            is_left = place == LEFT and not operator.owns_stream_time
            goes_on = operator.keeps_order and is_left
            stream = replace(stream, moves_clock=is_stream and not goes_on)
            sides.append(InputPlan(side.source, steps, stream, front_join, takes_null_values))
        own_clock = None
        if operator.owns_stream_time and sides[0].stream.moves_clock:
            own_clock = self._clock(sides[0].stream.clock.topic, delay_ms)
        of_elements = tuple(each.has_elements for each in join.inputs)
        return JoinInput(number, stage, tuple(sides), of_elements, own_clock, counts)

    def _stream_plan(
        self, stream: Input, delay_ms: int | None, constants: Mapping[str, Any]
    ) -> StreamPlan:
        """Return the stream of one read of a source, with its own stream time."""
        # All readings of a source find the same invalid records. Only the first one reports them.
        reasons = self._source_reasons.pop(stream.source, SourceReasons.NOT_REPORTED)
        clock = self._clock(stream.source.topic, delay_ms)
        return StreamPlan(clock, {}, constants, reasons, flattened=stream.flattened_lineage)

    def _clock(self, topic: str, delay_ms: int | None) -> ClockPlan:
        """Return one more stream time of a topic."""
        number = sum(clock.topic == topic for clock in self.clocks) + 1
        clock = ClockPlan(topic if number == 1 else f"{topic}#{number}", topic, delay_ms)
        self.clocks.append(clock)
        return clock

    def _addressed_to_engine(self, input_number: int, stream: StreamPlan) -> StreamPlan:
        """Return the stream with the columns that the store reads."""
        constants: dict[str, Any] = {"input": pa.scalar(input_number, pa.int8())}
        marker = self.assembly.markers[input_number]
        if marker is not None:
            constants[marker] = pa.scalar(value=True)
        definition = self.store.inputs[input_number]
        return replace(
            stream,
            columns=self.assembly.columns[input_number],
            constants=constants,
            inputs=len(self.store.inputs),
            input_number=input_number,
            origin=origin_of(definition),
            effect_logs=effect_logs(definition),
        )


def reasons_by_store(topology: Topology) -> dict[str, dict[Source, SourceReasons]]:
    """Return which records of each source a store reports that are invalid for all stores."""
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
    """Return the stream time in ms of each known partition before a batch.

    Args:
        clock_plans: The stream times of the store.
        previous: The previous batch. None for the first batch.
        ends: The end offsets of the batch. They have all known partitions.
    """
    clocks: Clocks = {}
    for clock in clock_plans:
        times_ms = previous.record.stream_time_ms.get(clock.name, {}) if previous else {}
        # Decision 0006: a new partition starts at the slowest stream time of its topic. If it
        # started at -1, its records would change final windows, and no window would become final
        # before it reaches the other partitions.
        newcomer_ms = min(times_ms.values(), default=NO_STREAM_TIME_MS)
        clocks[clock.name] = {
            int(partition): times_ms.get(partition, newcomer_ms)
            for partition in ends.get(clock.topic, {})
        }
    return clocks
