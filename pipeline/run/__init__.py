"""Run a topology: from the options to a streaming query that updates the stores.

Input: options, a log (event log or Kafka), and a data directory. Output: the tables of the stores,
updated batch by batch until the end of the log (``--once``) or a signal, and a summary. If an
expression fails on a record, the error names the store and the step.
"""

from oriel.pipeline.run.batches import SPARK_ERRORS, raise_failing_step
from oriel.pipeline.run.query import PipelineRun
from oriel.pipeline.run.settings import RunSettings
from oriel.pipeline.run.topology_file import load_topology
from oriel.pipeline.run.topology_run import run_topology

__all__ = [
    "SPARK_ERRORS",
    "PipelineRun",
    "RunSettings",
    "load_topology",
    "raise_failing_step",
    "run_topology",
]
