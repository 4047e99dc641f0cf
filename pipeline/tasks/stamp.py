"""The stamp: stream time, lateness and dead letters, one task per source partition.

Runs on each partition in offset order, so the clock of a partition is a running max
(semantics.md#1-1) and lateness is decided once, for good. Accepted rows go on to the task
of their key group; at its end the stamp sends one report row to *every* task, so that
each of them knows the clocks of the whole batch without a second pass.

There are three, each on the way to a window engine or to a join: for records of a source, and
behind a join for its results or for the records that looked up a table.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Origin
from oriel.pipeline.hops import FIRST_ELEMENT, KEY_GROUP, REPORT, TASK, PartitionNumbers
from oriel.pipeline.plan import BatchPlan, StampPlan
from oriel.pipeline.state import key_hashes
from oriel.pipeline.tasks.reports import (
    Batches,
    Counters,
    Reports,
    StampReport,
    TaskFunction,
    addressed,
    as_batch,
    report_rows,
    split_reports,
)
from oriel.pipeline.windows import (
    EFFECT,
    PARTNERS,
    STREAM_TIME,
    SUBORDER,
    Ints,
    StreamClock,
    takes_away,
    with_column,
)


def stamp_records(
    plan: BatchPlan, stamp: StampPlan, to_join: pa.Schema | None = None
) -> TaskFunction:
    """Return the task from a source's rows to the window engine's tasks, or to a join's.

    ``to_join`` are the columns that the join's tasks take. A join decides about lateness itself:
    how late a record may be depends on its side.
    """

    def stamping(batches: Batches) -> Batches:
        stamper = _Stamper(plan, stamp, to_join or plan.stamped_schema)
        for batch in batches:
            if batch.num_rows:
                rows = pa.table(batch)
                stamper.counters += Counters(input=_records_in(rows))
                rows = stamper.numbered(rows)
                yield stamper.to_windows(rows) if to_join is None else stamper.to_join(rows)
        yield stamper.report_rows()

    return stamping


def stamp_results(
    plan: BatchPlan, stamp: StampPlan, to_join: pa.Schema | None = None
) -> TaskFunction:
    """Return the task from a join's results to the window engine's tasks, or another join's.

    A result's lateness is that of its records, so no clock moves here, and results come in any
    order; so do records that look up one table behind another. Reports of tasks in front go through
    to the task that they are for. ``to_join``: see ``stamp_records``.
    """

    def stamping(batches: Batches) -> Batches:
        stamper = _Stamper(plan, stamp, to_join or plan.stamped_schema)
        for batch in batches:
            if batch.num_rows:
                reports, results = split_reports(pa.table(batch))
                if len(reports):
                    yield stamper.passed_on(reports)
                results = stamper.numbered(results)
                if to_join is None:
                    yield stamper.results_to_windows(results)
                else:
                    yield stamper.sent(stamper.usable_again(results))
        yield stamper.report_rows()

    return stamping


def stamp_looked_up(
    plan: BatchPlan, stamp: StampPlan, to_join: pa.Schema | None = None
) -> TaskFunction:
    """Return the task from records that looked up a table to the window engine's tasks.

    They are the stream's records with more columns, or those that have waited in a buffer, one task
    for each partition of theirs, and were counted when they came. Only those that found a row and
    passed the steps behind the lookup move the clock, as in Kafka Streams, where the windowed
    operator has it. ``to_join``: that is a join of streams, whose tasks take these columns.
    """

    def stamping(batches: Batches) -> Batches:
        reports, rows = split_reports(pa.Table.from_batches(batches))
        stamper = _Stamper(plan, stamp, to_join or plan.stamped_schema)
        # The lookup's tasks mix partitions; a clock is a running max in offset order.
        # Behind a buffer that order is the one in which they went on.
        order = ("partition", STREAM_TIME.name, "offset")
        rows = rows.sort_by([(name, "ascending") for name in order])
        rows = stamper.numbered(rows)
        yield stamper.to_windows(rows) if to_join is None else stamper.to_join(rows)
        # Every task got the same reports; that one passes them on is enough.
        texts = reports[REPORT.name].to_pylist() if reports[TASK.name][0].as_py() == 0 else []
        yield stamper.report_rows(Reports.from_texts(texts))

    return stamping


class _Stamper:
    """One stamp task: its clocks, counts and dead letters, and the rows that it sends on."""

    def __init__(self, plan: BatchPlan, stamp: StampPlan, schema: pa.Schema) -> None:
        """Begin with the clocks of the batch before; ``schema`` is what the next task takes."""
        self._plan = plan
        self._stamp = stamp
        self._schema = schema
        self._clock = StreamClock(plan.clocks.get(stamp.clock.name, {}))
        self._partitions: set[int] = set()
        self._dead_letters: list[pa.Table] = []
        #: The record (partition, offset) of the last bad element.
        self._last_bad: tuple[int, int] | None = None
        #: The number of the next row, if it is one more element of what the last one is of.
        self._next_element = 0
        self.counters = Counters()

    def numbered(self, rows: pa.Table) -> pa.Table:
        """Rows behind steps that flatten, with the elements' numbers: one more of their places.

        Counts what was flattened, unless it is a join's results: the way of a record ends where its
        elements' begins. An element that is flattened again goes on as so many others.
        """
        in_front = self._stamp.flattened
        if in_front is None or not len(rows):
            return rows
        is_first = rows[FIRST_ELEMENT.name].combine_chunks()
        is_further = ~np.asarray(pc.fill_null(is_first, fill_value=True))
        row = np.arange(len(rows))
        number = row - np.maximum.accumulate(np.where(is_further, -self._next_element, row))
        self._next_element = int(number[-1]) + 1
        if self._stamp.origin is None and in_front.numbers:
            self.counters += Counters(elements=int(is_further.sum()))
        elif self._stamp.origin is None:
            applied = pc.sum(is_first, min_count=0).as_py()
            self.counters += Counters(applied=applied, elements=len(rows) - is_first.null_count)
        if in_front.numbers:
            return with_column(rows, PARTNERS, in_front.beside(rows, number)[PARTNERS.name])
        numbers = pa.array(number, mask=np.asarray(is_first.is_null()))
        return with_column(rows, SUBORDER, numbers)

    def usable(self, rows: pa.Table) -> pa.Table:
        """The rows that are neither bad nor filtered out; counts and keeps the others."""
        is_bad = pc.is_valid(rows["reason"])
        bad = rows.filter(is_bad)
        usable = rows.filter(pc.and_(pc.invert(is_bad), rows["keep"]))
        all_elements, bad_elements, usable_elements = map(_elements_in, (rows, bad, usable))
        self.counters += Counters.of("dead_lettered", len(bad), bad_elements)
        self.counters += Counters.of(
            "filtered",
            len(rows) - len(bad) - len(usable),
            all_elements - bad_elements - usable_elements,
        )
        if len(bad):
            topic, source_reasons = self._stamp.clock.topic, self._stamp.source_reasons
            if bad_elements:
                bad = self._one_a_record(bad)
            letters = self._plan.dead_letters.of_records(topic, bad, source_reasons)
            self._dead_letters.append(letters)
        return usable

    def stream_time_ms(self, rows: pa.Table) -> Ints:
        """Move the clocks over usable rows in offset order; each one's stream time."""
        partition = np.asarray(rows["partition"])
        self._partitions.update(np.unique(partition).tolist())
        return self._clock.advance(partition, np.asarray(rows["timestamp_ms"]))

    def to_windows(self, rows: pa.Table) -> pa.RecordBatch:
        """The rows that are accepted, each with its close time."""
        usable = self.usable_again(rows)
        # semantics.md#2-1, step 2: the record itself moves the clock before it is judged.
        accepted = self._accepted(usable, self.stream_time_ms(usable))
        if self._stamp.origin is not None:
            self.counters += Counters(late_results=len(usable) - len(accepted))
            return self.sent(accepted)
        late_elements = _elements_in(usable) - _elements_in(accepted)
        self.counters += Counters.of("late", len(usable) - len(accepted), late_elements)
        return self.sent(accepted)

    def to_join(self, rows: pa.Table) -> pa.RecordBatch:
        """The rows that can be joined, each with its stream time."""
        usable = self.usable_again(rows)
        stream_time_ms = pa.array(self.stream_time_ms(usable), STREAM_TIME.type)
        return self.sent(with_column(usable, STREAM_TIME, stream_time_ms))

    def usable_again(self, results: pa.Table) -> pa.Table:
        """A join's results that are neither bad nor filtered out.

        Where they are a stream's records, those that are are counted; others are no records.
        """
        if self._stamp.origin is None:
            return self.usable(results)
        is_bad = pc.is_valid(results["reason"])
        bad = results.filter(is_bad)
        if self._stamp.origin.subtracts:
            bad = bad.filter(pa.array(~takes_away(bad)))
        if len(bad):
            self.counters += Counters(rejected_results=len(bad))
            if self._stamp.effect_logs or self._stamp.flattened is not None:
                bad = _one_of_each_record(bad, self._stamp.origin)
            self._dead_letters += self._plan.dead_letters.of_results(self._stamp.origin, bad)
        return results.filter(pc.and_(pc.invert(is_bad), results["keep"]))

    def results_to_windows(self, results: pa.Table) -> pa.RecordBatch:
        """A join's results that some window can still take, each with its close time."""
        usable = self.usable_again(results)
        accepted = self._accepted(usable, np.asarray(usable["stream_time_ms"]))
        self.counters += Counters(late_results=len(usable) - len(accepted))
        return self.sent(accepted)

    def sent(self, rows: pa.Table) -> pa.RecordBatch:
        """Rows for their tasks, under the column names that these know."""
        names = [self._stamp.columns.get(name, name) for name in rows.column_names]
        rows = rows.rename_columns(names)
        # By the source's own partitions: of several inputs one may be read twice.
        groups = _key_groups(rows, self._plan.key_groups)
        if self._stamp.inputs > 1:
            numbers = PartitionNumbers(self._stamp.inputs)
            rows = numbers.numbered(rows, self._stamp.input_number)
        if EFFECT.name in self._schema.names:
            rows = rows.append_column(EFFECT, self._effects(rows))
        for name, value in self._stamp.constants.items():
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        rows = rows.append_column(KEY_GROUP, pa.array(groups, KEY_GROUP.type))
        return addressed(rows, self._schema, self._plan.tasks)

    def _effects(self, rows: pa.Table) -> pa.Array:
        """The order in which updates of tables take effect: stream time, then log.

        Where both are equal it is that of partitions and offsets (``TableUpdatesEngine``).
        """
        logs, origin = self._stamp.effect_logs, self._stamp.origin
        if not logs:
            return pa.nulls(len(rows), EFFECT.type)
        effect = np.asarray(rows["stream_time_ms"]) * logs
        if logs > 1 and origin is not None:
            effect = effect + origin.topic_numbers(rows[SUBORDER.name])
        return pa.array(effect)

    def passed_on(self, reports: pa.Table) -> pa.RecordBatch:
        """Report rows of tasks in front, each for the same task."""
        columns = [
            reports[field.name] if field in (TASK, REPORT) else pa.nulls(len(reports), field.type)
            for field in self._schema
        ]
        return as_batch(pa.table(columns, names=self._schema.names).cast(self._schema))

    def report_rows(self, upstream: Reports | None = None) -> pa.RecordBatch:
        """One report row for every task; ``upstream`` goes on with it."""
        upstream = upstream or Reports()
        moved = self._partitions if self._stamp.moves_clock else ()
        counters, letters = self.counters, self._dead_letters
        if not self._stamp.counts:
            counters, letters = Counters(), []
        report = StampReport(
            self._stamp.clock.name,
            {partition: self._clock.stream_time_ms[partition] for partition in moved},
            counters,
            self._plan.files.write_dead_letters(self._plan, letters),
        )
        onwards = Reports([report, *upstream.stamps], upstream.joins)
        return report_rows(onwards, self._schema, self._plan.tasks)

    def _one_a_record(self, bad: pa.Table) -> pa.Table:
        """Of the bad elements of a record the first: a record has one letter, and one place.

        They stand side by side, perhaps in two Arrow batches.
        """
        places = np.stack([np.asarray(bad[name]) for name in ("partition", "offset")])
        is_first = np.append(True, np.any(np.diff(places) != 0, axis=0))
        is_first[0] = tuple(places[:, 0].tolist()) != self._last_bad
        partition, offset = places[:, -1].tolist()
        self._last_bad = partition, offset
        return bad.filter(pa.array(is_first))

    def _accepted(self, rows: pa.Table, stream_time_ms: Ints) -> pa.Table:
        """The rows that some window can still take, each with its close time."""
        # Decision 0001: a row is judged by its own times alone, its timestamp and the stream
        # time of its own partition when it came. Neither other partitions nor other records of
        # the batch matter, so the answer is the same however the input is cut and interleaved;
        # and it is given once, here, so that no later stage can come to another one.
        close_ms = stream_time_ms - self._plan.windows.close_delay_ms
        # Decision 0032: what is final stays so, also for a partition that was left out of it while
        # it was idle, or whose clock was set back. For any other this is never the greater one.
        close_ms = np.maximum(close_ms, self._plan.close_ms)
        late = self._plan.assembly.engine.is_late(np.asarray(rows["timestamp_ms"]), close_ms)
        return rows.append_column("close_ms", pa.array(close_ms)).filter(pa.array(~late))


def _one_of_each_record(bad: pa.Table, origin: Origin) -> pa.Table:
    """Of a record's bad results with one reason the first: a row that all name has very many."""
    columns = [bad[name] for name in ("partition", "offset", "reason")]
    columns += [pa.array(origin.topic_numbers(bad[SUBORDER.name])), pa.array(np.arange(len(bad)))]
    numbered = pa.table(columns, ["partition", "offset", "reason", "topic", "row"])
    firsts = numbered.group_by(["partition", "offset", "reason", "topic"]).aggregate(
        [("row", "min")]
    )
    return bad.take(firsts["row_min"].sort())


def _records_in(rows: pa.Table) -> int:
    """How many records are in rows in front of the stamp, of whose elements the first counts."""
    if FIRST_ELEMENT.name not in rows.column_names:
        return len(rows)
    further: int = pc.sum(pc.invert(rows[FIRST_ELEMENT.name]), min_count=0).as_py()
    return len(rows) - further


def _elements_in(rows: pa.Table) -> int:
    """How many of the rows are elements of records; a record has no suborder."""
    if SUBORDER.name not in rows.column_names:
        return 0
    return int(pc.count(rows[SUBORDER.name]).as_py())


def _key_groups(rows: pa.Table, key_groups: int) -> Ints:
    """The key group of each row's key, from 0.

    The state on disk is divided by these groups: another hash would lose its keys. Rows without a
    key, which only sinks take, stay together by partition: they have an order there, and no state.
    """
    coded = rows["key"].combine_chunks().dictionary_encode()
    groups: Ints = key_hashes(coded.dictionary) % key_groups
    group_of_row: Ints
    if not coded.null_count:
        group_of_row = groups[np.asarray(coded.indices)]
        return group_of_row
    group_of_row = np.asarray(rows["partition"], np.int64) % key_groups
    with_key = np.asarray(coded.is_valid())
    group_of_row[with_key] = groups[np.asarray(coded.indices.drop_null())]
    return group_of_row
