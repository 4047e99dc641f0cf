"""Topologies with joins, batch by batch through all of their tasks, without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.language import Source
from oriel.pipeline.lowered import AggregatedRows, Input, Store
from oriel.pipeline.plan import BatchPlan, JoinPlan, PreparedBatch, StorePlans, StreamPlan
from oriel.pipeline.stage_columns import StepsOutput, joined_values
from oriel.pipeline.tasks import Received, Reports, join_task, stream_task
from tests.pipeline.tasks.task_runs import (
    Row,
    Sent,
    directory_files,
    grouped,
    row_batches,
    run_task,
    shares,
    with_stream_times,
    written_rows,
)

#: Input -> partition -> records (key, time, value) of one batch. A tombstone has the value None.
#: Input 2 is a stream next to the join.
Taken = Mapping[int, Mapping[int, Sequence[tuple[str, int, str | None]]]]

KEY_GROUPS = 64


class NoSteps:
    """Row-wise steps that change nothing, for the records of a source or the results of a join."""

    def __init__(self, values: pa.Schema) -> None:
        self.values = values

    @property
    def arrow(self) -> "NoSteps":
        """Return these steps."""
        return self

    def select(self, output: StepsOutput) -> None:
        """Keep all columns. The tasks select their columns."""

    def rows(self, records: Any) -> Any:
        """Return the records unchanged."""
        return records


@dataclass
class JoinRun:
    """A store with one join, optionally with another stream, and the results of its batches."""

    directory: Path
    store: Store
    #: The value columns of the left, the right and optionally the other topic, one each.
    columns: tuple[str, ...]
    partitions: int = 2
    previous: PreparedBatch | None = None
    #: The results of the join's tasks, in any order.
    results: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    reports: Reports = field(default_factory=Reports)
    batch: int = 0
    position: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create the directories and plan the store."""
        for name in ("table", "state", "dead"):
            (self.directory / name).mkdir(parents=True)
        self.topics = [source.topic for source in self.store.sources]
        schemas = [pa.schema([(name, pa.string())]) for name in self.columns]
        self._of_topic = dict(zip(self.topics, schemas, strict=True))
        reasons = dict.fromkeys(self.store.sources, SourceReasons.FOR_ALL)
        self.plans = StorePlans(self.store, self._steps, reasons)
        self.plans.select_columns(KEY_GROUPS)

    def take(self, taken: Taken, tasks: int) -> None:
        """Run one batch with this number of tasks."""
        files = directory_files(self.directory)
        ends = {topic: dict.fromkeys(map(str, range(self.partitions)), 0) for topic in self.topics}
        plan, (join,) = self.plans.plan(self.batch, files, tasks, self.previous, ends)
        arrived = self._arrived(plan, join, taken)
        joined = [self._joined(plan, join, *share) for share in shares(plan, *arrived)]
        upstream = Reports.of(one.reports for one in (*arrived, *joined))
        rows = [one.rows for one in joined]
        if join.stage.operator.keeps_records:
            rows = [share for share, _ in shares(plan, *joined)]
        downstream = stream_task(plan, self.plans.inputs[0].stream, is_source=False)
        sent = [
            run_task(downstream, _with_steps(table).to_batches(), Received(), plan.input_schema)
            for table in rows
        ]
        sent[0] = Sent(sent[0].rows, Reports.of([upstream, sent[0].reports]))
        self.reports = grouped(plan, *sent, *self._other_streams(plan, taken))
        self.rows = written_rows(plan, self.reports)
        self.previous = prepared_batch(plan, [join], self.reports, self.previous, ends)
        self.batch += 1

    @property
    def counters(self) -> dict[str, int]:
        """Return the running totals."""
        assert self.previous is not None
        return self.previous.record.counters

    def _steps(self, _origin: Input | AggregatedRows, read: Source | pa.Schema) -> NoSteps:
        if isinstance(read, Source):
            return NoSteps(self._of_topic[read.topic])
        return NoSteps(joined_values(read))

    def _arrived(self, plan: BatchPlan, join: JoinPlan, taken: Taken) -> list[Sent]:
        """Return what both inputs send. Each partition is one task, even without a record."""
        tables = []
        front = self.plans.inputs[0].join
        assert front is not None
        for number, side in enumerate(front.sides):
            values = self._of_topic[self.topics[number]]
            tables += [
                _sent_to_join(plan, join, side.stream, values, rows)
                for rows in self._rows(number, taken)
            ]
        return tables

    def _other_streams(self, plan: BatchPlan, taken: Taken) -> list[Sent]:
        """Return what the stream next to the join sends, if this stream exists."""
        if len(self.columns) < 3:
            return []
        values, stream = self._of_topic[self.topics[2]], self.plans.inputs[1].stream
        return [
            with_stream_times(plan, values, rows, stream=stream) for rows in self._rows(2, taken)
        ]

    def _rows(self, side: int, taken: Taken) -> list[list[Row]]:
        """Return the decoded records of each partition."""
        records = taken.get(side, {})
        return [
            [self._row(side, p, self.columns[side], record) for record in records.get(p, ())]
            for p in range(self.partitions)
        ]

    def _row(
        self, side: int, partition: int, name: str, record: tuple[str, int, str | None]
    ) -> Row:
        key, time, value = record
        offset = self.position.get((side, partition), 0)
        self.position[side, partition] = offset + 1
        return {
            "partition": partition, "offset": offset, "keep": True, "null_value": value is None,
            "key": key, "timestamp_ms": time, name: value, "raw": b"{}",
        }  # fmt: skip

    def _joined(self, plan: BatchPlan, join: JoinPlan, share: pa.Table, received: Received) -> Sent:
        batches = share.to_batches()
        joined = run_task(join_task(plan, join), batches, received, join.joined_schema)
        self.results += joined.rows.to_pylist()
        return joined


def _sent_to_join(
    plan: BatchPlan, join: JoinPlan, stream: StreamPlan, values: pa.Schema, rows: list[Row]
) -> Sent:
    given = row_batches(values, [rows])
    task = stream_task(plan, stream, join.input_schema, is_source=True)
    return run_task(task, given, Received(), join.input_schema)


def _with_steps(joined: pa.Table) -> pa.Table:
    """Return a join's results after row-wise steps that change nothing."""
    length = len(joined)
    more = {
        "keep": pa.array(np.ones(length, dtype=np.bool_)),
        "null_value": pa.array(np.zeros(length, dtype=np.bool_)),
        "raw": pa.array([b""] * length, pa.binary()),
    }
    return pa.table({name: joined[name] for name in joined.column_names} | more)
