"""The tasks of one batch of one store: what each stage does to its share of the rows.

In come rows behind the row-wise steps, and the batch's plan. Stamps give each record its
stream time, find it late, bad or filtered, and send it to the task of its key; a join's tasks
make results of the records of two sides; the window engine's tasks bring their keys' windows
forward. Out come reports: the files that were written, the clocks, and what became of every
record. ``run_stages`` is the list of stages, the same for Spark and for the test driver.
"""

from oriel.pipeline.tasks.engines import join_task, windows_task
from oriel.pipeline.tasks.files import FolderFiles
from oriel.pipeline.tasks.reports import (
    Counters,
    JoinReport,
    Reports,
    StampReport,
    TaskFunction,
    WindowsReport,
    count_batch,
)
from oriel.pipeline.tasks.stages import Runner, run_stages
from oriel.pipeline.tasks.stamp import (
    stamp_for_join,
    stamp_for_windows,
    stamp_looked_up,
    stamp_results,
)

__all__ = [
    "Counters",
    "FolderFiles",
    "JoinReport",
    "Reports",
    "Runner",
    "StampReport",
    "TaskFunction",
    "WindowsReport",
    "count_batch",
    "join_task",
    "run_stages",
    "stamp_for_join",
    "stamp_for_windows",
    "stamp_looked_up",
    "stamp_results",
    "windows_task",
]
