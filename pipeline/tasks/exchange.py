"""The exchange of rows and reports between the tasks of one stage and of the next one.

A task sends everything in envelopes: each has an Arrow stream of rows, and the last one also has
the reports of the task. All tasks of the next stage receive the reports.

In Spark's shuffle, an envelope is one row with one binary value. So neither Spark nor the JVM reads
a record in the shuffle. If each record were a row, the shuffle would need several times the time of
the engine (docs/decisions/0028). An envelope has the index of its task and of its *channel*. A
channel is one exchange of one store, because several exchanges can be in the same shuffle.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from oriel.pipeline.stage_columns import TASK
from oriel.pipeline.tasks.reports import Reports

#: The rows of a task, in any number of Arrow batches.
Batches = Iterator[pa.RecordBatch]
#: A function of the rows of a Spark partition, for ``mapInArrow``.
PartitionFunction = Callable[[Batches], Batches]

#: The channel of an envelope: an index from the routes of the batch.
CHANNEL = pa.field("channel", pa.int32())
#: An Arrow stream of rows. Null without rows.
ROWS = pa.field("rows", pa.binary())
#: Reports as JSON. Null except in the last envelope of a task.
REPORTS = pa.field("reports", pa.string())
ENVELOPE_SCHEMA = pa.schema([TASK, CHANNEL, ROWS, REPORTS])

#: The rows of one channel that a task collects before it sends them. It bounds the memory of the
#: value in the JVM, far below the 2 GB that a value can have there.
_ENVELOPE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Received:
    """The data that a task receives in addition to rows.

    Attributes:
        tasks: The index of the task, or of several that one call computes. Empty for tasks that
            read a source.
        reports: The reports of all tasks upstream.
    """

    tasks: tuple[int, ...] = ()
    reports: Reports = field(default_factory=Reports)

    @property
    def forwarded(self) -> Reports:
        """The reports that this task forwards.

        All tasks of a stage receive the same ones, so only the first task forwards them.
        """
        return self.reports if 0 in self.tasks else Reports()


#: The received data of tasks that read a source.
FROM_SOURCE = Received()

#: The work of a stage on the rows of a task. The function yields rows and returns its own reports.
TaskFunction = Callable[[Batches, Received], Generator[pa.RecordBatch, None, Reports]]


class Output:
    """The rows that a task function yields, and then its reports.

    Example:
        >>> output = Output(function(batches, received))
        >>> rows, reports = list(output), output.reports
    """

    def __init__(self, run: Generator[pa.RecordBatch, None, Reports]) -> None:
        self._run = run
        #: Empty until all rows are read.
        self.reports = Reports()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.reports = yield from self._run


def sent(
    rows: Iterable[pa.RecordBatch], reports: Callable[[], Reports], channel: int, tasks: int
) -> Batches:
    """Yield envelopes with rows for the task in their column ``task``, and with reports for all.

    ``reports`` is called after the last row.
    """
    collected: list[pa.RecordBatch] = []
    collected_bytes = 0
    for batch in rows:
        collected.append(batch)
        collected_bytes += batch.nbytes
        if collected_bytes >= _ENVELOPE_BYTES:
            rows_of = _by_task(collected, tasks)
            yield envelopes(channel, list(rows_of), list(rows_of.values()))
            collected, collected_bytes = [], 0
    rows_of = _by_task(collected, tasks)
    every_task = list(range(tasks))
    yield envelopes(channel, every_task, [rows_of.get(task) for task in every_task], reports())


def _by_task(batches: list[pa.RecordBatch], tasks: int) -> dict[int, pa.Buffer]:
    """Return the encoded rows of each task that has rows."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return {}
    rows = pa.Table.from_batches(batches)
    if tasks == 1:
        return {0: encoded(rows)}
    task_of_row = np.asarray(rows[TASK.name])
    return {
        task: encoded(rows.filter(pa.array(task_of_row == task)))
        for task in np.unique(task_of_row).tolist()
    }


def envelopes(
    channel: int, tasks: list[int], rows: list[pa.Buffer | None], reports: Reports | None = None
) -> pa.RecordBatch:
    """Return one envelope per task, with its ``rows``. All envelopes have the same reports."""
    text = None if reports is None else reports.to_json()
    columns = [
        pa.array(tasks, TASK.type),
        pa.array([channel] * len(tasks), CHANNEL.type),
        pa.array([None if value is None else value.to_pybytes() for value in rows], ROWS.type),
        pa.array([text] * len(tasks), REPORTS.type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENVELOPE_SCHEMA)


def encoded(rows: pa.Table) -> pa.Buffer:
    """Return rows as the value of an envelope."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue()


def decoded_rows(values: Iterable[pa.Scalar]) -> pa.Table:
    """Return the rows of envelopes of one channel. At least one envelope must have rows."""
    return pa.concat_tables([pa.ipc.open_stream(value.as_buffer()).read_all() for value in values])


def decoded_reports(texts: pa.Array | pa.ChunkedArray) -> Reports:
    """Return all reports of envelopes of one channel."""
    return Reports.of(map(Reports.from_json, texts.drop_null().to_pylist()))
