"""The cold routes, by FastAPI: stores, all about one, its keys, health, metrics, documentation.

They read the ``StoreCatalog`` of the hot reads and the tailer's status; each goes by its record
in the contract, which also gives its path and the model of its answer.
"""

from oriel.app.routes.dead_letters import dead_letter_routes
from oriel.app.routes.docs import docs_routes
from oriel.app.routes.health import health_routes
from oriel.app.routes.listed_keys import listed_key_routes
from oriel.app.routes.metrics import index_metrics, metrics_routes
from oriel.app.routes.status import status_routes
from oriel.app.routes.stores import store_routes
from oriel.app.routes.tables import table_routes

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
]
