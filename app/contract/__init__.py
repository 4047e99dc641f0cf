"""Door of oriel.app.contract."""

from oriel.app.contract.cursors import (
    KeysCursor,
    WindowsCursor,
    keys_token,
    read_keys_token,
    read_windows_token,
    request_digest,
    windows_token,
)
from oriel.app.contract.errors import (
    ApiError,
    MethodNotAllowed,
    RowNotFound,
    UnknownRoute,
    WindowNotFound,
    WrongStoreKind,
)
from oriel.app.contract.models import Health, KeysAnswer, Readiness, StoreDetail, StoresAnswer
from oriel.app.contract.openapi import API_TITLE, API_VERSION, describe, document_bytes
from oriel.app.contract.openapi_parts import operation_extras
from oriel.app.contract.parameters import (
    KEYS_PARAMETERS,
    POSITION_PARAMETERS,
    RANGE_PARAMETERS,
    SESSION_PARAMETERS,
    Query,
    decode_path,
    integer,
)
from oriel.app.contract.problems import ProblemAnswer, malformed_request, problem_answer

__all__ = [
    "API_TITLE",
    "API_VERSION",
    "KEYS_PARAMETERS",
    "POSITION_PARAMETERS",
    "RANGE_PARAMETERS",
    "SESSION_PARAMETERS",
    "ApiError",
    "Health",
    "KeysAnswer",
    "KeysCursor",
    "MethodNotAllowed",
    "ProblemAnswer",
    "Query",
    "Readiness",
    "RowNotFound",
    "StoreDetail",
    "StoresAnswer",
    "UnknownRoute",
    "WindowNotFound",
    "WindowsCursor",
    "WrongStoreKind",
    "decode_path",
    "describe",
    "document_bytes",
    "integer",
    "keys_token",
    "malformed_request",
    "operation_extras",
    "problem_answer",
    "read_keys_token",
    "read_windows_token",
    "request_digest",
    "windows_token",
]
