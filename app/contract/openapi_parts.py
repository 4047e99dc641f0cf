"""Pieces of the OpenAPI document: parameters, answers and errors of each operation."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from oriel.app.contract.models import Json
from oriel.app.contract.parameters import (
    KEYS_PARAMETERS,
    POSITION_PARAMETERS,
    RANGE_PARAMETERS,
    SESSION_PARAMETERS,
    Parameter,
)
from oriel.app.contract.problems import (
    CONTENT_TYPE,
    INTERNAL_ERROR,
    KINDS,
    RETRY_AFTER_SECONDS,
    ProblemKind,
    document,
)

_BY_CODE = {kind.code: kind for kind in (*KINDS.values(), INTERNAL_ERROR)}

_STORE_PARAMETER: Json = {
    "name": "store",
    "in": "path",
    "required": True,
    "description": "Name of the store",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"},
    "example": "departures",
}
_KEY_PARAMETER: Json = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "The key: all the rest of the path, percent-encoded UTF-8. A slash may be "
    "written plain or as %2F; the empty key is the empty rest. Nothing is normalised: `..` and "
    "`a//b` are keys like others.",
    "schema": {"type": "string"},
    "example": "EWR",
}
_START_PARAMETER: Json = {
    "name": "window_start_ms",
    "in": "path",
    "required": True,
    "description": "Start of the window in ms since the epoch",
    "schema": {"type": "integer", "format": "int64"},
    "example": 1357034400000,
}
_END_PARAMETER: Json = {
    "name": "window_end_ms",
    "in": "path",
    "required": True,
    "description": "End of the session in ms since the epoch, inclusive",
    "schema": {"type": "integer", "format": "int64"},
    "example": 1357036200000,
}
_ETAG_PARAMETER: Json = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`ETag` of an answer that the client has: 304 when it is still the answer",
    "schema": {"type": "string"},
}


class Shape(NamedTuple):
    """What an operation takes and how it can fail."""

    path_parameters: tuple[Json, ...] = ()
    query_parameters: tuple[Parameter, ...] = ()
    problems: tuple[str, ...] = ()


_STORE_PROBLEMS = ("unknown-store", "store-not-ready", "index-damaged")
_QUERY_PROBLEMS = ("invalid-parameter", "unknown-parameter", "invalid-key")
_READ_PROBLEMS = (*_QUERY_PROBLEMS, *_STORE_PROBLEMS, "behind-position-bound")
_HOT_PROBLEMS = (*_READ_PROBLEMS, "wrong-store-kind")
_RANGE_SHAPE = Shape(
    (_STORE_PARAMETER, _KEY_PARAMETER, _ETAG_PARAMETER),
    RANGE_PARAMETERS,
    (*_HOT_PROBLEMS, "invalid-cursor"),
)
_SESSIONS_SHAPE = _RANGE_SHAPE._replace(query_parameters=SESSION_PARAMETERS)

SHAPES: dict[str, Shape] = {
    "list_stores": Shape((), (), ("unknown-parameter",)),
    "describe_store": Shape((_STORE_PARAMETER,), (), (*_QUERY_PROBLEMS[1:], *_STORE_PROBLEMS)),
    "list_keys": Shape((_STORE_PARAMETER,), KEYS_PARAMETERS, (*_READ_PROBLEMS, "invalid-cursor")),
    "health": Shape((), (), ("unknown-parameter",)),
    "readiness": Shape((), (), ("unknown-parameter",)),
    "dashboard": Shape(),
    "fetch": _RANGE_SHAPE,
    "backwardFetch": _RANGE_SHAPE,
    "latest": Shape(
        (_STORE_PARAMETER, _KEY_PARAMETER, _ETAG_PARAMETER),
        POSITION_PARAMETERS,
        (*_HOT_PROBLEMS, "window-not-found"),
    ),
    "window": Shape(
        (_STORE_PARAMETER, _START_PARAMETER, _KEY_PARAMETER, _ETAG_PARAMETER),
        POSITION_PARAMETERS,
        (*_HOT_PROBLEMS, "window-not-found"),
    ),
    "findSessions": _SESSIONS_SHAPE,
    "backwardFindSessions": _SESSIONS_SHAPE,
    "session": Shape(
        (_STORE_PARAMETER, _START_PARAMETER, _END_PARAMETER, _KEY_PARAMETER, _ETAG_PARAMETER),
        POSITION_PARAMETERS,
        (*_HOT_PROBLEMS, "window-not-found"),
    ),
    "get": Shape(
        (_STORE_PARAMETER, _KEY_PARAMETER, _ETAG_PARAMETER),
        POSITION_PARAMETERS,
        (*_HOT_PROBLEMS, "row-not-found"),
    ),
}


def operation_extras(name: str) -> dict[str, Any]:
    """Arguments for a FastAPI route: the parameters and error answers of an operation."""
    return {
        "responses": problem_responses(name),
        "openapi_extra": {"parameters": operation_parameters(name)},
    }


def operation_parameters(name: str) -> list[Json]:
    """All parameters of an operation, as OpenAPI has them."""
    shape = SHAPES[name]
    return [*shape.path_parameters, *map(_query_parameter, shape.query_parameters)]


def problem_responses(name: str) -> dict[int | str, Json]:
    """The error answers of an operation by status; each operation can also fail with 405, 500."""
    codes = (*SHAPES[name].problems, "method-not-allowed", INTERNAL_ERROR.code)
    kinds = [_BY_CODE[code] for code in codes]
    statuses = sorted({kind.status for kind in kinds})
    return {status: _problems(k for k in kinds if k.status == status) for status in statuses}


def _query_parameter(parameter: Parameter) -> Json:
    schema = dict(parameter.schema)
    described: Json = {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": {"type": "array", "items": schema} if parameter.repeatable else schema,
    }
    if parameter.example is not None:
        described["example"] = [parameter.example] if parameter.repeatable else parameter.example
    return described


def _problems(kinds: Iterable[ProblemKind]) -> Json:
    described = list(kinds)
    answer: Json = {
        "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in described),
        "content": {
            CONTENT_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {kind.code: {"value": _example(kind)} for kind in described},
            }
        },
    }
    if any(kind.retry for kind in described):
        answer["headers"] = {
            "Retry-After": {
                "description": "Seconds after which to try again",
                "schema": {"type": "integer", "example": RETRY_AFTER_SECONDS},
            }
        }
    return answer


def _example(kind: ProblemKind) -> Json:
    return document(kind, "What was wrong with this request.", "/v1/stores/departures/latest/EWR")
