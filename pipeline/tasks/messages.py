"""Messages: what goes through Spark's shuffle instead of rows.

A message is all that one task sends to another in one batch, as one binary value that holds an
Arrow stream. So the shuffle moves a few large values, and neither Spark nor the JVM looks at a
record on its way: rows through a shuffle cost several times what the window engine takes
(docs/decisions/0028). A message is addressed to a task, and to a *channel*: one hop of one
store, of which several can lie behind the same shuffle.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from oriel.pipeline.hops import TASK

#: The channel of a message: a number that the batch's routes know.
CHANNEL = pa.field("channel", pa.int32())
#: An Arrow stream of rows.
ROWS = pa.field("rows", pa.binary())
MESSAGE_SCHEMA = pa.schema([TASK, CHANNEL, ROWS])

#: What a task gathers of one channel before it sends a message: it bounds the memory that the
#: value takes in the JVM, far below the 2 GB that a value can have there.
_MESSAGE_BYTES = 32 * 2**20


def sent(batches: Iterable[pa.RecordBatch], channel: int, tasks: int) -> Iterator[pa.RecordBatch]:
    """Messages with the rows of ``batches``, each for the task that its column ``task`` names."""
    gathered: list[pa.RecordBatch] = []
    gathered_bytes = 0
    for batch in batches:
        gathered.append(batch)
        gathered_bytes += batch.nbytes
        if gathered_bytes >= _MESSAGE_BYTES:
            yield _addressed(pa.Table.from_batches(gathered), channel, tasks)
            gathered, gathered_bytes = [], 0
    if gathered:
        yield _addressed(pa.Table.from_batches(gathered), channel, tasks)


def _addressed(rows: pa.Table, channel: int, tasks: int) -> pa.RecordBatch:
    """One message for each task that has rows."""
    if tasks == 1:
        return message_batch([0], channel, [written(rows)])
    task_of_row = np.asarray(rows[TASK.name])
    addressees = np.unique(task_of_row).tolist()
    values = [written(rows.filter(pa.array(task_of_row == task))) for task in addressees]
    return message_batch(addressees, channel, values)


def message_batch(tasks: list[int], channel: int, values: list[pa.Buffer]) -> pa.RecordBatch:
    """Messages of one channel as rows."""
    columns = [
        pa.array(tasks, TASK.type),
        pa.array([channel] * len(tasks), CHANNEL.type),
        pa.array([value.to_pybytes() for value in values], ROWS.type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def written(rows: pa.Table) -> pa.Buffer:
    """Rows as the value of a message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue()


def opened(values: Iterable[pa.Scalar]) -> pa.Table:
    """The rows of messages of one channel, at least one."""
    return pa.concat_tables([pa.ipc.open_stream(value.as_buffer()).read_all() for value in values])
