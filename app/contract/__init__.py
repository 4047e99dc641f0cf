"""Define the HTTP API of the service, without its implementation.

``OPERATIONS`` has one record per operation: path, parameters, response, problems, store kinds. The
readers of paths and queries, the OpenAPI document, the cursors and the problem documents follow
from these records. This is the lowest package of the service. It imports only errors and positions
of the storage package.
"""

from oriel.app.contract.cursors import PageCursors, TableState, version_of_cursor
from oriel.app.contract.limits import (
    LIMIT_FIELDS,
    LISTED_KEYS_MAX,
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    SCAN_RECORDS_MAX,
    Limits,
)
from oriel.app.contract.media_types import EVENT_STREAM, MediaType, media_type_of
from oriel.app.contract.openapi import describe, document_bytes
from oriel.app.contract.operations import OPERATIONS, Operation, reads_of_kind
from oriel.app.contract.parameters import (
    EVENT_ID_PATTERN,
    ISO_TIMES,
    TABLE_READ_SECONDS,
    TABLE_READS_AT_ONCE,
    TABLE_READS_WAITING,
    PathParameter,
)
from oriel.app.contract.problems import (
    ALL_KINDS,
    ApiError,
    BodyTooLarge,
    Forbidden,
    HeaderTooLarge,
    InvalidBody,
    InvalidParameter,
    KeyOfAnotherShard,
    KeysOfSeveralShards,
    MethodNotAllowed,
    NotAcceptable,
    Overloaded,
    ProblemResponse,
    RequestTimeout,
    RequestTooSlow,
    RowNotFound,
    ShuttingDown,
    TableReadsBusy,
    Unauthorized,
    UnknownHost,
    UnknownRoute,
    UrlTooLong,
    WindowNotFound,
    WrongStoreKind,
    malformed_request,
    problem_response,
)
from oriel.app.contract.queries import POSITION_QUERY
from oriel.app.contract.values import decode_path

__all__ = [
    "ALL_KINDS",
    "EVENT_ID_PATTERN",
    "EVENT_STREAM",
    "ISO_TIMES",
    "LIMIT_FIELDS",
    "LISTED_KEYS_MAX",
    "OPERATIONS",
    "PAGE_BYTES_MAX",
    "PAGE_ROWS_MAX",
    "POSITION_QUERY",
    "SCAN_RECORDS_MAX",
    "TABLE_READS_AT_ONCE",
    "TABLE_READS_WAITING",
    "TABLE_READ_SECONDS",
    "ApiError",
    "BodyTooLarge",
    "Forbidden",
    "HeaderTooLarge",
    "InvalidBody",
    "InvalidParameter",
    "KeyOfAnotherShard",
    "KeysOfSeveralShards",
    "Limits",
    "MediaType",
    "MethodNotAllowed",
    "NotAcceptable",
    "Operation",
    "Overloaded",
    "PageCursors",
    "PathParameter",
    "ProblemResponse",
    "RequestTimeout",
    "RequestTooSlow",
    "RowNotFound",
    "ShuttingDown",
    "TableReadsBusy",
    "TableState",
    "Unauthorized",
    "UnknownHost",
    "UnknownRoute",
    "UrlTooLong",
    "WindowNotFound",
    "WrongStoreKind",
    "decode_path",
    "describe",
    "document_bytes",
    "malformed_request",
    "media_type_of",
    "problem_response",
    "reads_of_kind",
    "version_of_cursor",
]
