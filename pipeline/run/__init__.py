"""Door of oriel.pipeline.run."""

from oriel.pipeline.run.command import main
from oriel.pipeline.run.query import PipelineRun, RunSettings
from oriel.pipeline.run.step_errors import SPARK_ERRORS, refuse_failing

__all__ = [
    "SPARK_ERRORS",
    "PipelineRun",
    "RunSettings",
    "main",
    "refuse_failing",
]
