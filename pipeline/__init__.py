"""The pipeline: topology language, window engine and the Spark streaming job."""

from oriel.pipeline.errors import InvalidTopology, PipelineError

__all__ = [
    "InvalidTopology",
    "PipelineError",
]
