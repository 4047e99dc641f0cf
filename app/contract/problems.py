"""How a request can fail, and the one place that turns exceptions into RFC 9457 documents.

    ApiError                    errors of a request that storage knows nothing of
    |-- InvalidParameter        a parameter that can't be read or is out of its range
    |-- UnknownParameter        a parameter that this operation doesn't have
    |-- InvalidKey              the path is not percent-encoded UTF-8, or its key is too long
    |-- InvalidBody             the body is no JSON list of keys
    |-- BodyTooLarge            the body has more bytes than a request may have
    |-- WrongStoreKind          a read that does not fit the store's kind of windows
    |-- WindowNotFound          no such window or session
    |-- TableReadsBusy          as many reads of tables are under way as may be
    |-- RowNotFound             the key has no row in a store without windows
    |-- KeyOfAnotherShard       another service has the key
    |-- KeysOfSeveralShards     no service has all keys of the list
    |-- NotAcceptable           the request takes none of the forms that answers have
    |-- UnknownRoute            no operation has this path
    |-- MethodNotAllowed        the path is known, the method isn't that of its operation
    |-- Overloaded              the worker has as much to do as its limits allow
    |-- RequestTooSlow          the answer took longer than a request may
    |-- ShuttingDown            the worker ends, so it waits for nothing any more
    |-- RequestTimeout          header or body did not arrive in time
    |-- HeaderTooLarge          the header fields are longer than the limit
    |-- UrlTooLong              path and query are longer than the limit
    |-- UnknownHost             the Host field names none that is served
    |-- Unauthorized            no token, or none that is known
    `-- Forbidden               the token does not reach so far

Each kind of problem has a ``code`` that never changes its meaning; programs go by it.
``title`` is the same for all problems of a kind, ``detail`` is about this request.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import orjson
from starlette.exceptions import HTTPException

from oriel.storage import errors as storage

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"

#: Seconds after which a client should try again when the service could not answer.
RETRY_AFTER_SECONDS = 1

_TYPE_PREFIX = "urn:oriel:problem:"


class ApiError(Exception):
    """Base of the errors above; the message becomes the ``detail``."""


class InvalidParameter(ApiError):
    """The message names the parameter and its range."""


class UnknownParameter(ApiError):
    """The message names the parameters that the operation has."""


class InvalidKey(ApiError):
    """The message says where the path breaks the encoding."""


class InvalidBody(ApiError):
    """The message says what the body must be."""


class BodyTooLarge(ApiError):
    """The message says how large a body may be."""


class WrongStoreKind(ApiError):
    """The message names the reads that fit the store."""


class WindowNotFound(ApiError):
    """The key has no (such) window; it may have expired or not exist yet."""


class RowNotFound(ApiError):
    """The key has no record yet, or its row was removed."""


class KeyOfAnotherShard(ApiError):
    """The message names the shard that has the key; ``owner`` is its number."""

    def __init__(self, message: str, owner: int = 0) -> None:
        """Say so."""
        super().__init__(message)
        self.owner = owner


class KeysOfSeveralShards(ApiError):
    """The message says how to divide the list; ``owners`` has the shard of each key."""

    def __init__(self, message: str, owners: Sequence[int] = ()) -> None:
        """Say so."""
        super().__init__(message)
        self.owners = owners


class TableReadsBusy(ApiError):
    """The message says how many reads of tables one process does at a time."""


class NotAcceptable(ApiError):
    """The message names the forms that there are."""


class UnknownRoute(ApiError):
    """The message names the path that was probably meant, where one was."""


class MethodNotAllowed(ApiError):
    """An operation is either GET (and HEAD) or POST."""


class Overloaded(ApiError):
    """The message names the limit; a retry will do."""


class RequestTooSlow(ApiError):
    """The message names the limit; a retry may do."""


class ShuttingDown(ApiError):
    """Another worker, or the next process, answers a retry."""


class RequestTimeout(ApiError):
    """The message names the limit."""


class HeaderTooLarge(ApiError):
    """The message names the limit."""


class UrlTooLong(ApiError):
    """The message names the limit."""


class UnknownHost(ApiError):
    """The message names the option that allows a host."""


class Unauthorized(ApiError):
    """The message says how a token is sent; never which of its parts was wrong."""


class Forbidden(ApiError):
    """The message names what the token reaches, and nothing of what is there."""


class ProblemKind(NamedTuple):
    """One kind of problem: HTTP status, stable code, title; whether a retry may help."""

    status: int
    code: str
    title: str
    retry: bool = False


INTERNAL_ERROR = ProblemKind(500, "internal-error", "The service failed")
MALFORMED_REQUEST = ProblemKind(400, "malformed-request", "The request is not valid HTTP")

#: Which exception is which problem; a subclass without a line of its own is its base's kind.
PROBLEM_KINDS: dict[type[Exception], ProblemKind] = {
    InvalidParameter: ProblemKind(400, "invalid-parameter", "A parameter is not valid"),
    UnknownParameter: ProblemKind(400, "unknown-parameter", "The parameter is not known"),
    InvalidKey: ProblemKind(400, "invalid-key", "The key is not valid"),
    InvalidBody: ProblemKind(400, "invalid-body", "The body is not valid"),
    BodyTooLarge: ProblemKind(413, "body-too-large", "The body exceeds the limit"),
    WrongStoreKind: ProblemKind(400, "wrong-store-kind", "The operation does not fit the store"),
    WindowNotFound: ProblemKind(404, "window-not-found", "The window does not exist"),
    RowNotFound: ProblemKind(404, "row-not-found", "The row does not exist"),
    KeyOfAnotherShard: ProblemKind(421, "key-of-another-shard", "Another shard has the key"),
    KeysOfSeveralShards: ProblemKind(
        400, "keys-of-several-shards", "The keys belong to several shards"
    ),
    TableReadsBusy: ProblemKind(
        503, "table-reads-busy", "The service runs too many table reads", retry=True
    ),
    UnknownRoute: ProblemKind(404, "unknown-route", "The path does not exist"),
    MethodNotAllowed: ProblemKind(405, "method-not-allowed", "The method is not allowed"),
    Overloaded: ProblemKind(503, "overloaded", "The service is overloaded", retry=True),
    RequestTooSlow: ProblemKind(
        503, "request-too-slow", "The response exceeds the time limit", retry=True
    ),
    ShuttingDown: ProblemKind(503, "shutting-down", "The service is shutting down", retry=True),
    RequestTimeout: ProblemKind(408, "request-timeout", "The request did not arrive in time"),
    HeaderTooLarge: ProblemKind(431, "header-too-large", "The header fields exceed the limit"),
    UrlTooLong: ProblemKind(414, "url-too-long", "The URL exceeds the limit"),
    UnknownHost: ProblemKind(421, "unknown-host", "The host is not allowed"),
    Unauthorized: ProblemKind(401, "unauthorized", "The request needs a valid token"),
    Forbidden: ProblemKind(403, "forbidden", "The token does not grant access"),
    NotAcceptable: ProblemKind(406, "not-acceptable", "The response format is not available"),
    storage.InvalidCursor: ProblemKind(400, "invalid-cursor", "The cursor is not valid"),
    storage.UnfitKey: ProblemKind(400, "unfit-key", "The key does not have the store's key type"),
    storage.UnknownStore: ProblemKind(404, "unknown-store", "The store does not exist"),
    storage.VersionNotFound: ProblemKind(
        404, "version-not-found", "The table version does not exist"
    ),
    storage.VersionGone: ProblemKind(410, "version-gone", "The table version was deleted"),
    storage.HistoryLost: ProblemKind(410, "history-lost", "The version belongs to a lost history"),
    storage.CorruptLog: ProblemKind(503, "table-damaged", "The table cannot be read", retry=True),
    storage.TableReadTooLarge: ProblemKind(
        400, "table-read-too-large", "The table read exceeds the row limit"
    ),
    storage.TableReadTimeout: ProblemKind(
        503, "table-read-timeout", "The table read exceeds the time limit", retry=True
    ),
    storage.ObjectStoreFailed: ProblemKind(
        503, "object-store-failed", "The object store cannot be read", retry=True
    ),
    storage.BehindPositionBound: ProblemKind(
        503, "behind-position-bound", "The store has not reached the requested position", retry=True
    ),
    storage.IndexDamaged: ProblemKind(
        503, "index-damaged", "The index is being rebuilt from the table", retry=True
    ),
    storage.StoreNotReady: ProblemKind(
        503, "store-not-ready", "The store is not ready", retry=True
    ),
}

#: What the framework's own errors are; any other status of it is an internal error.
_KIND_OF_STATUS = {404: PROBLEM_KINDS[UnknownRoute], 405: PROBLEM_KINDS[MethodNotAllowed]}


#: What every request can meet before any operation sees it.
GUARD_PROBLEMS: tuple[type[ApiError], ...] = (
    Overloaded, RequestTooSlow, ShuttingDown, RequestTimeout, HeaderTooLarge, UrlTooLong,
    BodyTooLarge, UnknownHost, Unauthorized, Forbidden,
)  # fmt: skip


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
        # The client is not told what failed inside: a message may hold paths or data.
        logger.error("unexpected error at %s", instance, exc_info=error)
        detail = "The service failed. See its log for the reason."
    elif isinstance(error, HTTPException):
        detail = "The path is not an operation. See /openapi.json for the operations."
    else:
        detail = str(error)
    allow = (getattr(error, "headers", None) or {}).get("Allow", "")
    more = {"owners": error.owners} if isinstance(error, KeysOfSeveralShards) else {}
    allowed = b"POST" if allow == "POST" else b"GET, HEAD"
    answer = _answer(kind, detail, instance, more, allow=allowed)
    if isinstance(error, KeyOfAnotherShard):
        # For routers: where to send the request instead (docs/routing.md).
        answer.headers.append((b"oriel-owner", b"%d" % error.owner))
    return answer


def malformed_request(detail: str) -> ProblemAnswer:
    """The answer to bytes that are no HTTP request, so that there is no path either."""
    return _answer(MALFORMED_REQUEST, detail, "")


def kind_of(error: Exception) -> ProblemKind:
    """Which kind of problem an exception is, by its nearest base in ``PROBLEM_KINDS``."""
    if isinstance(error, HTTPException):
        return _KIND_OF_STATUS.get(error.status_code, INTERNAL_ERROR)
    kinds = (PROBLEM_KINDS[base] for base in type(error).__mro__ if base in PROBLEM_KINDS)
    return next(kinds, INTERNAL_ERROR)


def problem_document(kind: ProblemKind, detail: str, instance: str) -> dict[str, object]:
    """The fields of RFC 9457, and ``code``."""
    return {
        "type": _TYPE_PREFIX + kind.code,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": instance,
        "code": kind.code,
    }


def _answer(
    kind: ProblemKind,
    detail: str,
    instance: str,
    more: Mapping[str, object] = MappingProxyType({}),
    *,
    allow: bytes = b"GET, HEAD",
) -> ProblemAnswer:
    # A lone surrogate can't be written as JSON; paths come from strangers.
    printable = [text.encode("utf-8", "replace").decode() for text in (detail, instance)]
    body = orjson.dumps({**problem_document(kind, *printable), **more})
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    if kind.retry:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_SECONDS))
    if kind.status == 405:
        headers.append((b"allow", allow))
    if kind.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="oriel"'))
    return ProblemAnswer(kind.status, headers, body)
