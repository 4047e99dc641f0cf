"""The service as processes: ``oriel serve`` starts a supervisor, a tailer and the workers.

A data folder and an address come in; ``Service`` is the ASGI application that each worker runs
over them. The supervisor starts again whatever dies, and ends all of it on SIGTERM or SIGINT.
"""

from oriel.app.server.command import main
from oriel.app.server.service import Service

__all__ = [
    "Service",
    "main",
]
