"""The tasks of joins and of stores: one share of the key groups, one call of an engine per batch.

A join task is between the streams and the store: it returns results as rows for row-wise steps. A
store task reads the state version of the previous batch, applies the records, and writes the next
version and the Parquet file of the changed windows. Nothing that they write counts before the
driver has committed it, so a task can run any number of times.
"""

from collections.abc import Generator
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from oriel.pipeline.plan import BatchPlan, JoinPlan
from oriel.pipeline.stage_columns import REASON, TASK, PartitionIndexes
from oriel.pipeline.tasks.exchange import Batches, Received, TaskFunction
from oriel.pipeline.tasks.reports import Counters, JoinReport, Reports, StoreReport
from oriel.pipeline.tasks.router import one_batch
from oriel.pipeline.windows import RIGHT, EngineResult, JoinResult, Times


def join_task(plan: BatchPlan, join: JoinPlan) -> TaskFunction:
    """Return the function from records of all inputs of a join to its results."""

    def run_join(batches: Batches, received: Received) -> Generator[pa.RecordBatch, None, Reports]:
        records = pa.Table.from_batches(batches, join.input_schema)
        records = records.select(join.stage.record_schema.names)
        # The stream times before and after the whole batch decide. A record leaves the state, and
        # is emitted without a match, when the slowest partition of the other input has passed it
        # (decision 0012).
        after = received.reports.stream_times_after(plan.stream_times)
        times = Times(join.stream_times_ms(plan.stream_times), join.stream_times_ms(after))
        # A join has one call per task. Only stores compute several tasks in one call (decision
        # 0095).
        (task,) = received.tasks
        joined, (version,) = plan.files.run_operator(plan, join.stored, [task], records, times)
        joined = join.stage.stepped(joined)
        # The pieces are computed one after the other. For a key with many records in both streams,
        # all results together can exceed the memory.
        for piece in joined.pieces:
            if len(piece):
                yield _result_rows(plan, join, piece)
        counters = _joined_counters(join, records, joined) if join.counts else Counters()
        report = JoinReport(join.number, task, version.names, version.rows, counters)
        return Reports(joins=[report])

    return run_join


def _result_rows(plan: BatchPlan, join: JoinPlan, results: pa.Table) -> pa.RecordBatch:
    """Return results as rows. All records of a partition of a stream are sent to one task."""
    if join.stage.operator.keeps_order:
        # One task needs all records of a partition, because their stream time continues there.
        task = pa.array(np.asarray(results["partition"]) % plan.tasks, TASK.type)
    else:
        task = pa.nulls(len(results), TASK.type)
    if REASON.name not in results.column_names:
        results = results.append_column(REASON, pa.nulls(len(results), REASON.type))
    results = results.append_column(TASK, task)
    return one_batch(results.select(join.joined_schema.names).cast(join.joined_schema))


def _joined_counters(join: JoinPlan, records: pa.Table, joined: JoinResult) -> Counters:
    """Count the records that end in a join, by input.

    Results of upstream joins are not records. If they are late here, they are counted as results.
    """
    operator, counters = join.stage.operator, Counters()
    arrived = np.bincount(np.asarray(records["side"]), minlength=len(join.of_records)).tolist()
    # An operator that has no late or filtered records returns fewer counts than it has inputs.
    inputs = zip_longest(
        join.of_records, join.of_elements, arrived, joined.late, joined.filtered, joined.rejected,
        fillvalue=0,
    )  # fmt: skip
    for side, (of_records, of_elements, came, late, filtered, rejected) in enumerate(inputs):
        if not of_records:
            counters += Counters(late_results=late)
            continue
        # A record that continues after the join is counted where it ends, so it is not counted
        # here.
        applied = came - late - filtered - rejected if operator.ends_records(side) else 0
        ends = {"late": late, "filtered": filtered, "applied": applied, "dead_lettered": rejected}
        for end, rows in ends.items():
            counters += Counters.of(end, rows, rows if of_elements else 0)
        # The next stage counts each result with a reason as a rejected result. These are records,
        # and are counted here.
        counters += Counters(rejected_results=-rejected)
        if operator.keeps_records and side == RIGHT and not of_elements:
            counters += Counters(table_records=applied)
    if join.gives_records:
        counters += Counters(applied=joined.flattened, elements=joined.elements)
    return counters


def store_task(plan: BatchPlan) -> TaskFunction:
    """Return the function that applies the records of one or more tasks to a store.

    It yields no rows, and returns one report per task. Each task has its own version of the state.
    For a small batch, the driver computes all tasks in one call (decision 0095). An engine call and
    a table file cost the same for ten records as for a thousand.
    """

    def run_store(batches: Batches, received: Received) -> Generator[pa.RecordBatch, None, Reports]:
        records = pa.Table.from_batches(batches, plan.input_schema)
        # A store has no rows for a next stage. Without a ``yield``, the function would not be a
        # generator, as a ``TaskFunction`` must be.
        yield from ()
        # All tasks have the reports of all streams, so all close the same windows.
        upstream, tasks = received.reports, received.tasks
        close_ms = plan.close_time_of(
            upstream.stream_times_after(plan.stream_times), upstream.partitions_with_records()
        )
        read = records.select(plan.assembly.engine.record_schema.names)
        times = Times.closing(plan.close_ms, close_ms)
        result, versions = plan.files.run_operator(plan, plan.stored, tasks, read, times)
        table_rows = plan.assembly.written(result.changes)
        dead_letters = plan.dead_letters.of_raised(result, records, plan.topics, plan.origins)
        # The call has one table file and one set of counters for all of its tasks. They are in the
        # first report only, because the reports of a batch are added up.
        first, *others = (
            StoreReport(task, version.names, version.rows, close_ms)
            for task, version in zip(tasks, versions, strict=True)
        )
        first = replace(
            first,
            changed=len(table_rows),
            counters=_applied_counters(plan, records, result),
            files=plan.files.write_changes(plan, tasks[0], table_rows),
            dead_letters=plan.files.write_dead_letters(plan, dead_letters),
            observed_ms=result.observed_ms(plan.windows),
        )
        return Reports(stores=[first, *others])

    return run_store


def _applied_counters(plan: BatchPlan, records: pa.Table, result: EngineResult) -> Counters:
    """Count the records that end in the store, and the flattened records and join results."""
    inputs = len(plan.topics)
    numbers = PartitionIndexes(inputs)
    arrived = numbers.count_by_input(np.asarray(records["partition"]))
    late = numbers.count_by_input(result.late_partitions)
    rejected = np.bincount(np.asarray(result.rejected["input"]), minlength=inputs)
    # A join result is not a record. It has counters of its own, which are not in the sum ``input =
    # applied + late + dead_lettered + filtered``.
    is_result = np.array([origin is not None for origin in plan.origins])
    is_element = np.array(plan.assembly.of_elements)
    counters = Counters(
        late_results=int(late[is_result].sum()), rejected_results=int(rejected[is_result].sum())
    )
    # A record is also applied if it changes no visible row, for example because an aggregator
    # returns null.
    ends = {"applied": arrived - late - rejected, "late": late, "dead_lettered": rejected}
    for end, numbers_of in ends.items():
        rows, elements = int(numbers_of[~is_result].sum()), int(numbers_of[is_element].sum())
        counters += Counters.of(end, rows, elements)
    return counters
