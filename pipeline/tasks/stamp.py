"""The stamp: stream time, lateness and dead letters, one task per source partition.

Runs on each partition in offset order, so the clock of a partition is a running max
(semantics 1.1) and lateness is decided once, for good. Accepted rows go on to the task
of their key group; at its end the stamp sends one report row to *every* task, so that
each of them knows the clocks of the whole batch without a second pass.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.plan import (
    COUNTERS,
    LATE_RESULTS,
    REJECTED_RESULTS,
    BatchPlan,
    Reports,
    StampPlan,
    StampReport,
)
from oriel.pipeline.tasks.messages import (
    addressed,
    as_batch,
    dead_letters,
    report_rows,
    result_letters,
    split_reports,
    write_dead_letters,
)
from oriel.pipeline.windows import StreamClock

Batches = Iterator[pa.RecordBatch]


def stamp_with(plan: BatchPlan, stamp: StampPlan) -> Callable[[Batches], Batches]:
    """Return the function for Spark's ``mapInArrow``: from decoded rows to the engine's tasks."""

    def stamping(batches: Batches) -> Batches:
        stamper = Stamper(plan, stamp, plan.stamped_schema)
        for batch in batches:
            if batch.num_rows:
                yield stamper.for_engine(pa.table(batch))
        yield stamper.reports()

    return stamping


def stamp_for_join(
    plan: BatchPlan, stamp: StampPlan, schema: pa.Schema
) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow``: from decoded rows to the join's tasks."""

    def stamping(batches: Batches) -> Batches:
        stamper = Stamper(plan, stamp, schema)
        for batch in batches:
            if batch.num_rows:
                yield stamper.for_join(pa.table(batch))
        yield stamper.reports()

    return stamping


def route_with(plan: BatchPlan, stamp: StampPlan) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow``: from a join's results to the engine's tasks.

    A result's lateness is that of its records; reports go through to their tasks.
    """

    def routing(batches: Batches) -> Batches:
        stamper = Stamper(plan, stamp, plan.stamped_schema)
        for batch in batches:
            if batch.num_rows:
                yield from stamper.routed(pa.table(batch))
        yield stamper.reports()

    return routing


def stamp_looked_up(plan: BatchPlan, stamp: StampPlan) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow``: from a lookup's results to the engine's tasks.

    They are the stream's records with more columns, one task for each partition of theirs.
    Only those that found a row and were wanted behind it move the clock, as in Kafka.
    """

    def stamping(batches: Batches) -> Batches:
        reports, rows = split_reports(pa.Table.from_batches(batches))
        stamper = Stamper(plan, stamp, plan.stamped_schema)
        yield stamper.looked_up(rows)
        # Every task was told the same; one is enough to tell it further.
        told = reports["report"].to_pylist() if reports["task"][0].as_py() == 0 else []
        yield stamper.reports(Reports.from_texts(told))

    return stamping


class Stamper:
    """One stamp task's clocks, counts and dead letters."""

    def __init__(self, plan: BatchPlan, stamp: StampPlan, schema: pa.Schema) -> None:
        """Begin with the clocks of the batch before; ``schema`` is what the next task takes."""
        self._plan = plan
        self._stamp = stamp
        self._schema = schema
        self._clock = StreamClock(plan.clocks.get(stamp.clock.name, {}))
        self._seen: set[int] = set()
        self._counters: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self.dead_letters: list[pa.Table] = []

    def for_engine(self, rows: pa.Table) -> pa.RecordBatch:
        """Stamp one Arrow batch: the accepted rows with their close time and task."""
        good = self._good(rows)
        close = self._stream_time(good) - self._plan.close_delay_ms
        late = self._late(good, close)
        self._counters["late"] += int(late.sum())
        self._counters["applied"] += int((~late).sum())
        return self._named(good.append_column("close_ms", pa.array(close)), ~late)

    def looked_up(self, rows: pa.Table) -> pa.RecordBatch:
        """Stamp records that a lookup gave more columns; they were counted when they came."""
        for name in ("input", "applied"):
            self._counters[name] -= len(rows)
        return self.for_engine(rows.sort_by([("partition", "ascending"), ("offset", "ascending")]))

    def for_join(self, rows: pa.Table) -> pa.RecordBatch:
        """Stamp one Arrow batch for a join, which decides about lateness itself."""
        good = self._good(rows)
        self._counters["applied"] += len(good)
        stream_time = pa.array(self._stream_time(good))
        everything = np.ones(len(good), dtype=np.bool_)
        return self._named(good.append_column("stream_time_ms", stream_time), everything)

    def routed(self, rows: pa.Table) -> Batches:
        """Pass reports on, and give a join's results their close time and task."""
        reports, rows = split_reports(rows)
        if len(reports):
            given = {name: reports[name] for name in ("task", "report")}
            nulls = [given.get(f.name, pa.nulls(len(reports), f.type)) for f in self._schema]
            yield as_batch(pa.table(nulls, names=self._schema.names).cast(self._schema))
        bad = pc.is_valid(rows["reason"])
        self._bury_results(rows.filter(bad))
        good = rows.filter(pc.and_(pc.invert(bad), rows["keep"]))
        close = np.asarray(good["stream_time_ms"]) - self._plan.close_delay_ms
        late = self._late(good, close)
        self._counters[LATE_RESULTS] = self._counters.get(LATE_RESULTS, 0) + int(late.sum())
        yield self._named(good.append_column("close_ms", pa.array(close)), ~late)

    def reports(self, told: Reports | None = None) -> pa.RecordBatch:
        """One report row for every task; ``told`` goes on with it."""
        report = self.report()
        report.dead_letters = write_dead_letters(self._plan, self.dead_letters)
        given = told or Reports()
        onwards = Reports([report, *given.stamps], given.joins)
        return report_rows(onwards, self._schema, self._plan.tasks)

    def report(self) -> StampReport:
        """What was seen so far, without the dead letters."""
        seen = self._seen if self._stamp.moves_clock else ()
        clocks = {p: self._clock.stream_time_ms[p] for p in seen}
        return StampReport(self._stamp.clock.name, clocks, self._counters)

    def _good(self, rows: pa.Table) -> pa.Table:
        """Count rows, bury the bad ones, return those that are wanted."""
        self._counters["input"] += len(rows)
        bad = pc.is_valid(rows["reason"])
        number = pc.sum(bad, min_count=0).as_py()
        self._counters["dead_lettered"] += number
        self._bury(rows.filter(bad))
        good = rows.filter(pc.and_(pc.invert(bad), rows["keep"]))
        self._counters["filtered"] += len(rows) - len(good) - number
        return good

    def _stream_time(self, good: pa.Table) -> Any:
        partition = np.asarray(good["partition"])
        stream_time = self._clock.advance(partition, np.asarray(good["timestamp_ms"]))
        self._seen.update(np.unique(partition).tolist())
        return stream_time

    def _late(self, good: pa.Table, close: Any) -> Any:
        return self._plan.assembly.engine.is_late(np.asarray(good["timestamp_ms"]), close)

    def _named(self, rows: pa.Table, chosen: Any) -> pa.RecordBatch:
        """The chosen rows, under the column names that the next task knows."""
        rows = rows.filter(pa.array(chosen))
        names = [self._stamp.columns.get(name, name) for name in rows.column_names]
        rows = rows.rename_columns(names)
        if self._stamp.inputs > 1:
            # Partitions of different streams of a cogroup are different partitions.
            numbers = (
                np.asarray(rows["partition"], np.int64) * self._stamp.inputs + self._stamp.place
            )
            column = rows.column_names.index("partition")
            rows = rows.set_column(column, "partition", pa.array(numbers, pa.int32()))
        for name, value in self._stamp.constants.items():
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        return addressed(rows, self._schema, self._plan.tasks)

    def _bury_results(self, rows: pa.Table) -> None:
        """Keep a join's results that have no key to group by."""
        if len(rows) and self._stamp.origin is not None:
            self._counters[REJECTED_RESULTS] = self._counters.get(REJECTED_RESULTS, 0) + len(rows)
            self.dead_letters += result_letters(self._plan, self._stamp.origin, rows)

    def _bury(self, rows: pa.Table) -> None:
        """Keep bad rows for the dead-letter table; each store counts them all."""
        if len(rows):
            topic, reasons = self._stamp.clock.topic, self._stamp.source_reasons
            self.dead_letters.append(dead_letters(self._plan, topic, rows, reasons))
