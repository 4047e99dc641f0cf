"""Running a topology: from options to a streaming query, which brings the stores forward.

In come options, a log (event log or Kafka) and a data folder. Out go the stores' tables, brought
forward batch by batch until the log's end (``--once``) or a signal, and a summary. An expression
that fails on a record is named with its store and step.
"""

from oriel.pipeline.run.query import PipelineRun, RunSettings
from oriel.pipeline.run.spark_runner import SPARK_ERRORS, refuse_failing
from oriel.pipeline.run.topology_file import load_topology
from oriel.pipeline.run.topology_run import run_topology

__all__ = [
    "SPARK_ERRORS",
    "PipelineRun",
    "RunSettings",
    "load_topology",
    "refuse_failing",
    "run_topology",
]
