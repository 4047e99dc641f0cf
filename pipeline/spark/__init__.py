"""Spark itself: the session with its settings, its folder for temporary files, its errors.

In come a name, a number of cores and settings; out goes a local session whose Python workers run
this Python and find this package. Nothing here knows of topologies. An error of Spark's or Java's
is turned into one line for people, and into its kind for programs.
"""

from oriel.pipeline.spark.errors import error_kind, first_line
from oriel.pipeline.spark.log_file import LogFile
from oriel.pipeline.spark.session import WORKER_ENVIRONMENT, build_session, scratch_folder

__all__ = [
    "WORKER_ENVIRONMENT",
    "LogFile",
    "build_session",
    "error_kind",
    "first_line",
    "scratch_folder",
]
