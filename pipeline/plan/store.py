"""What a store needs for every batch, built once: steps, engine, joins, clocks.

A clock is named after its topic; a topic that a store reads more than once has a clock
for each reading, ``topic#2`` and so on, because a filter in front decides what moves it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from oriel.pipeline.language import (
    Input,
    Side,
    Source,
    Store,
    TableLookup,
    TableRows,
    TableUpdates,
    Topology,
    refuse_hidden,
)
from oriel.pipeline.plan.batch import (
    STAMPED_FIELDS,
    BatchPlan,
    ClockPlan,
    Clocks,
    JoinPlan,
    Origin,
    SourceReasons,
    StampPlan,
)
from oriel.pipeline.plan.engine import Assembly, assemble
from oriel.pipeline.plan.join import JoinStage
from oriel.pipeline.plan.prepared_batch import PreparedBatch
from oriel.pipeline.windows import NEVER_CLOSED_MS, NO_STREAM_TIME_MS, RIGHT_ALONE
from oriel.storage import Offsets


class Steps(Protocol):
    """Row-wise steps of one input; ``oriel.pipeline.rows.steps`` has those that Spark runs."""

    #: The value columns after the steps.
    values: pa.Schema

    def select(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool = False
    ) -> None:
        """Choose what ``rows`` gives."""

    def rows(self, records: Any) -> Any:
        """The rows for the stamp, from decoded records or a join's results."""


#: Makes the steps of an input (or side of a join) that reads a source, or a join's results.
StepsOf = Callable[[Input | Side, Source | pa.Schema], Steps]


@dataclass(frozen=True)
class _Begun:
    """An input before its key groups are known: steps, clock, and the sides of its join."""

    source: Source
    steps: Steps
    clock: ClockPlan
    source_reasons: SourceReasons
    stage: JoinStage | None = None
    sides: tuple["_Begun", ...] = ()


@dataclass(frozen=True)
class SidePlan:
    """One side of a join: its steps and its stamp."""

    source: Source
    steps: Steps
    stamp: StampPlan


@dataclass(frozen=True)
class JoinInput:
    """The join of an input."""

    stage: JoinStage
    left: SidePlan
    right: SidePlan


@dataclass(frozen=True)
class InputPlan:
    """One input: the steps in front of its last stamp, and that stamp; its join, if any."""

    source: Source
    steps: Steps
    stamp: StampPlan
    join: JoinInput | None


@dataclass(frozen=True)
class Place:
    """Where a store's batches go: the folders of its tables and state, by how many tasks."""

    table: Path
    state: Path
    dead_letters: Path
    tasks: int
    sync: bool


class StorePlans:
    """Plans the batches of one store."""

    def __init__(
        self,
        store: Store,
        steps_of: StepsOf,
        source_reasons: Mapping[Source, SourceReasons],
    ) -> None:
        """Check the steps of ``store``, as ``steps_of`` makes them.

        ``source_reasons`` are this store's part of ``tellers``. Call ``finish`` before the
        first plan.

        Raises:
            InvalidTopology: a step does not fit; the message names it.
        """
        self.store = store
        self._steps_of = steps_of
        self._source_reasons = dict(source_reasons)
        self.clocks: list[ClockPlan] = []
        self.inputs: list[InputPlan] = []
        self._begun = [self._begin(one) for one in store.inputs]
        self.assembly: Assembly = assemble(store, [one.steps.values for one in self._begun])
        for columns in self.assembly.columns:
            refuse_hidden(store.name, columns)

    def finish(self, key_groups: int) -> None:
        """Build what depends on the number of key groups, which the store's table knows."""
        self.inputs = [
            self._finished(place, one, key_groups) for place, one in enumerate(self._begun)
        ]

    def plan(
        self, batch: int, place: Place, previous: PreparedBatch | None, ends: Offsets
    ) -> tuple[BatchPlan, list[JoinPlan]]:
        """Return the plan of one batch, and of its joins."""
        plan = BatchPlan(
            store=self.store.name,
            topics=tuple(one.source.topic for one in self.store.inputs),
            origins=tuple(_origin(one) for one in self.store.inputs),
            batch=batch,
            tasks=place.tasks,
            assembly=self.assembly,
            close_delay_ms=self.store.windows.close_delay_ms,
            delays=tuple(self.clocks),
            clocks=_clocks(self.clocks, previous, ends),
            close_ms=previous.record.close_ms if previous else NEVER_CLOSED_MS,
            segments=previous.segments if previous else {},
            table=place.table,
            state=place.state,
            dead_letters=place.dead_letters,
            windowed=self.store.windows.kind != "none",
            sync=place.sync,
        )
        joins = [
            JoinPlan(
                place=place,
                stage=one.join.stage,
                left=one.join.left.stamp,
                right=one.join.right.stamp,
                segments=previous.join_segments.get(place, {}) if previous else {},
            )
            for place, one in enumerate(self.inputs)
            if one.join is not None
        ]
        return plan, joins

    def _begin(self, one: Input) -> _Begun:
        """Check the steps of an input."""
        if one.join is None:
            steps = self._steps_of(one, one.source)
            return _Begun(
                one.source, steps, self._clock(one.source.topic, 0), self._told(one.source)
            )
        join = one.join
        steps_of = [self._steps_of(side, side.source) for side in (join.left, join.right)]
        for steps in steps_of:
            refuse_hidden(self.store.name, steps.values.names)
        stage = JoinStage(self.store.name, join, *(steps.values for steps in steps_of))
        # A table that is looked up is read as it is; nothing waits for it.
        delays = (stage.delay_ms, None if isinstance(join, TableLookup) else stage.delay_ms)
        sides = tuple(
            _Begun(
                side.source,
                steps,
                self._clock(side.source.topic, delay),
                self._told(side.source),
            )
            for side, steps, delay in zip((join.left, join.right), steps_of, delays, strict=True)
        )
        steps = self._steps_of(one, pa.schema([*STAMPED_FIELDS, *stage.result_schema]))
        return _Begun(one.source, steps, sides[0].clock, SourceReasons.NOT_TOLD, stage, sides)

    def _clock(self, topic: str, delay_ms: int | None) -> ClockPlan:
        number = sum(clock.topic == topic for clock in self.clocks) + 1
        clock = ClockPlan(topic if number == 1 else f"{topic}#{number}", topic, delay_ms)
        self.clocks.append(clock)
        return clock

    def _finished(self, place: int, one: _Begun, key_groups: int) -> InputPlan:
        """Choose the columns that the engine reads."""
        columns = self.assembly.columns[place]
        takes_null = self.store.windows.rule.takes_null_values
        is_table = isinstance(self.store.aggregation, TableRows)
        one.steps.select(
            list(columns), key_groups,
            null_values=takes_null or is_table, keeps_raw=self.assembly.keeps_raw,
        )  # fmt: skip
        constants: dict[str, Any] = {"input": pa.scalar(place, pa.int8())}
        marker = self.assembly.markers[place]
        if marker is not None:
            constants[marker] = pa.scalar(value=True)
        stamp = StampPlan(
            one.clock,
            columns,
            constants,
            one.source_reasons,
            len(self._begun),
            place,
            _origin(self.store.inputs[place]),
        )
        if one.stage is None:
            return InputPlan(one.source, one.steps, stamp, None)
        join = self.store.inputs[place].join
        tables = (isinstance(join, TableUpdates), isinstance(join, TableLookup | TableUpdates))
        left, right = (
            _side(side, number, key_groups, table=table)
            for number, (side, table) in enumerate(zip(one.sides, tables, strict=True))
        )
        if one.stage.is_lookup:
            left = replace(left, stamp=replace(left.stamp, moves_clock=False))
        return InputPlan(one.source, one.steps, stamp, JoinInput(one.stage, left, right))

    def _told(self, source: Source) -> SourceReasons:
        """What to do about bad records of a source; a second reading finds the same ones."""
        return self._source_reasons.pop(source, SourceReasons.NOT_TOLD)


def tellers(topology: Topology) -> dict[str, dict[Source, SourceReasons]]:
    """Which store tells of the records of a source that are bad whoever reads them."""
    sources = topology.sources
    untold = set(sources)
    found: dict[str, dict[Source, SourceReasons]] = {}
    for store in topology.stores:
        found[store.name] = {
            source: SourceReasons.FOR_ITSELF
            if sum(source.topic == other.topic for other in sources) > 1
            else SourceReasons.FOR_ALL
            if source in untold
            else SourceReasons.NOT_TOLD
            for source in store.sources
        }
        untold -= set(store.sources)
    return found


def _origin(one: Input) -> Origin | None:
    """Which records' places a join's results have; what a stream looked up is its own record."""
    if one.join is None or isinstance(one.join, TableLookup):
        return None
    right = 1 if isinstance(one.join, TableUpdates) else RIGHT_ALONE
    return Origin(one.join.left.source.topic, one.join.right.source.topic, right)


def _side(one: _Begun, side: int, key_groups: int, *, table: bool) -> SidePlan:
    """One side of a join: all of its columns go on; a table may have records without a value."""
    one.steps.select(one.steps.values.names, key_groups, null_values=table)
    constants = {"side": pa.scalar(side, pa.int8())}
    stamp = StampPlan(one.clock, {}, constants, one.source_reasons)
    return SidePlan(one.source, one.steps, stamp)


def _clocks(clocks: list[ClockPlan], previous: PreparedBatch | None, ends: Offsets) -> Clocks:
    """Stream time of every partition that this batch knows, by clock.

    A partition that appears later starts at the slowest clock of its topic there is:
    windows that are final stay final.
    """
    return {clock.name: _partitions(clock, previous, ends) for clock in clocks}


def _partitions(clock: ClockPlan, previous: PreparedBatch | None, ends: Offsets) -> dict[int, int]:
    known: dict[int, int] = {}
    if previous is not None:
        told = previous.record.stream_time_ms.get(clock.name, {})
        known = {int(partition): time for partition, time in told.items()}
    newcomer = min(known.values(), default=NO_STREAM_TIME_MS)
    return {int(p): known.get(int(p), newcomer) for p in ends.get(clock.topic, {})}
