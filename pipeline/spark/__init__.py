"""Door of oriel.pipeline.spark."""

from oriel.pipeline.spark.errors import kind, told
from oriel.pipeline.spark.session import WORKER_ENVIRONMENT, build_session

__all__ = [
    "WORKER_ENVIRONMENT",
    "build_session",
    "kind",
    "told",
]
