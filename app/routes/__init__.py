"""Serve the cold routes with FastAPI: stores, keys, health, metrics, tables and documentation.

The routes read the ``StoreCatalog`` of the hot reads and the status of the tailer. The record of an
operation in the contract defines the path of a route and the model of its response.
"""

from oriel.app.routes.dead_letters import dead_letter_routes
from oriel.app.routes.docs import docs_routes
from oriel.app.routes.health import health_routes
from oriel.app.routes.listed_keys import listed_key_routes
from oriel.app.routes.metrics import index_metrics, metrics_routes
from oriel.app.routes.status import status_routes
from oriel.app.routes.stores import store_routes
from oriel.app.routes.tables import table_routes
from oriel.app.routes.topology import topology_routes

__all__ = [
    "dead_letter_routes",
    "docs_routes",
    "health_routes",
    "index_metrics",
    "listed_key_routes",
    "metrics_routes",
    "status_routes",
    "store_routes",
    "table_routes",
    "topology_routes",
]
