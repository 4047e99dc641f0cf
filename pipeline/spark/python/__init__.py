"""The Python processes of Spark on this machine: their start command and their fork server."""

from oriel.pipeline.spark.python.fork_server import serve_forks, start_fork_server
from oriel.pipeline.spark.python.local_python import fork_address, local_python

__all__ = ["fork_address", "local_python", "serve_forks", "start_fork_server"]
