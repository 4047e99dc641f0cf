"""Door of oriel.app.server."""

from oriel.app.server.command import main
from oriel.app.server.service import Service

__all__ = [
    "Service",
    "main",
]
