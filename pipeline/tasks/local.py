"""Stages in this process: a batch that is too small to be worth a Spark job, or a test's."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.hops import REPORT, TASK
from oriel.pipeline.language import Source
from oriel.pipeline.plan import Steps
from oriel.pipeline.tasks.reports import TaskFunction

#: A table for each partition of a source, or for each task.
Shares = Sequence[pa.Table]


class LocalRunner:
    """A ``Runner`` over one batch's decoded records; one task after the other.

    Where there is no row there is no task either, as with a source without partitions in Spark:
    what has nothing to do in a batch takes no time.
    """

    def __init__(self, records: Mapping[Source, Shares]) -> None:
        """Read ``records``, a table for each partition that has some in this batch."""
        self._records = records

    def read(self, source: Source, steps: Steps) -> Shares:
        return self.step(self._records.get(source, ()), steps)

    def step(self, rows: Shares, steps: Steps) -> Shares:
        shares = [share for share in rows if len(share)]
        if not shares:
            return []
        arrow_steps = steps.arrow
        assert arrow_steps is not None
        return [arrow_steps.rows(share) for share in shares]

    def map(self, rows: Shares, function: TaskFunction, schema: pa.Schema) -> Shares:
        return [
            pa.Table.from_batches(function(iter(share.combine_chunks().to_batches())), schema)
            for share in rows
            if len(share)
        ]

    def union(self, rows: Shares, others: Shares) -> Shares:
        return [*rows, *others]

    def by_task(self, rows: Shares, tasks: int, *, together: bool = False) -> Shares:
        if not rows:
            return []
        everything = pa.concat_tables(rows)
        if tasks == 1 or together:
            return [everything]
        task_of_row = np.asarray(everything[TASK.name])
        return [everything.filter(pa.array(task_of_row == task)) for task in range(tasks)]

    def reports(self, rows_of: Mapping[str, Shares]) -> dict[str, list[str]]:
        return {
            store: [text for share in rows for text in share[REPORT.name].to_pylist()]
            for store, rows in rows_of.items()
        }
