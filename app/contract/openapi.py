"""The OpenAPI document, made of the operations' records.

FastAPI could describe the routes that it serves, but not the hot reads, which come before it. So
the document is made here for all of them, in one way; a test calls every operation and compares.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson
from pydantic.json_schema import models_json_schema

import oriel
from oriel.app.contract.limits import LIMIT_FIELDS, Limits
from oriel.app.contract.media_types import EVENT_STREAM, MediaType
from oriel.app.contract.models import Json, Problem
from oriel.app.contract.operation import Operation
from oriel.app.contract.operations import OPERATIONS, kinds_by_reads
from oriel.app.contract.page_limits import LIMITS, LISTED_KEYS_MAX
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
)
from oriel.storage import KEY_BYTES_MAX

_TITLE = "Oriel"
_OPENAPI_VERSION = "3.1.0"
_SCHEMA_REFERENCE = "#/components/schemas/{model}"

_DESCRIPTION = """\
Interactive queries over materialized windows.

Every answer comes from one committed table version and says which: its `position`. A client can
demand a position with `min_version` and `min_offset`. `Oriel-Version`, `Oriel-History` and, where
it is short, `Oriel-Offsets` say the position in the header, too. A restore of an older backup
starts another `history`, whose versions have the numbers of the lost ones: send `history` with a
version, and a version of a lost history is the problem `history-lost` (410). Bounds are on the
window start and inclusive, as in Kafka Streams' `ReadOnlyWindowStore`. Windows are ordered by key
(its UTF-8 bytes; of more than 459 bytes the first 459), then start, then end. What ends a page is
in `x-oriel-limits`. Errors are RFC 9457 problem documents; programs go by `code`.

Which reads a store has depends on the kind of its windows:

{reads}

Any other read is the problem `wrong-store-kind`, which names those that fit. A session's start is
the time of its first record.

Windows, rows and keys come in the form that `Accept` asks for: JSON, and as the items alone NDJSON
(an object a line), CSV (with a line of names) and an Arrow IPC stream. Position, number of items
and cursor of these are in the headers `Oriel-Version`, `Oriel-Offsets`, `Oriel-Items` and
`Oriel-Next-Cursor`. Any other form is the problem `not-acceptable`. Times of a query or path are ms
since the epoch, or ISO 8601 (without an offset UTC).

Stable: paths, parameters, fields, codes and their meaning. New fields and new codes may be added.
Not stable: the texts of `title` and `detail`, the content of cursors and entity tags.
"""

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
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`ETag` of an answer that the client has: 304 when it is still the answer",
    "schema": {"type": "string"},
}
#: Fields of the header of an answer, also of a 304.
_ANSWER_HEADERS: Json = {
    "ETag": {
        "description": "Changes when windows or rows of the answer do, whatever the position; send "
        "it as If-None-Match",
        "schema": {"type": "string"},
    },
    "Cache-Control": {
        "description": "`immutable` where no record can change the answer any more, else "
        "`no-cache`: ask again, with If-None-Match",
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
        "description": "How far the answer is behind the store's table: versions, and ms since the "
        "first of them was committed. The ms are negative if the pipeline's clock is ahead",
        "schema": {"type": "string", "example": "versions=0, ms=0"},
    },
}
_VARY: Json = {
    "description": "`Accept`, which chooses the form of the answer",
    "schema": {"type": "string"},
}
#: The bodies of the forms other than JSON, which JSON schema can't describe.
_OTHER_FORMS: Json = {
    MediaType.NDJSON.value: {"schema": {"type": "string"}},
    MediaType.CSV.value: {"schema": {"type": "string"}},
    MediaType.ARROW.value: {"schema": {}},
}
#: One event of a stream, field by field; OpenAPI before 3.2 has no other place for it.
_EVENT: Json = {
    "type": "object",
    "description": "One event. A sign of life has an `id` only.",
    "properties": {
        "event": {"type": "string", "enum": ["position", "change", "reset", "denied"]},
        "id": {"type": "string", "pattern": f"^{EVENT_ID_PATTERN}$"},
        "data": {"type": "string", "contentMediaType": MediaType.JSON.value},
    },
}
_TOKEN: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of this service, if it needs one (`oriel serve --tokens`)",
}
_RETRY_AFTER: Json = {
    "description": "Seconds after which to try again",
    "schema": {"type": "integer", "example": RETRY_AFTER_SECONDS},
}


def _reads_by_kind() -> str:
    """One line for all kinds of stores that have the same reads."""
    return "\n".join(
        f"- {', '.join(kinds)}: {', '.join(f'`{read}`' for read in reads)}"
        for reads, kinds in kinds_by_reads().items()
    )


@cache
def describe(limits: Limits | None = None) -> Json:
    """The whole document; it is shared, so nobody may change it."""
    answers = dict.fromkeys(operation.answer for operation in OPERATIONS.values())
    _, schemas = models_json_schema(
        [(model, "serialization") for model in (*answers, Problem) if model is not None],
        ref_template=_SCHEMA_REFERENCE,
    )
    return {
        "openapi": _OPENAPI_VERSION,
        "info": {
            "title": _TITLE,
            "version": oriel.__version__,
            "summary": "Interactive queries over materialized windows",
            "description": _DESCRIPTION.format(reads=_reads_by_kind()),
        },
        "paths": {
            operation.path: {operation.method.lower(): _described(operation)}
            for operation in OPERATIONS.values()
        },
        "components": {
            "schemas": schemas["$defs"],
            "responses": _guard_responses(),
            "securitySchemes": {"token": _TOKEN},
        },
        # The empty entry is for services without tokens.
        "security": [{}, {"token": []}],
        "x-oriel-limits": _limits(limits or Limits()),
    }


def document_bytes(document: Json) -> bytes:
    """The document as the committed file has it: sorted, one entry a line."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _limits(limits: Limits) -> Json:
    """Every limit by its name: those of a page, and those that a service sets."""
    values = limits.named()
    settable = {
        # The name ends with the unit, or is what is counted.
        field.name: {
            "value": values[field.name],
            "unit": field.name.rpartition("_")[2],
            "description": field.meaning,
        }
        for field in LIMIT_FIELDS
    }
    return {**settable, **{name: limit._asdict() for name, limit in LIMITS.items()}}


def _described(operation: Operation) -> Json:
    retried = [error for error in GUARD_PROBLEMS if PROBLEM_KINDS[error].retry]
    kinds = [
        *(PROBLEM_KINDS[error] for error in (*operation.problems, *retried)),
        INTERNAL_ERROR,
    ]
    responses: Json = {"200": _answer(operation)}
    if operation.is_hot:
        responses["304"] = {
            "description": "The answer with the tag of If-None-Match is still the answer",
            "headers": _ANSWER_HEADERS,
        }
    for status in sorted({kind.status for kind in kinds}):
        responses[str(status)] = _problems(kind for kind in kinds if kind.status == status)
    for name in _guard_responses():
        responses.setdefault(name, {"$ref": f"#/components/responses/{name}"})
    for status, description in operation.other_statuses.items():
        responses[str(status)] = {"description": description, "content": _content(operation)}
    body = {"requestBody": _KEYS_BODY} if operation.method == "POST" else {}
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
    """What any request may be answered before an operation sees it, by status."""
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
        "schema": parameter.schema,
        "example": parameter.example,
    }


def _query_parameter(parameter: QueryParameter) -> Json:
    schema = parameter.schema
    described: Json = {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": _list_of(schema) if parameter.repeatable else schema,
    }
    if parameter.example is not None:
        described["example"] = [parameter.example] if parameter.repeatable else parameter.example
    return described


def _list_of(schema: Mapping[str, Any]) -> Json:
    return {"type": "array", "items": schema, "maxItems": REPEATS_MAX}


def _answer(operation: Operation) -> Json:
    content = _content(operation)
    if operation.answer is None:
        return {"description": "The text", "content": content}
    headers: Json = {"Vary": _VARY} if operation.has_forms else {}
    if "position" in operation.answer.model_fields:
        names = ("Oriel-Version", "Oriel-History")
        headers = {**headers, **{name: _ANSWER_HEADERS[name] for name in names}}
    if not operation.is_hot:
        described: Json = {"description": "Successful Response", "content": content}
        return {**described, "headers": headers} if headers else described
    return {
        "description": "The answer, all of it from one table version",
        "headers": {**_ANSWER_HEADERS, **headers},
        "content": content,
    }


def _content(operation: Operation) -> Json:
    if operation.answer is None:
        schema = _EVENT if operation.text_type == EVENT_STREAM else {"type": "string"}
        return {operation.text_type: {"schema": schema}}
    content: Json = {"schema": {"$ref": _SCHEMA_REFERENCE.format(model=operation.answer.__name__)}}
    if operation.example is not None:
        content["example"] = operation.example
    forms = _OTHER_FORMS if operation.has_forms else {}
    return {MediaType.JSON.value: content, **forms}


def _problems(of_status: Iterable[ProblemKind]) -> Json:
    """The error answer of one status, which may be one of several kinds."""
    kinds = list(of_status)
    detail, instance = "What was wrong with this request.", "/v1/stores/departures/latest/EWR"
    answer: Json = {
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
    if any(kind.retry for kind in kinds):
        answer["headers"] = {"Retry-After": _RETRY_AFTER}
    return answer
