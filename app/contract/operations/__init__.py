"""The operations of the API: path, parameters, response and errors of each read.

Each operation is one record (``Operation``). Routes, OpenAPI, the tables of the pages and the
dashboard are derived from ``OPERATIONS``.
"""

from oriel.app.contract.operations.operation import Operation
from oriel.app.contract.operations.operations import OPERATIONS, kinds_by_reads, reads_of_kind

__all__ = [
    "OPERATIONS",
    "Operation",
    "kinds_by_reads",
    "reads_of_kind",
]
