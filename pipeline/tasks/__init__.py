"""The tasks of one batch of one store: what each stage does to its share of the rows.

In come rows behind the row-wise steps, and the batch's plan. Stamps give each record its
stream time, find it late, bad or filtered, and send it to the task of its key; a join's tasks
make results of the records of two sides; the window engine's tasks bring their keys' windows
forward. Out come reports: the files that were written, the clocks, and what became of every
record. ``run_stages`` is the list of stages, the same for Spark, for small batches in the driver
and for the test driver.
"""

from oriel.pipeline.tasks.engines import join_task, windows_task
from oriel.pipeline.tasks.files import FolderFiles, SinkFiles
from oriel.pipeline.tasks.local import LocalRunner
from oriel.pipeline.tasks.messages import CHANNEL, MESSAGE_SCHEMA, ROWS, opened
from oriel.pipeline.tasks.reports import (
    Batches,
    Counters,
    JoinReport,
    Reports,
    StampReport,
    TaskFunction,
    WindowsReport,
    count_batch,
)
from oriel.pipeline.tasks.routes import (
    Chain,
    Chains,
    Route,
    RouteRunner,
    decode_task,
    feed,
    hop,
)
from oriel.pipeline.tasks.stages import StoreWork, run_stages
from oriel.pipeline.tasks.stamp import (
    stamp_looked_up,
    stamp_records,
    stamp_results,
)

__all__ = [
    "CHANNEL",
    "MESSAGE_SCHEMA",
    "ROWS",
    "Batches",
    "Chain",
    "Chains",
    "Counters",
    "FolderFiles",
    "JoinReport",
    "LocalRunner",
    "Reports",
    "Route",
    "RouteRunner",
    "SinkFiles",
    "StampReport",
    "StoreWork",
    "TaskFunction",
    "WindowsReport",
    "count_batch",
    "decode_task",
    "feed",
    "hop",
    "join_task",
    "opened",
    "run_stages",
    "stamp_looked_up",
    "stamp_records",
    "stamp_results",
    "windows_task",
]
