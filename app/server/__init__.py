"""The processes of the service. ``oriel serve`` starts a supervisor, a tailer and the workers.

Each worker runs the ASGI application ``Service`` over a data directory. The supervisor restarts
processes that end, and stops all processes on SIGTERM or SIGINT.
"""

from oriel.app.server.command import main
from oriel.app.server.service import Service

__all__ = [
    "Service",
    "main",
]
