"""Stages in this process, for a small batch without a Spark job, or for a batch of a test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.language import Source
from oriel.pipeline.plan import Steps
from oriel.pipeline.stage_columns import TASK
from oriel.pipeline.tasks.exchange import Output, Received, TaskFunction
from oriel.pipeline.tasks.reports import Reports


@dataclass(frozen=True)
class Share:
    """The rows of one task, or of several that run in one call.

    ``reports`` are the reports for the next exchange.
    """

    rows: pa.Table
    received: Received = field(default_factory=Received)
    reports: Reports = field(default_factory=Reports)


class LocalRunner:
    """A ``Runner`` over the decoded records of one batch. It runs one task after the other.

    A store without rows and reports in a batch has no task, as for a source without partitions in
    Spark. So a store that has nothing to do in a batch costs no time.
    """

    def __init__(self, records: Mapping[Source, Sequence[pa.Table]]) -> None:
        """Read ``records``: for each source, a table per partition that has records."""
        self._records = records

    def read(self, source: Source, steps: Steps) -> Sequence[Share]:
        return self.step(
            [Share(rows) for rows in self._records.get(source, ()) if len(rows)], steps
        )

    def step(self, rows: Sequence[Share], steps: Steps) -> Sequence[Share]:
        # Without rows, the next task reads nothing, so the columns of the steps are not needed.
        if not any(len(share.rows) for share in rows):
            return rows
        arrow_steps = steps.arrow
        # Steps that only Spark can run never reach this runner.
        assert arrow_steps is not None
        return [replace(share, rows=arrow_steps.rows(share.rows)) for share in rows]

    def map(
        self, rows: Sequence[Share], function: TaskFunction, schema: pa.Schema
    ) -> Sequence[Share]:
        mapped = []
        for share in rows:
            batches = share.rows.combine_chunks().to_batches()
            output = Output(function(iter(batches), share.received))
            # The reports exist after the last row, so all rows are read before.
            made = pa.Table.from_batches(output, schema)
            # A share keeps the reports of its earlier functions, because one exchange sends all
            # reports.
            reports = Reports.of([share.reports, output.reports])
            mapped.append(replace(share, rows=made, reports=reports))
        return mapped

    def union(self, rows: Sequence[Share], others: Sequence[Share]) -> Sequence[Share]:
        return [*rows, *others]

    def by_task(
        self, rows: Sequence[Share], tasks: int, *, together: bool = False
    ) -> Sequence[Share]:
        # No source has records of this store in the batch. Without a task, the state and the close
        # time stay.
        if not rows:
            return []
        all_rows = pa.concat_tables([share.rows for share in rows])
        reports = Reports.of([share.reports for share in rows])
        # One call for all tasks costs less than one call per task. The result is the same, because
        # keys are independent (decision 0095).
        if tasks == 1 or together:
            received = Received(tuple(range(tasks)), reports)
            return [Share(all_rows, received, received.forwarded)]
        # Each task receives all reports, also a task without rows. It still closes windows, because
        # stream times can have advanced.
        task_of_row = np.asarray(all_rows[TASK.name])
        shares = []
        for task in range(tasks):
            received = Received((task,), reports)
            of_task = all_rows.filter(pa.array(task_of_row == task))
            shares.append(Share(of_task, received, received.forwarded))
        return shares

    def reports(self, rows_of: Mapping[str, Sequence[Share]]) -> dict[str, Reports]:
        return {
            store: Reports.of([share.reports for share in shares])
            for store, shares in rows_of.items()
        }
