"""What the service promises to its clients, and nothing of how it keeps it.

``OPERATIONS`` has one record per operation: path, parameters, answer, problems, the kinds of
stores that it fits. From them come the readers of paths and queries (raw bytes in, checked values
out), the OpenAPI document, the cursors between pages, and the answers that exceptions become.
The lowest room of the service: it knows storage's errors and positions, and no other room.
"""

from oriel.app.contract.cursors import PageCursors
from oriel.app.contract.limits import (
    BODY_BYTES_MAX,
    LISTED_KEYS_MAX,
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    SCAN_RECORDS_MAX,
)
from oriel.app.contract.openapi import describe, document_bytes
from oriel.app.contract.operation import Operation
from oriel.app.contract.operations import OPERATIONS, kinds_by_reads, reads_of_kind
from oriel.app.contract.parameters import POSITION_QUERY, PathParameter, decode_path
from oriel.app.contract.problems import (
    ApiError,
    BodyTooLarge,
    InvalidBody,
    InvalidParameter,
    MethodNotAllowed,
    ProblemAnswer,
    RowNotFound,
    UnknownRoute,
    WindowNotFound,
    WrongStoreKind,
    malformed_request,
    problem_answer,
)

__all__ = [
    "BODY_BYTES_MAX",
    "LISTED_KEYS_MAX",
    "OPERATIONS",
    "PAGE_BYTES_MAX",
    "PAGE_ROWS_MAX",
    "POSITION_QUERY",
    "SCAN_RECORDS_MAX",
    "ApiError",
    "BodyTooLarge",
    "InvalidBody",
    "InvalidParameter",
    "MethodNotAllowed",
    "Operation",
    "PageCursors",
    "PathParameter",
    "ProblemAnswer",
    "RowNotFound",
    "UnknownRoute",
    "WindowNotFound",
    "WrongStoreKind",
    "decode_path",
    "describe",
    "document_bytes",
    "kinds_by_reads",
    "malformed_request",
    "problem_answer",
    "reads_of_kind",
]
