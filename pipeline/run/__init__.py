"""Running a topology: the commands ``oriel run`` and ``oriel rebuild``, and what they start.

In come a topology file, a log (event log or Kafka) and a data folder. Out go the stores' tables,
brought forward batch by batch until the log's end (``--once``) or a signal, and a summary. An
error that the user can mend is one line; an expression that fails on a record is named with its
store and step.
"""

from oriel.pipeline.run.command import main, rebuild
from oriel.pipeline.run.query import PipelineRun, RunSettings
from oriel.pipeline.run.spark_runner import SPARK_ERRORS, refuse_failing

__all__ = [
    "SPARK_ERRORS",
    "PipelineRun",
    "RunSettings",
    "main",
    "rebuild",
    "refuse_failing",
]
