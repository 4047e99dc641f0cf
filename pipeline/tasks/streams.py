"""A stream task: from rows after their row-wise steps to the tasks of the next operator.

Each source partition has one task, which runs in the order of offsets. So the stream time of a
partition is a running maximum (semantics.md#1-1), and lateness is decided once. The task has four
parts:

    finished records      invalid records become dead letters, filtered records are counted
    stream times          each record advances the stream time of its partition
    late filter           drops records that are late for the store
    router                sends each record to the task of its key
"""

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.plan import BatchPlan, StreamPlan
from oriel.pipeline.tasks.exchange import Batches, Received, TaskFunction
from oriel.pipeline.tasks.finished_records import FinishedRecords
from oriel.pipeline.tasks.late_filter import LateFilter
from oriel.pipeline.tasks.reports import Reports, StreamReport
from oriel.pipeline.tasks.router import Router
from oriel.pipeline.windows import LINEAGE, STREAM_TIME, StreamTimes, with_column


def stream_task(
    plan: BatchPlan, stream: StreamPlan, to_join: pa.Schema | None = None, *, is_source: bool
) -> TaskFunction:
    """Return the function from the rows of a stream to the tasks of a store or of a join.

    Rows of a source arrive in the order of offsets. After a join with a table or after a buffer,
    the records of a stream are sorted into their order again, and the stream time continues. Only
    records that found a match and passed the steps after the join advance it. This is as in Kafka
    Streams, where the windowed operator has the stream time. Other results of joins arrive in any
    order and have the stream time of their records.

    Args:
        plan: The batch.
        stream: The stream.
        to_join: The columns of a join. None: the next operator is the store.
        is_source: True for rows of a source, False for results of a join.
    """
    advances = is_source or stream.advances_stream_time

    def run_stream(
        batches: Batches, _received: Received
    ) -> Generator[pa.RecordBatch, None, Reports]:
        records = FinishedRecords(plan, stream)
        stream_times = StreamTimes(plan.stream_times.get(stream.stream_time.name, {}))
        late = LateFilter(plan)
        router = Router(plan, stream, plan.input_schema if to_join is None else to_join)
        seen: set[int] = set()
        for batch in batches if is_source or not advances else _in_stream_order(batches):
            if not batch.num_rows:
                continue
            rows = pa.table(batch)
            if is_source:
                records.count_input(rows)
            # Invalid and filtered records end before the stream time advances. A record that the
            # operator does not use must not close windows (semantics.md#1-1).
            rows = records.usable(records.numbered(rows))
            if advances:
                partition = np.asarray(rows["partition"])
                seen.update(np.unique(partition).tolist())
                stream_time_ms = stream_times.advance(partition, np.asarray(rows["timestamp_ms"]))
            else:
                # A result is late by the stream time of its own records, in whatever order the
                # results arrive.
                stream_time_ms = np.asarray(rows[STREAM_TIME.name])
            # Only a store drops late records here. A join has its own grace for each input, and
            # counts its late records itself.
            if to_join is None:
                accepted = late.accepted(rows, stream_time_ms)
                records.count_late(rows, accepted)
                rows = accepted
            elif advances:
                rows = with_column(rows, STREAM_TIME, pa.array(stream_time_ms, STREAM_TIME.type))
            yield router.to_tasks(rows)
        # Without ``advances_stream_time`` or ``counts``, another operator of the store advances
        # this stream time, or counts these records.
        # Only partitions with a usable record in this batch. All others keep the stream time of
        # version n-1.
        advanced = {partition: stream_times.stream_time_ms[partition] for partition in seen}
        report = StreamReport(
            stream.stream_time.name, advanced if stream.advances_stream_time else {}
        )
        if stream.counts:
            files = plan.files.write_dead_letters(plan, records.dead_letters)
            report = replace(report, counters=records.counters, dead_letters=files)
        return Reports(streams=[report])

    return run_stream


def _in_stream_order(batches: Batches) -> Batches:
    """Yield the records of a stream in the order of each partition.

    The tasks of a join mix partitions. After a buffer, the order is the one in which the records
    left it.
    """
    collected = [batch for batch in batches if batch.num_rows]
    if collected:
        rows = pa.Table.from_batches(collected)
        # Rows of one record can have several keys, and so be from several tasks.
        by_lineage = [LINEAGE.name] if LINEAGE.name in rows.column_names else []
        order = ("partition", STREAM_TIME.name, "offset", *by_lineage)
        rows = rows.sort_by([(name, "ascending") for name in order])
        yield from rows.combine_chunks().to_batches()
