"""The one place that turns exceptions into RFC 9457 problem documents.

Each kind of problem has a ``code`` that never changes its meaning; programs go by it.
``title`` is the same for all problems of a kind, ``detail`` is about this request.
"""

import logging
from typing import NamedTuple

import orjson
from starlette.exceptions import HTTPException

from oriel.app.contract import errors as api
from oriel.storage import errors as storage

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"

#: Seconds after which a client should try again when the service could not answer.
RETRY_AFTER_SECONDS = 1

_TYPE_PREFIX = "urn:oriel:problem:"


class ProblemKind(NamedTuple):
    """One kind of problem: HTTP status, stable code, title; whether a retry may help."""

    status: int
    code: str
    title: str
    retry: bool = False


INTERNAL_ERROR = ProblemKind(500, "internal-error", "The service failed")
MALFORMED_REQUEST = ProblemKind(400, "malformed-request", "The request is not valid HTTP")

#: Which exception is which problem; a subclass without a line of its own is its base's kind.
KINDS: dict[type[Exception], ProblemKind] = {
    api.InvalidParameter: ProblemKind(400, "invalid-parameter", "A parameter is not valid"),
    api.UnknownParameter: ProblemKind(400, "unknown-parameter", "There is no such parameter"),
    api.InvalidKey: ProblemKind(400, "invalid-key", "The path is not percent-encoded UTF-8"),
    api.WrongStoreKind: ProblemKind(
        400, "wrong-store-kind", "The read does not fit the store's kind of windows"
    ),
    api.WindowNotFound: ProblemKind(404, "window-not-found", "There is no such window"),
    api.RowNotFound: ProblemKind(404, "row-not-found", "There is no such row"),
    api.UnknownRoute: ProblemKind(404, "unknown-route", "There is nothing at this path"),
    api.MethodNotAllowed: ProblemKind(405, "method-not-allowed", "Only GET and HEAD are allowed"),
    storage.InvalidCursor: ProblemKind(400, "invalid-cursor", "The cursor is not of this request"),
    storage.UnknownStore: ProblemKind(404, "unknown-store", "There is no such store"),
    storage.BehindPositionBound: ProblemKind(
        503, "behind-position-bound", "The store has not reached the position asked for", retry=True
    ),
    storage.IndexDamaged: ProblemKind(
        503, "index-damaged", "The index is being rebuilt from the table", retry=True
    ),
    storage.StoreNotReady: ProblemKind(
        503, "store-not-ready", "The store can't answer yet", retry=True
    ),
}

_BY_STATUS = {404: api.UnknownRoute, 405: api.MethodNotAllowed}


class ProblemAnswer(NamedTuple):
    """A finished error answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def problem_answer(error: Exception, instance: str) -> ProblemAnswer:
    """Turn an exception into an answer; one that is not known is logged and becomes a 500.

    ``instance`` is the path of the request.
    """
    kind = kind_of(error)
    if kind is INTERNAL_ERROR:
        logger.error("unexpected error at %s", instance, exc_info=error)
        return _answer(kind, "The service failed unexpectedly; its log says why.", instance)
    return _answer(kind, _detail(error), instance)


def malformed_request(detail: str) -> ProblemAnswer:
    """The answer to bytes that are no HTTP request, so that there is no path either."""
    return _answer(MALFORMED_REQUEST, detail, "")


def kind_of(error: Exception) -> ProblemKind:
    """Which kind of problem an exception is."""
    if isinstance(error, HTTPException):
        return KINDS.get(_BY_STATUS.get(error.status_code, Exception), INTERNAL_ERROR)
    kinds = (KINDS[ancestor] for ancestor in type(error).__mro__ if ancestor in KINDS)
    return next(kinds, INTERNAL_ERROR)


def document(kind: ProblemKind, detail: str, instance: str) -> dict[str, object]:
    """The problem document's fields."""
    return {
        "type": _TYPE_PREFIX + kind.code,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": instance,
        "code": kind.code,
    }


def _detail(error: Exception) -> str:
    if isinstance(error, HTTPException):
        return "See /openapi.json for the operations that there are."
    return str(error)


def _answer(kind: ProblemKind, detail: str, instance: str) -> ProblemAnswer:
    # A lone surrogate can't be written as JSON; paths come from strangers.
    fields = document(kind, _printable(detail), _printable(instance))
    body = orjson.dumps(fields)
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    if kind.retry:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_SECONDS))
    if kind.status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    return ProblemAnswer(kind.status, headers, body)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
