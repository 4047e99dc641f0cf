"""SQL queries, each in a process of its own (decision 0115).

The input is a statement and the stores that a token grants access to. The output is the finished
response. The service does not import DuckDB. A process of ``oriel.sql`` runs the query, so that a
query that crashes or fills its memory does not harm other requests.

    processes   the processes, with their limits
    routes      the operation
"""

from oriel.app.sql.processes import SqlProcesses
from oriel.app.sql.routes import sql_routes

__all__ = ["SqlProcesses", "sql_routes"]
