"""The plans of a store: steps, engine, joins and stream times, which all batches share.

A stream time has the name of its topic. If a store reads a topic more than once, each reading has
its own stream time: ``topic``, ``topic#2`` and so on. They can differ, because the filters of a
reading decide which records advance it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from oriel.pipeline import stage_columns
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.language import Source, reject_internal_names
from oriel.pipeline.lowered import Input, Join, LoweredTopology, Store
from oriel.pipeline.plan.batch import (
    BatchPlan,
    JoinPlan,
    PreparedBatch,
    StreamPlan,
    StreamTimePlan,
    TaskFiles,
)
from oriel.pipeline.plan.engine import PlannedEngine, plan_engine
from oriel.pipeline.plan.final_rows import final_row_fields
from oriel.pipeline.plan.inputs import InputPlan, JoinInput, Steps, StepsOf
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.plan.record_topics import apply_order_logs, record_topics_of
from oriel.pipeline.plan.row_steps import with_row_steps
from oriel.pipeline.plan.wall_clock import (
    NO_STREAM_TIME_NOTES,
    NO_WALL_CLOCK,
    StreamTimesByName,
    WallClock,
    last_records_ms,
)
from oriel.pipeline.windows import (
    LEFT,
    NEVER_CLOSED_MS,
    NO_STREAM_TIME_MS,
)
from oriel.storage import Offsets
from oriel.storage.delta import delta_type


@dataclass(frozen=True)
class _CheckedJoin:
    """A checked join: its operator, and the steps and the upstream join of each input.

    The streams are planned later, because the delay of windows depends on all downstream joins.
    """

    join: Join
    stage: JoinStage
    steps: tuple[Steps, ...]
    upstream_joins: "tuple[_CheckedJoin | None, ...]"


class StorePlans:
    """Plans the batches of one store."""

    def __init__(
        self,
        store: Store,
        steps_of: StepsOf,
        source_reasons: Mapping[Source, SourceReasons],
        upstream_stores: "Mapping[str, StorePlans] | None" = None,
    ) -> None:
        """Check the steps of ``store``, and plan its inputs.

        Args:
            store: The store.
            steps_of: Returns the steps of an input.
            source_reasons: The entry of this store in ``reasons_by_store``.
            upstream_stores: The plans of stores whose rows this store can read, by name.

        Raises:
            InvalidTopology: A step does not fit. The message names it.
        """
        self.store = store
        self._steps_of = steps_of
        # A copy, because each entry is removed when it is used.
        self._source_reasons = dict(source_reasons)
        self._upstream_stores = upstream_stores or {}
        self.stream_time_plans: list[StreamTimePlan] = []
        #: The number of joins whose results another join reads.
        self._nested_joins = 0
        # The engine needs the columns after the steps, and the streams need the columns that the
        # engine reads. So the streams are completed after the engine is planned.
        inputs = [self._planned(*numbered) for numbered in enumerate(store.inputs)]
        assembly = plan_engine(store, [plan.steps.values for plan in inputs])
        self.assembly: PlannedEngine = with_row_steps(store, assembly, steps_of)
        for columns in self.assembly.columns:
            reject_internal_names(store.name, columns)
        self.inputs = [
            replace(plan, stream=self._for_engine(number, plan.stream))
            for number, plan in enumerate(inputs)
        ]

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of the store's rows in addition to key, window and time."""
        return self.assembly.types

    @property
    def table_columns(self) -> Mapping[str, pa.DataType]:
        """The same with the column of partial aggregates, if the rows keep them."""
        return self.assembly.table_types

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
        upstream_topics = [
            self._upstream_stores[source.store_name].topics for source in self.store.reads_stores
        ]
        own = (s.topic for s in self.store.sources if not s.store_name)
        return tuple(
            # Distinct, in a fixed order. A topic can be read directly and also by an upstream
            # store.
            dict.fromkeys((*own, *(topic for topics in upstream_topics for topic in topics)))
        )

    def select_columns(self, key_groups: int) -> None:
        """Let all steps return only the columns that are read, and divide keys into key groups.

        Call this method once, before the first batch. The table of the store contains the number of
        key groups, and it is opened after all stores of the topology are checked.
        """
        self._key_groups = key_groups
        assembly = self.assembly
        for plan, columns in zip(self.inputs, assembly.columns, strict=True):
            output = stage_columns.StepsOutput(
                list(columns), assembly.takes_null_values, assembly.keeps_raw,
                assembly.takes_any_key,
            )  # fmt: skip
            plan.steps.select(output)
            for side in plan.sides:
                # Steps after the join can read all columns of its inputs.
                # An operator before the store can also use records that the store cannot use, for
                # example tombstones.
                names = side.steps.values.names
                side.steps.select(
                    stage_columns.StepsOutput(names, null_values=side.takes_null_values)
                )

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
        stream_times = stream_times_before(self.stream_time_plans, previous, ends)
        notes = previous.clock_notes if previous else NO_STREAM_TIME_NOTES
        plan = BatchPlan(
            store=self.store.name,
            batch=batch,
            tasks=tasks,
            key_groups=self._key_groups,
            topics=tuple(definition.source.topic for definition in self.store.inputs),
            upstream_topics=self.topics if self.store.reads_stores else (),
            origins=tuple(record_topics_of(definition) for definition in self.store.inputs),
            assembly=self.assembly,
            stream_time_plans=tuple(self.stream_time_plans),
            stream_times=stream_times,
            # The close time continues from version n-1. So final windows stay final after a
            # restart, although Kafka Streams starts again at -1 (semantics.md#1-1).
            close_ms=previous.record.close_ms if previous else NEVER_CLOSED_MS,
            # The files of version n-1, never of an attempt of this batch. So an attempt that runs
            # again starts from the same state.
            segments=previous.segments if previous else {},
            files=files,
            wall_clock=wall_clock,
            last_records_ms=last_records_ms(notes, stream_times, wall_clock.now_ms),
        )
        joins = [
            JoinPlan(
                number=join.number,
                of_records=join.of_records,
                of_elements=join.of_elements,
                stage=join.stage,
                stream_time_plans=tuple(side.stream_time_plans for side in join.sides),
                # The index of a join is in the version and in file names. It depends only on the
                # topology, so each run finds the same state.
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
        # Windows wait as long as the last join can hold back results. Its value includes all
        # upstream joins.
        join = self._joined(staged, number, staged.stage.held_back_ms)
        steps = self._steps_of(definition, stage_columns.joined_schema(staged.stage.result_schema))
        # A record that is joined with a table continues with its stream time. Any other result
        # is late by the stream time of its records.
        stream = StreamPlan(
            join.stream_time, {}, {}, SourceReasons.NOT_REPORTED,
            flattened=definition.flattened_lineage,
            advances_stream_time=join.returns_stream,
            counts=not join.stage.operator.is_between_tables,
        )  # fmt: skip
        return InputPlan(definition.source, steps, stream, join)

    def _typed(self, source: Source) -> Source:
        """Return a source with the schema of its records. Rows of a store have no schema before."""
        if not source.store_name:
            return source
        fields = final_row_fields(self._upstream_stores[source.store_name].columns)
        columns = (f"`{field.name}` {delta_type(field.type)}" for field in fields)
        return replace(source, schema=", ".join(columns))

    def _staged(self, join: Join, *, needs_old_rows: bool = False) -> "_CheckedJoin":
        """Check the steps of all inputs, and whether they can be joined. Start with upstream joins.

        ``needs_old_rows``: a downstream table needs old rows (``Join.inputs_with_old_rows``).
        """
        sides = join.inputs
        upstream_joins = tuple(
            self._staged(side.join, needs_old_rows=needs_old) if side.join else None
            for side, needs_old in zip(
                sides, join.inputs_with_old_rows(needs_old=needs_old_rows), strict=True
            )
        )
        steps = tuple(
            self._steps_of(
                side,
                self._typed(side.source)
                if checked is None
                else stage_columns.joined_schema(checked.stage.result_schema),
            )
            for side, checked in zip(sides, upstream_joins, strict=True)
        )
        for each in steps:
            reject_internal_names(self.store.name, each.values.names)
        # A source delivers each record with its stream time, so it holds nothing back.
        held_ms = [checked.stage.held_back_ms if checked else 0 for checked in upstream_joins]
        values = [each.values for each in steps]
        stage = JoinStage(
            self.store.name, join, values, held_ms, self._steps_of, needs_old_rows=needs_old_rows
        )
        return _CheckedJoin(join, stage, steps, upstream_joins)

    def _joined(
        self, staged: "_CheckedJoin", number: int, delay_ms: int | None, *, counts: bool = True
    ) -> JoinInput:
        """Return a join with its streams.

        Args:
            staged: The checked join.
            number: The index of the join.
            delay_ms: The delay of its stream times (``StreamTimePlan``). The delay of the last join
                includes the delays of all upstream joins.
            counts: False if another operator of the store counts the records.
        """
        join, stage, operator = staged.join, staged.stage, staged.stage.operator
        counts = counts and operator.counts_records
        sides = []
        for place, (side, steps, checked) in enumerate(
            zip(join.inputs, staged.steps, staged.upstream_joins, strict=True)
        ):
            takes_null_values = operator.reads_table(place) or operator.takes_null_values
            # All inputs are in one table, so each record has the index of its input.
            constants = {"side": pa.scalar(place, pa.int8())}
            columns, marker = stage.read.columns[place], stage.read.markers[place]
            if marker is not None:
                constants[marker] = pa.scalar(value=True)
            waits_ms = delay_ms if operator.waits_for(place) else None
            if checked is None:
                # Windows wait for the stream time of the results, if they have one of their own.
                waits_ms = None if operator.owns_stream_time else waits_ms
                stream = self._stream_plan(side, waits_ms, constants)
                stream = replace(stream, columns=columns, counts=counts)
                upstream_join = None
            else:
                self._nested_joins += 1
                # The first indexes belong to the joins of the inputs. So an upstream join never has
                # the index of an input.
                upstream_index = len(self.store.inputs) + self._nested_joins - 1
                upstream_join = self._joined(checked, upstream_index, waits_ms, counts=counts)
                stream = StreamPlan(
                    upstream_join.stream_time, columns, constants, SourceReasons.NOT_REPORTED,
                    origin=record_topics_of(side), apply_order_logs=apply_order_logs(side),
                    flattened=side.flattened_lineage,
                    counts=counts and not checked.stage.operator.is_between_tables,
                )  # fmt: skip
            # Only records that find a row reach the store. So their stream time advances after
            # the last join with a table. It does not advance after a join of streams.
            is_stream = upstream_join is None or upstream_join.returns_stream
            is_left = place == LEFT and not operator.owns_stream_time
            continues_later = operator.keeps_order and is_left
            stream = replace(stream, advances_stream_time=is_stream and not continues_later)
            sides.append(InputPlan(side.source, steps, stream, upstream_join, takes_null_values))
        own_stream_time = None
        # If an operator drops late records or delays records, its output has other records at a
        # time than its input. So the output has a stream time of its own.
        if operator.owns_stream_time and sides[0].stream.advances_stream_time:
            own_stream_time = self._new_stream_time(sides[0].stream.stream_time.topic, delay_ms)
        of_elements = tuple(each.has_flattened for each in join.inputs)
        return JoinInput(number, stage, tuple(sides), of_elements, own_stream_time, counts)

    def _stream_plan(
        self, stream: Input, delay_ms: int | None, constants: Mapping[str, Any]
    ) -> StreamPlan:
        """Return the stream of one read of a source, with its own stream time."""
        # All readings of a source find the same invalid records. Only the first one reports them.
        reasons = self._source_reasons.pop(stream.source, SourceReasons.NOT_REPORTED)
        stream_time = self._new_stream_time(stream.source.topic, delay_ms)
        return StreamPlan(stream_time, {}, constants, reasons, flattened=stream.flattened_lineage)

    def _new_stream_time(self, topic: str, delay_ms: int | None) -> StreamTimePlan:
        """Return one more stream time of a topic."""
        # Versions contain stream times by name. The order in which a topology reads a topic is
        # fixed, so each run uses the same names.
        number = sum(each.topic == topic for each in self.stream_time_plans) + 1
        planned = StreamTimePlan(topic if number == 1 else f"{topic}#{number}", topic, delay_ms)
        self.stream_time_plans.append(planned)
        return planned

    def _for_engine(self, input_number: int, stream: StreamPlan) -> StreamPlan:
        """Return the stream with the columns that the store reads."""
        # A dead letter of the engine needs the input, to find the topic of its record.
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
            input_index=input_number,
            origin=record_topics_of(definition),
            apply_order_logs=apply_order_logs(definition),
        )


def reasons_by_store(topology: LoweredTopology) -> dict[str, dict[Source, SourceReasons]]:
    """Return which records of each source a store reports that are invalid for all stores."""
    sources = list(dict.fromkeys(each for unit in topology.units for each in unit.sources))
    # An invalid record has one dead letter for all stores, so one store reports it. If a topic is
    # read with several schemas, a record can be invalid for one schema only.
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


def stream_times_before(
    stream_time_plans: Sequence[StreamTimePlan], previous: PreparedBatch | None, ends: Offsets
) -> StreamTimesByName:
    """Return the stream time in ms of each known partition before a batch.

    Args:
        stream_time_plans: The stream times of the store.
        previous: The previous batch. None for the first batch.
        ends: The end offsets of the batch. They have all known partitions.
    """
    stream_times: StreamTimesByName = {}
    for planned in stream_time_plans:
        times_ms = previous.record.stream_time_ms.get(planned.name, {}) if previous else {}
        # Decision 0006: a new partition starts at the slowest stream time of its topic. If it
        # started at -1, its records would change final windows, and no window would become final
        # before it reaches the other partitions.
        new_partition_ms = min(times_ms.values(), default=NO_STREAM_TIME_MS)
        stream_times[planned.name] = {
            int(partition): times_ms.get(partition, new_partition_ms)
            for partition in ends.get(planned.topic, {})
        }
    return stream_times
