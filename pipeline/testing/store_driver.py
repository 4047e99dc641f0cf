"""One store of the test driver: the pipeline's own stamps, joins and engine, in process."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from oriel.pipeline.commit import count_found
from oriel.pipeline.language import Source, Store
from oriel.pipeline.plan import (
    COUNTERS,
    LATE_RESULTS,
    REJECTED_RESULTS,
    STAMPED_FIELDS,
    BatchPlan,
    ClockPlan,
    InputPlan,
    JoinPlan,
    Place,
    SidePlan,
    SourceReasons,
    StorePlans,
)
from oriel.pipeline.tasks import Stamper, found_by_input, rejected_letters
from oriel.pipeline.testing.rows import StoreRows
from oriel.pipeline.testing.steps import steps_for
from oriel.pipeline.windows import NO_STREAM_TIME_MS

#: Decoded records of this batch, by source.
Piped = Mapping[Source, pa.Table]


@dataclass(frozen=True)
class Counters:
    """What became of the records: input = applied + late + dropped + filtered.

    ``late`` records came after their windows had closed; ``dropped`` ones went to the dead
    letters (no key, no value where one is needed, a function that raised ...). A record that
    is left out of some sliding window because a function raised is a dead letter, too, but
    counts as applied. Results of a join of streams or tables are no records: those that came
    late or went to the dead letters are counted beside.
    """

    input: int
    applied: int
    late: int
    dropped: int
    filtered: int
    late_results: int = 0
    dropped_results: int = 0


class StoreDriver:
    """Brings one store forward, a micro-batch at a time."""

    def __init__(self, store: Store) -> None:
        """Check the store's steps and aggregation.

        Raises:
            InvalidTopology: a step does not fit; the message names it.
        """
        self.store = store
        # Each store of the driver has dead letters of its own.
        reasons = dict.fromkeys(store.sources, SourceReasons.FOR_ALL)
        self._plans = StorePlans(store, partial(steps_for, store=store.name), reasons)
        self._plans.finish(1)
        nowhere = Path()
        place = Place(nowhere, nowhere, nowhere, 1, sync=False)
        self._plan, self._joins = self._plans.plan(0, place, None, {})
        engine = self._plans.assembly.engine
        self._state = engine.empty_state()
        self._join_states = {join.place: join.stage.empty_state() for join in self._joins}
        self._counters = dict.fromkeys((*COUNTERS, LATE_RESULTS, REJECTED_RESULTS), 0)
        self.content = StoreRows(store.retention_ms)
        self.output: list[dict[str, Any]] = []
        self.dead_letters: list[dict[str, Any]] = []

    @property
    def counters(self) -> Counters:
        """Running totals."""
        told = self._counters
        return Counters(
            input=told["input"],
            applied=told["applied"],
            late=told["late"],
            dropped=told["dead_lettered"],
            filtered=told["filtered"],
            late_results=told[LATE_RESULTS],
            dropped_results=told[REJECTED_RESULTS],
        )

    def process(self, piped: Piped, partition: int) -> None:
        """Take one batch of one partition through the store.

        Raises:
            InvalidTopology: the partition's number is too large for a join of streams.
        """
        for join in self._joins:
            join.refuse_places({source.topic: {str(partition): 0} for source in piped})
        clocks = {name: dict(partitions) for name, partitions in self._plan.clocks.items()}
        for clock in self._plan.delays:
            if any(source.topic == clock.topic for source in piped):
                _know(clocks, clock, partition)
        plan = replace(self._plan, clocks=clocks)
        stampers: list[Stamper] = []
        stamped = [self._stamped(one, plan, piped, stampers) for one in self._plans.inputs]
        for stamper in stampers:
            clocks[stamper.report().clock].update(stamper.report().stream_time_ms)
        joined = [
            self._joined(join, self._plans.inputs[join.place], plan, piped, stampers)
            for join in self._joins
        ]
        self._advance(plan, pa.concat_tables([*stamped, *joined]), stampers)

    def _stamped(
        self, one: InputPlan, plan: BatchPlan, piped: Piped, stampers: list[Stamper]
    ) -> pa.Table:
        """The records of an input without a join."""
        if one.join is not None or not _has_records(one.source, piped):
            return plan.stamped_schema.empty_table()
        stamper = Stamper(plan, one.stamp, plan.stamped_schema)
        stampers.append(stamper)
        return pa.Table.from_batches([stamper.for_engine(one.steps.rows(piped[one.source]))])

    def _joined(
        self,
        join: JoinPlan,
        one: InputPlan,
        plan: BatchPlan,
        piped: Piped,
        stampers: list[Stamper],
    ) -> pa.Table:
        """The results of an input's join, through the steps behind it."""
        assert one.join is not None
        sides = [
            self._arriving(side, join, plan, piped, stampers)
            for side in (one.join.left, one.join.right)
        ]
        batch = pa.concat_tables(sides).select(join.stage.record_schema.names)
        done = join.stage.process(self._join_states[join.place], batch, join.times(plan.clocks))
        self._join_states[join.place] = done.state
        self._counters["late"] += done.late
        self._counters["filtered"] += done.filtered
        self._counters["applied"] -= done.late + done.filtered
        rows = one.steps.rows(_with_reports(done.results))
        behind = Stamper(plan, one.stamp, plan.stamped_schema)
        stampers.append(behind)
        if join.stage.is_lookup:
            looked_up = behind.looked_up(rows)
            plan.clocks[one.stamp.clock.name].update(behind.report().stream_time_ms)
            return pa.Table.from_batches([looked_up])
        routed = [pa.Table.from_batches([batch]) for batch in behind.routed(rows)]
        return pa.concat_tables([plan.stamped_schema.empty_table(), *routed])

    def _arriving(
        self,
        side: SidePlan,
        join: JoinPlan,
        plan: BatchPlan,
        piped: Piped,
        stampers: list[Stamper],
    ) -> pa.Table:
        if not _has_records(side.source, piped):
            return join.arriving_schema.empty_table()
        stamper = Stamper(plan, side.stamp, join.arriving_schema)
        stampers.append(stamper)
        arrived = stamper.for_join(side.steps.rows(piped[side.source]))
        plan.clocks[side.stamp.clock.name].update(stamper.report().stream_time_ms)
        return pa.Table.from_batches([arrived])

    def _advance(self, plan: BatchPlan, rows: pa.Table, stampers: list[Stamper]) -> None:
        """Run the engine, and keep what it tells."""
        engine = plan.assembly.engine
        close_ms = plan.close_time_of(plan.clocks)
        batch = rows.select(engine.record_schema.names)
        result = engine.process(self._state, batch, plan.close_ms, close_ms)
        for stamper in stampers:
            for name, number in stamper.report().counters.items():
                self._counters[name] += number
        count_found(self._counters, plan.origins, *found_by_input(plan, result))
        letters = [table for stamper in stampers for table in stamper.dead_letters]
        letters += rejected_letters(plan, rows, result)
        for table in letters:
            self.dead_letters += table.drop_columns(["revision"]).to_pylist()
        self.output = result.changes.to_pylist()
        self.content.apply(self.output)
        self._state = result.state
        self._plan = replace(plan, close_ms=close_ms)


def _has_records(source: Source, piped: Piped) -> bool:
    return source in piped and len(piped[source]) > 0


def _know(clocks: dict[str, dict[int, int]], clock: ClockPlan, partition: int) -> None:
    """A partition that appears later starts at the slowest clock of its topic."""
    known = clocks[clock.name]
    known.setdefault(partition, min(known.values(), default=NO_STREAM_TIME_MS))


def _with_reports(results: pa.Table) -> pa.Table:
    """Results as the join task gives them: with the columns of reports, all null."""
    nulls = [pa.nulls(len(results), field.type) for field in STAMPED_FIELDS]
    names = [*(field.name for field in STAMPED_FIELDS), *results.column_names]
    return pa.table([*nulls, *results.columns], names=names)
