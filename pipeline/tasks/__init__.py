"""The tasks of one batch of one store. Each stage processes its share of the rows.

The input is rows after their row-wise steps, and the plan of the batch. Stream tasks assign stream
times, drop late, invalid and filtered records, and send each record to the task of its key. Join
tasks return results. Store tasks update the windows of their keys. The output is reports: the files
that were written, the stream times, and what happened to each record.

Spark, small batches in the driver and the test driver all run the same stages (``run_stages``).
"""

from oriel.pipeline.tasks.engines import join_task, store_task
from oriel.pipeline.tasks.exchange import (
    CHANNEL,
    ENVELOPE_SCHEMA,
    REPORTS,
    ROWS,
    Batches,
    Output,
    PartitionFunction,
    Received,
    decoded_reports,
    decoded_rows,
)
from oriel.pipeline.tasks.files import DirectoryFiles, SinkFiles
from oriel.pipeline.tasks.local import LocalRunner
from oriel.pipeline.tasks.reports import (
    Counters,
    JoinReport,
    Reports,
    StoreReport,
    StreamReport,
    count_batch,
)
from oriel.pipeline.tasks.routes import (
    Chain,
    Chains,
    Route,
    RouteRunner,
    decode_task,
    level_task,
    source_task,
)
from oriel.pipeline.tasks.stages import StoreWork, run_stages
from oriel.pipeline.tasks.streams import stream_task

__all__ = [
    "CHANNEL",
    "ENVELOPE_SCHEMA",
    "REPORTS",
    "ROWS",
    "Batches",
    "Chain",
    "Chains",
    "Counters",
    "DirectoryFiles",
    "JoinReport",
    "LocalRunner",
    "Output",
    "PartitionFunction",
    "Received",
    "Reports",
    "Route",
    "RouteRunner",
    "SinkFiles",
    "StoreReport",
    "StoreWork",
    "StreamReport",
    "count_batch",
    "decode_task",
    "decoded_reports",
    "decoded_rows",
    "join_task",
    "level_task",
    "run_stages",
    "source_task",
    "store_task",
    "stream_task",
]
