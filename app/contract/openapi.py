"""Create the OpenAPI document from the records of the operations.

FastAPI can describe the routes that it serves, but not the hot reads, which run before it. So this
module describes all operations in one way. A test calls every operation and compares.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson
from pydantic.json_schema import models_json_schema

import oriel
from oriel.app.contract.limits import (
    LIMIT_FIELDS,
    LIMITS,
    LISTED_KEYS_MAX,
    SQL_CHARACTERS_MAX,
    Limits,
)
from oriel.app.contract.media_types import EVENT_STREAM, FORM, MediaType
from oriel.app.contract.operations import OPERATIONS, Operation, kinds_by_reads
from oriel.app.contract.parameters import (
    EVENT_ID_PATTERN,
    REPEATS_MAX,
    PathParameter,
    QueryParameter,
)
from oriel.app.contract.problems import (
    CONTENT_TYPE,
    GUARD_PROBLEMS,
    INTERNAL_ERROR,
    PROBLEM_KINDS,
    RETRY_AFTER_SECONDS,
    ProblemKind,
    problem_document,
    prometheus_error,
)
from oriel.app.contract.responses import Json, Problem, PrometheusError
from oriel.storage import KEY_BYTES_MAX

_TITLE = "Oriel"
_OPENAPI_VERSION = "3.1.0"
_SCHEMA_REFERENCE = "#/components/schemas/{model}"

_DESCRIPTION = """\
Query the windows and rows that a pipeline keeps up to date.

Every response is from one committed table version, which its `position` names. You can require a
position with `min_version` and `min_offset`. The header fields `Oriel-Version` and `Oriel-History`
have the position, and `Oriel-Offsets` has its offsets if they are short. If you
restore an older backup, another `history` starts, and its versions have numbers that the lost
history also used. So send `history` with a version. If the version belongs to a lost history, the
problem is `history-lost` (410).

Bounds apply to the window start and are inclusive, as in Kafka Streams' `ReadOnlyWindowStore`.
Windows are ordered by key, then start, then end. String keys are ordered by their first 459 UTF-8
bytes, other keys by value. `x-oriel-limits` lists the limits of a page. Errors are RFC 9457 problem
documents. Programs must use `code`.

The window kind of a store decides which reads it has:

{reads}

For any other read, the problem is `wrong-store-kind`, and it names the reads that fit. A session's
start is the time of its first record.

`Accept` selects the format of windows, rows and keys. JSON has the whole response. NDJSON (one
object per line), CSV (with a header line) and Arrow IPC streams have only the items. For these, the
header fields `Oriel-Version`, `Oriel-Offsets`, `Oriel-Items` and `Oriel-Next-Cursor` have the
position, the number of items and the cursor. For any other format, the problem is `not-acceptable`.
`Accept-Encoding` selects gzip or zstd for responses with at least 1 KiB. Reads of one window or
row, event streams and errors are plain.

Times of a query or path are ms since the epoch, or ISO 8601. Without an offset, they are in UTC.

Stable: paths, parameters, fields, codes and their meaning. New versions can add fields and codes.
Not stable: the texts of `title` and `detail`, the content of cursors and entity tags.
"""

#: What each tag of the operations contains.
_TAGS: Mapping[str, str] = {
    "windows": "Read and follow windows and sessions.",
    "rows": "Read rows of stores without windows.",
    "stores": "Describe stores and list their keys.",
    "sql": "Query stores with SQL.",
    "prometheus": "Query windows as Grafana's Prometheus data source does.",
    "deadLetters": "List and count the records that stores could not use.",
    "health": "Check the service and its pipelines.",
    "dashboard": "Open web pages in a browser.",
}

_KEYS_BODY: Json = {
    "required": True,
    "description": "The keys",
    "content": {
        "application/json": {
            "schema": {
                "type": "array",
                "items": {"type": "string", "maxLength": KEY_BYTES_MAX},
                "maxItems": LISTED_KEYS_MAX,
            },
            "example": ["EWR", "JFK"],
        }
    },
}
_SQL_BODY: Json = {
    "required": True,
    "description": "The query",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"query": {"type": "string", "maxLength": SQL_CHARACTERS_MAX}},
                "required": ["query"],
                "additionalProperties": False,
            },
            "example": {"query": "SELECT key, sum(departures) FROM departures GROUP BY key"},
        }
    },
}
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`ETag` of your previous response. If the response is unchanged, the status "
    "code is 304.",
    "schema": {"type": "string"},
}
#: Header fields of a response, also of a 304.
_RESPONSE_HEADERS: Json = {
    "ETag": {
        "description": "Changes if the windows or rows of the response change, regardless of the "
        "position. Send it as If-None-Match",
        "schema": {"type": "string"},
    },
    "Cache-Control": {
        "description": "`immutable` if no record can change the response. Otherwise `no-cache`: "
        "request it again with If-None-Match",
        "schema": {"type": "string"},
    },
    "Oriel-Version": {
        "description": "`position.version`",
        "schema": {"type": "integer", "example": 17},
    },
    "Oriel-History": {
        "description": "`position.history`",
        "schema": {"type": "string", "example": "1a2b3c4d-99aabbcc"},
    },
    "Oriel-Lag": {
        "description": "Lag of the response to the store's table: the number of versions, and "
        "the ms since the first missing version was committed. The ms are negative if the wall "
        "clock of the pipeline is ahead",
        "schema": {"type": "string", "example": "versions=0, ms=0"},
    },
}
_VARY: Json = {
    "description": "`Accept` and `Accept-Encoding`, which select the response format and coding",
    "schema": {"type": "string"},
}
#: The bodies of the other formats, which JSON schema cannot describe.
_OTHER_FORMATS: Json = {
    MediaType.NDJSON.value: {"schema": {"type": "string"}},
    MediaType.CSV.value: {"schema": {"type": "string"}},
    MediaType.ARROW.value: {"schema": {}},
}
#: One event of a stream, field by field. OpenAPI before 3.2 has no other place for it.
_EVENT: Json = {
    "type": "object",
    "description": "One event. A heartbeat has only an `id`.",
    "properties": {
        "event": {"type": "string", "enum": ["position", "change", "reset", "denied"]},
        "id": {"type": "string", "pattern": f"^{EVENT_ID_PATTERN}$"},
        "data": {"type": "string", "contentMediaType": MediaType.JSON.value},
    },
}
_TOKEN: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of this service, if the service requires tokens (`oriel serve "
    "--tokens`)",
}
#: Statuses of requests that are rejected before their path is known, so with a problem document.
_BEFORE_PATH = frozenset({408, 413, 414, 431, 503})
_RETRY_AFTER: Json = {
    "description": "Seconds after which to send the request again",
    "schema": {"type": "integer", "example": RETRY_AFTER_SECONDS},
}


def _reads_by_kind() -> str:
    """Return one line per group of store kinds with the same reads."""
    return "\n".join(
        f"- {', '.join(kinds)}: {', '.join(f'`{read}`' for read in reads)}"
        for reads, kinds in kinds_by_reads().items()
    )


@cache
def describe(limits: Limits | None = None) -> Json:
    """Return the whole document, which is shared and must not be changed."""
    models = dict.fromkeys(operation.response_model for operation in OPERATIONS.values())
    _, schemas = models_json_schema(
        [
            (model, "serialization")
            for model in (*models, Problem, PrometheusError)
            if model is not None
        ],
        ref_template=_SCHEMA_REFERENCE,
    )
    return {
        "openapi": _OPENAPI_VERSION,
        "info": {
            "title": _TITLE,
            "version": oriel.__version__,
            "summary": "Query windows and rows over HTTP",
            "description": _DESCRIPTION.format(reads=_reads_by_kind()),
        },
        "paths": {operation.path: _methods(operation) for operation in OPERATIONS.values()},
        "components": {
            "schemas": schemas["$defs"],
            "responses": _guard_responses(),
            "securitySchemes": {"token": _TOKEN},
        },
        # The empty entry is for services without tokens.
        "security": [{}, {"token": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "x-oriel-limits": _limits(limits or Limits()),
    }


def document_bytes(document: Json) -> bytes:
    """Return the document as in the committed file: sorted, one entry per line."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _limits(limits: Limits) -> Json:
    """Return every limit of a page and of a worker by its name."""
    values = limits.named()
    settable = {
        # The name ends with the unit, or with the things that the limit counts.
        field.name: {
            "value": values[field.name],
            "unit": field.name.rpartition("_")[2],
            "description": field.meaning,
        }
        for field in LIMIT_FIELDS
    }
    return {**settable, **{name: limit._asdict() for name, limit in LIMITS.items()}}


def _methods(operation: Operation) -> Json:
    """Return the description of an operation by its methods."""
    described = _described(operation)
    if not operation.accepts_form:
        return {operation.method.lower(): described}
    parameters = operation.query.parameters
    form: Json = {
        "type": "object",
        "properties": {
            each.name: {**_schema_of(each), "description": each.description} for each in parameters
        },
        "required": [each.name for each in parameters if each.is_required],
    }
    posted = {
        **described,
        "operationId": f"{operation.name}ByForm",
        "description": f"The same with the parameters in the body. {operation.description}",
        "parameters": [],
        "requestBody": {"required": True, "content": {FORM: {"schema": form}}},
    }
    return {"get": described, "post": posted}


def _described(operation: Operation) -> Json:
    retried = [error for error in GUARD_PROBLEMS if PROBLEM_KINDS[error].retry]
    kinds = [
        *(PROBLEM_KINDS[error] for error in (*operation.problems, *retried)),
        INTERNAL_ERROR,
    ]
    responses: Json = {"200": _response(operation)}
    if operation.is_hot:
        responses["304"] = {
            "description": "The response is unchanged since the one with the tag of If-None-Match",
            "headers": _RESPONSE_HEADERS,
        }
    if operation.is_prometheus:
        kinds += [
            PROBLEM_KINDS[error] for error in GUARD_PROBLEMS if not PROBLEM_KINDS[error].retry
        ]
    described = _prometheus_errors if operation.is_prometheus else _problems
    for status in sorted({kind.status for kind in kinds}):
        responses[str(status)] = described(kind for kind in kinds if kind.status == status)
    for name in _guard_responses():
        responses.setdefault(name, {"$ref": f"#/components/responses/{name}"})
    for status, description in operation.other_statuses.items():
        responses[str(status)] = {"description": description, "content": _content(operation)}
    body: Json = {}
    if operation.method == "POST":
        body = {"requestBody": _KEYS_BODY if operation.lists_keys else _SQL_BODY}
    return {
        **body,
        "tags": [operation.tag],
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [
            *map(_path_parameter, operation.path_parameters),
            *([_IF_NONE_MATCH] if operation.is_hot else []),
            *map(_query_parameter, operation.query.parameters),
        ],
        "responses": responses,
    }


@cache
def _guard_responses() -> Json:
    """Return the problems of every request, before an operation gets it, by status."""
    kinds = [PROBLEM_KINDS[error] for error in GUARD_PROBLEMS]
    return {
        str(status): _problems(kind for kind in kinds if kind.status == status)
        for status in sorted({kind.status for kind in kinds if not kind.retry})
    }


def _path_parameter(parameter: PathParameter) -> Json:
    return {
        "name": parameter.name,
        "in": "path",
        "required": True,
        "description": parameter.description,
        "schema": parameter.values.schema,
        "example": parameter.example,
    }


def _query_parameter(parameter: QueryParameter) -> Json:
    described: Json = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": _schema_of(parameter),
    }
    if parameter.example is not None:
        described["example"] = [parameter.example] if parameter.repeatable else parameter.example
    return described


def _schema_of(parameter: QueryParameter) -> Mapping[str, Any]:
    if not parameter.repeatable:
        return parameter.schema
    return {"type": "array", "items": parameter.schema, "maxItems": REPEATS_MAX}


def _response(operation: Operation) -> Json:
    content = _content(operation)
    if operation.response_model is None:
        return {"description": "Text", "content": content}
    headers: Json = {"Vary": _VARY} if operation.has_formats else {}
    if "position" in operation.response_model.model_fields:
        names = ("Oriel-Version", "Oriel-History")
        headers = {**headers, **{name: _RESPONSE_HEADERS[name] for name in names}}
    if not operation.is_hot:
        described: Json = {"description": "Successful response", "content": content}
        return {**described, "headers": headers} if headers else described
    return {
        "description": "The response, from one table version",
        "headers": {**_RESPONSE_HEADERS, **headers},
        "content": content,
    }


def _content(operation: Operation) -> Json:
    content: Json
    if operation.response_model is None:
        schema = _EVENT if operation.text_type == EVENT_STREAM else {"type": "string"}
        content = {"schema": schema}
        if operation.response_example is not None:
            # The schema of a stream describes one event, so an example of events does not fit it.
            content["x-oriel-example"] = operation.response_example
        return {operation.text_type: content}
    content = {
        "schema": {"$ref": _SCHEMA_REFERENCE.format(model=operation.response_model.__name__)}
    }
    if operation.response_example is not None:
        content["example"] = operation.response_example
    forms = _OTHER_FORMATS if operation.has_formats else {}
    return {MediaType.JSON.value: content, **forms}


def _problems(of_status: Iterable[ProblemKind]) -> Json:
    """Return the error response of one status, which can have several kinds."""
    kinds = list(of_status)
    detail, instance = (
        "What is wrong with this request, and what to do.",
        "/v1/stores/departures/latest/EWR",
    )
    response: Json = {
        "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in kinds),
        "content": {
            CONTENT_TYPE: {
                "schema": {"$ref": _SCHEMA_REFERENCE.format(model=Problem.__name__)},
                "examples": {
                    kind.code: {"value": problem_document(kind, detail, instance)} for kind in kinds
                },
            }
        },
    }
    return _retried(response, kinds)


def _prometheus_errors(of_status: Iterable[ProblemKind]) -> Json:
    """Return the errors of one status in the format of Prometheus."""
    kinds = list(of_status)
    schema = {"$ref": _SCHEMA_REFERENCE.format(model=PrometheusError.__name__)}
    examples = {kind.code: {"value": prometheus_error(kind, kind.title)} for kind in kinds}
    response: Json = {
        "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in kinds),
        "content": {MediaType.JSON.value: {"schema": schema, "examples": examples}},
    }
    if kinds[0].status in _BEFORE_PATH:
        response["content"].update(_problems(kinds)["content"])
    return _retried(response, kinds)


def _retried(response: Json, kinds: Iterable[ProblemKind]) -> Json:
    if any(kind.retry for kind in kinds):
        response["headers"] = {"Retry-After": _RETRY_AFTER}
    return response
