"""Door of oriel.app.page."""

from oriel.app.page.dashboard import dashboard_routes

__all__ = [
    "dashboard_routes",
]
