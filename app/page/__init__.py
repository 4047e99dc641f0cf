"""The dashboard: one HTML page without anything from elsewhere.

The service puts the operations' paths into the page when it starts; in the browser the page asks
the service itself, once a second.
"""

from oriel.app.page.dashboard import dashboard_routes

__all__ = [
    "dashboard_routes",
]
