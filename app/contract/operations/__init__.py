"""Define the operations of the API.

Each operation is one record (``Operation``) with its path, parameters, response model and problems.
The input is the parameters, problems and models of ``oriel.app.contract``. The output is
``OPERATIONS``, from which the routes, the OpenAPI document, the tables of the pages and the
requests of the dashboard follow.
"""

from oriel.app.contract.operations.operation import Operation
from oriel.app.contract.operations.operations import (
    OPERATIONS,
    SQL_PATH,
    kinds_by_reads,
    reads_of_kind,
)

__all__ = [
    "OPERATIONS",
    "SQL_PATH",
    "Operation",
    "kinds_by_reads",
    "reads_of_kind",
]
