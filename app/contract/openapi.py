"""The OpenAPI document: FastAPI's for the cold routes, and the hot reads beside them."""

from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from oriel.app.contract.models import Json, Problem, RowsAnswer, WindowsAnswer
from oriel.app.contract.openapi_parts import operation_parameters, problem_responses

API_TITLE = "Oriel"
API_VERSION = "1.0.0"

_SCHEMA_REFERENCE = "#/components/schemas/{model}"

_DESCRIPTION = """\
Interactive queries over materialized windows.

Every answer comes from one committed table version and says which: its `position`. A client can
demand a position with `min_version` and `min_offset`. Bounds are on the window start and
inclusive, as in Kafka Streams' `ReadOnlyWindowStore`. Windows are ordered by start, keys by their
UTF-8 bytes. Errors are RFC 9457 problem documents; programs go by `code`.

Which reads a store has depends on its windows. Tumbling, hopping, sliding: `fetch`,
`backwardFetch`, `latest`, `window`. Sessions: these by the session's start (the time of its first
record), and `findSessions`, `backwardFindSessions`, `session`. No windows: `get`. Any other read is
the problem `wrong-store-kind`, which names those that fit.

Stable: paths, parameters, fields, codes and their meaning. New fields and new codes may be added.
Not stable: the texts of `title` and `detail`, the content of cursors and entity tags.
"""

#: Hot reads: operation, path, summary, description.
_HOT_READS = (
    (
        "fetch",
        "/v1/stores/{store}/fetch/{key}",
        "Windows of a key, oldest first",
        (
            "Windows whose start lies from `from_ms` to `to_ms`, both inclusive, by start "
            "ascending. An unknown key has no windows."
        ),
    ),
    (
        "backwardFetch",
        "/v1/stores/{store}/backwardFetch/{key}",
        "Windows of a key, newest first",
        (
            "The windows of `fetch` by start descending (KIP-617). The first page without bounds "
            "is the newest windows."
        ),
    ),
    (
        "latest",
        "/v1/stores/{store}/latest/{key}",
        "The newest window of a key",
        (
            "The window with the greatest start (of several sessions the one that ends last); 404 "
            "when the key has none."
        ),
    ),
    (
        "window",
        "/v1/stores/{store}/window/{window_start_ms}/{key}",
        "One window of a key",
        (
            "The window that starts exactly then (of several sessions the one that ends first); "
            "404 when there is none or it has expired."
        ),
    ),
    (
        "findSessions",
        "/v1/stores/{store}/findSessions/{key}",
        "Sessions of a key, oldest first",
        (
            "Sessions that end at or after `earliest_end_ms` and start at or before "
            "`latest_start_ms`, by start ascending. With both bounds the same instant: the "
            "sessions that hold it. An unknown key has no sessions."
        ),
    ),
    (
        "backwardFindSessions",
        "/v1/stores/{store}/backwardFindSessions/{key}",
        "Sessions of a key, newest first",
        "The sessions of `findSessions` by start descending (KIP-617).",
    ),
    (
        "session",
        "/v1/stores/{store}/session/{window_start_ms}/{window_end_ms}/{key}",
        "One session of a key",
        "The session with exactly this start and end; 404 when there is none or it has expired.",
    ),
    (
        "get",
        "/v1/stores/{store}/get/{key}",
        "The row of a key in a store without windows",
        "The aggregates over all records of the key; 404 when the key has none.",
    ),
)

_WINDOWS_EXAMPLE = {
    "store": "departures",
    "position": {"version": 17, "offsets": {"flights": {"0": 12345}}},
    "windows": [
        {
            "key": "EWR",
            "window_start_ms": 1357034400000,
            "window_end_ms": 1357036200000,
            "departures": 12,
            "mean_delay": 4.25,
            "timestamp_ms": 1357036140000,
            "final": True,
        }
    ],
    "next_cursor": None,
}
_ROWS_EXAMPLE = {
    "store": "totals",
    "position": {"version": 17, "offsets": {"flights": {"0": 12345}}},
    "rows": [{"key": "EWR", "departures": 1201, "timestamp_ms": 1357036140000}],
    "next_cursor": None,
}

_EXAMPLES = {"WindowsAnswer": _WINDOWS_EXAMPLE, "RowsAnswer": _ROWS_EXAMPLE}


def describe(api: FastAPI) -> Json:
    """Make the whole document; made once per application."""
    if api.openapi_schema is None:
        document = get_openapi(
            title=API_TITLE,
            version=API_VERSION,
            summary="Interactive queries over materialized windows",
            description=_DESCRIPTION,
            routes=api.routes,
        )
        _add_hot_reads(document)
        api.openapi_schema = document
    return api.openapi_schema


def _add_hot_reads(document: Json) -> None:
    _, schemas = models_json_schema(
        [(model, "serialization") for model in (WindowsAnswer, RowsAnswer, Problem)],
        ref_template=_SCHEMA_REFERENCE,
    )
    components = document.setdefault("components", {}).setdefault("schemas", {})
    components.update(schemas["$defs"])
    for name, path, summary, description in _HOT_READS:
        document["paths"][path] = {"get": _hot_read(name, summary, description)}


def _hot_read(name: str, summary: str, description: str) -> Json:
    return {
        "tags": ["windows"],
        "operationId": name,
        "summary": summary,
        "description": description,
        "parameters": operation_parameters(name),
        "responses": {
            "200": _response("RowsAnswer" if name == "get" else "WindowsAnswer"),
            "304": {"description": "The answer with the tag of If-None-Match is still the answer"},
            **{str(status): found for status, found in problem_responses(name).items()},
        },
    }


def _response(model: str) -> Json:
    return {
        "description": "The answer, all of it from one table version",
        "headers": {
            "ETag": {
                "description": "Changes when the answer does; send it as If-None-Match",
                "schema": {"type": "string"},
            }
        },
        "content": {
            "application/json": {
                "schema": {"$ref": _SCHEMA_REFERENCE.format(model=model)},
                "example": _EXAMPLES[model],
            }
        },
    }


def document_bytes(document: Any) -> bytes:
    """The document as the committed file has it."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
