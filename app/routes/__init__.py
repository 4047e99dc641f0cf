"""Door of oriel.app.routes."""

from oriel.app.routes.health import health_routes
from oriel.app.routes.stores import store_routes

__all__ = [
    "health_routes",
    "store_routes",
]
