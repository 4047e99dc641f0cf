"""The cold routes, by FastAPI: stores, all about one, its keys, health, metrics, documentation.

They read the ``StoreCatalog`` of the hot reads and the tailer's status; each goes by its record
in the contract, which also gives its path and the model of its answer.
"""

from oriel.app.routes.docs import docs_routes
from oriel.app.routes.health import health_routes
from oriel.app.routes.metrics import metrics_routes
from oriel.app.routes.stores import store_routes

__all__ = [
    "docs_routes",
    "health_routes",
    "metrics_routes",
    "store_routes",
]
