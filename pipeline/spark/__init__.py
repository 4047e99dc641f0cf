"""Spark itself: the session with its settings, its temporary directory, and its errors.

Input: a name, a number of cores or the address of a cluster, and settings. Output: a session whose
Python workers can import this package. Workers on this machine import it from where it is
installed. Workers of a cluster receive it from the driver. This package knows nothing about
topologies. It converts an error of Spark or Java into one line for people, and into a kind for
programs.
"""

from oriel.pipeline.spark.class_archive import (
    archive_directory,
    archive_prefix,
    create_in_background,
    delete_unused,
    find_archive,
    use_archive,
    write_archive,
)
from oriel.pipeline.spark.cluster import (
    MASTER,
    is_cluster,
    object_settings,
    session_conf,
    tasks_at_a_time,
    with_conf,
)
from oriel.pipeline.spark.errors import error_kind, first_line
from oriel.pipeline.spark.frames import map_in_arrow, no_rows
from oriel.pipeline.spark.log_file import LogFile, log_directory
from oriel.pipeline.spark.python import start_fork_server
from oriel.pipeline.spark.python_files import send_package, send_python_files
from oriel.pipeline.spark.session import (
    WORKER_ENVIRONMENT,
    SparkStart,
    build_session,
    generated_code,
    is_stopped,
    scratch_directory,
    stop_session,
)
from oriel.pipeline.spark.start_phases import StartPhases

__all__ = [
    "MASTER",
    "WORKER_ENVIRONMENT",
    "LogFile",
    "SparkStart",
    "StartPhases",
    "archive_directory",
    "archive_prefix",
    "build_session",
    "create_in_background",
    "delete_unused",
    "error_kind",
    "find_archive",
    "first_line",
    "generated_code",
    "is_cluster",
    "is_stopped",
    "log_directory",
    "map_in_arrow",
    "no_rows",
    "object_settings",
    "scratch_directory",
    "send_package",
    "send_python_files",
    "session_conf",
    "start_fork_server",
    "stop_session",
    "tasks_at_a_time",
    "use_archive",
    "with_conf",
    "write_archive",
]
